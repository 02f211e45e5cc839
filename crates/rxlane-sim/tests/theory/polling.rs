//! Rings behind one interrupt as queues behind a server that goes round them: vacations, priorities, polling systems.
//!
//! A turn of a ring takes what comes meanwhile, too, up to the ring's budget. So a large budget is exhaustive service and
//! a budget of one is 1-limited service. Gated service, which leaves for the next turn what comes during one, is nothing
//! that NAPI does. A ring that always holds packets, with a budget of `k`, keeps the core from the others for `k x` in each
//! round: a vacation, or the time that a server needs from one queue to the next.

use rxlane_policy::strategy::StrategyName;
use rxlane_sim::outcome::simulate;
use rxlane_sim::run::mean_and_ci95;
use rxlane_sim::scenario::Scenario;

use super::{X, agrees, bare};

/// More than a turn ever serves here. A poll ends after so many packets, 16 ms: measuring begins and ends between polls.
const ALL: u32 = 1 << 14;
/// What a ring that is never empty is offered, packets per service time.
const BACKLOGGED: f64 = 1.2;

/// Rings with these rates (packets a service time) and budgets, highest class first. Polls end so seldom that it does not
/// matter that each begins with the lowest class.
fn rings(rates: &[f64], budgets: &[u32]) -> Scenario {
    let sum: f64 = rates.iter().sum();
    let mut s = bare(sum * 1e6 / X);
    s.traffic.shares = rates.iter().map(|rate| rate / sum).collect();
    s.nic.descriptors = 4096;
    s.reception.strategy = StrategyName::LlWfq;
    s.reception.budgets = budgets.to_vec();
    s.reception.device_budget = ALL;
    s
}

/// S. W. Fuhrmann, R. B. Cooper, "Stochastic Decompositions in the M/G/1 Queue with Generalized Vacations", Operations Research
/// 33(5), 1985: beside the waiting time of M/G/1 a packet waits for the rest of a vacation, `E[V^2] / 2 E[V]` in the mean,
/// when the server takes one vacation after the other until somebody waits.
#[test]
fn a_ring_beside_one_that_is_never_empty_is_m_g_1_with_multiple_vacations() {
    for (rho, budget) in [(0.3, 4), (0.6, 8), (0.9, 2)] {
        let s = rings(&[rho, BACKLOGGED], &[ALL, budget]);
        let vacation = f64::from(budget) * X;
        agrees(
            &s,
            "waiting_us.rt.mean",
            rho * X / (2.0 * (1.0 - rho)) + vacation / 2.0,
        );
    }
}

/// A. Cobham, "Priority Assignment in Waiting Line Problems", Operations Research 2(1), 1954, eq. 3, for rings: a budget of one
/// lets every RT packet go before the next BE packet.
#[test]
fn rings_with_a_be_budget_of_one_wait_as_cobham_says_of_priorities() {
    for rho in [0.3, 0.7, 0.9] {
        let first = 0.4 * rho;
        let s = rings(&[first, rho - first], &[ALL, 1]);
        let rest = rho * X / 2.0;
        agrees(&s, "waiting_us.rt.mean", rest / (1.0 - first));
        agrees(
            &s,
            "waiting_us.be.mean",
            rest / ((1.0 - first) * (1.0 - rho)),
        );
    }
}

/// The weighted sum of the waiting times of the two higher of three classes agrees with theory, us.
fn weighted_sum_agrees(s: &Scenario, weights: [f64; 2], theory: f64) {
    s.check().unwrap();
    let sums: Vec<f64> = (0..s.replications)
        .map(|r| {
            let outcome = simulate(s, r).unwrap();
            let waiting = |class: usize| outcome.get(&format!("waiting_us.c{class}.mean"));
            weights[0] * waiting(0).unwrap() + weights[1] * waiting(1).unwrap()
        })
        .collect();
    let (mean, ci) = mean_and_ci95(&sums);
    let ci = ci.unwrap();
    assert!(
        (mean - theory).abs() <= ci && ci <= 0.03 * theory,
        "{mean} +- {ci}, theory {theory}"
    );
}

/// O. J. Boxma, W. P. Groenendijk, "Pseudo-Conservation Laws in Cyclic-Service Systems", Journal of Applied Probability 24(4),
/// 1987: with `s` the time to go round, constant here, and 1-limited queues `l`, `sum_e rho_i W_i + sum_l rho_i (1 -
/// lambda_i s / (1 - rho)) W_i = rho sum lambda_i E[B^2] / 2 (1 - rho) + rho s / 2 + s / 2 (1 - rho) (rho^2 - sum rho_i^2) + s / (1 -
/// rho) sum_l rho_i^2`.
#[test]
fn rings_obey_the_pseudo_conservation_law_of_cyclic_service() {
    for rho in [0.2, 0.35, 0.5] {
        let rhos = [0.4 * rho, 0.6 * rho];
        for limited in [[false, false], [true, true], [true, false]] {
            let budgets = limited.map(|one| if one { 1 } else { ALL });
            // The ring that is never empty has one packet a round.
            let mut s = rings(
                &[rhos[0], rhos[1], BACKLOGGED],
                &[budgets[0], budgets[1], 1],
            );
            s.seconds = 0.3;
            let round = X;
            let of_limited = |i: usize| if limited[i] { rhos[i] } else { 0.0 };
            let weight = |i: usize| rhos[i] * (1.0 - of_limited(i) / X * round / (1.0 - rho));
            let squares: f64 = rhos.iter().map(|r| r * r).sum();
            let limited_squares: f64 = [0, 1].iter().map(|i| of_limited(*i).powi(2)).sum();
            let theory = rho * rho * X / (2.0 * (1.0 - rho))
                + rho * round / 2.0
                + round / (2.0 * (1.0 - rho)) * (rho * rho - squares)
                + round / (1.0 - rho) * limited_squares;
            weighted_sum_agrees(&s, [weight(0), weight(1)], theory);
        }
    }
}
