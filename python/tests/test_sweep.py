"""Sweeps: their points, their columns, and those that are refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import pytest

import rxlane


def test_points_are_all_combinations_and_the_last_key_varies_fastest(short: rxlane.Scenario) -> None:
    space = {"traffic.pps": numpy.array([1e6, 2e6]), "nic.descriptors": range(64, 256, 64)}
    points = rxlane.Points(short, space)
    combinations = list(itertools.product([64, 128, 192], [1e6, 2e6]))
    assert [tuple(point.keys.values()) for point in points] == combinations
    assert points.keys == ["nic.descriptors", "traffic.pps"]
    for point, (descriptors, pps) in zip(points, combinations):
        assert point.scenario == short.with_({"nic.descriptors": descriptors, "traffic.pps": pps})
    table = rxlane.sweep(short, space, metrics=["arrived"])
    assert list(zip(table["nic.descriptors"], table["traffic.pps"])) == combinations
    assert table["index"].to_list() == list(range(6))


def test_a_point_alone_gives_what_the_sweep_gives_there(short: rxlane.Scenario) -> None:
    text = short.to_toml() + '[[case]]\nname = "a"\n[[case]]\nname = "b"\nset = { "cpu.packet_ns" = 900.0 }\n'
    cases = rxlane.Scenario.from_text(text)
    space = {"traffic.pps": [1e6, 1.5e6]}
    table = rxlane.sweep(cases, space, replications=2, seed=5)
    assert table["case"].to_list() == ["a", "a", "b", "b"]
    for point, row in zip(rxlane.Points(cases, space), table.to_rows()):
        result = point.scenario.run(replications=2, seed=5)
        assert {name: result[name].mean for name in result.keys()} == {name: row[name] for name in result.keys()}


def test_an_axis_replaces_that_of_the_scenario_itself() -> None:
    text = 'seconds = 0.001\n[sweep]\n"traffic.pps" = { from = 1e6, to = 2e6, step = 1e5 }\n"nic.descriptors" = [64, 128]\n'
    scenario = rxlane.Scenario.from_text(text)
    assert len(rxlane.Points(scenario)) == 22
    assert len(rxlane.Points(scenario, {"traffic.pps": [1e6]})) == 2


def test_only_wanted_metrics_are_kept_and_unknown_ones_refused(short: rxlane.Scenario) -> None:
    table = rxlane.sweep(short, {"traffic.pps": [1e6]}, metrics=["loss", "cpu"])
    assert set(table.column_names) == {"case", "index", "traffic.pps", "loss", "cpu"}
    with pytest.raises(rxlane.SweepError, match="lost: no such metric"):
        rxlane.sweep(short, {"traffic.pps": [1e6]}, metrics=["lost"])


@pytest.mark.parametrize(
    ("space", "what"),
    [
        ({"traffic.pps": []}, "sweep over traffic.pps: it has no values"),
        ({"traffic.pps": numpy.array([])}, "no values"),
        ({"traffic.pps": range(10**9)}, "1000000000 points: pass many=True"),
        ({"traffic.pps": range(10**5), "nic.descriptors": range(10**4)}, "1000000000 points"),
        ({"traffic.pps": {"from": 1.0, "to": 1e9, "step": 1.0}}, "points: pass many=True"),
        ({"traffic.pps": itertools.count()}, "more than 1000000 values"),
        ({"traffic.pps": {"from": 2.0, "to": 1.0, "step": 1.0}}, "from <= to"),
        ({"traffic.pps": {"from": 1.0, "until": 2.0}}, '"from": 0'),
        ({"traffic.pps": {"from": float("nan"), "to": 1.0, "step": 1.0}}, "from <= to"),
        ({"traffic.ppz": [1]}, "did you mean traffic.pps"),
        ({"traffic.pps": ["fast"]}, "give a number"),
    ],
)
def test_sweeps_that_are_empty_endless_or_wrong_are_refused_before_anything_is_run(short: rxlane.Scenario, space: Any, what: str) -> None:
    told = []
    with pytest.raises(rxlane.Error) as raised:
        rxlane.sweep(short, space, progress=lambda done, total: told.append(done))
    assert what in str(raised.value)
    assert not told


def test_more_than_a_million_points_can_be_meant(short: rxlane.Scenario) -> None:
    points = rxlane.Points(short, {"traffic.pps": range(1, 2001), "nic.descriptors": range(1, 2001)}, many=True)
    assert len(points) == 4_000_000
    assert points[3_999_999].keys == {"nic.descriptors": 2000, "traffic.pps": 2000}


def test_a_point_that_cannot_be_is_an_error_that_names_its_key(short: rxlane.Scenario) -> None:
    with pytest.raises(rxlane.ScenarioError, match="nic.count = 65: give 1 to 64"):
        rxlane.sweep(short, {"nic.count": [1, 65]})


def test_workers_are_at_least_one(short: rxlane.Scenario) -> None:
    with pytest.raises(ValueError, match="workers = 0: give 1 or more"):
        rxlane.sweep(short, {"traffic.pps": [1e6]}, workers=0)


def test_columns_carry_units_and_the_table_what_was_simulated(short: rxlane.Scenario) -> None:
    table = rxlane.sweep(short, {"traffic.pps": [1e6], "cpu.packet_ns": [500]}, replications=2)
    units = table.units
    assert units["traffic.pps"] == "packets/s" and units["cpu.packet_ns"] == "ns"
    assert units["latency_us.rt.p99"] == units["latency_us.rt.p99.ci95"] == "us"
    assert set(table.column_names) - set(units) == {"case"}
    assert table.metadata["rxlane.version"] == rxlane.__version__
    again = rxlane.Scenario.from_text(table.metadata["rxlane.scenario"])
    assert rxlane.sweep(again).to_rows() == table.to_rows()


def test_every_metric_of_every_mechanism_has_a_unit() -> None:
    everything = [
        {"host": {"socket": 64, "application_ns": 800}, "cpu.sample_s": 1e-3, "cpu.cores": 2, "nic.count": 2},
        {"transmit": {"queue": 10}},
        {"qdisc": {"discipline": "fifo"}, "reception.scheme": "express", "traffic.rt_ratio": 0.2},
        {"cpu.probe": {"pause_us": 100.0, "work_us": 10.0}},
        {"nic.tx_rings": "class", "nic.egress": "circular", "interrupt.tx_completion": True, "reception.strategy": "ll-rr"},
        {"worker": {"receive_ns": 100.0}},
    ]
    for keys in everything:
        scenario = rxlane.Scenario({"seconds": 0.002, **keys})
        for name in scenario.run().keys():
            assert rxlane.unit_of(name) is not None, name


def test_an_estimate_is_a_number_with_interval_and_unit(short: rxlane.Scenario) -> None:
    result = short.run(replications=3)
    p99 = result["latency_us.rt.p99"]
    assert float(p99) == p99.mean and p99.ci95 is not None and p99.ci95 > 0 and p99.unit == "us"
    assert short.run()["loss"].ci95 is None
    with pytest.raises(KeyError, match="no such metric"):
        result["latency"]
    rows = {row["metric"]: row for row in result.metrics.to_rows()}
    assert rows["latency_us.rt.p99"] == {"metric": "latency_us.rt.p99", "mean": p99.mean, "ci95": p99.ci95, "unit": "us"}
    mean = sum(result.replications["latency_us.rt.p99"].to_list()) / 3
    assert mean == pytest.approx(p99.mean, rel=1e-12)


def test_histograms_hold_the_packets_and_quantiles_of_the_metrics(short: rxlane.Scenario) -> None:
    result = short.run()
    assert set(result.latencies) == {"rt", "be"}
    for name, histogram in result.latencies.items():
        start, end, packets = (histogram[c].to_numpy() for c in ("from_ns", "to_ns", "packets"))
        assert (start < end).all() and (end[:-1] <= start[1:]).all() and (packets > 0).all()
        assert histogram.units == {"from_ns": "ns", "to_ns": "ns", "packets": "packets"}
        share = packets.cumsum() / packets.sum()
        at = (share >= 0.99).argmax()
        p99_ns = result[f"latency_us.{name}.p99"].mean * 1e3
        assert start[at] * 0.97 <= p99_ns <= end[at] * 1.03
        middle = ((start + end) / 2 * packets).sum() / packets.sum() / 1e3
        assert middle == pytest.approx(result[f"latency_us.{name}.mean"].mean, rel=0.02)


def test_equal_seeds_give_equal_results_and_others_do_not(short: rxlane.Scenario) -> None:
    def arrived(seed: int) -> Any:
        return short.run(seed=seed, replications=2).metrics.to_rows()

    assert arrived(3) == arrived(3)
    assert arrived(3) != arrived(4)
