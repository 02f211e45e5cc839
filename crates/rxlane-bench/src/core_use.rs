//! What a core was found doing, in a few kinds.

use serde::{Deserialize, Serialize};

/// What a core is doing. Interrupts and what nobody else claims are `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Taking packets out of the ring, and waking up for that: for all packets.
    Receive,
    /// rxlane's own programs, for all packets: classes, trust, rates, and what counts polls and watches Linux forward.
    Programs,
    /// Forwarding past the stack: the lookup of the route, the way to the other port, its driver and waking what is behind it; of
    /// the AF_XDP engine everything.
    Express,
    /// Linux: from making an skb of a packet to giving it to a driver, firewall included.
    Stack,
    /// Giving back the memory of packets that a program dropped, or that a port did not take.
    Drops,
    /// The hog.
    Hog,
    /// Interrupts, other threads.
    Other,
    /// Nothing.
    Idle,
}

use Activity::{Drops, Express, Idle, Other, Programs, Receive, Stack};

/// The beginnings of functions' names, and what they are about. The innermost function with a known beginning
/// decides, so that the stack within a poll is the stack, and an interrupt within the stack is none of it.
const FUNCTIONS: [(&str, Activity); 36] = [
    ("asm_sysvec_", Other),
    ("asm_common_interrupt", Other),
    ("xdp_return_", Drops),
    ("__xdp_return", Drops),
    ("bpf_xdp_fib_lookup", Express),
    ("bpf_ipv4_fib_lookup", Express),
    ("bpf_ipv6_fib_lookup", Express),
    ("bpf_xdp_ct_lookup", Express),
    ("bpf_ct_release", Express),
    ("xdp_do_redirect", Express),
    ("__xdp_do_redirect", Express),
    ("xdp_do_flush", Express),
    ("__dev_flush", Express),
    ("dev_map_", Express),
    ("bq_", Express),
    ("veth_xdp_xmit", Express),
    ("veth_ndo_xdp_xmit", Express),
    ("xsk_", Express),
    ("__xsk_", Express),
    ("cpu_map_kthread_run", Stack),
    ("cpu_map_", Express),
    ("napi_gro_", Stack),
    ("gro_", Stack),
    ("dev_gro_receive", Stack),
    ("netif_receive_skb", Stack),
    ("__netif_receive_skb", Stack),
    ("process_backlog", Stack),
    ("veth_xdp_rcv_bulk_skb", Stack),
    ("veth_xdp_rcv_skb", Stack),
    ("xdp_build_skb_from_frame", Stack),
    ("__xdp_build_skb_from_frame", Stack),
    ("bpf_prog_", Programs),
    ("veth_poll", Receive),
    ("__napi_poll", Receive),
    ("napi_threaded_poll", Receive),
    ("net_rx_action", Receive),
];

/// Indirect calls go through these, from which the kernel cannot find its way back to the caller.
const THUNK: &str = "__x86_";

impl Activity {
    /// By the names of the functions that have called each other, innermost first; `None` where the kernel did not find them.
    pub(crate) fn of_stack(names: &[&str], is_idle_thread: bool) -> Option<Self> {
        let known = |name: &&str| {
            let known = FUNCTIONS.iter().find(|(begin, _)| name.starts_with(begin));
            known.map(|(_, activity)| *activity)
        };
        let nobody = if is_idle_thread { Idle } else { Other };
        match names {
            [only] if only.starts_with(THUNK) => None,
            names => Some(names.iter().find_map(known).unwrap_or(nobody)),
        }
    }
}

/// Shares of a core's time, 0 to 1, that add up to 1; docs/src/how-to/measure.md says what is in each. How long it was idle, and what the
/// hog had, is CPU time; what is left is split as the samples say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreShares {
    /// Samples behind the shares.
    pub samples: u64,
    /// Taking packets out of the ring.
    pub receive: f64,
    /// rxlane's programs.
    pub programs: f64,
    /// Forwarding past the stack.
    pub express: f64,
    /// Linux.
    pub stack: f64,
    /// Memory of dropped packets.
    pub drops: f64,
    /// The hog.
    pub hog: f64,
    /// Interrupts, other threads.
    pub other: f64,
    /// Nothing.
    pub idle: f64,
}

