"""Who simulates the points of a study: a Ray cluster, a task a point.

Ray runs a task again whose node or worker has died; what it gives up on comes back as an error, and the study tries it again.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from rxlane._arrays import needed
from rxlane.study._task import Done, Task, perform

# How often Ray runs a task anew that has lost its node, before the study counts that as an attempt.
MACHINE_FAILURES = 3


class RayEngine:
    """Tasks of a Ray cluster: that of `address`, the one that this process is in already, or a new one on this machine."""

    def __init__(self, address: Optional[str]) -> None:
        ray = needed("ray", 'engine="ray"')
        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            ray.init(address=address, log_to_driver=False)
        self._perform = ray.remote(num_cpus=1, max_retries=MACHINE_FAILURES)(perform)
        self._tasks: Dict[Any, Task] = {}

    @property
    def capacity(self) -> int:
        # Asked each time: nodes come and go.
        return 2 * max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, task: Task) -> None:
        self._tasks[self._perform.remote(task)] = task

    def collect(self, timeout_s: float) -> List[Done]:
        references = list(self._tasks)
        ended, _ = self._ray.wait(references, num_returns=1, timeout=timeout_s)
        if ended:
            # And whatever else is there by now, without a question each.
            ended, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        return [self._of(reference, self._tasks.pop(reference)) for reference in ended]

    def _of(self, reference: Any, task: Task) -> Done:
        try:
            done: Done = self._ray.get(reference)
            return done
        except Exception as e:  # noqa: BLE001: of whatever kind, it belongs to the point
            text = " ".join(str(e).split())
            return Done(task, error=f"{type(e).__name__}: {text[:500]}")

    def close(self) -> None:
        for reference in self._tasks:
            self._ray.cancel(reference, force=True)
        if self._own:
            self._ray.shutdown()
