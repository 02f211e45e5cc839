"""What a study has finished, on disk: `study.json` says what is studied, `points/block=N/*.parquet` holds a row a point.

A part is written under another name and renamed, so it is there whole or not at all. Points that were finished and not yet written
when the driver died are simulated again, with the same results, because they are seeded; so none is lost and none is there twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Set

from rxlane._arrays import cannot_write, needed
from rxlane._errors import StudyError
from rxlane._rxlane import unit_of

# Points of a partition.
BLOCK = 1000
# A part is written when there are so many rows, or when the oldest of them has waited so long.
ROWS = 1000
WAIT_S = 5.0

COUNTS = ("index", "replications", "attempts")
# What stands behind the metrics.
LAST = ("replications", "attempts", "error")


def ordered(names: Iterable[str]) -> List[str]:
    """The columns in their order."""
    return [name for name in names if name not in LAST] + list(LAST)


def schema_of(rows: List[Dict[str, Any]], keys: Dict[str, str]) -> Any:
    """The schema of rows, with units; `keys` says which swept keys are numbers and which are texts."""
    pa = needed("pyarrow", "a study")
    kinds = {"text": pa.string(), "number": pa.float64()}

    def kind(name: str) -> Any:
        if name in COUNTS:
            return pa.int64()
        if name in ("case", "error"):
            return pa.string()
        return kinds[keys.get(name, "number")]

    # Not every point has every metric, and failed ones have none.
    names = ordered(dict.fromkeys(name for row in rows for name in row))
    units = {name: unit_of(name) for name in names}
    return pa.schema([pa.field(name, kind(name), metadata={"unit": unit} if (unit := units[name]) else None) for name in names])


class Dataset:
    """The folder of a study while it is at work on it."""

    def __init__(self, folder: Path, identity: Dict[str, Any]) -> None:
        self.folder = folder
        self._keys: Dict[str, str] = identity["keys"]
        self._waiting: List[Dict[str, Any]] = []
        self._since = 0.0
        self._parts = 0
        try:
            (folder / "points").mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / "lock", "a")  # noqa: SIM115: held until close
        except OSError as e:
            raise cannot_write(str(folder), e) from e
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise StudyError(f"{folder}: another run is at work on this study: wait for it, or give another folder") from None
        try:
            self._agree(identity)
            for torn in folder.glob("points/*/*.part"):
                torn.unlink()
        except BaseException:
            self._lock.close()
            raise

    def _agree(self, identity: Dict[str, Any]) -> None:
        path = self.folder / "study.json"
        text = json.dumps(identity, indent=1, sort_keys=True)
        if not path.exists():
            _write(path, text.encode())
            return
        found = json.loads(path.read_text())
        other = [key for key in identity if found.get(key) != json.loads(text)[key]]
        if other:
            raise StudyError(
                f"{self.folder}: it holds another study, with another {' and '.join(other)}: give another folder, or go on with that one"
            )

    def add(self, row: Dict[str, Any]) -> None:
        """Keeps a row, and writes what has been kept when it is enough."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(row)
        if len(self._waiting) >= ROWS:
            self.flush()

    def flush_when_due(self) -> None:
        if self._waiting and time.monotonic() - self._since >= WAIT_S:
            self.flush()

    def flush(self) -> None:
        """Writes what has been kept: a part for each block."""
        pa, pq = needed("pyarrow", "a study"), needed("pyarrow.parquet", "a study")
        blocks: Dict[int, List[Dict[str, Any]]] = {}
        for row in self._waiting:
            blocks.setdefault(row["index"] // BLOCK, []).append(row)
        for block, rows in blocks.items():
            rows.sort(key=lambda row: row["index"])
            schema = schema_of(rows, self._keys)
            for name in (n for n, kind in self._keys.items() if kind == "text"):
                rows = [{**row, name: str(row[name])} for row in rows]
            sink = pa.BufferOutputStream()
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
            self._parts += 1
            name = f"{rows[0]['index']:09}-{os.getpid()}-{time.time_ns()}-{self._parts}.parquet"
            folder = self.folder / "points" / f"block={block}"
            _write(folder / name, sink.getvalue())
        self._waiting = []

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._lock.close()


def _write(path: Path, contents: Any) -> None:
    """A file that is there whole or not at all, also after the machine has lost its power."""
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(exist_ok=True)
        with open(part, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as e:
        part.unlink(missing_ok=True)
        raise cannot_write(str(path), e) from e


def finished(folder: Path) -> Set[int]:
    """Points that are there."""
    table = read(folder, ["index"])
    return set() if table is None else set(table["index"].to_pylist())


def read(folder: Path, columns: Optional[List[str]] = None) -> Any:
    """All rows as one pyarrow.Table, in the order of their points; None without any."""
    pa, pq = needed("pyarrow", "a study"), needed("pyarrow.parquet", "a study")
    parts = [pq.read_table(path, columns=columns, partitioning=None) for path in sorted(folder.glob("points/*/*.parquet"))]
    if not parts:
        return None
    # Parts of failed points lack columns.
    parts.sort(key=lambda part: -len(part.column_names))
    table = pa.concat_tables(parts, promote_options="default")
    if columns is not None:
        return table
    return table.select(ordered(table.column_names)).sort_by("index")
