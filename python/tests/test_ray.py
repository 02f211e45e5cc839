"""Studies on a Ray cluster of several nodes, one of which is killed in the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rxlane
from rxlane.study import Study

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray", reason="Ray is not installed: make test-python-ray")

POINTS = 200


@pytest.fixture
def cluster() -> Any:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


def test_a_node_that_is_killed_loses_no_point_and_repeats_none(cluster: Any, tmp_path: Path) -> None:
    scenario = rxlane.Scenario({"seconds": 1.0})
    space = {"traffic.pps": [1e4 * i for i in range(1, POINTS + 1)]}
    study = Study(scenario, space, folder=tmp_path / "s", metrics=["arrived", "loss"])
    ray_cluster, nodes = cluster
    killed_after = []

    def kill_in_the_middle(done: int, total: int) -> None:
        if done > POINTS // 4 and not killed_after:
            killed_after.append(done)
            ray_cluster.remove_node(nodes.pop(), allow_graceful=False)

    study.run("ray", progress=kill_in_the_middle)
    assert POINTS // 4 < killed_after[0] < POINTS
    table = study.table()
    assert table["index"].to_pylist() == list(range(POINTS))
    assert study.failed().num_rows == 0
    assert table["arrived"].to_pylist() == rxlane.sweep(scenario, space, metrics=["arrived"])["arrived"].to_list()
    again = sum(table["attempts"].to_pylist()) - POINTS
    print(f"{POINTS} points on 3 nodes, one killed after {killed_after[0]}: none lost, none twice, {again} tried again by the study")


def test_the_notebook_on_ray_runs_on_ray(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    path = Path(__file__).resolve().parents[1] / "notebooks" / "a-study-on-ray.ipynb"
    notebook: Any = nbformat.read(path, as_version=4)
    (sizes,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    sizes.source = "SECONDS = 0.01\nLOADS = 3"
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = "".join(output.get("text", "") for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    assert "9 of 9 points, 0 failed> on ray" in said


def test_points_that_cannot_be_are_recorded_with_ray_as_without(cluster: Any, tmp_path: Path) -> None:
    scenario = rxlane.Scenario({"seconds": 0.001})
    study = Study(scenario, {"nic.count": [1, 65]}, folder=tmp_path / "s", metrics=["loss"]).run("ray")
    assert study.failed().to_pylist()[0]["error"] == "ScenarioError: nic.count = 65: give 1 to 64 NICs"
