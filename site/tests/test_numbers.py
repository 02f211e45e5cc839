"""The numbers of the page are those of the command, to the last bit."""

import json
import subprocess

import pytest

# One of each kind of arithmetic that could differ: logarithms and powers, ziggurat, long and wide integers.
SCENARIOS = {
    "the router of the README": "",
    "ring budgets": "#traffic.pps=1600000&traffic.rt_ratio=0.3&reception.strategy=ll-wfq&reception.budgets=[60,4]&replications=3",
    "equal budgets and throttling": "#traffic.pps=1.2e6&traffic.rt_ratio=0.1&reception.strategy=ll-rr&reception.ring_budget=8&interrupt.throttling.algorithm=static&interrupt.throttling.interval_ns=50000&replications=2",
    "devices and a linear law": "#traffic.pps=2e6&traffic.rt_ratio=0.5&reception.strategy=rr&interrupt.throttling.algorithm=linear&replications=2&seed=7",
    "bursts": "#traffic.pps=1e6&traffic.rt_ratio=0.2&traffic.pattern.pattern=on-off&traffic.pattern.mean_burst=16&replications=4",
    "net_dim and constant rate": "#traffic.pps=9e5&traffic.pattern.pattern=cbr&traffic.pattern.jitter=0.3&interrupt.throttling.algorithm=net-dim",
    "disturbances with long tails": '#cpu.disturbance=[{name="x",per_second=9000,ns=2000,pareto=1.5,redraw_s=0.005}]&cpu.sample_s=0.001&replications=3',
    "an estimate steered by powers": '#interrupt.estimate={algorithm="fill-level",packets=20}&traffic.pps=1e6&replications=2',
    "random early detection": "#qdisc.discipline=red&qdisc.link_bps=1e9&traffic.pps=1e6&traffic.frame=128&replications=2",
    "three classes": "#traffic.pps=2.2e6&traffic.shares=[0.1,0.3,0.6]&reception.strategy=ll-wfq&reception.budgets=[50,10,4]",
}


def of_command(rxlane, toml, *more):
    done = subprocess.run([rxlane, "sim", "run", "/dev/stdin", *more], input=toml, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SCENARIOS)
def test_they_are_what_the_command_prints_of_the_exported_file(planner, rxlane, name):
    page = planner(SCENARIOS[name]).ready()
    toml = page.run("document.getElementById('toml').value")
    json_text = page.wait("document.getElementById('json').value")
    assert json_text == of_command(rxlane, toml, "--json")


def test_what_is_shown_is_of_those_numbers(planner, rxlane):
    page = planner().ready()
    toml = page.run("document.getElementById('toml').value")
    metrics = json.loads(of_command(rxlane, toml, "--json"))[0]["metrics"]
    rt = page.run("planner.shown.answer.classes[0]")
    for name in ("mean", "p50", "p99", "max"):
        assert rt[name] == metrics[f"latency_us.rt.{name}"]
    cells = page.run("[...document.querySelectorAll('#classes tr[data-class=rt] td')].map((td) => td.textContent)")
    assert float(cells[0].split(" ")[0].replace(",", "")) == pytest.approx(metrics["latency_us.rt.mean"]["mean"], rel=0.01)


def test_the_command_that_is_shown_is_a_command(planner, rxlane):
    page = planner("#traffic.pps=1e6&seconds=0.01").ready()
    command = page.run("document.getElementById('command').textContent")
    command = command.replace("rxlane-lab", str(rxlane), 1).replace("run -", "run - --json", 1)
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True)
    assert done.stdout == page.wait("document.getElementById('json').value"), done.stderr
