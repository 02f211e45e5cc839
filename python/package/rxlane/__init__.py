"""Predict a Linux router before it is bought: its receive path in virtual time.

The model is that of the command `rxlane-lab sim`, with the same numbers for the same seed, and results are Arrow tables that pandas,
polars, DuckDB and pyarrow take as they are.

>>> import rxlane
>>> router = rxlane.Scenario({"seconds": 0.01, "traffic.pps": 1.6e6, "traffic.rt_ratio": 0.3})
>>> table = rxlane.sweep(router, {"reception.strategy": ["sq", "ll-rr"]})
>>> table["reception.strategy"].to_list()
['sq', 'll-rr']

What is simulated is a `Scenario`; `Scenario.run`, `sweep` and `reproduce` simulate, `plan` calculates, `Strategy`, `QVector`,
`LinearLaw` and `Bound` are the router's decisions, one by one. `Arrivals`, `Stage` and
`Controller` are traffic, work and throttling by functions of your own. `read` reads what the commands have measured and computed. `rxlane.study` is for sweeps that take hours or many machines.
"""

from rxlane._callables import Arrivals, Controller, Stage
from rxlane._errors import (
    CallableError,
    DependencyError,
    Error,
    FileError,
    PaperError,
    PlanError,
    PolicyError,
    ResultsError,
    ScenarioError,
    StudyError,
    SweepError,
)
from rxlane._read import read
from rxlane._rxlane import (
    VERSION as __version__,
    Bound,
    Column,
    Estimate,
    LinearLaw,
    Place,
    Point,
    Points,
    PollEnd,
    QVector,
    RunResult,
    Scenario,
    Serve,
    Strategy,
    Table,
    mean_and_ci95,
    papers,
    plan,
    reproduce,
    sweep,
    unit_of,
)

__all__ = [
    "Arrivals",
    "Bound",
    "CallableError",
    "Column",
    "Controller",
    "DependencyError",
    "Error",
    "Estimate",
    "FileError",
    "LinearLaw",
    "PaperError",
    "Place",
    "PlanError",
    "Point",
    "Points",
    "PolicyError",
    "PollEnd",
    "QVector",
    "ResultsError",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "Serve",
    "Stage",
    "Strategy",
    "StudyError",
    "SweepError",
    "Table",
    "__version__",
    "mean_and_ci95",
    "papers",
    "plan",
    "read",
    "reproduce",
    "sweep",
    "unit_of",
]
