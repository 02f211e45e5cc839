"""Results reach other packages as they are: without copies, with units and missing values."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import rxlane


@pytest.fixture(scope="module")
def table() -> rxlane.Table:
    scenario = rxlane.Scenario({"seconds": 0.002, "warmup_s": 0.0})
    return rxlane.sweep(scenario, {"traffic.pps": [1e6, 2e6, 3e6], "reception.strategy": ["sq", "ll-rr"]}, replications=2)


def address(array: Any) -> int:
    """Where the values of an Arrow array lie."""
    buffer = array.buffers()[1]
    assert buffer is not None
    return int(buffer.address)


def test_pyarrow_gets_the_memory_of_the_simulator_each_time_by_stream_and_by_array(table: rxlane.Table) -> None:
    first, second = pyarrow.table(table), pyarrow.table(table)
    batch = pyarrow.record_batch(table)
    for name in table.column_names:
        places = {
            address(first[name].chunk(0)),
            address(second[name].chunk(0)),
            address(batch[name]),
            address(pyarrow.array(table[name])),
        }
        assert len(places) == 1, name


def test_numpy_and_polars_look_at_the_same_memory(table: rxlane.Table) -> None:
    place = address(pyarrow.array(table["loss"]))
    assert table["loss"].to_numpy().__array_interface__["data"][0] == place
    assert numpy.asarray(table["loss"]).__array_interface__["data"][0] == place
    frame = polars.DataFrame(table)
    assert address(frame["loss"].to_arrow()) == place


def test_pandas_polars_and_duckdb_take_a_table_as_it_is(table: rxlane.Table) -> None:
    losses = table["loss"].to_list()
    assert pandas.DataFrame.from_arrow(table)["loss"].tolist() == losses if hasattr(pandas.DataFrame, "from_arrow") else True
    assert table.to_pandas()["loss"].tolist() == losses
    assert table.to_polars()["loss"].to_list() == losses
    results = table
    assert duckdb.sql("select max(loss) from results").fetchall() == [(max(losses),)]
    del results


def test_memory_lives_as_long_as_somebody_looks_at_it() -> None:
    def made() -> Any:
        return pyarrow.table(rxlane.sweep(rxlane.Scenario(seconds=0.001), {"traffic.pps": [1e6, 2e6]}))

    arrived = made()["arrived"]
    gc.collect()
    junk = [bytearray(1 << 16) for _ in range(64)]
    assert arrived.to_pylist() == made()["arrived"].to_pylist()
    del junk


def test_a_capsule_that_nobody_takes_is_freed(table: rxlane.Table) -> None:
    for _ in range(1000):
        table.__arrow_c_stream__()
        table.__arrow_c_array__()
        table["loss"].__arrow_c_array__()


def test_units_and_names_reach_arrow_s_schema(table: rxlane.Table) -> None:
    schema = pyarrow.schema(table)
    assert schema.field("latency_us.rt.p99").metadata == {b"unit": b"us"}
    assert schema.metadata[b"rxlane.version"].decode() == rxlane.__version__
    assert schema.field("reception.strategy").type == pyarrow.string()
    assert schema.field("index").type == pyarrow.int64()


def test_a_missing_number_is_null_in_arrow_and_nan_in_numpy() -> None:
    ci95 = rxlane.Scenario(seconds=0.001).run().metrics["ci95"]
    assert set(ci95.to_list()) == {None}
    assert pyarrow.array(ci95).null_count == len(ci95)
    assert numpy.isnan(ci95.to_numpy()).all()


def test_a_run_is_taken_as_its_table_of_metrics() -> None:
    result = rxlane.Scenario(seconds=0.001).run()
    assert pyarrow.table(result).column_names == ["metric", "mean", "ci95", "unit"]


def test_files_are_written_by_the_end_of_their_name_and_read_back(table: rxlane.Table, tmp_path: Path) -> None:
    for end in (".parquet", ".csv", ".arrow"):
        table.write(tmp_path / f"t{end}")
    back = pyarrow.parquet.read_table(tmp_path / "t.parquet")
    assert back.equals(pyarrow.table(table))
    assert back.schema.field("loss").metadata[b"unit"] == b"1"
    assert pandas.read_csv(tmp_path / "t.csv")["loss"].tolist() == table["loss"].to_list()
    with pytest.raises(rxlane.FileError, match="no format ends with `.xlsx`"):
        table.write(tmp_path / "t.xlsx")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full, which is a full disk")
def test_a_full_disk_is_named_with_the_file_and_the_cure(table: rxlane.Table, tmp_path: Path) -> None:
    for end in (".parquet", ".csv", ".arrow"):
        (tmp_path / f"full{end}").symlink_to("/dev/full")
        with pytest.raises(rxlane.FileError, match=rf"cannot write .*full{end}: .*[Nn]o space.*the space that is left"):
            table.write(tmp_path / f"full{end}")


def test_without_a_package_its_name_and_how_to_get_it_are_said(table: rxlane.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for method, package in (("to_pandas", "pandas"), ("to_polars", "polars"), ("to_pyarrow", "pyarrow")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(rxlane.DependencyError, match=f"{method} needs {package}.*pip install {package}"):
            getattr(table, method)()
    # NumPy does without pyarrow, by a copy.
    assert numpy.asarray(table["loss"]).tolist() == table["loss"].to_list()
    with pytest.raises(rxlane.DependencyError):
        numpy.asarray(table["loss"], copy=False)
