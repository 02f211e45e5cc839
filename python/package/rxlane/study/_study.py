"""Studies: sweeps that outlive the process that runs them."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Any, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from rxlane import _progress
from rxlane._arrays import needed
from rxlane._errors import Error, StudyError
from rxlane._rxlane import VERSION, Points, Scenario
from rxlane.study import _dataset
from rxlane.study._engines import Engine, Pool, cores
from rxlane.study._replications import Precision, Replications, described
from rxlane.study._task import Done, Task

# How long to wait for a point before looking whether rows are to be written.
LOOK_S = 0.5


class Study:
    """A sweep whose points are tasks, on threads, processes or machines, and whose results are a dataset on disk.

    scenario, space: as of rxlane.sweep; without `space` the scenario's own sweep and cases.
    folder: where results are kept, as `points/block=N/*.parquet`, which pandas, polars and DuckDB read as one dataset. A study whose
        folder is there already goes on where it was.
    metrics: names of those to keep; all without.
    replications: how often each point is simulated, or a Precision; without, as the scenario says.
    seed: of all points; without, as the scenario says. Results are the same in whatever order, place and attempt they are made.
    retries: how often a point is tried again whose worker has died or raised what is not an error of the point itself.
    many: more than a million points are meant.

    Rows have `index`, `case`, swept keys, metrics with `METRIC.ci95` beside each, `replications`, `attempts`, and `error`, which is
    null where there is none. A point that fails to the end is a row with its error, and the others go on.

    Raises StudyError for a folder that holds another study, SweepError and ScenarioError as rxlane.sweep does.
    """

    def __init__(
        self,
        scenario: Scenario,
        space: Optional[Mapping[str, Any]] = None,
        *,
        folder: "Union[str, os.PathLike[str]]",
        metrics: Optional[Sequence[str]] = None,
        replications: Optional[Replications] = None,
        seed: Optional[int] = None,
        retries: int = 2,
        many: bool = False,
    ) -> None:
        needed("pyarrow", "a study")
        if isinstance(replications, int):
            scenario = scenario.with_(replications=replications)
        if seed is not None:
            scenario = scenario.with_(seed=seed)
        self.folder = Path(folder)
        self.points = Points(scenario, space, many=many)
        self.metrics = None if metrics is None else list(metrics)
        self.replications = replications if isinstance(replications, Precision) else int(scenario["replications"])
        self.retries = retries
        self._scenario = scenario
        self._check_metrics()

    def _check_metrics(self) -> None:
        """A name that no point has is said before hours of work."""
        wanted = list(self.metrics or ())
        if isinstance(self.replications, Precision):
            wanted.append(self.replications.metric)
        if wanted:
            # Which metrics there are hangs on the scenario; between them, these two points have all values of short axes.
            known: List[str] = []
            for index in {0, len(self.points) - 1}:
                try:
                    brief = self.points[index].scenario.with_(seconds=1e-4, warmup_s=0.0, replications=1)
                except Error:
                    # It will be recorded as a point that cannot be.
                    continue
                known += brief.run(workers=1).keys()
            for name in wanted:
                if known and name not in known:
                    raise StudyError(f"{name}: no such metric of these points: leave `metrics` out to see them all")

    def _identity(self) -> Dict[str, Any]:
        def is_number(value: Any) -> bool:
            return isinstance(value, (int, float)) and not isinstance(value, bool)

        axes = self.points.axes
        return {
            "scenario": self._scenario.to_toml(),
            "space": axes,
            "keys": {key: "number" if all(map(is_number, values)) else "text" for key, values in axes.items()},
            "metrics": self.metrics,
            "replications": described(self.replications),
            "version": VERSION,
        }

    def run(
        self,
        engine: str = "local",
        *,
        workers: Optional[int] = None,
        address: Optional[str] = None,
        progress: Any = None,
    ) -> "Study":
        """Simulates the points that are not there yet, and returns the study.

        engine: "local" (threads of this process), "processes" (of this machine; one that is killed costs only the points that it was
            at) or "ray" (a Ray cluster; needs ray).
        workers: of the first two; all cores without.
        address: of the Ray cluster, as ray.init takes it; without it the one that is connected, or a new one on this machine.
        progress: True for a bar (needs tqdm), or a callable that is given how many points are there, and of how many.

        Ctrl-C ends it at once; what is finished is kept, and running it again goes on.
        """
        dataset = _dataset.Dataset(self.folder, self._identity())
        try:
            done = _dataset.finished(self.folder)
            shown = _progress.of(progress, len(self.points), "points")
            if len(done) < len(self.points):
                at_work = _engine(engine, workers, address)
                try:
                    self._work(at_work, dataset, done, shown)
                finally:
                    at_work.close()
            if shown is not None:
                shown.update(len(self.points))
                shown.close()
        finally:
            dataset.close()
        return self

    def _work(self, engine: Engine, dataset: _dataset.Dataset, done: "set[int]", shown: Any) -> None:
        todo = self._tasks(done)
        again: Deque[Task] = deque()
        at_work = 0
        alone = False
        finished = len(done)
        while True:
            room = engine.capacity - at_work
            while room > 0 and not (alone and at_work > 0):
                # The last attempt is made alone: whatever takes its worker with it takes no other point, too.
                alone = bool(again) and again[0].attempts >= self.retries
                if alone and at_work > 0:
                    break
                task = again.popleft() if again else next(todo, None)
                if task is None:
                    break
                if isinstance(task, Done):
                    dataset.add(task.row())
                    finished += 1
                    continue
                engine.submit(task)
                at_work += 1
                room -= 1
            if at_work == 0:
                return
            for result in engine.collect(LOOK_S):
                at_work -= 1
                if result.error is not None and not result.hopeless and result.task.attempts < self.retries:
                    again.append(result.task.again())
                    continue
                dataset.add(result.row())
                finished += 1
            dataset.flush_when_due()
            if shown is not None:
                shown.update(finished)

    def _tasks(self, done: "set[int]") -> "Iterator[Union[Task, Done]]":
        for index in range(len(self.points)):
            if index in done:
                continue
            try:
                point = self.points[index]
            except Error as e:
                nowhere = Task(index, "", self._keys_at(index), self._scenario, self.replications, self.metrics)
                yield Done(nowhere, error=f"{type(e).__name__}: {e}", hopeless=True)
                continue
            yield Task(index, point.case, point.keys, point.scenario, self.replications, self.metrics)

    def _keys_at(self, index: int) -> Dict[str, Any]:
        """The values of a point that is no scenario."""
        keys: Dict[str, Any] = {}
        for key, values in reversed(list(self.points.axes.items())):
            index, at = divmod(index, len(values))
            keys[key] = values[at]
        return dict(reversed(list(keys.items())))

    def table(self) -> Any:
        """What is there so far, as a pyarrow.Table in the order of the points.

        Raises StudyError before anything is.
        """
        table = _dataset.read(self.folder)
        if table is None:
            raise StudyError(f"{self.folder}: no point is there yet: run() the study first")
        return table

    def failed(self) -> Any:
        """Points that have failed, each with its `error`, as a pyarrow.Table."""
        compute = needed("pyarrow.compute", "a study")
        table = self.table()
        return table.filter(compute.is_valid(table["error"]))

    def __repr__(self) -> str:
        table = _dataset.read(self.folder, ["error"])
        there = 0 if table is None else table.num_rows
        failed = 0 if table is None else there - table["error"].null_count
        return f"<rxlane.study.Study {self.folder}: {there} of {len(self.points)} points, {failed} failed>"


def _engine(name: str, workers: Optional[int], address: Optional[str]) -> Engine:
    if workers is not None and workers < 1:
        raise StudyError(f"workers = {workers}: give 1 or more, or leave it out for all cores")
    if name in ("local", "processes"):
        if address is not None:
            raise StudyError(f'address = {address}: it is that of a Ray cluster: say engine="ray", too')
        return Pool(workers or cores(), processes=name == "processes")
    if name == "ray":
        from rxlane.study._ray import RayEngine

        return RayEngine(address)
    raise StudyError(f"engine = {name}: no such engine: use local, processes or ray")


