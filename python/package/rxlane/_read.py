"""Reading what the bench and the simulator have written, in whatever format, as one form: a row a point, device, class and metric."""

from __future__ import annotations

import errno
import io
import os
import urllib.parse
from typing import Any, Dict, List

from rxlane._arrays import needed
from rxlane._errors import FileError, ResultsError
from rxlane._rxlane import results_of

# Columns that all files of the form have; all others are keys.
TEXTS = ("source", "kind", "case", "device", "class", "metric", "unit")
NUMBERS = ("value", "ci95", "low", "high")
COLUMNS = ("schema_version", "source", "kind", "point", "case", "device", "class", "metric", "unit", *NUMBERS)
VERSION = 1


def read(path: "os.PathLike[str] | str") -> Any:
    """Results of `rxlane-lab bench` and `rxlane-lab sim`, of `rxlane.sweep` and of a study, as one pyarrow.Table: a row a point, device, class
    and metric.

    path: a file of `--json`, `--csv`, `--parquet` or `--tidy`, what `Table.write` wrote (`.csv`, `.parquet`, `.arrow`), or a folder: that
        of a study, or a partitioned dataset of Parquet files. The format is told by the end of the name.

    Columns: `schema_version`, `source` (`bench`, `sim`), `kind`, `point`, `case`, `device`, `class` (`all`, `rt`, `be`, `c0`, ...),
    `metric`, `unit`, `value`, `ci95`, `low`, `high`, and the keys that are varied, by the names that a scenario has for them. Needs pyarrow.

    >>> swept = rxlane.sweep(rxlane.Scenario(seconds=0.01), {"traffic.pps": [1e6, 3e6]})
    >>> swept.write("sweep.parquet")
    >>> table = rxlane.read("sweep.parquet")
    >>> loss = [row for row in table.to_pylist() if row["metric"] == "loss" and row["class"] == "all"]
    >>> [(row["traffic.pps"], row["value"] > 0) for row in loss]
    [(1000000.0, False), (3000000.0, True)]

    Raises FileError for what cannot be read, ResultsError for what is cut short, of a later version, or not of rxlane.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        return _of_folder(name)
    end = os.path.splitext(name)[1].lower()
    if not os.path.exists(name):
        raise _cannot_read(name, FileNotFoundError(errno.ENOENT, "", name))
    if end in (".parquet", ".arrow"):
        return _tidied(name, _columns_of(name, end))
    if end not in (".json", ".csv"):
        raise ResultsError(f"{name}: no results end with `{end}`: give .json, .csv, .parquet, .arrow or a folder")
    try:
        with open(name, "rb") as file:
            text = file.read()
    except OSError as e:
        raise _cannot_read(name, e) from e
    return _of_text(name, text, csv=end == ".csv")


def _cannot_read(name: str, error: OSError) -> FileError:
    why = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
    return FileError(f"cannot read {name}: {why}: check the path and its permissions")


def _of_text(name: str, text: bytes, *, csv: bool) -> Any:
    return needed("pyarrow", "reading results").table(results_of(name, text, csv))


def _columns_of(name: str, end: str) -> Any:
    pa = needed("pyarrow", "reading results")
    try:
        if end == ".arrow":
            return needed("pyarrow.feather", "reading Arrow").read_table(name)
        return needed("pyarrow.parquet", "reading Parquet").read_table(name, partitioning=None)
    except pa.ArrowException as e:
        raise ResultsError(
            f"{name}: it is no whole file of that format ({_first_line(e)}): write or copy it again, or give the name the end of its format"
        ) from e
    except OSError as e:
        if e.errno is None:
            raise ResultsError(f"{name}: its contents are broken ({_first_line(e)}): write or copy it again") from e
        raise _cannot_read(name, e) from e


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _of_folder(name: str) -> Any:
    pa = needed("pyarrow", "reading results")
    parts = sorted(
        os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files if file.endswith(".parquet")
    )
    if not parts:
        raise ResultsError(f"{name}: there is no Parquet file in it: give the folder of a study or of a dataset")
    tables = [_partitioned(_columns_of(part, ".parquet"), os.path.relpath(part, name)) for part in parts]
    # Parts of points that have failed lack columns.
    tables.sort(key=lambda table: -len(table.column_names))
    try:
        whole = pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as e:
        raise ResultsError(f"{name}: its files do not fit together ({_first_line(e)}): keep those of one study or dataset in it") from e
    if "index" in whole.column_names:
        whole = whole.sort_by("index")
    return _tidied(name, whole)


def _partitioned(table: Any, part: str) -> Any:
    """With the columns that are only in the name of its folder, as `device=kernel`."""
    pa = needed("pyarrow", "reading results")
    for folder in part.split(os.sep)[:-1]:
        name, is_column, text = folder.partition("=")
        if is_column and name not in table.column_names:
            value: Any = urllib.parse.unquote(text)
            if name not in TEXTS and _is_number(value):
                value = float(value)
            table = table.append_column(name, pa.array([value] * table.num_rows))
    return table


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _tidied(name: str, table: Any) -> Any:
    """A table as the form: it is so already, or has a row a point."""
    pa = needed("pyarrow", "reading results")
    names: List[str] = table.column_names
    if "schema_version" in names:
        return _checked(name, table)
    if not {"index", "case"} <= set(names):
        raise ResultsError(
            f"{name}: its columns are not those of results of rxlane: give what `rxlane-lab sim run --parquet` or --tidy, Table.write or a study wrote"
        )
    text = io.BytesIO()
    if "error" in names:
        # A point that has failed has no metrics.
        table = table.filter(pa.compute.is_null(table["error"])).drop_columns(["error"])
    needed("pyarrow.csv", "reading results").write_csv(table, text)
    return _of_text(name, text.getvalue(), csv=True)


def _checked(name: str, table: Any) -> Any:
    pa = needed("pyarrow", "reading results")
    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ResultsError(f"{name}: it lacks the column {missing[0]} of results: write it again with rxlane")
    versions: List[Any] = table["schema_version"].unique().to_pylist()
    other = [version for version in versions if version != VERSION]
    if other:
        raise ResultsError(
            f"{name}: its schema_version is {other[0]}, and this rxlane reads {VERSION}: read it with the rxlane that wrote it, or a later one"
        )
    kinds: Dict[str, Any] = {**dict.fromkeys(TEXTS, pa.string()), **dict.fromkeys(NUMBERS, pa.float64())}
    kinds.update({"schema_version": pa.int64(), "point": pa.int64()})
    keys = [column for column in table.column_names if column not in COLUMNS]
    try:
        columns = {column: table[column].cast(kinds[column]) for column in COLUMNS}
    except pa.ArrowException as e:
        raise ResultsError(f"{name}: a column has another type than results have ({_first_line(e)}): write it again with rxlane") from e
    return pa.table({**columns, **{key: table[key] for key in keys}})
