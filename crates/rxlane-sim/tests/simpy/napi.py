#!/usr/bin/env python3
"""The NAPI receive path as a SimPy model, packet by packet, to hold rxlane-sim against.

Written from the papers alone: low-latency-router II, III.A, III.B and IV.B, and multiple-nics III. Every packet is an
event, the core is a process, and an interrupt is SimPy's interrupt of what the core does.

    napi.py trace           writes trace.csv, the arrivals
    napi.py departures      writes departures.csv and interrupts.csv for the scenarios of scenarios.json
    napi.py check           compares these with what it computes, and fails when they differ
"""

import csv
import json
import random
import sys
from collections import deque
from pathlib import Path

import simpy

HERE = Path(__file__).parent
DROPPED = ""
RT, BE = 0, 1


class Ring:
    """An Rx ring: packets that find all descriptors taken are lost."""

    def __init__(self, descriptors, budget):
        self.descriptors, self.budget = descriptors, budget
        self.packets = deque()


class Device:
    """Rx rings behind one interrupt (a QVector)."""

    def __init__(self, rings, budget):
        self.rings, self.budget = rings, budget
        self.irq_enabled = True


class Core:
    """A core that runs interrupt handlers and, when there is none to run, the receive softirq."""

    def __init__(self, env, devices, packet_ps, isr_ps, departed):
        self.env, self.devices, self.departed = env, devices, departed
        self.packet_ps, self.isr_ps = packet_ps, isr_ps
        self.raised, self.poll_list = deque(), deque()
        self.interrupts = 0
        self.sleep = None
        self.at_work = False
        self.process = env.process(self.run())

    def raise_irq(self, device):
        """The NIC signals: the line is off until the device has been drained (II)."""
        device.irq_enabled = False
        self.raised.append(device)
        if self.at_work:
            self.at_work = False
            self.process.interrupt()
        elif self.sleep is not None and not self.sleep.triggered:
            self.sleep.succeed()

    def handlers(self):
        """Runs the handlers of all raised interrupts; a handler is not interrupted itself."""
        while self.raised:
            device = self.raised.popleft()
            self.interrupts += 1
            yield self.env.timeout(self.isr_ps)
            self.poll_list.append(device)

    def work(self, duration):
        """Work of the softirq, which handlers interrupt and delay."""
        while duration > 0:
            yield from self.handlers()
            begun = self.env.now
            self.at_work = True
            try:
                yield self.env.timeout(duration)
                duration = 0
            except simpy.Interrupt:
                duration -= self.env.now - begun
            self.at_work = False

    def run(self):
        while True:
            yield from self.handlers()
            if self.poll_list:
                yield from self.poll(self.poll_list[0])
            elif not self.raised:
                self.sleep = self.env.event()
                yield self.sleep
                self.sleep = None

    def poll(self, device):
        """One turn of a device: rings in turn, each up to its budget, until all are empty or the device budget is spent."""
        left = device.budget
        while True:
            for ring in device.rings:
                turn = min(ring.budget, left)
                while turn > 0 and ring.packets:
                    number = ring.packets.popleft()
                    yield from self.work(self.packet_ps)
                    self.departed[number] = self.env.now
                    turn -= 1
                    left -= 1
            if not any(ring.packets for ring in device.rings):
                self.poll_list.popleft()
                device.irq_enabled = True
                return
            if left == 0:
                self.poll_list.rotate(-1)
                return


def devices_of(scenario):
    """Devices, and the device and ring of each class. BE's ring is polled first, as the list PRB names it first."""
    descriptors, budget = scenario["descriptors"], scenario["device_budget"]
    strategy = scenario["strategy"]
    if strategy == "sq":
        ring = Ring(descriptors, budget)
        device = Device([ring], budget)
        return [device], {RT: (device, ring), BE: (device, ring)}
    if strategy == "rr":
        rings = {c: Ring(descriptors, budget) for c in (RT, BE)}
        devices = {c: Device([rings[c]], budget) for c in (RT, BE)}
        return list(devices.values()), {c: (devices[c], rings[c]) for c in (RT, BE)}
    rt, be = (Ring(descriptors, b) for b in scenario["ring_budgets"])
    device = Device([be, rt], budget)
    return [device], {RT: (device, rt), BE: (device, be)}


def arrive(env, trace, stretch, places, core, departed):
    """Packets come: into memory while the line is off, and with an interrupt while it is on."""
    for number, (at, kind) in enumerate(trace):
        yield env.timeout(at * stretch - env.now)
        device, ring = places[kind]
        if len(ring.packets) == ring.descriptors:
            departed[number] = DROPPED
            continue
        ring.packets.append(number)
        if device.irq_enabled:
            core.raise_irq(device)


def simulate(scenario, trace):
    env = simpy.Environment()
    devices, places = devices_of(scenario)
    departed = [None] * len(trace)
    core = Core(env, devices, scenario["packet_ns"] * 1000, scenario["isr_ns"] * 1000, departed)
    env.process(arrive(env, trace, scenario["stretch"], places, core, departed))
    env.run()
    assert None not in departed
    return departed, core.interrupts


def read_trace():
    with open(HERE / "trace.csv", newline="") as file:
        return [(int(r["at_ps"]), int(r["class"])) for r in csv.DictReader(file)]


def write_trace():
    """Poisson arrivals of 1 Mpps, 30 % of them RT, in whole ps, so that hardly anything happens at the same time."""
    chance = random.Random(2016)
    at = 0
    with open(HERE / "trace.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["at_ps", "class"])
        for _ in range(3000):
            at += 1 + round(chance.expovariate(1e-6))
            out.writerow([at, RT if chance.random() < 0.3 else BE])


def results():
    """Both files, as text."""
    trace = read_trace()
    scenarios = json.loads((HERE / "scenarios.json").read_text())
    found = {s["name"]: simulate(s, trace) for s in scenarios}
    lines = [",".join(found)]
    lines += [",".join(map(str, row)) for row in zip(*(d for d, _ in found.values()))]
    departures = "\n".join(lines) + "\n"
    interrupts = "scenario,interrupts\n" + "".join(f"{n},{i}\n" for n, (_, i) in found.items())
    return {"departures.csv": departures, "interrupts.csv": interrupts}


def main(what):
    if what == "trace":
        write_trace()
    elif what == "departures":
        for name, text in results().items():
            (HERE / name).write_text(text)
    elif what == "check":
        for name, text in results().items():
            if (HERE / name).read_text() != text:
                sys.exit(f"{name}: differs from what the SimPy model computes")
        print("departures.csv and interrupts.csv are what the SimPy model computes")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
