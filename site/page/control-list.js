// What can be moved: a key of the scenario each, with its unit, its range and what it means.
//
// `scale`: how many units of the key one shown unit is. `log`: a slider that is fine where values are small.
// `share`: not a key but a part of the offered load, moved while the other part stays.
// `at`: a place in a list. `when`: what must be chosen for it to mean anything.

import { UNTOUCHED } from "./scenario.js";

const chosen = (key, ...values) => (keys) => values.includes(keys[key] ?? UNTOUCHED[key]);
const lanes = chosen("reception.scheme", "express");
const strategy = (name) => chosen("reception.strategy", name);
const throttled = (name) => chosen("interrupt.throttling.algorithm", name);

export const GROUPS = [
  {
    name: "Traffic",
    controls: [
      { key: "traffic.pps", label: "Offered load", unit: "Mpps", scale: 1e6, min: 0.01, max: 5, log: true, what: "all packets; the share of RT stays" },
      { key: "traffic.rt_ratio", label: "RT share", unit: "%", scale: 0.01, min: 0, max: 100, step: 0.5, what: "of the offered load, which stays" },
      { share: "rt", label: "RT rate", unit: "Mpps", scale: 1e6, min: 0, max: 2, step: 0.001, what: "real-time packets; the rate of BE stays" },
      { share: "be", label: "BE rate", unit: "Mpps", scale: 1e6, min: 0, max: 5, step: 0.001, what: "best effort, all the rest; the rate of RT stays" },
      {
        key: "traffic.pattern.pattern",
        label: "Arrivals",
        choices: { poisson: "Poisson", cbr: "constant rate", "on-off": "bursts (on-off)" },
      },
      { key: "traffic.pattern.mean_burst", label: "Burst", unit: "packets", min: 1, max: 256, log: true, whole: true, when: chosen("traffic.pattern.pattern", "on-off"), what: "mean length, back to back" },
      { key: "traffic.frame", label: "Frame", unit: "bytes", min: 64, max: 1518, step: 1, what: "with FCS" },
    ],
  },
  {
    name: "Core",
    controls: [
      { key: "cpu.packet_ns", label: "Service time per packet", unit: "ns", min: 50, max: 20000, log: true, whole: true, what: "x: what the core takes for a packet, firewall included" },
      { key: "cpu.isr_ns", label: "Interrupt", unit: "ns", min: 0, max: 10000, step: 50, what: "each: the handler and what it disturbs" },
      { key: "nic.descriptors", label: "Rx ring", unit: "packets", min: 32, max: 4096, log: true, whole: true, what: "descriptors of a ring" },
    ],
  },
  {
    name: "Reception",
    controls: [
      {
        keys: ["reception.scheme", "reception.strategy"],
        label: "Strategy",
        choices: {
          "express/sq": "express lane (rxlane)",
          "napi/sq": "SQ: one ring (Linux)",
          "napi/rr": "RR: a device a class",
          "napi/ll-rr": "LL-RR: equal ring budgets",
          "napi/ll-wfq": "LL-WFQ: budgets by class",
        },
      },
      { key: "reception.budgets", at: 0, label: "RT ring budget", unit: "packets", min: 1, max: 64, step: 1, when: strategy("ll-wfq"), what: "of a turn" },
      { key: "reception.budgets", at: 1, label: "BE ring budget", unit: "packets", min: 1, max: 64, step: 1, when: strategy("ll-wfq"), what: "of a turn: b" },
      { key: "reception.ring_budget", label: "Ring budget", unit: "packets", min: 1, max: 64, step: 1, when: strategy("ll-rr"), what: "of a turn of each ring: b" },
      { key: "reception.device_budget", label: "Device budget", unit: "packets", min: 1, max: 300, step: 1, when: (keys) => !lanes(keys), what: "of a poll" },
      { key: "express.controller", label: "Overload control", choices: { guard: "guard (rxlane)", none: "none", "drop-all": "drop all of BE" }, when: lanes },
      { key: "express.target_us", label: "Poll target", unit: "us", min: 1, max: 500, log: true, when: lanes, what: "how long a ring may go without being empty while BE passes" },
      { key: "express.redirect_ns", label: "Express packet", unit: "ns", min: 50, max: 2000, step: 10, when: lanes, what: "classifying and redirecting RT" },
      { key: "express.drop_ns", label: "Early drop", unit: "ns", min: 20, max: 1000, step: 10, when: lanes, what: "classifying and dropping BE" },
      { key: "express.flush_ns", label: "End of a poll", unit: "ns", min: 0, max: 20000, step: 100, when: lanes, what: "sending what was redirected" },
    ],
  },
  {
    name: "Interrupt throttling",
    controls: [
      {
        key: "interrupt.throttling.algorithm",
        label: "Algorithm",
        choices: { off: "off", static: "static", "three-state": "three-state (ixgbe)", linear: "linear", "net-dim": "net_dim (Linux)" },
      },
      { key: "interrupt.throttling.interval_ns", label: "Interval", unit: "us", scale: 1000, min: 0, max: 1000, step: 1, when: throttled("static"), what: "between two interrupts at least" },
      { key: "interrupt.throttling.r_max", label: "Highest rate", unit: "1/s", min: 1000, max: 500000, log: true, whole: true, when: throttled("linear"), what: "interrupts when idle" },
      { key: "interrupt.throttling.r_min", label: "Lowest rate", unit: "1/s", min: 100, max: 100000, log: true, whole: true, when: throttled("linear"), what: "interrupts at full load" },
      { key: "interrupt.throttling.rho_max_pps", label: "Full load", unit: "Mpps", scale: 1e6, min: 0.1, max: 10, log: true, when: throttled("linear"), what: "the highest packet rate" },
    ],
  },
  {
    name: "Simulation",
    controls: [
      { key: "seconds", label: "Time", unit: "s", min: 0.01, max: 1, log: true, what: "measured, of each replication" },
      { key: "replications", label: "Replications", unit: "runs", min: 1, max: 50, step: 1, what: "intervals come from their spread" },
      { key: "seed", label: "Seed", unit: "", min: 1, max: 100, step: 1, what: "equal seeds, equal results" },
    ],
  },
];
