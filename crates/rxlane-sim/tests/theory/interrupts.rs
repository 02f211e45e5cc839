//! What interrupts do to a queue: a timer between them as a vacation, and what is left of a core under overload.

use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::Throttling;
use rxlane_sim::scenario::{Origin, Scheme};

use super::{X, agrees, bare, of};

/// A timer that starts when a poll has drained the device keeps the next interrupt back for `D`. What comes meanwhile waits, and
/// what comes later interrupts at once: M/G/1 with a single vacation. Y. Levy, U. Yechiali, "Utilization of Idle Time in an M/G/1
/// Queueing System", Management Science 22(2), 1975: a packet waits `lambda E[V^2] / 2 (V*(lambda) + lambda E[V])` longer than in
/// M/G/1. The T-policy of D. P. Heyman, "The T-Policy for the M/G/1 Queue", Management Science 23(7), 1977, starts the timer again
/// when nothing has come, so that this is `D / 2`; both are the same where something always comes.
#[test]
fn a_throttled_interrupt_is_a_single_vacation_and_at_high_load_heymans_t_policy() {
    let interval_us = 4.0 * X;
    for rho in [0.1, 0.5, 0.8] {
        let mut s = bare(rho * 1e6 / X);
        s.interrupt.origin = Origin::PollEnd;
        s.interrupt.throttling = Throttling::Static {
            interval_ns: (interval_us * 1e3) as u64,
        };
        let lambda = rho / X;
        let vacation = lambda * interval_us * interval_us
            / (2.0 * ((-lambda * interval_us).exp() + lambda * interval_us));
        let m_d_1 = rho * X / (2.0 * (1.0 - rho));
        agrees(&s, "waiting_us.be.mean", m_d_1 + vacation);
    }
    for rho in [0.3, 0.6, 0.9] {
        let interval_us = 50.0 * X;
        let mut s = bare(rho * 1e6 / X);
        s.seconds = 2.0;
        s.interrupt.origin = Origin::PollEnd;
        s.interrupt.throttling = Throttling::Static {
            interval_ns: (interval_us * 1e3) as u64,
        };
        let m_d_1 = rho * X / (2.0 * (1.0 - rho));
        agrees(&s, "waiting_us.be.mean", m_d_1 + interval_us / 2.0);
    }
}

/// J. C. Mogul, K. K. Ramakrishnan, "Eliminating Receive Livelock in an Interrupt-Driven Kernel", ACM Transactions on Computer
/// Systems 15(3), 1997: with an interrupt a packet of cost `i`, what is forwarded beyond capacity is what interrupts
/// leave of the core, `(1 - lambda i) / x`, and nothing from `lambda = 1 / i` on.
#[test]
fn with_an_interrupt_a_packet_throughput_falls_to_nothing_at_the_rate_of_the_handler() {
    let handler_us = 0.5 * X;
    for lambda in [0.8, 1.2, 1.6, 2.0, 3.0] {
        let mut s = bare(lambda * 1e6 / X);
        s.reception.scheme = Scheme::Softnet;
        s.nic.descriptors = 512;
        s.cpu.isr_ns = handler_us * 1e3;
        let left = (1.0 - lambda * handler_us / X).max(0.0);
        let forwarded = of(&s, "throughput_pps").mean;
        let theory = left * 1e6 / X;
        assert!(
            (forwarded - theory).abs() <= 0.005 * 1e6,
            "{lambda}: {forwarded}, theory {theory}"
        );
    }
}

/// The same authors' polling: under overload no packet costs an interrupt, and `1 / (x + p / 64 + r / b)` are forwarded
/// whatever is offered, with `p` for a poll of 64 packets and `r` for a turn of a ring of `b`.
#[test]
fn under_overload_napi_forwards_one_over_a_packet_and_its_share_of_the_poll() {
    let (poll, turn) = (3.2 * X, 0.4 * X);
    for (strategy, each) in [
        (StrategyName::Sq, poll / 64.0 + turn / 64.0),
        (StrategyName::LlRr, poll / 64.0 + turn / 4.0),
    ] {
        for lambda in [1.2, 2.0, 8.0] {
            let mut s = bare(lambda * 1e6 / X);
            s.seconds = 0.2;
            s.nic.descriptors = 512;
            s.traffic.rt_ratio = 0.5;
            s.reception.strategy = strategy;
            s.reception.ring_budget = 4;
            s.cpu.isr_ns = 2e3;
            s.cpu.poll_ns = poll * 1e3;
            s.cpu.ring_ns = turn * 1e3;
            let forwarded = of(&s, "throughput_pps").mean;
            let theory = 1e6 / (X + each);
            assert!(
                (forwarded / theory - 1.0).abs() <= 1e-3,
                "{strategy:?}, {lambda}: {forwarded}, theory {theory}"
            );
        }
    }
}
