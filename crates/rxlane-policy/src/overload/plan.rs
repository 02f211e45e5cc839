//! What the guard must know of the configuration, in the integers of the packet path.

use crate::class::MAX_CLASSES;
use crate::{Nanos, PolicyError};

/// Where a class is served, and so what may be dropped of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Forwarded in the poll. Only the highest class is never dropped early.
    Express,
    /// Passed to the kernel's stack within the poll.
    Stack {
        /// Its share of the stack's time, against the other stack classes; 0 counts as 1.
        weight: u32,
    },
}

/// A class as the guard sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardedClass {
    /// Where it is served.
    pub service: Service,
    /// How long a ring may go without being empty while the class passes: what it may add to the wait of those above it.
    pub target: Nanos,
}

/// Fraction bits of a class's share of the stack.
pub(super) const SHARE_SHIFT: u32 = 10;
/// Targets are kept within 2 us, below which a poll is nothing but overhead, and 16 ms.
const TARGETS_NS: (u64, u64) = (2_000, 16_777_216);

/// A configuration, compiled: what a host lays beside the state of each core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// For each class, how old a ring may be while the class passes, ns; `u64::MAX` for the highest.
    pub limit_ns: [u64; MAX_CLASSES],
    /// Each stack class's share of the stack in 1/1024, at least 1; 0 of express classes.
    pub share: [u32; MAX_CLASSES],
    /// Stack classes, one bit each.
    pub stack: u32,
    /// Whether shares mean anything: there is more than one stack class.
    pub several: bool,
    /// Whether to guard without traffic of the highest class, too.
    pub always: bool,
    /// The longest target of a stack class, ns.
    pub longest_ns: u64,
    /// Packets that may be dropped from a ring until it is empty before it is emptied more often: half of it.
    pub backlog: u32,
}

impl Plan {
    /// Compiles classes, highest first, for rings of `ring` packets. `always` guards even where no express packet was seen for 200 ms.
    ///
    /// Targets outside of 2 us to 16 ms are moved to the nearer end, because a guard that refuses to start protects
    /// nobody. Lower express classes are dropped only once dropping the stack has not emptied the ring: each outlasts the
    /// class below it by one target.
    ///
    /// # Errors
    /// [`PolicyError::NoClass`] and [`PolicyError::TooManyClasses`].
    pub fn new(classes: &[GuardedClass], ring: u32, always: bool) -> Result<Self, PolicyError> {
        if classes.is_empty() {
            return Err(PolicyError::NoClass);
        }
        if classes.len() > MAX_CLASSES {
            return Err(PolicyError::TooManyClasses(classes.len()));
        }
        let mut plan = Self {
            limit_ns: [u64::MAX; MAX_CLASSES],
            share: [0; MAX_CLASSES],
            stack: 0,
            several: false,
            always,
            longest_ns: 0,
            backlog: (ring / 2).max(1),
        };
        let weight = |class: &GuardedClass| match class.service {
            Service::Stack { weight } => u64::from(weight.max(1)),
            Service::Express => 0,
        };
        let weights: u64 = classes.iter().map(weight).sum();
        let target = |class: &GuardedClass| class.target.0.clamp(TARGETS_NS.0, TARGETS_NS.1);
        let stack = classes.iter().filter(|class| weight(class) > 0);
        let mut outlasted = stack.map(target).max().unwrap_or(0);
        plan.longest_ns = outlasted;
        for (i, class) in classes.iter().enumerate().rev() {
            match class.service {
                Service::Stack { .. } => {
                    plan.limit_ns[i] = target(class);
                    plan.share[i] = ((weight(class) << SHARE_SHIFT) / weights).max(1) as u32;
                    plan.several |= plan.stack != 0;
                    plan.stack |= 1 << i;
                }
                Service::Express if i == 0 => {}
                Service::Express => {
                    outlasted += target(class);
                    plan.limit_ns[i] = outlasted;
                }
            }
        }
        Ok(plan)
    }

    /// Whether the class is ever dropped early, so that a guarded core must be asked about its packets.
    pub fn asks(&self, class: usize) -> bool {
        self.limit_ns[class & (MAX_CLASSES - 1)] != u64::MAX
    }
}
