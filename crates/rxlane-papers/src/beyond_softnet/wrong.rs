//! Models that the rules of this paper must reject.

use crate::wrong::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    Wrong {
        name: "drivers that take no feedback",
        sets: &[
            ("FF", "reception.feedback=none"),
            ("FF + Random Lie", "reception.feedback=none"),
        ],
        ..Wrong::NONE
    },
    Wrong {
        name: "plain softnet and NAPI exchanged",
        exchanged: &[("plain", "NAPI")],
        ..Wrong::NONE
    },
    Wrong {
        name: "FF with and without Random Lie exchanged",
        exchanged: &[("FF", "FF + Random Lie")],
        ..Wrong::NONE
    },
    Wrong {
        name: "plain softnet and FF exchanged",
        exchanged: &[("plain", "FF")],
        ..Wrong::NONE
    },
    Wrong {
        name: "NAPI without a quota",
        sets: &[("NAPI", "reception.device_budget=1000000")],
        ..Wrong::NONE
    },
    Wrong {
        name: "interrupts for nothing",
        sets: &[("", "cpu.isr_ns=0.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "rings of 1024",
        sets: &[("", "nic.descriptors=1024")],
        ..Wrong::NONE
    },
    Wrong {
        name: "a backlog of 32",
        sets: &[("", "reception.backlog=32")],
        ..Wrong::NONE
    },
];
