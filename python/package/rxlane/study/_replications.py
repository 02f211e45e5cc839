"""How often a point is simulated: a fixed number of times, or until its confidence intervals are small enough."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from rxlane._errors import StudyError
from rxlane._rxlane import Scenario, mean_and_ci95

# The seeds of two replications are so far apart; the simulator's own distance, so that replications can be added later.
SEED_STEP = 1 << 20


@dataclass(frozen=True)
class Precision:
    """Replications until half of the 95 % confidence interval of `metric` is within `relative` of its mean, or within `absolute`.

    metric: name of the metric that is to be known well.
    relative, absolute: half widths, as a share of the mean and in the metric's unit; one of them suffices.
    least, most: replications at least, 2 or more, and at most.

    >>> rxlane.study.Precision("latency_us.rt.p99", relative=0.05)
    Precision(metric='latency_us.rt.p99', relative=0.05, absolute=0.0, least=3, most=100)
    """

    metric: str
    relative: float = 0.05
    absolute: float = 0.0
    least: int = 3
    most: int = 100

    def __post_init__(self) -> None:
        if not (self.relative >= 0 and self.absolute >= 0 and 2 <= self.least <= self.most <= 10_000):
            raise StudyError(f"{self}: give widths of 0 or more, and 2 <= least <= most <= 10000")

    def reached(self, values: Sequence[float]) -> bool:
        """Whether so many values are enough."""
        mean, ci95 = mean_and_ci95(values)
        return ci95 is not None and ci95 <= max(self.absolute, self.relative * abs(mean))


Replications = Union[int, Precision]


def described(replications: Replications) -> Any:
    """As JSON."""
    return replications if isinstance(replications, int) else asdict(replications)


def simulate(
    scenario: Scenario, replications: Replications, metrics: Optional[Sequence[str]] = None, watch: Any = None
) -> Tuple[Dict[str, Tuple[float, Optional[float]]], int]:
    """Means and intervals of a scenario by metric, and how many replications they took, on this thread."""
    values: Dict[str, List[float]] = {}
    done = 0
    first = int(scenario["seed"])
    most = replications if isinstance(replications, int) else replications.most
    more = replications if isinstance(replications, int) else replications.least
    while True:
        seed = (first + done * SEED_STEP) % (1 << 63)
        table = scenario.run(replications=more, seed=seed, workers=1, progress=watch).replications
        for name in table.column_names[1:]:
            values.setdefault(name, []).extend(table[name].to_list())
        done += more
        if isinstance(replications, int):
            break
        if replications.metric not in values:
            raise StudyError(f"{replications.metric}: no such metric of this scenario, so its precision cannot be reached")
        if done >= most or replications.reached(values[replications.metric]):
            break
        # Intervals become narrower with the root of the number; half as many again is seldom too many.
        more = min(max(1, done // 2), most - done)
    # A metric that other points have and this one has not is missing here.
    kept = [name for name in metrics or values if name in values]
    return {name: mean_and_ci95(values[name]) for name in kept}, done
