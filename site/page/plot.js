// Plots as SVG, as wide as there is room, so that text has one size on screens and phones.

import { digits } from "./numbers.js";

const MARGIN = { left: 62, right: 14, top: 12, bottom: 40 };

export const linear = (from, to) => ({
  from,
  to,
  at: (value) => (value - from) / (to - from),
  ticks(count) {
    const rough = (to - from) / count;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= rough);
    const ticks = [];
    for (let n = Math.ceil(from / step - 1e-9); n * step <= to * (1 + 1e-9); n += 1) ticks.push(Number((n * step).toPrecision(12)));
    return ticks;
  },
});

export const logarithmic = (from, to) => ({
  from,
  to,
  at: (value) => Math.log(Math.min(Math.max(value, from), to) / from) / Math.log(to / from),
  ticks(count) {
    const decades = Math.log10(to / from);
    const within = decades < count / 3 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(decades / count));
    const ticks = [];
    for (let e = Math.floor(Math.log10(from)); e <= Math.ceil(Math.log10(to)); e += every) {
      for (const n of within) {
        const tick = Number(`${n}e${e}`);
        if (tick >= from * 0.999 && tick <= to * 1.001) ticks.push(tick);
      }
    }
    return ticks;
  },
});

// The powers of ten, or a half or fifth of one, around some numbers.
export function around(numbers) {
  const positive = numbers.filter((n) => n > 0);
  if (!positive.length) return [1, 10];
  const [least, most] = [Math.min(...positive), Math.max(...positive)];
  const unit = (n) => 10 ** Math.floor(Math.log10(n));
  const below = [5, 2, 1].map((n) => n * unit(least)).find((n) => n <= least * 1.0001);
  const above = [1, 2, 5, 10].map((n) => n * unit(most)).find((n) => n >= most * 0.9999);
  return below < above ? [below, above] : [below, below * 2];
}

// plot(element, { height, x: { scale, label }, y: { scale, label, name }, lines: [{ name, kind, points }], marks: [{ x, name, kind }], says })
// A line of no points is left out. `kind` is a class of the style sheet.
export function plot(element, { height = 260, x, y, lines, marks = [], says }) {
  const width = Math.max(element.clientWidth, 260);
  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  const px = (value) => (MARGIN.left + x.scale.at(value) * inner.width).toFixed(1);
  const py = (value) => (MARGIN.top + (1 - y.scale.at(value)) * inner.height).toFixed(1);
  const bottom = MARGIN.top + inner.height;
  const name = (axis, value) => (axis.name ? axis.name(value) : digits(value));
  const parts = [];

  for (const tick of y.scale.ticks(5)) {
    parts.push(`<line class="grid" x1="${MARGIN.left}" x2="${width - MARGIN.right}" y1="${py(tick)}" y2="${py(tick)}"/>`);
    parts.push(`<text x="${MARGIN.left - 6}" y="${py(tick)}" text-anchor="end" dominant-baseline="middle">${name(y, tick)}</text>`);
  }
  for (const tick of x.scale.ticks(width < 500 ? 4 : 8)) {
    parts.push(`<line class="grid" x1="${px(tick)}" x2="${px(tick)}" y1="${MARGIN.top}" y2="${bottom}"/>`);
    parts.push(`<text x="${px(tick)}" y="${bottom + 16}" text-anchor="middle">${name(x, tick)}</text>`);
  }
  parts.push(`<text class="axis" x="${MARGIN.left + inner.width / 2}" y="${height - 6}" text-anchor="middle">${x.label}</text>`);
  for (const { x: at, name: what, kind } of marks) {
    const right = x.scale.at(at) < 0.7;
    parts.push(`<line class="mark ${kind}" x1="${px(at)}" x2="${px(at)}" y1="${MARGIN.top}" y2="${bottom}"/>`);
    parts.push(`<text class="mark ${kind}" x="${Number(px(at)) + (right ? 5 : -5)}" y="${MARGIN.top + 11}" text-anchor="${right ? "start" : "end"}">${what}</text>`);
  }
  for (const { kind, points } of lines) {
    if (points.length) parts.push(`<polyline class="${kind}" points="${points.map(([a, b]) => `${px(a)},${py(b)}`).join(" ")}"/>`);
  }
  element.innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${says}">${parts.join("")}</svg>`;
}

export const legend = (lines) => lines.map(({ name, kind }) => `<li class="${kind}"><svg width="24" height="8" aria-hidden="true"><line class="${kind}" x1="0" x2="24" y1="4" y2="4"/></svg>${name}</li>`).join("");
