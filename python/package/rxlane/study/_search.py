"""Searches by bisection: the smallest value that keeps a promise, the largest load that loses nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Tuple, Union

from rxlane._errors import StudyError
from rxlane._rxlane import RunResult, Scenario

Number = Union[int, float]
# What a value is set to: a dotted key, or the keys that it gives.
Key = Union[str, Callable[[Any], Mapping[str, Any]]]
Holds = Callable[[RunResult], bool]


@dataclass(frozen=True)
class Found:
    """What a search has found: the `value`, what comes of it, and all that was `tried`, as pairs of value and whether it holds."""

    value: Number
    result: RunResult
    tried: List[Tuple[Number, bool]]


def at_most(metric: str, limit: float) -> Holds:
    """Holds where a metric is at most `limit`, to the upper end of its confidence interval.

    >>> holds = rxlane.study.at_most("loss", 0.0)
    >>> holds(rxlane.Scenario({"seconds": 0.01, "traffic.pps": 1e5}).run(replications=2))
    True
    """

    def holds(result: RunResult) -> bool:
        estimate = result[metric]
        return estimate.mean + (estimate.ci95 or 0.0) <= limit

    return holds


class _Tries:
    """Simulates a scenario at values of a key, each once."""

    def __init__(self, scenario: Scenario, key: Key, holds: Holds, options: Dict[str, Any]) -> None:
        self._scenario = scenario
        self._key = key
        self._holds = holds
        self._options = options
        self._results: Dict[Number, Tuple[RunResult, bool]] = {}

    def __call__(self, value: Number) -> bool:
        if value not in self._results:
            keys = {self._key: value} if isinstance(self._key, str) else self._key(value)
            result = self._scenario.with_(keys).run(**self._options)
            self._results[value] = (result, bool(self._holds(result)))
        return self._results[value][1]

    def found(self, value: Number) -> Found:
        tried = [(value, holds) for value, (_, holds) in self._results.items()]
        return Found(value, self._results[value][0], tried)


def _bisect(tries: _Tries, good: Number, bad: Number, within: float) -> Found:
    """Between a value that holds and one that does not: the last good one."""
    whole = isinstance(good, int) and isinstance(bad, int)
    while abs(bad - good) > (1 if whole else within * max(abs(good), abs(bad))):
        middle = (good + bad) // 2 if whole else (good + bad) / 2
        if tries(middle):
            good = middle
        else:
            bad = middle
    return tries.found(good)


def _search(scenario: Scenario, key: Key, first: Number, last: Number, holds: Holds, within: float, options: Dict[str, Any]) -> Found:
    """The value that is nearest to `first` and holds; `last` is where it is sure to."""
    if not 0 < within < 1:
        raise StudyError(f"within = {within}: give a share between 0 and 1, as 0.01 for one hundredth")
    tries = _Tries(scenario, key, holds, options)
    if tries(first):
        return tries.found(first)
    if not tries(last):
        raise StudyError(f"neither {first} nor {last} holds: give other ends, or a promise that one of them keeps")
    return _bisect(tries, last, first, within)


def smallest(
    scenario: Scenario, key: Key, low: Number, high: Number, holds: Holds, *, within: float = 0.01, **options: Any
) -> Found:
    """The smallest value of a key for which `holds` says True, where it does for all larger ones.

    key: a dotted key, or a callable that gives the keys for a value.
    low, high: where to look, both included: whole numbers are searched to the last one, others to `within` of their size.
    holds: is given the RunResult of each try; `at_most` makes one.
    options: as of Scenario.run, such as replications.

    >>> router = rxlane.Scenario({"seconds": 0.02, "traffic.pps": 1.2e6})
    >>> ring = rxlane.study.smallest(router, "nic.descriptors", 1, 512, rxlane.study.at_most("loss", 0.001))
    >>> 1 < ring.value < 64
    True

    Raises StudyError where not even `high` holds.
    """
    return _search(scenario, key, low, high, holds, within, options)


def largest(
    scenario: Scenario, key: Key, low: Number, high: Number, holds: Holds, *, within: float = 0.01, **options: Any
) -> Found:
    """As `smallest`, but the largest value, where `holds` does for all smaller ones: say, the largest load without loss.

    >>> router = rxlane.Scenario({"seconds": 0.02, "cpu.packet_ns": 571})
    >>> load = rxlane.study.largest(router, "traffic.pps", 0.5e6, 3e6, rxlane.study.at_most("loss", 0.0))
    >>> 1.6e6 < load.value < 1.8e6
    True
    """
    return _search(scenario, key, high, low, holds, within, options)