/// Samples by what was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CoreUse([u64; 8]);

impl CoreUse {
    pub(crate) fn add(&mut self, activity: Activity, samples: u64) {
        self.0[activity as usize] += samples;
    }

    /// Of a core that was in use so much, a hog included, and of which a hog had so much. `None` if nothing of the rest was sampled.
    ///
    /// Idle time is not taken from the samples: a timer that is due while the kernel changes threads, which it does not interrupt,
    /// finds the next one at work.
    pub(crate) fn shares(&self, in_use: f64, hog_share: f64) -> Option<CoreShares> {
        let samples: u64 = self.0.iter().sum();
        let apart = [Activity::Hog, Idle].map(|a| self.0[a as usize]);
        let split = samples - apart.iter().sum::<u64>();
        let rest = (in_use - hog_share).max(0.0);
        let of = |activity: Activity| rest * self.0[activity as usize] as f64 / split as f64;
        (split > 0).then(|| CoreShares {
            samples,
            receive: of(Receive),
            programs: of(Programs),
            express: of(Express),
            stack: of(Stack),
            drops: of(Drops),
            hog: hog_share,
            other: of(Other),
            idle: 1.0 - rest - hog_share,
        })
    }
}

impl std::ops::AddAssign for CoreUse {
    fn add_assign(&mut self, other: Self) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: [&str; 4] = [
        "veth_poll",
        "__napi_poll",
        "napi_threaded_poll_loop",
        "kthread",
    ];

    fn within_poll(inner: &[&str]) -> Option<Activity> {
        Activity::of_stack(&[inner, &POLL[..]].concat(), false)
    }

    #[test]
    fn the_innermost_function_that_is_known_decides() {
        let program = "bpf_prog_0a1b2c3d4e5f6071_rxlane_plain";
        let lookup = ["fib_table_lookup", "bpf_ipv4_fib_lookup", program];
        for (inner, wanted) in [
            (&[][..], Receive),
            (&["veth_xdp_rcv_one"], Receive),
            (&[program, "veth_xdp_rcv_one"], Programs),
            (&["trie_lookup_elem", program], Programs),
            (&lookup, Express),
            (&["try_to_wake_up", "veth_xdp_xmit", "bq_xmit_all"], Express),
            (&["page_pool_put_netmem", "xdp_return_frame"], Drops),
            (
                &["nft_do_chain", "ip_forward", "__netif_receive_skb_core"],
                Stack,
            ),
            (
                &[
                    "hrtimer_interrupt",
                    "asm_sysvec_apic_timer_interrupt",
                    "ip_forward",
                ],
                Other,
            ),
        ] {
            assert_eq!(within_poll(inner), Some(wanted), "{inner:?}");
        }
        assert_eq!(Activity::of_stack(&["default_idle"], true), Some(Idle));
        assert_eq!(Activity::of_stack(&["rcu_gp_kthread"], false), Some(Other));
        let lost = Activity::of_stack(&["__x86_indirect_thunk_rax"], false);
        assert_eq!(lost, None);
    }

    #[test]
    fn what_is_in_use_is_split_as_sampled_and_all_shares_add_up() {
        assert_eq!(CoreUse::default().shares(0.5, 0.0), None);
        let mut seen = CoreUse::default();
        seen.add(Stack, 3);
        seen.add(Express, 1);
        seen.add(Idle, 5);
        seen.add(Activity::Hog, 1);
        seen += seen;
        let shares = seen.shares(0.75, 0.25).unwrap();
        assert_eq!(
            (shares.samples, shares.stack, shares.express),
            (20, 0.375, 0.125)
        );
        assert_eq!((shares.hog, shares.idle), (0.25, 0.25));
    }
}
