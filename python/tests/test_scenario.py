"""Scenarios: how they are given, and what is said about those that cannot be."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import REPOSITORY
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rxlane


def test_tables_keywords_dotted_keys_files_and_texts_give_the_same_scenario(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("seconds = 0.1\n[traffic]\npps = 2e6\n")
    ways = [
        rxlane.Scenario(seconds=0.1, traffic={"pps": 2e6}),
        rxlane.Scenario({"seconds": 0.1, "traffic.pps": 2e6}),
        rxlane.Scenario({"traffic.pps": 2e6}, seconds=0.1),
        rxlane.Scenario().with_(seconds=0.1).with_({"traffic.pps": 2_000_000}),
        rxlane.Scenario.from_toml(tmp_path / "s.toml"),
        rxlane.Scenario.from_toml(str(tmp_path / "s.toml"), seconds=0.1),
        rxlane.Scenario.from_text("seconds = 0.1\n[traffic]\npps = 2e6\n"),
    ]
    assert all(way == ways[0] for way in ways)
    assert ways[0] != rxlane.Scenario()


def test_every_key_can_be_read_and_given_again() -> None:
    scenario = rxlane.Scenario({"traffic.rt_ratio": 0.3, "host": {"socket": 64, "application_ns": 800}, "stage": [{"name": "ipsec", "packet_ns": 800}]})
    assert scenario["nic.descriptors"] == 512
    assert scenario["traffic.rt_ratio"] == 0.3
    assert "cpu.packet_ns" in scenario and "cpu.none" not in scenario
    assert {"seconds", "traffic.pps", "cpu.packet_ns"} <= set(scenario.keys())
    assert rxlane.Scenario(scenario.to_dict()) == scenario
    assert rxlane.Scenario.from_text(scenario.to_toml()) == scenario
    with pytest.raises(KeyError, match="cpu.none"):
        scenario["cpu.none"]


def test_numbers_of_numpy_and_paths_are_taken_as_python_s() -> None:
    keys = {
        "traffic.pps": numpy.float32(2**20),
        "nic.descriptors": numpy.int64(64),
        "traffic.shares": numpy.array([0.5, 0.5]),
        "interrupt.latch_masked": numpy.bool_(True),
    }
    scenario = rxlane.Scenario(keys)
    assert scenario["traffic.pps"] == 2.0**20
    assert scenario["nic.descriptors"] == 64
    assert scenario["traffic.shares"] == [0.5, 0.5]
    assert scenario["interrupt.latch_masked"] is True


def test_a_scenario_goes_to_other_processes_as_it_is() -> None:
    scenario = rxlane.Scenario.from_toml(REPOSITORY / "examples" / "sweep.toml")
    other = pickle.loads(pickle.dumps(scenario))
    assert other == scenario
    assert len(rxlane.Points(other)) == len(rxlane.Points(scenario)) == 80


def test_every_experiment_of_the_papers_is_a_scenario() -> None:
    papers = rxlane.papers()
    assert len(papers) == 5
    for paper, experiments in papers.items():
        for experiment in experiments:
            assert len(rxlane.Points(rxlane.Scenario.from_paper(paper, experiment))) > 0


@pytest.mark.parametrize(
    ("keys", "key", "cure"),
    [
        ({"traffic.ppz": 1}, "traffic.ppz", "did you mean traffic.pps?"),
        ({"cpu.packet_us": 1}, "cpu.packet_us", "did you mean cpu.packet_ns?"),
        ({"whatever": 1}, "whatever", "use one of seed, seconds"),
        ({"traffic.pps": "1.6 MHz"}, "traffic.pps", "give a number of packets/s, without the unit"),
        ({"seconds": "200ms"}, "seconds", "give a number of s"),
        ({"traffic.pps": math.nan}, "traffic.pps", "give a rate"),
        ({"traffic.pps": math.inf}, "traffic.pps", "give a rate"),
        ({"traffic.pps": -1}, "traffic.pps", "give a rate"),
        ({"nic.descriptors": 5.5}, "nic.descriptors", "a whole number"),
        ({"nic.count": 0}, "nic.count", "give 1 to 64 NICs"),
        ({"traffic": 3}, "traffic", "its keys, as a dict"),
        ({"seconds.x": 3}, "seconds", "give a number of s"),
        ({"reception.strategy": "fifo"}, "reception.strategy", "use one of sq, rr, ll-rr, ll-wfq"),
        ({"stage": [{"nam": "x"}]}, "stage.nam", "did you mean stage.name?"),
        ({"seconds": None}, "seconds", "leave the key out"),
        ({"seed": 2**70}, "seed", "63 bits"),
        ({7: 1}, "7", "keys are texts"),
        ({"reception.strategy": "ll-wfq", "reception.budgets": [4]}, "", "give one a class"),
        ({"traffic.pattern": {"pattern": "gaps", "file": "none.pcap"}}, "", "none.pcap"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key_and_the_cure(keys: Any, key: str, cure: str) -> None:
    with pytest.raises(rxlane.Error) as raised:
        rxlane.Scenario(keys)
    text = str(raised.value)
    assert cure in text and key in text and "\n" not in text
    if isinstance(raised.value, rxlane.ScenarioError):
        assert raised.value.key == key
        assert isinstance(raised.value, ValueError)


def test_mistakes_of_a_file_are_told_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("seconds = 1\n[traffic]\nppz = 1\n")
    with pytest.raises(rxlane.ScenarioError, match=r"s\.toml:3: .*did you mean"):
        rxlane.Scenario.from_toml(tmp_path / "s.toml")
    with pytest.raises(rxlane.FileError, match="none.toml.*check the path"):
        rxlane.Scenario.from_toml(tmp_path / "none.toml")
    with pytest.raises(OSError):
        rxlane.Scenario.from_toml(tmp_path)


KEYS = st.sampled_from(["seconds", "traffic.pps", "nic.descriptors", "traffic.shares", "cpu.idle", "stage", "host", "sweep", "case", "a.b.c", "", "."])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@example({"seconds": {"\n": None}})
@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_whatever_is_given_there_is_a_scenario_or_an_error_of_the_package_on_one_line(keys: Any) -> None:
    try:
        scenario = rxlane.Scenario(keys)
    except rxlane.Error as e:
        assert str(e) and "\n" not in str(e)
    else:
        assert rxlane.Scenario.from_text(scenario.to_toml()) == scenario
