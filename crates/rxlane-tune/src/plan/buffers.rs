//! Buffers that fit (single-input-queue III.B, step a).

use rxlane_policy::buffers::{buffer_bytes, ring_length};
use rxlane_policy::{Bps, Nanos, Pps};
use rxlane_system::ethtool::Setting;

use super::{Area, Draft, Profile, Reason};
use crate::inventory::{Inventory, Nic};
use crate::{Knob, TuneError, Value};

/// Below this neither a ring's length nor an interval matters.
pub(super) const LITTLE_PPS: f64 = 1000.0;
/// Traffic comes in bursts above its mean rate.
const PEAK: f64 = 4.0;
/// The shortest ring; drivers allow 32 to 80.
const SHORTEST: u32 = 128;
/// Bytes of a packet, for queues that count packets.
const MEAN_PACKET: u64 = 512;

/// How long a core may be away from its rings.
fn away(profile: Profile) -> Nanos {
    match profile {
        // Whatever is in the ring waits: a ring that can hold more than this only makes old packets.
        Profile::Latency => Nanos::from_ms(1),
        Profile::Throughput | Profile::Power => Nanos::from_ms(4),
    }
}

fn refused(source: rxlane_policy::PolicyError) -> TuneError {
    TuneError::Policy {
        what: "size buffers",
        source,
    }
}

/// A device's Rx rings.
pub(super) fn ring(draft: &mut Draft<'_>, nic: &Nic) -> Result<(), TuneError> {
    let setting = |s: Setting| nic.settings.get(s.name()).copied();
    let (Some(_), Some(max)) = (setting(Setting::RxRing), setting(Setting::RxRingMax)) else {
        return Ok(());
    };
    if nic.rx_pps < LITTLE_PPS {
        draft.note(format!(
            "{}: {:.0} packets/s in the window say nothing about its ring and interval; plan again under load",
            nic.name, nic.rx_pps
        ));
        return Ok(());
    }
    let away = draft
        .options
        .away
        .unwrap_or_else(|| away(draft.options.profile));
    let pps = PEAK * nic.rx_pps / nic.rx_queues.max(1) as f64;
    let max = u32::try_from(max).unwrap_or(u32::MAX).max(1);
    let length = ring_length(Pps(pps), away, SHORTEST.min(max), max).map_err(refused)?;
    let reason = Reason {
        why: format!(
            "{:.0} packets/s a queue at {PEAK} times the mean, for {} us without service",
            pps,
            away.0 / 1000
        ),
        source: "single-input-queue III.B, step a",
        cost: "the link is reset for a moment; longer stalls lose packets",
    };
    draft.want(
        Area::Rings,
        Knob::ethtool(&nic.name, Setting::RxRing),
        Value::Packets(length.into()),
        reason,
    )
}

/// Socket buffers and the backlog; only ever raised, because others may need them.
pub(super) fn sockets(draft: &mut Draft<'_>, inventory: &Inventory) -> Result<(), TuneError> {
    let Some(mbps) = inventory.nics.iter().filter_map(|n| n.speed_mbps).max() else {
        return Ok(());
    };
    let (delay, k) = (draft.options.delay, draft.options.k);
    let bytes = buffer_bytes(Bps(mbps as f64 * 1e6), delay.into(), k).map_err(refused)?;
    let why = format!(
        "2^{k} x {mbps} Mbit/s x {:.1} ms one way",
        delay.as_secs_f64() * 1e3
    );
    let memory = "sockets may hold more memory";
    let every = "every socket that asks for no other size may hold as much memory";
    let defaults = [
        (Knob::DefaultReceiveMemory, Value::Bytes(bytes), every),
        (Knob::DefaultSendMemory, Value::Bytes(bytes), every),
    ];
    let defaults = defaults.into_iter().filter(|_| draft.options.default_sizes);
    let limits = [
        (Knob::ReceiveMemory, Value::Bytes(bytes), memory),
        (Knob::SendMemory, Value::Bytes(bytes), memory),
        (
            Knob::Backlog,
            Value::Packets(bytes / MEAN_PACKET),
            "packets of devices without NAPI may wait longer",
        ),
    ];
    for (knob, wanted, cost) in limits.into_iter().chain(defaults) {
        let enough = match (draft.machine.get(&knob)?, &wanted) {
            (Some(Value::Bytes(now)), Value::Bytes(wanted))
            | (Some(Value::Packets(now)), Value::Packets(wanted)) => now >= *wanted,
            _ => true,
        };
        if enough {
            continue;
        }
        let reason = Reason {
            why: why.clone(),
            source: "single-input-queue III.B, step a, Eq. 1",
            cost,
        };
        draft.want(Area::Buffers, knob, wanted, reason)?;
    }
    Ok(())
}
