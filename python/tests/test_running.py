"""While it computes: Python goes on, Ctrl-C ends it, and it says how far it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, List, Tuple

import pytest

import rxlane

# Hours of computing, each in another place of the simulator.
ENDLESS = {
    "packets": {"seconds": 1e5},
    "interrupts": {"seconds": 1e5, "traffic.pps": 4e6, "cpu.isr_ns": 1e4, "reception.scheme": "softnet"},
    "shared": {"seconds": 1e5, "nic.tx_lock_ns": 500, "cpu.cores": 2, "traffic.pps": 3e6},
}


@pytest.fixture
def interrupt_soon() -> Any:
    """Sends this process what Ctrl-C sends, while the test computes."""
    timers: List[threading.Timer] = []

    def soon() -> None:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timers.append(timer)
        timer.start()

    yield soon
    for timer in timers:
        timer.join()


@pytest.mark.parametrize("name", ENDLESS)
def test_ctrl_c_ends_a_run_that_would_take_hours(name: str, interrupt_soon: Any) -> None:
    scenario = rxlane.Scenario(ENDLESS[name])
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        scenario.run(replications=4)
    # And all is as before.
    assert rxlane.Scenario(seconds=0.001).run()["loss"].mean == 0.0


def test_ctrl_c_ends_a_sweep_and_a_paper(interrupt_soon: Any) -> None:
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        rxlane.sweep(rxlane.Scenario(seconds=1e5), {"traffic.pps": [1e6, 2e6, 3e6]})
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        rxlane.reproduce()


def test_ctrl_c_ends_a_script_without_a_thread_left() -> None:
    script = "import rxlane, sys; print('at work', flush=True); rxlane.Scenario(seconds=1e5).run(replications=9)"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "at work\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    assert child.returncode == -signal.SIGINT


def test_other_threads_go_on_while_it_computes() -> None:
    counted = 0
    computing = True

    def count() -> None:
        nonlocal counted
        while computing:
            counted += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted
        rxlane.Scenario(seconds=3.0).run(workers=1)
        during = counted - before
    finally:
        computing = False
        thread.join()
    # With the lock held it could not have counted at all.
    assert during > 100


def test_several_threads_may_compute_at_once(short: rxlane.Scenario) -> None:
    results: List[Any] = [None] * 4

    def run(i: int) -> None:
        results[i] = short.run(replications=2).metrics.to_rows()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(rows == results[0] for rows in results)


def test_progress_is_told_up_to_the_end(short: rxlane.Scenario) -> None:
    told: List[Tuple[int, int]] = []
    rxlane.sweep(short, {"traffic.pps": [1e6, 2e6, 3e6]}, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)
    assert told == sorted(set(told))


def test_what_progress_raises_ends_the_run() -> None:
    class Enough(Exception):
        pass

    def enough(done: int, total: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        rxlane.Scenario(seconds=1e5).run(progress=enough)


def test_progress_true_draws_a_bar_and_says_when_it_cannot(
    short: rxlane.Scenario, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short.run(replications=3, progress=True)
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(rxlane.DependencyError, match=r"rxlane\[progress\]"):
        short.run(progress=True)
