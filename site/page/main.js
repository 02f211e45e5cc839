// The page: what is asked stands in the address and in the controls, what comes of it beside them.

import { addControls, withoutControl } from "./controls.js";
import { at } from "./elements.js";
import { loads, pointSettings, showCurve } from "./load-curve.js";
import { Model } from "./model.js";
import { showResults } from "./results.js";
import { DEFAULT, UNTOUCHED, completed, fromHash, meant, settings, toHash } from "./scenario.js";

let keys = fromHash(location.hash);
// What the newest question has brought so far.
let shown = {};
let drawing = false;
let asked = 0;
// Kept so that tests, and whoever wonders, can see how long an answer takes: of the newest question, ms.
const times = {};

const showControls = addControls(at("controls"), () => keys, (changed) => change(completed({ ...keys, ...changed })));

function showOthers() {
  const others = withoutControl(meant(keys));
  at("others").hidden = others.length === 0;
  at("other-keys").replaceChildren(
    ...others.map((key) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "leave out";
      button.addEventListener("click", () => change(Object.fromEntries(Object.entries(keys).filter(([k]) => k !== key))));
      item.append(`${key} = ${keys[key]} `, button);
      return item;
    }),
  );
}

function change(to, remember = true) {
  keys = to;
  asked = performance.now();
  showControls(keys);
  showOthers();
  if (remember) history.replaceState(null, "", toHash(meant(keys)));
  model.ask(settings(meant(keys)));
  shown = { ...shown, points: [] };
  times.first = times.last = undefined;
}

// A line, or nothing when there is nothing wrong any more. The numbers that stay are of what was asked before.
function fail(line) {
  at("error").textContent = line ?? "";
  at("error").hidden = line === undefined;
  at("results").classList.toggle("stale", line !== undefined);
}

function draw() {
  drawing = false;
  if (!shown.answer) return;
  if (shown.changed) {
    shown.changed = false;
    showResults(shown);
    Object.assign(at("results").dataset, { id: shown.answerOf, last: shown.last });
    if (shown.answerOf === model.newest) {
      const took = performance.now() - asked;
      times.first ??= took;
      if (shown.last) times.last ??= took;
    }
  }
  if (shown.json) at("json").value = shown.json;
  if (shown.curve?.length) showCurve(shown.curve, Number(keys["traffic.pps"] ?? UNTOUCHED["traffic.pps"]));
}

function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(draw);
}

function heard({ id, toml, bound, answer, json, last, point, error }) {
  if (error !== undefined) {
    if (point === undefined) fail(error);
    return;
  }
  if (toml !== undefined) {
    fail();
    shown = { ...shown, bound, last: false, json: undefined };
    at("toml").value = toml;
    at("command").textContent = `rxlane-lab sim run - <<'END'\n${toml}END`;
    at("download").href = `data:application/toml,${encodeURIComponent(toml)}`;
    at("json").value = "";
    return;
  }
  if (point === undefined) {
    shown = { ...shown, answer, answerOf: id, last, json, changed: true };
    drawSoon();
    if (last && id === model.newest) nextPoint();
    return;
  }
  if (id !== model.newest) return;
  const all = loads(keys);
  shown.points.push({ pps: all[point], most: all.at(-1), answer });
  // The old curve stays until the new one is whole, else it would flicker.
  if (shown.points.length === all.length || !(shown.curve?.length === all.length)) {
    shown.curve = [...shown.points];
    at("curve").dataset.id = id;
    drawSoon();
  }
  nextPoint();
}

function nextPoint() {
  const all = loads(keys);
  const next = shown.points.length;
  if (next < all.length) model.askPoint(settings(pointSettings(meant(keys), all[next])), next);
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Without permission there is still the text to select.
    at("open").open = true;
    at("toml").select();
    button.textContent = "Select and copy";
  }
  setTimeout(() => (button.textContent = before), 1500);
}

const model = new Model(heard);

at("copy-toml").addEventListener("click", ({ target }) => copy(at("toml").value, target));
at("copy-link").addEventListener("click", ({ target }) => copy(location.href, target));
at("reset").addEventListener("click", () => change({ ...DEFAULT }));
window.addEventListener("hashchange", () => change(fromHash(location.hash), false));
window.addEventListener("resize", () => {
  shown.changed = Boolean(shown.answer);
  drawSoon();
});
showControls(keys);
showOthers();
model.load().then(
  () => change(keys, false),
  (e) => fail(`this browser cannot run the model: ${e.message}`),
);

// For tests.
window.planner = { model, times, get shown() { return shown; } };
