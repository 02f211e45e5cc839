//! Buffers that fit the traffic (single-input-queue III.B, step a).

use crate::PolicyError;

/// Bytes of a buffer of `2^k (B D)`: the bandwidth-delay product, so often doubled (Eq. 1).
///
/// # Errors
/// [`PolicyError::Buffer`] for a rate or delay that is not positive, or a result beyond 2^40 bytes.
pub fn buffer_bytes(bandwidth_bps: f64, one_way_delay_s: f64, k: u32) -> Result<u64, PolicyError> {
    if !(bandwidth_bps > 0.0 && one_way_delay_s > 0.0) {
        return Err(PolicyError::Buffer(
            "bandwidth and delay must be positive: give bits a second and seconds",
        ));
    }
    // B x D is in bits.
    let bytes = (bandwidth_bps * one_way_delay_s / 8.0).ceil() * 2f64.powi(k.min(64) as i32);
    if bytes > (1u64 << 40) as f64 {
        return Err(PolicyError::Buffer(
            "2^k x B x D is beyond a terabyte: use a smaller k",
        ));
    }
    Ok(bytes as u64)
}

/// Descriptors for a ring that takes everything arriving at `pps` while the core is away for `away_ns`:
/// a power of two within what the device allows.
///
/// # Errors
/// [`PolicyError::Buffer`] for a rate that is not positive or an empty range.
pub fn ring_length(pps: f64, away_ns: u64, min: u32, max: u32) -> Result<u32, PolicyError> {
    if !(pps > 0.0 && pps.is_finite()) || min == 0 || min > max {
        return Err(PolicyError::Buffer(
            "a ring length needs a positive packet rate and 0 < min <= max",
        ));
    }
    let needed = (pps * away_ns as f64 / 1e9)
        .ceil()
        .min(f64::from(u32::MAX / 2)) as u32;
    Ok(needed.next_power_of_two().clamp(min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_the_bandwidth_delay_product_doubled_k_times() {
        // 1 Gbit/s x 1 ms = 125,000 bytes.
        assert_eq!(buffer_bytes(1e9, 1e-3, 0).unwrap(), 125_000);
        assert_eq!(buffer_bytes(1e9, 1e-3, 3).unwrap(), 1_000_000);
        assert!(buffer_bytes(1e9, 0.0, 1).is_err() && buffer_bytes(f64::NAN, 1.0, 1).is_err());
        assert!(buffer_bytes(1e12, 10.0, 30).is_err());
    }

    #[test]
    fn the_ring_holds_what_arrives_while_the_core_is_away() {
        // 1.488 Mpps for 300 us are 446.4 packets.
        assert_eq!(ring_length(1.488e6, 300_000, 64, 4096).unwrap(), 512);
        assert_eq!(ring_length(1e3, 1_000, 64, 4096).unwrap(), 64);
        assert_eq!(ring_length(1e9, 1_000_000_000, 64, 4096).unwrap(), 4096);
        assert!(ring_length(-1.0, 1, 64, 4096).is_err() && ring_length(1.0, 1, 64, 32).is_err());
    }
}
