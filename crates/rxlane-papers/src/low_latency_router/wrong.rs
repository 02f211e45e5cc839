//! Models that the rules of this paper must reject.

use crate::wrong::Wrong;

pub(super) const WRONG: &[Wrong] = &[
    Wrong {
        name: "no classes: every strategy is SQ",
        sets: &[("", "reception.strategy=sq")],
        ..Wrong::NONE
    },
    Wrong {
        name: "strategies exchanged: SQ with LL-RR, RR with LL-WFQ",
        exchanged: &[("SQ", "LL-RR"), ("RR", "LL-WFQ")],
        ..Wrong::NONE
    },
    Wrong {
        name: "ring budgets for BE: 4 for RT, 60 for BE; LL-RR 64 each; polls that go on",
        sets: &[
            ("LL-RR", "reception.ring_budget=64"),
            ("LL-WFQ", "reception.budgets=[4, 60]"),
            ("VMDq", "reception.rounds=until-spent"),
        ],
        ..Wrong::NONE
    },
    Wrong {
        name: "interrupts for nothing",
        sets: &[("", "cpu.isr_ns=0.0"), ("", "cpu.wake_ns=0.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "a turn of a ring takes 200 ns",
        sets: &[("", "cpu.ring_ns=200.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "packets at four fifths of their cost",
        sets: &[("", "cpu.packet_ns=470.0")],
        ..Wrong::NONE
    },
    Wrong {
        name: "RT packets take 400 ns longer, and interrupts are 50 us apart",
        sets: &[
            (
                "",
                "stage=[{ name = \"RT\", packet_ns = 400.0, classes = [0] }]",
            ),
            (
                "",
                "interrupt.throttling={ algorithm = \"static\", interval_ns = 50000 }",
            ),
        ],
        ..Wrong::NONE
    },
];
