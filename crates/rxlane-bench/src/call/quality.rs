//! How good a call is, and how fair flows are to each other.

/// Time that a frame of G.711 speech takes to be spoken, ms.
pub(super) const FRAME_MS: f64 = 20.0;

/// The mean opinion score, 1 (bad) to 4.5, of a call of G.711 with concealment of lost packets: ITU-T G.107 with its default
/// values, losses by G.113 (Ie 0, Bpl 25.1), delay by Cole and Rosenbluth, "Voice over IP performance monitoring" (2001).
///
/// `delay_ms`: from mouth to ear. `loss`: share of packets, 0 to 1.
pub(super) fn mean_opinion_score(delay_ms: f64, loss: f64) -> f64 {
    let (percent, bpl) = (100.0 * loss, 25.1);
    let delay = 0.024 * delay_ms + 0.11 * (delay_ms - 177.3).max(0.0);
    let equipment = 95.0 * percent / (percent + bpl);
    let r = (93.2 - delay - equipment).clamp(0.0, 100.0);
    (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).clamp(1.0, 4.5)
}

/// The value below which this share of them is; `None` of none.
pub(super) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

/// Jain's index of shares (RFC 5166, 2.3): 1 if all are equal, 1/n if one has all; 1 of none.
pub(super) fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    match squares > 0.0 {
        true => sum * sum / (shares.len() as f64 * squares),
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_loss_or_delay_is_as_good_as_g_107_says_and_worse_with_either() {
        // R = 93.2 is 4.41 (G.107, Annex B).
        assert!((mean_opinion_score(0.0, 0.0) - 4.41).abs() < 0.01);
        // 10 % of loss with concealment: Ie,eff = 27, R = 66.1.
        assert!((mean_opinion_score(0.0, 0.1) - 3.41).abs() < 0.02);
        // Calls from 150 to 400 ms get bad (G.114).
        let of = |ms| mean_opinion_score(ms, 0.0);
        assert!(of(150.0) > 4.2 && of(400.0) < 3.5);
        for (delay, loss) in [(0.0, 1.0), (1e4, 0.0), (1e4, 1.0)] {
            let mos = mean_opinion_score(delay, loss);
            assert!((1.0..=4.5).contains(&mos), "{delay} {loss}: {mos}");
        }
    }

    #[test]
    fn equal_shares_are_fair_and_one_that_takes_all_is_not() {
        assert_eq!(fairness(&[]), 1.0);
        assert_eq!(fairness(&[0.0, 0.0]), 1.0);
        assert_eq!(fairness(&[2.0, 2.0, 2.0]), 1.0);
        assert!((fairness(&[4.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
    }
}
