"""Numbers are those of the command, bit by bit."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Dict

import pytest
from conftest import REPOSITORY

import rxlane

SWEEP = """
seconds = 0.01
warmup_s = 0.001
replications = 2
[traffic]
rt_ratio = 0.3
[reception]
budgets = [60, 4]
[[case]]
name = "one"
set = { "nic.descriptors" = 256 }
[[case]]
name = "two"
set = { "cpu.packet_ns" = 700.0 }
[sweep]
"traffic.pps" = { from = 0.4e6, to = 2.0e6, step = 0.4e6 }
"reception.strategy" = ["sq", "ll-wfq"]
"""

# A scenario of each mechanism whose numbers could differ: distributions, sharing cores, lanes, layers.
SCENARIOS = {
    "poisson": {"traffic.pps": 1.6e6, "traffic.rt_ratio": 0.3},
    "on-off": {"traffic.pps": 1e6, "traffic.pattern": {"pattern": "on-off", "mean_burst": 8}},
    "disturbed": {"cpu.disturbance": [{"name": "others", "per_second": 2e4, "ns": 3e3}], "cpu.sample_s": 1e-3},
    "shared": {"cpu.cores": 2, "nic.tx_lock_ns": 500, "nic.count": 2, "traffic.pps": 3e6},
    "express": {"reception.scheme": "express", "traffic.rt_ratio": 0.2, "traffic.pps": 3e6},
    "host": {"host": {"socket": 64, "application_ns": 900}, "traffic.pps": 1.2e6},
    "throttled": {"interrupt.throttling": {"algorithm": "net-dim"}, "traffic.pps": 0.7e6},
}


def rows_of(table: rxlane.Table) -> Dict[int, Dict[str, Any]]:
    return {row["index"]: row for row in table.to_rows()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_gives_every_metric_and_interval_of_the_command(command: Any, tmp_path: Path, name: str) -> None:
    scenario = rxlane.Scenario({"seconds": 0.02, "seed": 7, **SCENARIOS[name]})
    (tmp_path / "s.toml").write_text(scenario.to_toml())
    printed = json.loads(command("sim", "run", "s.toml", "--set", "replications=3", "--json", cwd=tmp_path))[0]
    for workers in (1, 3):
        result = scenario.run(replications=3, workers=workers)
        ours = {name: {"mean": result[name].mean, "ci95": result[name].ci95} for name in result.keys()}
        assert ours == printed["metrics"]
    loads = [list(pair) for pair in zip(result.loads["load"].to_list(), result.loads["samples"].to_list())]
    assert loads == printed.get("loads", [])


def test_a_sweep_gives_every_number_of_the_command_on_any_number_of_workers(command: Any, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    points = json.loads(command("sim", "run", "s.toml", "--json", cwd=tmp_path))
    for workers in (1, 2, 5):
        rows = rows_of(rxlane.sweep(rxlane.Scenario.from_toml(tmp_path / "s.toml"), workers=workers))
        assert len(rows) == len(points) == 20
        for point in points:
            row = rows[point["index"]]
            assert row["case"] == point["case"]
            assert {key: row[key] for key in point["keys"]} == point["keys"]
            for name, value in point["metrics"].items():
                assert (row[name], row[f"{name}.ci95"]) == (value["mean"], value["ci95"]), name


def test_a_sweep_has_the_columns_of_the_command_s_csv(command: Any, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    printed = list(csv.reader(io.StringIO(command("sim", "run", "s.toml", "--csv", cwd=tmp_path))))
    table = rxlane.sweep(rxlane.Scenario.from_toml(tmp_path / "s.toml"))
    assert table.column_names == printed[0]
    for row, line in zip(table.to_rows(), printed[1:]):
        for name, text in zip(printed[0], line):
            assert (row[name] if isinstance(row[name], str) else float(row[name])) == (
                text if isinstance(row[name], str) else float(text)
            ), name


def test_keys_over_a_file_are_settings_of_the_command(command: Any) -> None:
    example = REPOSITORY / "examples" / "sim.toml"
    keys = {"traffic.pps": 1.7e6, "reception.budgets": [56, 8], "seconds": 0.05}
    settings = [text for key, value in keys.items() for text in ("--set", f"{key}={value}")]
    printed = json.loads(command("sim", "run", str(example), *settings, "--json"))[0]["metrics"]
    result = rxlane.Scenario.from_toml(example, keys).run()
    assert {name: result[name].mean for name in result.keys()} == {n: v["mean"] for n, v in printed.items()}


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (["--service-time", "2us", "--rt-rate", "100k", "--target", "300us"], {"service_time_ns": 2e3, "rt_pps": 1e5, "target_ns": 3e5}),
        (
            ["--lane", "engine", "--ports", "1", "--service-time", "571ns", "--rt-rate", "875k", "--total-rate", "1.75M", "--target", "3.43us"],
            {"lane": "engine", "ports": 1, "service_time_ns": 571, "rt_pps": 875e3, "total_pps": 1.75e6, "target_ns": 3430},
        ),
        (
            ["--service-time", "2us", "--rt-rate", "100k", "--target", "300us", "--link", "1G", "--frame", "512"],
            {"service_time_ns": 2e3, "rt_pps": 1e5, "target_ns": 3e5, "link_bps": 1e9, "frame": 512},
        ),
    ],
)
def test_a_plan_is_that_of_the_command(command: Any, options: Any, keywords: Any) -> None:
    assert rxlane.plan(**keywords) == json.loads(command("plan", *options, "--json"))


def test_verdicts_on_papers_are_those_of_the_command(command: Any) -> None:
    printed = json.loads(command("sim", "reproduce", "NIC-05", "NIC-07", "--json"))["verdicts"]
    for row, verdict in zip(rxlane.reproduce("NIC-05", "NIC-07").to_rows(), printed, strict=True):
        model = row.pop("model_text") if row["model"] is None else (row.pop("model_text"), row["model"])[1]
        assert {**row, "model": model} == verdict
