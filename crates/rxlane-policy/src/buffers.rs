//! Buffers that fit the traffic (single-input-queue III.B, step a).

use crate::{Bps, Nanos, PolicyError, Pps};

/// Size in bytes of a buffer of `2^k (B D)`: the bandwidth-delay product `B D`, doubled `k` times (Eq. 1).
///
/// # Errors
/// [`PolicyError::Buffer`] for a rate or delay that is not positive, a `k` of 0, or a result beyond 2^40 bytes.
pub fn buffer_bytes(bandwidth: Bps, one_way_delay: Nanos, k: u32) -> Result<u64, PolicyError> {
    if !(bandwidth.0 > 0.0 && one_way_delay > Nanos(0)) {
        return Err(PolicyError::Buffer(
            "bandwidth and delay must be positive: give bits a second and nanoseconds",
        ));
    }
    // What is in flight is all that the bare product holds, and nothing waits for the core.
    if k == 0 {
        return Err(PolicyError::Buffer(
            "k must be at least 1: the buffer would hold what is in flight, and nothing that waits",
        ));
    }
    // B x D is in bits.
    let bytes = (bandwidth.0 * one_way_delay.as_s() / 8.0).ceil() * 2f64.powi(k.min(64) as i32);
    if bytes > (1u64 << 40) as f64 {
        return Err(PolicyError::Buffer(
            "2^k x B x D is beyond a terabyte: use a smaller k",
        ));
    }
    Ok(bytes as u64)
}

/// Number of descriptors with which a ring holds everything that arrives at `rate` while the core is `away`.
/// It is a power of two within what the device allows.
///
/// # Errors
/// [`PolicyError::Buffer`] for a rate that is not positive or an empty range.
pub fn ring_length(rate: Pps, away: Nanos, min: u32, max: u32) -> Result<u32, PolicyError> {
    if !(rate.0 > 0.0 && rate.0.is_finite()) || min == 0 || min > max {
        return Err(PolicyError::Buffer(
            "a ring length needs a positive packet rate and 0 < min <= max",
        ));
    }
    let needed = rate.packets_in(away).ceil().min(f64::from(u32::MAX / 2)) as u32;
    Ok(needed.next_power_of_two().clamp(min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_the_bandwidth_delay_product_doubled_k_times() {
        // 1 Gbit/s x 1 ms = 125,000 bytes.
        assert_eq!(
            buffer_bytes(Bps(1e9), Nanos::from_ms(1), 1).unwrap(),
            250_000
        );
        assert_eq!(
            buffer_bytes(Bps(1e9), Nanos::from_ms(1), 3).unwrap(),
            1_000_000
        );
        assert!(buffer_bytes(Bps(1e9), Nanos::from_ms(1), 0).is_err());
        assert!(buffer_bytes(Bps(1e9), Nanos(0), 1).is_err());
        assert!(buffer_bytes(Bps(f64::NAN), Nanos(1), 1).is_err());
        assert!(buffer_bytes(Bps(1e12), Nanos::from_ms(10_000), 30).is_err());
    }

    #[test]
    fn the_ring_holds_what_arrives_while_the_core_is_away() {
        // 1.488 Mpps for 300 us are 446.4 packets.
        assert_eq!(
            ring_length(Pps(1.488e6), Nanos(300_000), 64, 4096).unwrap(),
            512
        );
        assert_eq!(ring_length(Pps(1e3), Nanos(1_000), 64, 4096).unwrap(), 64);
        assert_eq!(
            ring_length(Pps(1e9), Nanos::from_ms(1_000), 64, 4096).unwrap(),
            4096
        );
        assert!(ring_length(Pps(-1.0), Nanos(1), 64, 4096).is_err());
        assert!(ring_length(Pps(1.0), Nanos(1), 64, 32).is_err());
    }
}
