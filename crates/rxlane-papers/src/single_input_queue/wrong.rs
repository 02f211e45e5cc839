//! Models that the rules of this paper must reject.

use crate::wrong::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    Wrong {
        name: "no other work on core 0",
        sets: &[("", "cpu.disturbance=[]")],
        ..Wrong::NONE
    },
    Wrong {
        name: "default and proposed exchanged",
        exchanged: &[("default", "proposed")],
        ..Wrong::NONE
    },
    Wrong {
        name: "packets at thrice their cost",
        sets: &[("", "cpu.packet_ns=1900.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "an application that takes no time",
        sets: &[("", "host.application_ns=1.0")],
        ..Wrong::NONE
    },
];
