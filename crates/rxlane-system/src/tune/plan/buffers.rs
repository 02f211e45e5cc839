//! Buffers that fit (single-input-queue III.B, step a).

use rxlane_policy::buffers::{buffer_bytes, ring_length};

use super::{Area, Draft, Profile, Reason};
use crate::SystemError;
use crate::ethtool::Setting;
use crate::tune::Knob;
use crate::tune::inventory::{Inventory, Nic};

/// Below this neither a ring's length nor an interval matters.
pub(super) const LITTLE_PPS: f64 = 1000.0;
/// Traffic comes in bursts above its mean rate.
const PEAK: f64 = 4.0;
/// The shortest ring; drivers allow 32 to 80.
const SHORTEST: u32 = 128;
/// Bytes of a packet, for queues that count packets.
const MEAN_PACKET: u64 = 512;

/// How long a core may be away from its rings.
fn away_ns(profile: Profile) -> u64 {
    match profile {
        // Whatever is in the ring waits: a ring that can hold more than this only makes old packets.
        Profile::Latency => 1_000_000,
        Profile::Throughput | Profile::Power => 4_000_000,
    }
}

fn refused(error: &rxlane_policy::PolicyError) -> SystemError {
    SystemError::Refused {
        what: format!("size buffers ({error})"),
        source: std::io::ErrorKind::InvalidInput.into(),
    }
}

/// A device's Rx rings.
pub(super) fn ring(draft: &mut Draft<'_>, nic: &Nic) -> Result<(), SystemError> {
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
    let away_ns = draft
        .options
        .away_ns
        .unwrap_or_else(|| away_ns(draft.options.profile));
    let pps = PEAK * nic.rx_pps / nic.rx_queues.max(1) as f64;
    let max = u32::try_from(max).unwrap_or(u32::MAX).max(1);
    let length = ring_length(pps, away_ns, SHORTEST.min(max), max).map_err(|e| refused(&e))?;
    let reason = Reason {
        why: format!(
            "{:.0} packets/s a queue at {PEAK} times the mean, for {} us without service",
            pps,
            away_ns / 1000
        ),
        source: "single-input-queue III.B, step a",
        cost: "the link is reset for a moment; longer stalls lose packets",
    };
    draft.want(
        Area::Rings,
        Knob::ethtool(&nic.name, Setting::RxRing),
        length.to_string(),
        reason,
    )
}

/// Socket buffers and the backlog; only ever raised, because others may need them.
pub(super) fn sockets(draft: &mut Draft<'_>, inventory: &Inventory) -> Result<(), SystemError> {
    let Some(mbps) = inventory.nics.iter().filter_map(|n| n.speed_mbps).max() else {
        return Ok(());
    };
    let (delay_s, k) = (draft.options.delay_s, draft.options.k);
    let bytes = buffer_bytes(mbps as f64 * 1e6, delay_s, k).map_err(|e| refused(&e))?;
    let why = format!("2^{k} x {mbps} Mbit/s x {:.1} ms one way", delay_s * 1e3);
    for (name, wanted, cost) in [
        ("rmem_max", bytes, "sockets may hold more memory"),
        ("wmem_max", bytes, "sockets may hold more memory"),
        (
            "netdev_max_backlog",
            bytes / MEAN_PACKET,
            "packets of devices without NAPI may wait longer",
        ),
    ] {
        let path = format!("/proc/sys/net/core/{name}");
        let now: Option<u64> = draft
            .machine
            .read(&path)
            .and_then(|t| t.trim().parse().ok());
        if now.is_none_or(|now| now >= wanted) {
            continue;
        }
        let reason = Reason {
            why: why.clone(),
            source: "single-input-queue III.B, step a, Eq. 1",
            cost,
        };
        draft.want(Area::Buffers, Knob::file(path), wanted.to_string(), reason)?;
    }
    Ok(())
}
