"""Studies: what is finished is kept once, whatever dies, and searches find what is sought."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import duckdb
import pytest

import rxlane
from rxlane.study import Precision, Study, at_most, largest, smallest
from rxlane.study import _dataset, _engines, _study
from rxlane.study._task import Done, Task, perform

SPACE: Dict[str, Any] = {"traffic.pps": [1e6, 1.5e6, 2e6, 2.5e6], "reception.strategy": ["sq", "ll-rr", "rr"]}


def rows(study: Study) -> List[Dict[str, Any]]:
    table = study.table()
    return list(table.to_pylist())


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_a_study_gives_the_numbers_of_the_sweep(short: rxlane.Scenario, tmp_path: Path, engine: str) -> None:
    study = Study(short, SPACE, folder=tmp_path / "s", replications=2).run(engine, workers=2)
    expected = rxlane.sweep(short, SPACE, replications=2)
    assert [row["index"] for row in rows(study)] == list(range(12))
    for row, of_sweep in zip(rows(study), expected.to_rows()):
        assert {name: row[name] for name in of_sweep} == of_sweep
        assert (row["replications"], row["attempts"], row["error"]) == (2, 1, None)


def test_others_read_the_folder_as_one_dataset_with_units(short: rxlane.Scenario, tmp_path: Path) -> None:
    study = Study(short, SPACE, folder=tmp_path / "s", metrics=["loss", "latency_us.rt.p99"]).run()
    query = f"select count(*), count(distinct index) from read_parquet('{tmp_path}/s/points/*/*.parquet', hive_partitioning=true)"
    assert duckdb.sql(query).fetchall() == [(12, 12)]
    schema = study.table().schema
    assert schema.names == [
        "index", "case", "reception.strategy", "traffic.pps", "loss", "loss.ci95", "latency_us.rt.p99", "latency_us.rt.p99.ci95",
        "replications", "attempts", "error",
    ]  # fmt: skip
    assert schema.field("latency_us.rt.p99").metadata == {b"unit": b"us"}


def test_a_study_that_is_run_again_does_nothing_and_with_more_to_do_only_that(
    short: rxlane.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study(short, SPACE, folder=tmp_path / "s").run()
    before = rows(study)
    for part in list((tmp_path / "s").glob("points/*/*.parquet"))[:1]:
        part.unlink()
    done: List[int] = []
    real = _engines.perform

    def counted(task: Task, watch: Any = None) -> Done:
        done.append(task.index)
        return real(task, watch)

    monkeypatch.setattr(_engines, "perform", counted)
    assert rows(study.run()) == before
    assert 0 < len(done) <= 12
    done.clear()
    study.run()
    assert not done


def test_a_driver_that_is_killed_loses_nothing_that_was_written_and_repeats_nothing(tmp_path: Path) -> None:
    script = f"""
import rxlane
from rxlane.study import Study, _dataset
_dataset.WAIT_S, _dataset.ROWS = 0.0, 4
scenario = rxlane.Scenario({{"seconds": 0.5}})
Study(scenario, {{"traffic.pps": [1e5 * i for i in range(1, 41)]}}, folder={str(tmp_path / "s")!r}, metrics=["arrived"]).run()
"""
    child = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "s").glob("points/*/*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.kill()
    child.wait()
    there = _dataset.finished(tmp_path / "s")
    assert 0 < len(there) < 40
    scenario = rxlane.Scenario({"seconds": 0.5})
    study = Study(scenario, {"traffic.pps": [1e5 * i for i in range(1, 41)]}, folder=tmp_path / "s", metrics=["arrived"]).run()
    assert [row["index"] for row in rows(study)] == list(range(40))


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    scenario = rxlane.Scenario(warmup_s=0.0)
    study = Study(scenario, {"seconds": [0.001, 0.002, 1e5]}, folder=tmp_path / "s", metrics=["arrived"])
    for engine in ("local", "processes"):
        script = f"""
import rxlane
from rxlane.study import Study
if __name__ == "__main__":
    space = {{"seconds": [0.001, 0.002, 1e5]}}
    study = Study(rxlane.Scenario(warmup_s=0.0), space, folder={str(tmp_path / engine)!r}, metrics=["arrived"])
    study.run({engine!r}, progress=lambda done, total: print(done, flush=True))
