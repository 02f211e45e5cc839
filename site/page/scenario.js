// What the page asks: keys of a scenario file with their values, as texts. It is kept in the address, so that a link is a scenario.

// The router of the README: a phone call, and whatever else there is, behind 60 firewall rules, at twice what Linux forwards there.
export const DEFAULT = {
  "traffic.pps": "660000",
  "traffic.rt_ratio": "0.2",
  "traffic.pattern.pattern": "poisson",
  "traffic.frame": "128",
  "cpu.packet_ns": "3030",
  "cpu.isr_ns": "1700",
  "nic.descriptors": "512",
  "reception.scheme": "express",
  "reception.strategy": "sq",
  "express.controller": "guard",
  "express.target_us": "34",
  "express.redirect_ns": "300",
  "express.drop_ns": "200",
  "express.flush_ns": "3000",
  "interrupt.throttling.algorithm": "off",
  "seconds": "0.1",
  "warmup_s": "0.01",
  "replications": "10",
  "seed": "1",
};

// What a control shows where nobody has given a value: the defaults of scenario files, to which a test holds them.
export const UNTOUCHED = {
  "traffic.pps": "1000000",
  "traffic.rt_ratio": "0",
  "traffic.frame": "128",
  "cpu.packet_ns": "571",
  "cpu.isr_ns": "1700",
  "nic.descriptors": "512",
  "reception.scheme": "napi",
  "reception.strategy": "sq",
  "seconds": "0.2",
  "replications": "1",
  "seed": "1",
  "traffic.pattern.pattern": "poisson",
  "interrupt.throttling.algorithm": "off",
  "traffic.pattern.mean_burst": "16",
  "traffic.pattern.jitter": "0",
  "reception.ring_budget": "4",
  "reception.budgets": "[60, 4]",
  "reception.device_budget": "64",
  "express.controller": "guard",
  "express.target_us": "34",
  "express.redirect_ns": "300",
  "express.drop_ns": "200",
  "express.flush_ns": "3000",
  "interrupt.throttling.interval_ns": "50000",
  "interrupt.throttling.r_max": "100000",
  "interrupt.throttling.r_min": "8000",
  "interrupt.throttling.rho_max_pps": "2100000",
};

export function fromHash(hash) {
  const text = hash.replace(/^#/, "");
  if (!text) return { ...DEFAULT };
  const keys = {};
  for (const pair of text.split("&").filter(Boolean)) {
    const at = pair.indexOf("=");
    const decoded = (part) => {
      try {
        return decodeURIComponent(part).replace(/[\r\n]/g, " ");
      } catch {
        return part;
      }
    };
    keys[decoded(at < 0 ? pair : pair.slice(0, at))] = at < 0 ? "" : decoded(pair.slice(at + 1));
  }
  return keys;
}

export function toHash(keys) {
  const encoded = (text) => encodeURIComponent(text).replaceAll("%2C", ",").replaceAll("%20", "");
  return "#" + Object.entries(keys).map(([key, value]) => `${encoded(key)}=${encoded(value)}`).join("&");
}

// As the model takes them.
export function settings(keys) {
  return Object.entries(keys).map(([key, value]) => `${key}=${value}`).join("\n");
}

// What has no default in scenario files is what its slider shows, once somebody has chosen what it is of.
export function completed(keys) {
  const more = { ...keys };
  const needed = { "traffic.pattern.mean_burst": keys["traffic.pattern.pattern"] === "on-off", "interrupt.throttling.interval_ns": keys["interrupt.throttling.algorithm"] === "static" };
  for (const key of Object.keys(needed)) {
    if (needed[key]) more[key] ??= UNTOUCHED[key];
  }
  return more;
}

// Keys that mean nothing beside others are neither simulated nor kept in links: budgets of another strategy, say.
export function meant(keys) {
  const scheme = keys["reception.scheme"] ?? UNTOUCHED["reception.scheme"];
  const strategy = keys["reception.strategy"] ?? UNTOUCHED["reception.strategy"];
  const algorithm = keys["interrupt.throttling.algorithm"] ?? UNTOUCHED["interrupt.throttling.algorithm"];
  const pattern = keys["traffic.pattern.pattern"] ?? UNTOUCHED["traffic.pattern.pattern"];
  const only = {
    "traffic.pattern.mean_burst": pattern === "on-off",
    "traffic.pattern.jitter": pattern === "cbr",
    "reception.ring_budget": strategy === "ll-rr",
    "reception.budgets": strategy === "ll-wfq",
    "interrupt.throttling.interval_ns": algorithm === "static",
    "interrupt.throttling.r_max": algorithm === "linear",
    "interrupt.throttling.r_min": algorithm === "linear",
    "interrupt.throttling.rho_max_pps": algorithm === "linear",
  };
  const isMeant = (key) => only[key] ?? (key.startsWith("express.") ? scheme === "express" : true);
  return Object.fromEntries(Object.entries(keys).filter(([key]) => isMeant(key)));
}
