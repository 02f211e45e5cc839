//! Interrupt moderation at the measured packet rate (interrupt-throttling V.C); `tune watch` follows the rate.

use rxlane_policy::Nanos;
use rxlane_policy::throttle::{LinearLaw, Sample, Throttle, Throttling};
use rxlane_system::ethtool::Setting;

use super::buffers::LITTLE_PPS;
use super::{Area, Draft, Profile, Reason};
use crate::inventory::Nic;
use crate::{Knob, TuneError, Value};

const LAW: &str = "interrupt-throttling V.C";
const DEFERRAL: &str = "Documentation/networking/napi.rst, \"Software IRQ coalescing\"";

/// Interval at a packet rate by the linear law, us.
fn interval_us(pps: f64) -> u64 {
    let Ok(mut law) = Throttling::Linear(LinearLaw::default()).start() else {
        return 0;
    };
    let sample = Sample {
        packets: pps as u64,
        bytes: 0,
        elapsed: Nanos::from_ms(1000),
    };
    law.update(sample).0.div_ceil(1000)
}

/// Interval at the law's least interrupt rate, us.
fn longest_us() -> u64 {
    (1e6 / LinearLaw::default().r_min) as u64
}

pub(super) fn plan(draft: &mut Draft<'_>, nic: &Nic) -> Result<(), TuneError> {
    let has = |s: Setting| nic.settings.contains_key(s.name());
    if nic.moderates() {
        by_driver(draft, nic, has(Setting::AdaptiveRx))
    } else {
        by_deferral(draft, nic)
    }
}

fn by_driver(draft: &mut Draft<'_>, nic: &Nic, adaptive: bool) -> Result<(), TuneError> {
    let profile = draft.options.profile;
    let own = profile == Profile::Throughput && adaptive;
    if adaptive {
        let reason = Reason {
            why: if own {
                "the driver lengthens the interval as traffic grows".into()
            } else {
                "the driver's algorithm goes by bytes and would overwrite the interval".into()
            },
            source: "interrupt-throttling IV.B, V.B",
            cost: "none",
        };
        let knob = Knob::ethtool(&nic.name, Setting::AdaptiveRx);
        draft.want(Area::Moderation, knob, Value::Switch(own), reason)?;
    }
    if own {
        return Ok(());
    }
    let pps = nic.rx_pps / nic.rx_queues.max(1) as f64;
    // Without traffic any interval is right, and the one that is there was somebody's choice.
    if profile == Profile::Latency && nic.rx_pps < LITTLE_PPS {
        return Ok(());
    }
    let (us, why, cost) = match profile {
        Profile::Latency => (
            interval_us(pps),
            format!("the linear law at {pps:.0} packets/s a queue"),
            "more interrupts at low load; does not follow the rate: see rxlane tune watch",
        ),
        Profile::Throughput | Profile::Power => (
            longest_us(),
            "the law's least interrupt rate".into(),
            "packets wait for up to this long",
        ),
    };
    let reason = Reason {
        why,
        source: LAW,
        cost,
    };
    let knob = Knob::ethtool(&nic.name, Setting::RxUsecs);
    draft.want(Area::Moderation, knob, Value::Us(us), reason)
}

/// Devices without moderation have NAPI's: a timer polls them instead of their interrupt while traffic flows.
fn by_deferral(draft: &mut Draft<'_>, nic: &Nic) -> Result<(), TuneError> {
    let (us, defer, why, cost) = match draft.options.profile {
        Profile::Latency => (0, 0, "each packet may interrupt", "more interrupts"),
        Profile::Throughput | Profile::Power => (
            longest_us(),
            1,
            "no moderation of its own: a timer polls it while traffic flows",
            "packets wait for up to this long",
        ),
    };
    let device = || nic.name.clone();
    for (knob, value) in [
        (Knob::PollTimer { device: device() }, Value::Ns(us * 1000)),
        (
            Knob::DeferredPolls { device: device() },
            Value::Count(defer),
        ),
    ] {
        let reason = Reason {
            why: why.into(),
            source: DEFERRAL,
            cost,
        };
        draft.want(Area::Moderation, knob, value, reason)?;
    }
    Ok(())
}
