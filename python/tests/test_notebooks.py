"""The notebooks run, on small sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
SMALL = {"SECONDS": "0.01", "REPLICATIONS": "2", "EVERY": "8", "LOADS": "3"}
SMALL["MEASURED"] = repr(str(NOTEBOOKS / "bench-sweep.json"))


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_runs_and_draws(path: Path, tmp_path: Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)
    (sizes,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    sizes.source = "\n".join(f"{name} = {SMALL[name]}" for name in SMALL if f"{name} = " in sizes.source)
    drawn = sum("plt.show()" in cell.source for cell in notebook.cells)
    assert all(cell.cell_type != "code" or not cell.outputs for cell in notebook.cells), "keep notebooks without outputs"
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    # What a function draws is drawn where it is called.
    assert pictures >= drawn and pictures >= 2
