"""What the package raises. Messages name the thing, the cause and the cure, on one line."""

from __future__ import annotations


class Error(Exception):
    """Any error of this package."""


class ScenarioError(Error, ValueError):
    """A scenario that cannot be simulated. `key` is the dotted key that is wrong, empty where there is none."""

    key: str

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message, key)
        self.key = key

    def __str__(self) -> str:
        return str(self.args[0])


class SweepError(Error, ValueError):
    """A sweep that is empty or too large."""


class PlanError(Error, ValueError):
    """A latency target that nothing keeps, or a plan that says too much or too little."""


class PolicyError(Error, ValueError):
    """Budgets or laws that cannot work."""


class PaperError(Error, LookupError):
    """A paper, an experiment or a row that there is not."""


class FileError(Error, OSError):
    """A file that cannot be read or written."""


class ResultsError(Error, ValueError):
    """A file that holds no results of rxlane, not all of them, or those of a later version."""


class CallableError(Error, RuntimeError):
    """A function given to the simulator that raised, which is then the cause, or returned what cannot be."""


class StudyError(Error, RuntimeError):
    """A study that cannot be run, or that is not the one of its folder."""


class DependencyError(Error, ImportError):
    """A package that is needed for this, and is not installed."""
