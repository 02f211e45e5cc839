// What came of it: the line about the bound, a table, the picture of latencies.

import { at } from "./elements.js";
import { className, digits, micros, mpps, percent, withInterval } from "./numbers.js";
import { around, legend, logarithmic, plot } from "./plot.js";

// Whether RT waits no longer than Eq. 1 says, in the longest case of all replications.
export function judged(bound, answer) {
  const rt = answer.classes[0];
  const waits = rt.packets ? Math.max(rt.longest_us - bound.own_ns / 1000, 0) : null;
  const most = bound.t_max_ns === null ? null : bound.t_max_ns / 1000;
  return { waits, most, holds: waits !== null && most !== null ? waits <= most + bound.whole_ns / 1000 : null };
}

function showBound(bound, answer) {
  const { waits, most, holds } = judged(bound, answer);
  at("bound").dataset.holds = `${holds}`;
  if (most === null) {
    at("verdict").textContent = `No bound: ${bound.none_because}.`;
    at("reason").textContent = waits === null ? "" : `The longest simulated wait of RT is ${micros(waits)}.`;
    at("bars").hidden = true;
    return;
  }
  const by = holds ? "" : ` by ${micros(waits - most)}`;
  at("verdict").textContent = waits === null ? `RT waits at most ${micros(most)}.` : `${holds ? "Within the bound" : `Beyond the bound${by}`}: RT waits up to ${micros(waits)} simulated, ${micros(most)} by Eq. 1.`;
  const terms = `b x / (1 − rho) = ${digits(bound.in_front)} · ${digits(bound.service_ns)} ns / (1 − ${digits(bound.rho_rt)})`;
  const whole = `, and up to two whole packets, ${micros(bound.whole_ns / 1000)}`;
  const beside = bound.beside.length ? ` Eq. 1 leaves out: ${bound.beside.join("; ")}.` : "";
  at("reason").textContent = `T_max = ${terms}${whole}.${beside}`;
  at("bars").hidden = waits === null;
  const longest = Math.max(waits ?? 0, most);
  for (const [id, us] of [["bar-bound", most], ["bar-waits", waits ?? 0]]) {
    at(id).style.inlineSize = `${(100 * us) / longest}%`;
    at(`${id}-us`).textContent = micros(us);
  }
}

function showTable({ classes }) {
  const rows = classes.map((c) => {
    const latencies = [c.mean, c.p50, c.p99, c.max].map((n) => `<td>${c.packets ? withInterval(n) : "–"}</td>`);
    return `<tr data-class="${c.name}"><th scope="row">${className(c.name)}</th>${latencies.join("")}<td>${percent(c.loss)}</td></tr>`;
  });
  at("classes").innerHTML = rows.join("");
}

export const kindOf = (i) => `class-${Math.min(i, 4)}`;

function showLatencies({ bound, answer }) {
  const lines = answer.classes.map((c, i) => ({ name: className(c.name), kind: kindOf(i), points: c.ccdf.filter(([, share]) => share > 0) }));
  const shown = lines.filter((line) => line.points.length > 1);
  const us = shown.flatMap((line) => [line.points[0][0], line.points.at(-1)[0]]);
  const most = bound.t_max_ns === null ? null : (bound.t_max_ns + bound.own_ns) / 1000;
  const least = Math.min(0.01, ...shown.map((line) => line.points.at(-1)[1]));
  plot(at("ccdf"), {
    x: { scale: logarithmic(...around(most === null ? us : [...us, most])), label: "latency, us" },
    y: { scale: logarithmic(10 ** Math.floor(Math.log10(least)), 1), name: (share) => `${Number((share * 100).toPrecision(1))} %` },
    lines: shown,
    marks: most === null ? [] : [{ x: most, name: "bound", kind: "bound" }],
    says: `Share of packets with a longer latency. ${answer.classes.map((c) => `${className(c.name)}: 99 % below ${micros(c.p99.mean)}`).join("; ")}`,
  });
  at("ccdf-legend").innerHTML = legend(shown);
}

// The few numbers that stay in sight.
function showSummary({ bound, answer }) {
  const rt = answer.classes[0];
  const be = answer.classes.at(-1);
  const { most, holds } = judged(bound, answer);
  const all = [
    [`${className(rt.name)} p99`, rt.packets ? micros(rt.p99.mean) : "–", ""],
    [`${className(rt.name)} bound`, most === null ? "none" : micros(most), holds === null ? "" : holds ? "holds" : "exceeded"],
    [`${className(rt.name)} lost`, percent(rt.loss), ""],
    [`${className(be.name)} lost`, percent(be.loss), ""],
    ["core", percent(answer.cpu.mean), ""],
    ["forwarded", mpps(answer.throughput_pps.mean), ""],
  ];
  at("summary").innerHTML = all.map(([name, value, kind]) => `<div class="${kind}"><dt>${name}${kind ? `, ${kind}` : ""}</dt><dd>${value}</dd></div>`).join("");
}

export function showResults(shown) {
  const { answer, bound } = shown;
  showSummary(shown);
  showBound(bound, answer);
  showTable(answer);
  showLatencies(shown);
  at("progress").textContent = `${answer.done} of ${answer.of} replications${answer.done < answer.of ? " …" : ""}; ${digits(answer.irq_per_s.mean)} interrupts a second`;
  at("results").classList.toggle("quick", answer.done < answer.of);
}
