"""Traffic, stages and throttling by functions of Python."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from conftest import REPOSITORY

import rxlane
from rxlane.study import Study


def poisson(rng: Any) -> Iterator[Any]:
    time = 0.0
    while True:
        times = time + rng.exponential(1000.0, 1000).cumsum()
        time = times[-1]
        yield times, rng.random(1000) > 0.3, 64


SHORT = {"seconds": 0.02, "traffic.rt_ratio": 0.3, "traffic.frame": 64}


def by(function: Callable[..., Any]) -> rxlane.Scenario:
    return rxlane.Scenario({**SHORT, "traffic.pattern": rxlane.Arrivals(function)})


def batches(*given: Any) -> rxlane.Scenario:
    return by(lambda rng: iter(given))


def test_poisson_by_a_function_is_poisson() -> None:
    ours, built_in = by(poisson).run(replications=3), rxlane.Scenario(SHORT).run(replications=3)
    for name in ("arrived", "latency_us.rt.mean", "latency_us.be.p99", "irq_per_s"):
        assert ours[name].mean == pytest.approx(built_in[name].mean, rel=0.05), name


def test_equal_seeds_give_equal_results_on_any_number_of_threads() -> None:
    scenario = by(poisson)
    space = {"cpu.packet_ns": [300, 571, 900]}
    one, all_ = (rxlane.sweep(scenario, space, replications=3, seed=5, workers=n) for n in (1, None))
    assert one["latency_us.rt.mean"].to_list() == all_["latency_us.rt.mean"].to_list()
    arrived = scenario.run(replications=2, seed=5).replications["arrived"].to_list()
    assert arrived[0] != arrived[1]
    assert scenario.run(seed=6)["arrived"].mean != scenario.run(seed=5)["arrived"].mean


@pytest.mark.parametrize(
    "batch",
    [
        ([1e6, 2e6], [0, 1]),
        [np.array([1e6, 2e6]), 1],
        (np.array([1_000_000, 2_000_000]), np.array([0, 1], dtype=np.uint8), 1500),
        {"time_ns": [1e6, 2e6], "class": [0, 1]},
        pa.table({"time_ns": [1e6, 2e6], "class": [0, 1], "bytes": [64, 1500]}),
    ],
    ids=["lists", "one class", "numpy", "dict", "arrow"],
)
def test_a_batch_may_be_arrays_or_columns(batch: Any) -> None:
    result = batches(batch).with_(warmup_s=0.0).run()
    assert result["arrived"].mean == 2


def frames(batch: Any) -> Any:
    import pandas

    return pandas.DataFrame(batch)


def test_a_batch_may_be_a_data_frame_and_an_empty_one_is_no_end() -> None:
    scenario = batches(frames({"time_ns": [], "class": []}), frames({"time_ns": [1e6, 2e6], "class": [0, 1]}))
    assert scenario.with_(warmup_s=0.0).run()["arrived"].mean == 2


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (([1.0, float("nan")], 0), r"time_ns\[1\] = nan is no time"),
        (([-1.0], 0), r"time_ns\[0\] = -1.0 is outside of 0"),
        (([float("inf")], 0), r"time_ns\[0\] = inf is outside"),
        (([2.0, 1.0], 0), r"time_ns\[1\] = 1.0 is before the one in front"),
        (([1.0, 2.0], [0]), "2 times and 1 of class"),
        (([[1.0, 2.0]], 0), r"time_ns has the shape \(1, 2\)"),
        ((["soon"], 0), "time_ns has the shape"),
        (([1.0], 2), r"class\[0\] = 2 is no class: there are 2"),
        (([1.0], -1), r"class\[0\] = -1 is no class"),
        (([1.0], 0.5), r"class\[0\] = 0.5 is no class"),
        (([1.0], 0, 9), r"bytes\[0\] = 9 is no frame"),
        (([1.0],), "a batch of 1 arrays: yield"),
        (7, "a batch of type int: yield"),
        ({"time": [1.0]}, "a batch of type dict: yield"),
    ],
)
def test_a_batch_that_cannot_be_is_refused_by_name(batch: Any, said: str) -> None:
    with pytest.raises(rxlane.CallableError, match=said) as raised:
        batches(batch).run()
    assert "lambda" in str(raised.value) and "\n" not in str(raised.value)


def test_times_may_not_go_back_from_batch_to_batch() -> None:
    with pytest.raises(rxlane.CallableError, match=r"time_ns\[0\] = 5.0 is before"):
        batches(([10.0], 0), ([5.0], 0)).run()


def test_what_a_function_raises_is_the_cause() -> None:
    def broken(rng: Any) -> Iterator[Any]:
        yield [1.0], 0
        raise KeyError("no such\nthing")

    for run in (by(broken).run, lambda: rxlane.sweep(by(broken), {"cpu.packet_ns": [300, 600]})):
        with pytest.raises(rxlane.CallableError, match=r"broken: it raised KeyError: 'no such\\nthing'") as raised:
            run()
        assert isinstance(raised.value.__cause__, KeyError)
        assert raised.value.__cause__.__traceback__ is not None
    assert issubclass(rxlane.CallableError, rxlane.Error)
    with pytest.raises(rxlane.CallableError, match="does not return batches: write a generator"):
        by(lambda rng: 7).run()


def test_a_stage_by_a_function_is_that_of_a_file() -> None:
    stage = [{"name": "s", "packet_ns": 300, "classes": [1]}]
    by_file = rxlane.Scenario({**SHORT, "stage": stage}).run()
    by_function = rxlane.Scenario({**SHORT, "stage": rxlane.Stage(lambda rng, class_, n: np.full(n, 300 * class_))}).run()
    for name in ("cpu_stage", "latency_us.be.mean"):
        assert by_function[name].mean == pytest.approx(by_file[name].mean, rel=1e-9)
    for times, said in [
        (lambda rng, class_, n: [1.0], "return as many numbers"),
        (lambda rng, class_, n: np.full(n, np.nan), "nan ns for packet 0 of class"),
        (lambda rng, class_, n: -np.ones(n), "-1.0 ns for packet 0"),
        (lambda rng, class_, n: 1 / 0, "it raised ZeroDivisionError"),
    ]:
        with pytest.raises(rxlane.CallableError, match=said):
            rxlane.Scenario({**SHORT, "stage": rxlane.Stage(times)}).run()


def test_throttling_by_a_function_is_that_of_a_file() -> None:
    by_file = rxlane.Scenario({**SHORT, "interrupt.throttling": {"algorithm": "static", "interval_ns": 50000}}).run()
    seen = []

    def constant(packets: int, bytes_: int, elapsed_ns: int, state: Any) -> float:
        state["updates"] = state.get("updates", 0) + 1
        seen.append((packets, bytes_, elapsed_ns, state["updates"]))
        return 50_000

    by_function = rxlane.Scenario({**SHORT, "interrupt.throttling": rxlane.Controller(constant)}).run()
    assert {name: by_function[name].mean for name in by_function.keys()} == {name: by_file[name].mean for name in by_file.keys()}
    assert seen[-1][3] == len(seen) and all(bytes_ == 64 * packets for packets, bytes_, *_ in seen)
    for interval, said in [("soon", "'soon' is no interval"), (-1, "-1.0 ns is no interval"), (float("nan"), "nan ns is no interval")]:
        with pytest.raises(rxlane.CallableError, match=said):
            rxlane.Scenario({**SHORT, "interrupt.throttling": rxlane.Controller(lambda *_: interval)}).run()


def test_a_function_stands_only_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(rxlane.ScenarioError, match="rxlane.Arrivals stands in the place of traffic.pattern"):
        rxlane.Scenario({"stage": rxlane.Arrivals(poisson)})
    with pytest.raises(rxlane.ScenarioError, match="needs the scheme napi") as raised:
        rxlane.Scenario({"reception.scheme": "express", "stage": rxlane.Stage(lambda *_: 0)})
    assert raised.value.key == "stage"
    with pytest.raises(TypeError, match="takes a function"):
        rxlane.Arrivals(3)  # type: ignore[arg-type]
    scenario = by(poisson)
    assert scenario.with_({"cpu.packet_ns": 571}) == scenario != rxlane.Scenario(SHORT)
    assert scenario.with_({"traffic.pattern": {"pattern": "poisson"}}) == rxlane.Scenario(SHORT)
    assert "# traffic.pattern: a function of Python" in repr(scenario)
    for refused in (scenario.to_toml, lambda: pickle.dumps(scenario), lambda: Study(scenario, {"nic.count": [1]}, folder=tmp_path / "s").run()):
        with pytest.raises(rxlane.ScenarioError, match="a function of Python cannot be"):
            refused()


def test_other_threads_go_on_between_batches() -> None:
    import threading

    counted, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1
            over.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        by(poisson).with_(seconds=1.0).run()
    finally:
        over.set()
        thread.join()
    assert counted[0] > 10


def test_the_reference_says_what_stands_where() -> None:
    text = (REPOSITORY / "docs" / "src" / "how-to" / "python.md").read_text()
    for name in ("Arrivals", "Stage", "Controller", "CallableError"):
        assert f"`{name}`" in text or f"rxlane.{name}" in text
