// The same router from little load to twice what it can serve, as one looks for the place where it breaks.

import { at } from "./elements.js";
import { className, micros, mpps, percent } from "./numbers.js";
import { around, legend, linear, logarithmic, plot } from "./plot.js";
import { kindOf } from "./results.js";
import { UNTOUCHED } from "./scenario.js";

const POINTS = 16;

// Loads of the points, packets a second: up to twice the core's capacity, and beyond what is offered now.
export function loads(keys) {
  const capacity = 1e9 / Number(keys["cpu.packet_ns"] ?? UNTOUCHED["cpu.packet_ns"]);
  const wanted = Math.max(2 * capacity, 1.2 * Number(keys["traffic.pps"] ?? UNTOUCHED["traffic.pps"]));
  // A frame has a preamble and a gap, 20 bytes, beside it on the wire.
  const line = Number(keys["nic.link_bps"] ?? 1e10) / 8 / (Number(keys["traffic.frame"] ?? UNTOUCHED["traffic.frame"]) + 20);
  const most = Math.min(wanted, line * 0.99);
  return Array.from({ length: POINTS }, (_, i) => Number(((most * (i + 1)) / POINTS).toPrecision(4)));
}

// A short run each.
export function pointSettings(keys, pps) {
  const seconds = Math.min(Math.max(20000 / pps, 0.005), Number(keys.seconds ?? UNTOUCHED.seconds));
  return { ...keys, "traffic.pps": `${pps}`, seconds: `${Number(seconds.toPrecision(3))}`, replications: "1" };
}

// `points`: [{ pps, answer }], so far. `now`: the load that the sliders say.
export function showCurve(points, now) {
  const most = points.length ? points.at(-1).most : 1;
  const x = { scale: linear(0, most / 1e6), label: "offered load, Mpps" };
  const classes = points[0]?.answer.classes ?? [];
  const line = (get) => (c, i) => ({
    name: className(c.name),
    kind: kindOf(i),
    points: points.map(({ pps, answer }) => [pps / 1e6, get(answer.classes[i])]).filter(([, value]) => value !== null),
  });
  const p99 = classes.map(line((c) => (c.packets ? c.p99.mean : null)));
  const loss = classes.map(line((c) => c.loss));
  const marks = [{ x: now / 1e6, name: mpps(now), kind: "now" }];
  const last = points.at(-1)?.answer;
  const ends = (get) => (last ? last.classes.map((c) => `${className(c.name)} ${get(c)}`).join(", ") : "");
  plot(at("curve-p99"), {
    height: 220,
    x,
    y: { scale: logarithmic(...around(p99.flatMap((l) => l.points.map((p) => p[1])))) },
    lines: p99,
    marks,
    says: `99th percentile of latency over the load; at the highest: ${ends((c) => micros(c.p99.mean))}`,
  });
  const highest = Math.max(0.01, ...loss.flatMap((l) => l.points.map((p) => p[1])));
  plot(at("curve-loss"), {
    height: 180,
    x,
    y: { scale: linear(0, Math.min(1, Math.ceil(highest * 10) / 10)), name: (share) => `${Math.round(share * 100)} %` },
    lines: loss,
    marks,
    says: `Loss over the load; at the highest: ${ends((c) => percent(c.loss))}`,
  });
  at("curve-legend").innerHTML = legend(p99);
}
