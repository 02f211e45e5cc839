//! What programs keep of cores, and of ports on them. These types are made from the programs' own type information.

use bytemuck::{AnyBitPattern, Pod, Zeroable};
use rxlane_policy::overload::Plan;

use crate::skeletons::overload::types;

/// One port on one core (bpf/lib/shared.h).
pub type Core = types::core;
/// What all ports of a core share (bpf/overload/cpu.h).
pub type Cpu = types::cpu;
/// The overload control of a core (bpf/overload/guard.h); `rxlane_policy::overload` says what its numbers are.
pub type Guard = types::guard;
/// A configuration, compiled for the guard (bpf/overload/guard.h).
pub type GuardPlan = types::guard_plan;

/// Types of integers alone, of which all bytes are fields.
macro_rules! plain {
    ($($type:ty),*) => { $(
        // SAFETY: all zeros are a value of each integer.
        #[allow(unsafe_code)]
        unsafe impl Zeroable for $type {}
        // SAFETY: nothing but integers, and nothing between or behind them: see `struct` and generated type.
        #[allow(unsafe_code)]
        unsafe impl Pod for $type {}
    )* };
}

plain!(Cpu, Guard, GuardPlan, types::class_counters);

// SAFETY: integers, and unions and arrays of integers.
#[allow(unsafe_code)]
unsafe impl Zeroable for Core {}
// SAFETY: the same. Its packet in hand ends with bytes that are no field, so it is read from bytes and never written as such.
#[allow(unsafe_code)]
unsafe impl AnyBitPattern for Core {}

impl From<&Plan> for GuardPlan {
    fn from(plan: &Plan) -> Self {
        Self {
            limit_ns: plan.limit_ns,
            longest_ns: plan.longest_ns,
            share: plan.share,
            stack: plan.stack,
            several: plan.several.into(),
            always: plan.always.into(),
            backlog: plan.backlog,
            ..Self::default()
        }
    }
}
