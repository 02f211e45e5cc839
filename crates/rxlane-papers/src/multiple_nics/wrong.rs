//! Models that the rules of this paper must reject.

use crate::wrong::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    Wrong {
        name: "sent frames do not interrupt",
        sets: &[("", "interrupt.tx_completion=false")],
        ..Wrong::NONE
    },
    Wrong {
        name: "2 NICs in all cases, and in that of 4 packets that take 200 ns longer",
        sets: &[("", "nic.count=2"), ("4 NICs", "cpu.packet_ns=1140.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "2 and 4 NICs exchanged",
        exchanged: &[("2 NICs", "4 NICs")],
        ..Wrong::NONE
    },
    Wrong {
        name: "interrupts for nothing",
        sets: &[("", "cpu.isr_ns=0.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "packets at a third of their cost",
        sets: &[("", "cpu.packet_ns=313.0"), ("", "cpu.tx_clean_ns=51.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "constant bit rate in place of Poisson arrivals",
        sets: &[("", "traffic.pattern={ pattern = \"cbr\", jitter = 0.2 }")],
        ..Wrong::NONE
    },
];
