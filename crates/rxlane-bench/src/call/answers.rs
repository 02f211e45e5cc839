//! What came of what was asked for.

use serde::Serialize;

use super::exchange::Heard;
use super::quality::quantile;
use crate::median::median;

/// What came of what was asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers {
    pub(super) asked: u64,
    /// How long those took that came, us.
    pub(super) took_us: Vec<f64>,
}

impl From<Heard> for Answers {
    fn from(heard: Heard) -> Self {
        Self {
            asked: heard.sent,
            took_us: heard.round_trips.into_iter().map(|(_, us)| us).collect(),
        }
    }
}

/// One kind of it, medians of trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answered {
    /// `games`, `names` or `pages`.
    pub kind: String,
    /// Packets, questions or pages.
    pub asked: f64,
    /// Of these, without an answer.
    pub lost: f64,
    /// How long the median answer took, us; infinite if none came.
    pub p50_us: f64,
    /// The same of the slowest hundredth.
    pub p99_us: f64,
}

impl Answered {
    pub(super) fn of(kind: &str, answers: &Answers) -> Self {
        let of = |share| quantile(&answers.took_us, share).unwrap_or(f64::INFINITY);
        Self {
            kind: kind.into(),
            asked: answers.asked as f64,
            lost: answers.asked as f64 - answers.took_us.len() as f64,
            p50_us: of(0.5),
            p99_us: of(0.99),
        }
    }

    /// Of several trials, each with the same kinds.
    pub(super) fn medians(trials: &[&[Self]]) -> Vec<Self> {
        let kinds = trials.first().map_or(0, |first| first.len());
        let of = |kind: usize| {
            let of = |value: &dyn Fn(&Self) -> f64| median(trials.iter().map(|t| value(&t[kind])));
            Self {
                kind: trials[0][kind].kind.clone(),
                asked: of(&|a| a.asked),
                lost: of(&|a| a.lost),
                p50_us: of(&|a| a.p50_us),
                p99_us: of(&|a| a.p99_us),
            }
        };
        (0..kinds).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_had_no_answer_is_lost_and_medians_are_by_kind() {
        let of = |took_us: &[f64]| {
            let answers = Answers {
                asked: 4,
                took_us: took_us.to_vec(),
            };
            [Answered::of("games", &answers)]
        };
        let none = of(&[]);
        assert_eq!(none[0].lost, 4.0);
        assert_eq!(none[0].p99_us, f64::INFINITY);
        let (one, two) = (of(&[1.0, 2.0, 3.0]), of(&[5.0, 6.0, 7.0, 8.0]));
        let medians = Answered::medians(&[&none, &one, &two]);
        assert_eq!((medians[0].lost, medians[0].p50_us), (1.0, 7.0));
        assert_eq!(Answered::medians(&[&[], &[]]), []);
    }
}
