// Sliders, each with a number beside it for exact values and for those beyond its range.

import { GROUPS } from "./control-list.js";
import { UNTOUCHED } from "./scenario.js";

const STEPS = 400;

// As short as it says the same: no 0.30000000000000004 in a scenario.
const rounded = (number, digits = 12) => Number(number.toPrecision(digits));

function parts(keys) {
  const pps = Number(keys["traffic.pps"] ?? UNTOUCHED["traffic.pps"]);
  const ratio = Number(keys["traffic.rt_ratio"] ?? UNTOUCHED["traffic.rt_ratio"]);
  return { rt: pps * ratio, be: pps * (1 - ratio) };
}

// Value in units of the key, or NaN where the key holds something that is not a number.
function valueOf(control, keys) {
  if (control.share) return rounded(parts(keys)[control.share], 9);
  const text = keys[control.key] ?? UNTOUCHED[control.key] ?? "";
  if (control.at === undefined) return text === "" ? NaN : Number(text);
  try {
    return Number(JSON.parse(text)[control.at]);
  } catch {
    return NaN;
  }
}

// The keys that a moved control changes, with their texts.
function changed(control, value, keys) {
  if (control.share) {
    const of = { ...parts(keys), [control.share]: value };
    const pps = of.rt + of.be;
    return { "traffic.pps": `${rounded(pps, 9)}`, "traffic.rt_ratio": `${pps > 0 ? rounded(of.rt / pps, 6) : 0}` };
  }
  if (control.at === undefined) return { [control.key]: `${value}` };
  const list = JSON.parse(keys[control.key] ?? UNTOUCHED[control.key]);
  list[control.at] = value;
  return { [control.key]: JSON.stringify(list) };
}

function slider(control, moved) {
  const scale = control.scale ?? 1;
  const { min, max } = control;
  const [low, high] = [Math.log(min), Math.log(max)];
  const toPlace = (shown) => (control.log ? Math.round(((Math.log(Math.max(shown, min)) - low) / (high - low)) * STEPS) : shown);
  const toShown = (place) => {
    if (!control.log) return rounded(place);
    const shown = Math.exp(low + (place / STEPS) * (high - low));
    return control.whole ? Math.round(shown >= 1000 ? rounded(shown, 3) : shown) : rounded(shown, 3);
  };

  const row = document.createElement("div");
  row.className = "control";
  const id = `control-${[control.share, control.key, control.at].filter((part) => part !== undefined).join("-").replaceAll(".", "-")}`;
  row.innerHTML = `<label for="${id}">${control.label}</label>
    <span class="value"><input type="number" id="${id}-exact" step="any" inputmode="decimal" aria-label="${control.label}, ${control.unit || "number"}, exact"><span class="unit">${control.unit}</span></span>
    <input type="range" id="${id}" ${control.log ? `min="0" max="${STEPS}" step="1"` : `min="${min}" max="${max}" step="${control.step}"`} aria-describedby="${id}-what">
    <small id="${id}-what">${control.what}</small>`;
  const [exact, range] = [row.querySelector("[type=number]"), row.querySelector("[type=range]")];
  range.addEventListener("input", () => moved(control, rounded(toShown(Number(range.value)) * scale)));
  exact.addEventListener("change", () => moved(control, exact.value === "" ? "" : rounded(Number(exact.value) * scale)));

  return {
    row,
    show(keys) {
      const shown = rounded(valueOf(control, keys) / scale, 6);
      const place = toPlace(shown);
      if (document.activeElement !== range || toShown(Number(range.value)) !== shown) range.value = Number.isNaN(place) ? range.value : place;
      exact.value = Number.isNaN(shown) ? "" : shown;
      range.setAttribute("aria-valuetext", `${shown} ${control.unit}`);
    },
  };
}

function choice(control, moved) {
  const row = document.createElement("div");
  row.className = "control choice";
  const id = `control-${(control.key ?? control.keys[1]).replaceAll(".", "-")}`;
  const options = Object.entries(control.choices).map(([value, name]) => `<option value="${value}">${name}</option>`);
  row.innerHTML = `<label for="${id}">${control.label}</label><select id="${id}">${options.join("")}</select>`;
  const select = row.querySelector("select");
  select.addEventListener("change", () => moved(control, select.value));
  return {
    row,
    show(keys) {
      const of = (key) => keys[key] ?? UNTOUCHED[key];
      const value = control.keys ? control.keys.map(of).join("/") : of(control.key);
      // A link may choose what has no name here.
      if (![...select.options].some((option) => option.value === value)) select.add(new Option(value, value));
      select.value = value;
    },
  };
}

// Puts all controls into `place`. `changes` is told the keys that somebody has changed, with their texts.
export function addControls(place, current, changes) {
  const all = [];
  const moved = (control, value) => {
    if (control.keys) {
      const values = value.split("/");
      changes(Object.fromEntries(control.keys.map((key, i) => [key, values[i]])));
    } else {
      changes(control.choices ? { [control.key]: value } : changed(control, value, current()));
    }
  };
  for (const group of GROUPS) {
    const fieldset = document.createElement("fieldset");
    fieldset.innerHTML = `<legend>${group.name}</legend>`;
    for (const control of group.controls) {
      const shown = control.choices ? choice(control, moved) : slider(control, moved);
      fieldset.append(shown.row);
      all.push({ control, ...shown });
    }
    place.append(fieldset);
  }
  return (keys) => {
    for (const { control, row, show } of all) {
      row.hidden = control.when ? !control.when(keys) : false;
      show(keys);
    }
  };
}

// Keys that no control is for: a link may set any.
export function withoutControl(keys) {
  const known = new Set(GROUPS.flatMap((group) => group.controls).flatMap((control) => control.keys ?? [control.key]));
  return Object.keys(keys).filter((key) => !known.has(key) && key !== "warmup_s");
}
