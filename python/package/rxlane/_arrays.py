"""Tables and columns as objects of other packages, each of which is imported where it is asked for."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional

from rxlane._errors import DependencyError, FileError


def needed(package: str, what: str) -> Any:
    """Imports a package that is optional."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError as e:
        name = package.partition(".")[0]
        raise DependencyError(f"{what} needs {name}, which is not installed: pip install {name}") from e


def to_pyarrow(table: Any) -> Any:
    return needed("pyarrow", "to_pyarrow").table(table)


def to_pandas(table: Any) -> Any:
    needed("pandas", "to_pandas")
    return needed("pyarrow", "to_pandas").table(table).to_pandas()


def to_polars(table: Any) -> Any:
    return needed("polars", "to_polars").DataFrame(table)


def to_numpy(column: Any, dtype: Any = None, copy: Optional[bool] = None) -> Any:
    """The numbers behind a column's Arrow array, or, where pyarrow is not installed, a copy of them."""
    numpy = needed("numpy", "to_numpy")
    try:
        import pyarrow
    except ImportError:
        if copy is False:
            raise DependencyError(
                "numpy.asarray(copy=False) needs pyarrow, which is not installed: pip install pyarrow, or allow a copy"
            ) from None
        values = column.to_list()
        if not any(isinstance(v, str) for v in values):
            values = [float("nan") if v is None else v for v in values]
        return numpy.array(values, dtype=dtype)
    array = pyarrow.array(column)
    plain = array.to_numpy(zero_copy_only=copy is False)
    if copy:
        return numpy.array(plain, dtype=dtype)
    return plain if dtype is None else plain.astype(dtype, copy=False)


def _parquet(table: Any, path: str) -> None:
    needed("pyarrow.parquet", "writing Parquet").write_table(to_pyarrow(table), path)


def _csv(table: Any, path: str) -> None:
    needed("pyarrow.csv", "writing CSV").write_csv(to_pyarrow(table), path)


def _arrow(table: Any, path: str) -> None:
    needed("pyarrow.feather", "writing Arrow").write_feather(to_pyarrow(table), path, compression="uncompressed")


WRITERS: Dict[str, Callable[[Any, str], None]] = {".parquet": _parquet, ".csv": _csv, ".arrow": _arrow}


def write(table: Any, path: "os.PathLike[str] | str") -> None:
    name = os.fspath(path)
    end = os.path.splitext(name)[1].lower()
    if end not in WRITERS:
        raise FileError(f"{name}: no format ends with `{end}`: use {', '.join(WRITERS)}")
    try:
        WRITERS[end](table, name)
    except OSError as e:
        raise cannot_write(name, e) from e


def cannot_write(name: str, error: OSError) -> FileError:
    """Why a file could not be written, with the cure."""
    why = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
    return FileError(f"cannot write {name}: {why}: check the path, its permissions and the space that is left")
