"""Results of the bench and of the simulator, from whatever file, as one form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY

import rxlane
from rxlane.study import Study

BENCH = REPOSITORY / "python" / "notebooks" / "bench-sweep.json"
SWEEP = """
seconds = 0.01
replications = 2
[sweep]
"traffic.pps" = [1e6, 3e6]
"reception.strategy" = ["sq", "ll-rr"]
"""
COLUMNS = ["schema_version", "source", "kind", "point", "case", "device", "class", "metric", "unit", "value", "ci95", "low", "high"]


def values(table: Any) -> Dict[Tuple[Any, ...], Any]:
    rows = table.to_pylist()
    return {(r["source"], r["point"], r["device"], r["class"], r["metric"]): (r["value"], r["ci95"], r["unit"]) for r in rows}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(SWEEP)
    return path


def test_every_format_of_the_command_is_the_same_table(scenario: Path, tmp_path: Path, command: Callable[..., str]) -> None:
    files = {}
    for option, end in [("--json", "json"), ("--csv", "csv"), ("--parquet", "parquet"), *(("--tidy", e) for e in ("json", "csv", "parquet"))]:
        out = tmp_path / f"{option[2:]}.{end}"
        command("sim", "run", str(scenario), option, str(out))
        files[out] = rxlane.read(out)
    first = next(iter(files.values()))
    assert first.column_names[: len(COLUMNS)] == COLUMNS
    assert set(first.column_names[len(COLUMNS) :]) == {"traffic.pps", "reception.strategy"}
    assert first.schema.field("traffic.pps").metadata == {b"unit": b"packets/s"}
    for path, table in files.items():
        assert values(table) == values(first), path
        assert sorted(table["traffic.pps"].unique().to_pylist()) == [1e6, 3e6], path
    assert values(first)["sim", 0, "", "rt", "latency_us.p99"][2] == "us"


def test_a_sweep_and_a_study_are_the_same_table(tmp_path: Path) -> None:
    router = rxlane.Scenario(seconds=0.01)
    space = {"traffic.pps": [1e6, 3e6]}
    swept = rxlane.sweep(router, space, replications=2)
    swept.write(tmp_path / "a.parquet")
    swept.write(tmp_path / "a.arrow")
    swept.write(tmp_path / "a.csv")
    first = values(rxlane.read(tmp_path / "a.parquet"))
    assert first == values(rxlane.read(tmp_path / "a.arrow")) == values(rxlane.read(tmp_path / "a.csv"))
    Study(router, space, folder=tmp_path / "study", replications=2).run()
    assert values(rxlane.read(tmp_path / "study")) == first


def test_points_of_a_study_that_have_failed_have_no_rows(tmp_path: Path) -> None:
    study = Study(rxlane.Scenario(seconds=0.001), {"nic.count": [1, 65]}, folder=tmp_path / "s", metrics=["loss"]).run()
    assert study.failed().num_rows == 1
    assert set(rxlane.read(tmp_path / "s")["point"].to_pylist()) == {0}


def test_a_partitioned_dataset_of_the_form_is_read_whole(tmp_path: Path) -> None:
    table = rxlane.read(BENCH)
    pq.write_to_dataset(table, tmp_path / "d", partition_cols=["device", "class"])
    assert len(list((tmp_path / "d").glob("*/*/*.parquet"))) > 2
    assert values(rxlane.read(tmp_path / "d")) == values(table)


def test_a_measurement_has_the_names_of_the_model() -> None:
    table = rxlane.read(BENCH)
    assert set(table["source"].to_pylist()) == {"bench"}
    assert {"kernel", "express"} <= set(table["device"].to_pylist())
    metrics = set(table["metric"].to_pylist())
    assert {"throughput_pps", "cpu", "loss", "latency_us.p99", "latency_us.mean"} <= metrics
    assert {"traffic.pps", "traffic.rt_ratio"} <= set(table.column_names)
    simulated = rxlane.Scenario(seconds=0.001).run().keys()
    assert {"throughput_pps", "cpu", "loss"} <= set(simulated)


def test_what_cannot_be_read_says_why_and_what_to_do(tmp_path: Path) -> None:
    def said(name: str, contents: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(contents)
        with pytest.raises(rxlane.ResultsError) as raised:
            rxlane.read(path)
        assert "\n" not in str(raised.value) and name in str(raised.value)
        return str(raised.value)

    whole = BENCH.read_bytes()
    assert "ends in the middle" in said("cut.json", whole[: len(whole) // 2])
    later = json.loads(whole)
    later["schema_version"] = 9
    assert "schema_version is 9, and this rxlane reads 1" in said("later.json", json.dumps(later).encode())
    assert "no result of rxlane" in said("other.json", b'{"a": 1}')
    assert "without the columns" in said("other.csv", b"a,b\n1,2\n")
    assert "no whole file of that format" in said("other.parquet", b"PAR1 but no more")
    assert "no results end with `.txt`" in said("a.txt", b"")
    table = rxlane.read(BENCH)
    pq.write_table(table.set_column(0, "schema_version", pa.array([2] * table.num_rows)), tmp_path / "v.parquet")
    with pytest.raises(rxlane.ResultsError, match=r"v\.parquet: its schema_version is 2"):
        rxlane.read(tmp_path / "v.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "f.parquet")
    with pytest.raises(rxlane.ResultsError, match=r"f\.parquet: its columns are not those of results"):
        rxlane.read(tmp_path / "f.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(rxlane.ResultsError, match="no Parquet file in it"):
        rxlane.read(tmp_path / "empty")
    with pytest.raises(rxlane.FileError, match="No such file"):
        rxlane.read(tmp_path / "none.json")
    with pytest.raises(rxlane.FileError, match="No such file"):
        rxlane.read(tmp_path / "none.parquet")