"""
        (tmp_path / "script.py").write_text(script)
        child = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert child.stdout is not None
        while child.stdout.readline() != "2\n":
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)
        assert _dataset.finished(tmp_path / engine) == {0, 1}
    assert len(study.points) == 3


def test_a_worker_that_is_killed_costs_no_point(short: rxlane.Scenario, tmp_path: Path) -> None:
    killed: List[int] = []

    class Killing(_engines.Pool):
        def collect(self, timeout_s: float) -> List[Done]:
            if not killed and self._begun.wait(60):
                victim = next(iter(self._pool._processes))  # type: ignore[union-attr]
                killed.append(victim)
                os.kill(victim, signal.SIGKILL)
            return super().collect(timeout_s)

    study = Study(short, SPACE, folder=tmp_path / "s", replications=2)
    engine = Killing(2, processes=True)
    dataset = _dataset.Dataset(study.folder, study._identity())
    try:
        study._work(engine, dataset, set(), None)
    finally:
        engine.close()
        dataset.close()
    assert killed
    assert [row["index"] for row in rows(study)] == list(range(12))
    assert study.failed().num_rows == 0
    assert max(row["attempts"] for row in rows(study)) > 1


def test_a_script_that_processes_cannot_read_is_told_how_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        f"import rxlane\nfrom rxlane.study import Study\n"
        f"Study(rxlane.Scenario(seconds=0.001), {{'traffic.pps': [1e6]}}, folder={str(tmp_path / 's')!r}).run('processes', workers=1)\n"
    )
    done = subprocess.run([sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert 'StudyError: engine = processes: none could begin: put what a script does under `if __name__ == "__main__":`' in done.stderr


class Failing:
    """Threads, but points of some indices fail so many times."""

    def __init__(self, failures: Dict[int, int]) -> None:
        self._failures = dict(failures)
        self._tasks: List[Task] = []
        self.capacity = 4
        self.together: List[Tuple[int, ...]] = []

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def collect(self, timeout_s: float) -> List[Done]:
        self.together.append(tuple(task.index for task in self._tasks))
        tasks, self._tasks = self._tasks, []
        return [self._of(task) for task in tasks]

    def _of(self, task: Task) -> Done:
        if self._failures.get(task.index, 0) > 0:
            self._failures[task.index] -= 1
            return Done(task, error="a worker process has died")
        return perform(task)

    def close(self) -> None:
        pass


def test_failing_points_are_tried_again_the_last_time_alone_and_then_recorded(
    short: rxlane.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Failing({3: 1, 5: 2, 7: 99})
    monkeypatch.setattr(_study, "_engine", lambda *_: engine)
    study = Study(short, SPACE, folder=tmp_path / "s", metrics=["loss"], retries=2).run()
    table = rows(study)
    assert [row["index"] for row in table] == list(range(12))
    assert {row["index"]: row["attempts"] for row in table if row["attempts"] > 1} == {3: 2, 5: 3, 7: 3}
    (failed,) = study.failed().to_pylist()
    assert failed["index"] == 7 and failed["error"] == "a worker process has died" and failed["loss"] is None
    assert failed["reception.strategy"] == "rr" or failed["traffic.pps"] > 0
    assert (5,) in engine.together and (7,) in engine.together


def test_points_that_cannot_be_are_recorded_with_their_error_and_not_tried_again(short: rxlane.Scenario, tmp_path: Path) -> None:
    study = Study(short, {"nic.count": [1, 65]}, folder=tmp_path / "s", metrics=["loss"]).run()
    good, bad = rows(study)
    assert good["error"] is None and good["loss"] is not None
    assert bad["nic.count"] == 65 and bad["attempts"] == 1
    assert bad["error"] == "ScenarioError: nic.count = 65: give 1 to 64 NICs"


def test_replications_go_on_until_the_interval_is_small_enough(short: rxlane.Scenario, tmp_path: Path) -> None:
    metric = "latency_us.rt.mean"
    precision = Precision(metric, relative=0.02, least=3, most=40)
    study = Study(short, {"traffic.pps": [0.2e6, 1.7e6]}, folder=tmp_path / "s", replications=precision).run()
    for row, point in zip(rows(study), study.points):
        assert 3 <= row["replications"] <= 40
        assert row[f"{metric}.ci95"] <= 0.02 * row[metric] or row["replications"] == 40
        # They are the replications that a run of so many makes.
        result = point.scenario.run(replications=row["replications"])
        assert (result[metric].mean, result[metric].ci95) == (row[metric], row[f"{metric}.ci95"])
    assert len({row["replications"] for row in rows(study)}) == 2


def test_a_folder_of_another_study_and_one_at_work_are_refused(short: rxlane.Scenario, tmp_path: Path) -> None:
    Study(short, SPACE, folder=tmp_path / "s").run()
    with pytest.raises(rxlane.StudyError, match="another study, with another scenario: give another folder"):
        Study(short.with_(seed=9), SPACE, folder=tmp_path / "s").run()
    with pytest.raises(rxlane.StudyError, match="another space"):
        Study(short, {**SPACE, "traffic.pps": [3e6]}, folder=tmp_path / "s").run()
    study = Study(short, SPACE, folder=tmp_path / "s")
    dataset = _dataset.Dataset(study.folder, study._identity())
    with pytest.raises(rxlane.StudyError, match="another run is at work"):
        study.run()
    dataset.close()
    study.run()


def test_what_a_study_cannot_do_is_said_before_it_begins(short: rxlane.Scenario, tmp_path: Path) -> None:
    with pytest.raises(rxlane.StudyError, match="lost: no such metric"):
        Study(short, SPACE, folder=tmp_path / "s", metrics=["lost"])
    with pytest.raises(rxlane.StudyError, match="lost: no such metric"):
        Study(short, SPACE, folder=tmp_path / "s", replications=Precision("lost"))
    with pytest.raises(rxlane.StudyError, match="2 <= least <= most"):
        Precision("loss", least=1)
    with pytest.raises(rxlane.SweepError, match="no values"):
        Study(short, {"traffic.pps": []}, folder=tmp_path / "s")
    study = Study(short, SPACE, folder=tmp_path / "s")
    with pytest.raises(rxlane.StudyError, match="use local, processes or ray"):
        study.run("cloud")
    with pytest.raises(rxlane.StudyError, match='engine="ray"'):
        study.run(address="auto")
    with pytest.raises(rxlane.StudyError, match="give 1 or more"):
        study.run(workers=0)
    with pytest.raises(rxlane.StudyError, match="no point is there yet"):
        study.table()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full, which is a full disk")
def test_a_full_disk_ends_a_study_with_the_file_and_the_cure(
    short: rxlane.Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = open

    def full(path: Any, *arguments: Any) -> Any:
        return real("/dev/full" if str(path).endswith(".part") and "points" in str(path) else path, *arguments)

    monkeypatch.setattr(_dataset, "open", full, raising=False)
    study = Study(short, {"traffic.pps": [1e6]}, folder=tmp_path / "s")
    with pytest.raises(rxlane.FileError, match="cannot write .*No space left.*the space that is left"):
        study.run()
    monkeypatch.undo()
    assert len(rows(study.run())) == 1


def test_a_study_of_cases_and_of_a_file_s_own_sweep(tmp_path: Path) -> None:
    text = 'seconds = 0.002\n[[case]]\nname = "a"\n[[case]]\nname = "b"\nset = { "nic.descriptors" = 64 }\n[sweep]\n"traffic.pps" = [1e6, 3e6]\n'
    study = Study(rxlane.Scenario.from_text(text), folder=tmp_path / "s", metrics=["loss"]).run()
    assert [(row["case"], row["traffic.pps"]) for row in rows(study)] == [("a", 1e6), ("a", 3e6), ("b", 1e6), ("b", 3e6)]
    assert json.loads((tmp_path / "s" / "study.json").read_text())["metrics"] == ["loss"]


def test_the_smallest_ring_budget_that_meets_a_bound_is_found() -> None:
    router = rxlane.Scenario(
        {"seconds": 0.05, "traffic.pps": 2.5e6, "traffic.rt_ratio": 0.1, "reception.strategy": "ll-wfq", "cpu.packet_ns": 571}
    )

    def budgets(be: int) -> Dict[str, Any]:
        return {"reception.budgets": [64 - be, be]}

    # The larger the budget of the others, the longer RT waits.
    found = largest(router, budgets, 1, 60, at_most("latency_us.rt.p99", 10.0))
    assert 1 <= found.value < 60
    tried = dict(found.tried)
    assert tried[found.value] and not tried[found.value + 1]
    assert float(found.result["latency_us.rt.p99"]) <= 10.0


def test_the_largest_load_without_loss_is_near_the_capacity_of_the_core() -> None:
    router = rxlane.Scenario({"seconds": 0.05, "cpu.packet_ns": 571})
    found = largest(router, "traffic.pps", 0.5e6, 3e6, at_most("loss", 0.0), within=0.005, replications=2)
    assert 0.9 < found.value * 571e-9 < 1.0
    assert len(found.tried) < 15


def test_a_search_at_whose_ends_nothing_holds_says_so(short: rxlane.Scenario) -> None:
    with pytest.raises(rxlane.StudyError, match="neither 1 nor 2 holds"):
        smallest(short, "nic.descriptors", 1, 2, at_most("loss", -1.0))
    assert smallest(short, "nic.descriptors", 1, 2, lambda result: True).value == 1
    with pytest.raises(rxlane.StudyError, match="within = 0"):
        smallest(short, "nic.descriptors", 1, 2, at_most("loss", 0), within=0)
