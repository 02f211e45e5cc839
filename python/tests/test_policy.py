"""The router's decisions, one by one."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rxlane


def turns(device: rxlane.QVector, held: List[int]) -> Tuple[List[Tuple[int, int]], Any]:
    """What a poll serves, and how it ends."""
    served = []
    device.begin()
    while isinstance(step := device.next(held), rxlane.Serve):
        packets = min(step.at_most, held[step.ring])
        held[step.ring] -= packets
        device.served(packets)
        served.append((step.ring, packets))
    return served, step


def test_a_poll_goes_round_the_rings_from_the_lowest_until_the_budget_is_spent() -> None:
    served, end = turns(rxlane.QVector([60, 4]), [10, 100])
    assert served[:3] == [(1, 4), (0, 10), (1, 4)]
    assert sum(packets for _, packets in served) == 64
    assert end == rxlane.PollEnd.BUDGET_SPENT


def test_orders_and_rounds_are_those_of_scenario_files() -> None:
    served, end = turns(rxlane.QVector([4, 4], 64, order="highest-first", rounds="one"), [9, 9])
    assert served == [(0, 4), (1, 4)] and end == rxlane.PollEnd.BUDGET_SPENT
    with pytest.raises(rxlane.PolicyError, match="lowest-first"):
        rxlane.QVector([4], order="middle-first")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=8), st.data())
def test_a_poll_never_serves_more_than_its_budgets_and_ends(budgets: List[int], data: st.DataObject) -> None:
    held = data.draw(st.lists(st.integers(0, 200), min_size=len(budgets), max_size=len(budgets)))
    before = sum(held)
    served, end = turns(rxlane.QVector(budgets), held)
    assert all(0 < packets <= budgets[ring] for ring, packets in served)
    assert sum(packets for _, packets in served) <= 64
    assert (end == rxlane.PollEnd.DRAINED) == (before <= 64 and sum(held) == 0)


def test_strategies_place_classes_as_table_i_says() -> None:
    def places(strategy: rxlane.Strategy) -> Any:
        return [(p.device, p.ring) for p in strategy.layout(2)[1]]

    assert places(rxlane.Strategy("sq")) == [(0, 0), (0, 0)]
    assert places(rxlane.Strategy("rr")) == [(0, 0), (1, 0)]
    assert places(rxlane.Strategy("ll-rr", ring_budget=4)) == [(0, 0), (0, 1)]
    weighted = rxlane.Strategy("ll-wfq", budgets=[58, 4, 2])
    assert weighted.in_front_of_the_highest(3) == 6
    assert weighted.in_front_of_the_highest(3, devices=2) == 70


@pytest.mark.parametrize(
    ("name", "keywords", "cure"),
    [
        ("fifo", {}, "use sq, rr, ll-rr or ll-wfq"),
        ("sq", {"ring_budget": 4}, "leave them out"),
        ("ll-rr", {}, "give ring_budget"),
        ("ll-wfq", {"ring_budget": 4}, "give budgets"),
    ],
)
def test_a_strategy_takes_the_budgets_that_it_has(name: str, keywords: Any, cure: str) -> None:
    with pytest.raises(rxlane.PolicyError, match=cure):
        rxlane.Strategy(name, **keywords)


def test_the_linear_law_is_that_of_the_paper_and_refuses_what_makes_no_sense() -> None:
    law = rxlane.LinearLaw()
    assert [law.interrupts_per_second(pps) for pps in (0, 1.05e6, 2.1e6, 9e6)] == [100_000, 54_000, 8_000, 8_000]
    assert law.interval_ns(2.1e6) == 125_000
    for r_min in (0.0, 2e5, float("nan")):
        with pytest.raises(rxlane.PolicyError, match="0 < r_min <= r_max"):
            rxlane.LinearLaw(r_min=r_min)


def test_the_bound_follows_equations_1_and_2() -> None:
    assert rxlane.Bound(4, 571, 0.3).t_max_ns == pytest.approx(4 * 571 / 0.7)
    assert rxlane.Bound(4, 571, 1.0).t_max_ns == float("inf")
    assert [rxlane.Bound.largest_ring_budget(6, rho) for rho in (0.3, 0.5)] == [4, 3]
    with pytest.raises(rxlane.PolicyError):
        rxlane.Bound(float("nan"), 571, 0.3)


@pytest.mark.parametrize(
    ("keywords", "why"),
    [
        ({"target_ns": 1e3}, "which is the least target"),
        ({"target_ns": 1e3}, 'lane="engine"'),
        ({"rt_pps": 2e9}, "RT traffic alone needs"),
        ({"rt_pps": float("nan")}, "must be positive"),
        ({"lane": "fast"}, "use express or engine"),
        ({"total_pps": 1e6, "link_bps": 1e9}, "give one of them"),
        ({"link_bps": -1.0}, "give link_bps"),
    ],
)
def test_a_plan_that_cannot_be_says_why_and_what_could(keywords: Any, why: str) -> None:
    with pytest.raises(rxlane.PlanError, match=why):
        rxlane.plan(**{"service_time_ns": 2e3, "rt_pps": 1e5, "target_ns": 3e5, **keywords})


def test_papers_and_rows_that_there_are_not_are_named_with_those_there_are() -> None:
    with pytest.raises(rxlane.PaperError, match="XX-01.*low-latency-router.*LL-01"):
        rxlane.reproduce("XX-01")
    with pytest.raises(rxlane.PaperError, match="use low-latency-router"):
        rxlane.Scenario.from_paper("a", "b")
    with pytest.raises(rxlane.PaperError, match="use fig-3-8.toml"):
        rxlane.Scenario.from_paper("interrupt-throttling", "b")
