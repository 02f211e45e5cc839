//! Models that the rules of this paper must reject.

use crate::wrong::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    Wrong {
        name: "no throttling",
        sets: &[("", "interrupt.throttling={ algorithm = \"off\" }")],
        ..Wrong::NONE
    },
    Wrong {
        name: "default and improved law exchanged",
        exchanged: &[("default", "improved")],
        ..Wrong::NONE
    },
    Wrong {
        name: "no throttling and default exchanged",
        exchanged: &[("off", "default")],
        ..Wrong::NONE
    },
    Wrong {
        name: "causes raised while masked are forgotten",
        sets: &[("", "interrupt.latch_masked=false")],
        ..Wrong::NONE
    },
    Wrong {
        name: "no buffer in the NIC",
        sets: &[("", "nic.packet_buffer=0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "interrupts for nothing",
        sets: &[("", "cpu.isr_ns=0.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "polls of one packet, 300 ns each",
        sets: &[("", "reception.device_budget=1"), ("", "cpu.poll_ns=300.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "without throttling an interrupt a packet, no NAPI",
        sets: &[("off", "reception.scheme=softnet")],
        ..Wrong::NONE
    },
    Wrong {
        name: "throttling that costs a quarter of each packet",
        sets: &[
            ("default", "cpu.packet_ns=600.0"),
            ("improved", "cpu.packet_ns=600.0"),
        ],
        ..Wrong::NONE
    },
];
