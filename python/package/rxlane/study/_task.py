"""A point as a task: what is sent to whoever simulates it, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Optional, Sequence, Tuple

from rxlane._errors import Error
from rxlane._rxlane import Scenario
from rxlane.study._replications import Replications, simulate


@dataclass(frozen=True)
class Task:
    """A point that is to be simulated."""

    index: int
    case: str
    keys: Dict[str, Any]
    scenario: Scenario
    replications: Replications
    metrics: Optional[Sequence[str]]
    attempts: int = 0

    def again(self) -> "Task":
        """The same, tried once more."""
        return replace(self, attempts=self.attempts + 1)


@dataclass(frozen=True)
class Done:
    """What came of a task: estimates, or an error."""

    task: Task
    estimates: Dict[str, Tuple[float, Optional[float]]] = field(default_factory=dict)
    replications: int = 0
    error: Optional[str] = None
    # Nothing but the point itself is to blame, so that trying again is of no use.
    hopeless: bool = False

    def row(self) -> Dict[str, Any]:
        """As a row of the dataset."""
        row: Dict[str, Any] = {"index": self.task.index, "case": self.task.case, **self.task.keys}
        for name, (mean, ci95) in self.estimates.items():
            row[name] = mean
            row[f"{name}.ci95"] = ci95
        return {**row, "replications": self.replications, "attempts": self.task.attempts + 1, "error": self.error}


def perform(task: Task, watch: Any = None) -> Done:
    """Simulates a point. Its own errors are part of what comes of it; those of the machine are raised."""
    try:
        estimates, replications = simulate(task.scenario, task.replications, task.metrics, watch)
    except Error as e:
        return Done(task, error=f"{type(e).__name__}: {e}", hopeless=True)
    return Done(task, estimates, replications)
