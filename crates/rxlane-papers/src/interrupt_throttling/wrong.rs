//! Models that the rules of this paper must reject.

use crate::wrong::Wrong;

const NONE: Wrong = Wrong {
    name: "",
    sets: &[],
    exchanged: &[],
};

pub(super) const WRONG: &[Wrong] = &[
    Wrong {
        name: "no throttling",
        sets: &[("", "interrupt.throttling={ algorithm = \"off\" }")],
        ..NONE
    },
    Wrong {
        name: "default and improved law exchanged",
        exchanged: &[("default", "improved")],
        ..NONE
    },
    Wrong {
        name: "no throttling and default exchanged",
        exchanged: &[("off", "default")],
        ..NONE
    },
    Wrong {
        name: "causes raised while masked are forgotten",
        sets: &[("", "interrupt.latch_masked=false")],
        ..NONE
    },
    Wrong {
        name: "no buffer in the NIC",
        sets: &[("", "nic.packet_buffer=0")],
        ..NONE
    },
    Wrong {
        name: "interrupts for nothing",
        sets: &[("", "cpu.isr_ns=0.0")],
        ..NONE
    },
    Wrong {
        name: "polls of one packet, 300 ns each",
        sets: &[("", "reception.device_budget=1"), ("", "cpu.poll_ns=300.0")],
        ..NONE
    },
    Wrong {
        name: "throttling that costs a quarter of each packet",
        sets: &[
            ("default", "cpu.packet_ns=600.0"),
            ("improved", "cpu.packet_ns=600.0"),
        ],
        ..NONE
    },
];
