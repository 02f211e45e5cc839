"""Who simulates the points of a study: threads of this process, or processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Dict, List, Optional, Protocol

from rxlane._errors import StudyError
from rxlane.study._task import Done, Task, perform


class Engine(Protocol):
    """Simulates tasks, and gives each back once: done, or with the error of the machine that was to do it."""

    @property
    def capacity(self) -> int:
        """Tasks that it should have at a time."""
        ...

    def submit(self, task: Task) -> None: ...

    def collect(self, timeout_s: float) -> List[Done]:
        """What has been done since the last call; waits for the first of it, but not longer than the timeout."""
        ...

    def close(self) -> None:
        """Ends what is at work, at once."""
        ...


class Ended(Exception):
    """A point was left because the study ends."""


class Watch:
    """Asked by a simulation every 20 ms, which ends when it raises."""

    def __init__(self, end: Any) -> None:
        self._end = end

    def update(self, done: int) -> None:
        if self._end.is_set():
            raise Ended("the study ends")

    def close(self) -> None:
        pass


# How often processes may die before one of them has begun.
MOST_STILLBORN = 3

# The event by which the processes of a pool are told to end.
_end: Any = None


def _begin(end: Any, begun: Any) -> None:
    global _end
    _end = end
    begun.set()


def _perform(task: Task) -> Done:
    return perform(task, Watch(_end))


class Pool:
    """Threads, or processes: a process that is killed costs the points that it was at, not the study."""

    def __init__(self, workers: int, processes: bool) -> None:
        self._workers = workers
        self._processes = processes
        self._tasks: Dict[Future[Done], Task] = {}
        self._end: Any = None
        # Set by the first process that has begun.
        self._begun: Any = None
        self._stillborn = 0
        self._pool: Optional[Executor] = None
        self._start()

    def _start(self) -> None:
        if self._processes:
            # A fork would take over threads that hold locks.
            context = multiprocessing.get_context("spawn")
            self._end = context.Event()
            # Once: where processes have begun, one that dies has other reasons.
            self._begun = self._begun or context.Event()
            arguments = (self._end, self._begun)
            self._pool = ProcessPoolExecutor(self._workers, mp_context=context, initializer=_begin, initargs=arguments)
        else:
            self._end = threading.Event()
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="rxlane-study")

    @property
    def capacity(self) -> int:
        return 2 * self._workers

    def submit(self, task: Task) -> None:
        assert self._pool is not None
        try:
            future = self._pool.submit(_perform, task) if self._processes else self._pool.submit(perform, task, Watch(self._end))
        except BrokenProcessPool:
            # A worker has died since; those that were at work say so when they are collected.
            self._start()
            future = self._pool.submit(_perform, task)
        self._tasks[future] = task

    def collect(self, timeout_s: float) -> List[Done]:
        ended, _ = wait(self._tasks, timeout_s, FIRST_COMPLETED)
        done = {future: self._tasks.pop(future) for future in ended}
        unborn = [future for future in done if self._never_began(future)]
        if unborn:
            self._stillborn += 1
            if self._stillborn > MOST_STILLBORN:
                raise StudyError(
                    'engine = processes: none could begin: put what a script does under `if __name__ == "__main__":`, because each '
                    'process reads the script, too; or use engine="local"'
                )
            # It is no attempt at a point whose process has not begun.
            self._start()
            for future in unborn:
                self.submit(done.pop(future))
        return [self._of(future, task) for future, task in done.items()]

    def _never_began(self, future: Future[Done]) -> bool:
        return self._processes and not self._begun.is_set() and isinstance(future.exception(), BrokenProcessPool)

    def _of(self, future: Future[Done], task: Task) -> Done:
        try:
            return future.result()
        except BrokenProcessPool:
            return Done(task, error="a worker process has died")
        except Exception as e:  # noqa: BLE001: of whatever kind, it belongs to the point
            return Done(task, error=f"{type(e).__name__}: {e}")

    def close(self) -> None:
        assert self._pool is not None
        self._end.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
