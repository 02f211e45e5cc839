//! Models that the rules of this paper must reject.

use crate::wrong::Wrong;

const NONE: Wrong = Wrong {
    name: "",
    sets: &[],
    exchanged: &[],
};

pub(super) const WRONG: &[Wrong] = &[
    Wrong {
        name: "no other work on core 0",
        sets: &[("", "cpu.disturbance=[]")],
        ..NONE
    },
    Wrong {
        name: "default and proposed exchanged",
        exchanged: &[("default", "proposed")],
        ..NONE
    },
    Wrong {
        name: "packets at thrice their cost",
        sets: &[("", "cpu.packet_ns=1900.0")],
        ..NONE
    },
    Wrong {
        name: "an application that takes no time",
        sets: &[("", "host.application_ns=1.0")],
        ..NONE
    },
];
