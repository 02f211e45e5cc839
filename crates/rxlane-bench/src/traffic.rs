//! The traffic of a measurement: what is sent, when, and of which flow, as a schedule that the generator walks round and round.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::BenchError;
use crate::frame::Frame;
use crate::layout::{SCHEDULE, Slot};

/// The classes of test traffic, by number.
pub(crate) const CLASSES: [&str; 2] = ["rt", "be"];

/// The traffic of a measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Traffic {
    /// Share of RT packets, 0 to 1.
    pub rt_ratio: f64,
    /// How packets follow each other.
    pub pattern: Pattern,
    /// How long frames are.
    pub frame: Frame,
    /// Flows of each class.
    pub flows: u32,
    /// Seed of the schedule.
    pub seed: u64,
}

/// Spacing of packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// All gaps are equal: a constant bit rate.
    Cbr,
    /// Gaps are exponentially distributed: arrivals are a Poisson process.
    Poisson,
    /// The gaps of a capture, scaled to the offered rate.
    Pcap(PathBuf),
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cbr" => Ok(Self::Cbr),
            None if text == "poisson" => Ok(Self::Poisson),
            Some(("pcap", file)) if !file.is_empty() => Ok(Self::Pcap(file.into())),
            _ => Err(format!(
                "`{text}` is no pattern: use cbr, poisson or pcap:FILE"
            )),
        }
    }
}

const UNIT: f64 = 65536.0;

/// A schedule for each queue of the router, whose flows go into no other queue.
pub(crate) fn schedules(traffic: &Traffic, queues: u32) -> Result<Vec<Vec<Slot>>, BenchError> {
    let flows = traffic.flows;
    let of_queue = |queue: u32| {
        // Flow n of a class goes into queue n modulo their number.
        let own = (flows - queue).div_ceil(queues);
        let mut slots = schedule(
            &traffic.pattern,
            traffic.rt_ratio,
            own,
            own,
            traffic.frame,
            traffic.seed + u64::from(queue),
        )?;
        for slot in &mut slots {
            let (class, nth) = (u32::from(slot.flow) / own, u32::from(slot.flow) % own);
            slot.flow = (class * flows + nth * queues + queue) as u16;
        }
        Ok(slots)
    };
    (0..queues).map(of_queue).collect()
}

/// Gaps in units of their mean, flows, of which `rt_flows` carry `rt_ratio` of the packets, and sizes.
fn schedule(
    pattern: &Pattern,
    rt_ratio: f64,
    rt_flows: u32,
    be_flows: u32,
    frame: Frame,
    seed: u64,
) -> Result<Vec<Slot>, BenchError> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut gaps: Vec<f64> = match pattern {
        Pattern::Cbr => vec![1.0; SCHEDULE],
        Pattern::Poisson => Exp1.sample_iter(&mut rng).take(SCHEDULE).collect(),
        Pattern::Pcap(path) => pcap_gaps(path)?,
    };
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    gaps.iter_mut().for_each(|g| *g /= mean);
    // Exact shares: a ratio of 0.2 sends 20 % RT packets in every round of the schedule.
    let mut rt = vec![false; SCHEDULE];
    rt[..(rt_ratio * SCHEDULE as f64).round() as usize].fill(true);
    for i in (1..SCHEDULE).rev() {
        rt.swap(i, rng.random_range(0..=i));
    }
    let flows = gaps.into_iter().zip(rt).map(|(gap, rt)| Slot {
        gap: (gap * UNIT).min(f64::from(u32::MAX)) as u32,
        flow: if rt {
            rng.random_range(0..rt_flows)
        } else {
            rt_flows + rng.random_range(0..be_flows)
        } as u16,
        frame: 0,
    });
    let mut slots: Vec<Slot> = flows.collect();
    let mix = frame.sizes();
    let round: u32 = mix.iter().map(|s| s.1).sum();
    for slot in &mut slots {
        let mut nth = if round > 1 {
            rng.random_range(0..round)
        } else {
            0
        };
        for (bytes, n) in &mix {
            if nth < *n {
                slot.frame = *bytes as u16;
                break;
            }
            nth -= n;
        }
    }
    Ok(slots)
}

/// Gaps of the capture in a file, repeated until the schedule is full.
fn pcap_gaps(path: &Path) -> Result<Vec<f64>, BenchError> {
    let bad = |why: String| BenchError::Parameter(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|e| bad(format!("{e}; give a readable capture")))?;
    let gaps = capture_gaps(file).map_err(bad)?;
    Ok(gaps.iter().copied().cycle().take(SCHEDULE).collect())
}

/// The gaps of as many packets of a capture as a schedule has, and no more.
///
/// # Errors
/// What is wrong with the capture, and what to do.
pub fn capture_gaps(capture: impl Read) -> Result<Vec<f64>, String> {
    let mut reader = PcapReader::new(capture)
        .map_err(|e| format!("no pcap file ({e}); convert it with editcap -F pcap"))?;
    let mut times = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|e| {
            let whole = times.len();
            format!("truncated after {whole} packets ({e}); capture it again")
        })?;
        times.push(packet.timestamp.as_secs_f64());
        if times.len() > SCHEDULE {
            break;
        }
    }
    let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]).max(0.0)).collect();
    if gaps.iter().sum::<f64>() <= 0.0 {
        return Err("no two packets at different times; give a longer capture".into());
    }
    Ok(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_keeps_mean_and_shares() {
        for pattern in [Pattern::Cbr, Pattern::Poisson] {
            let slots = schedule(&pattern, 0.2, 4, 12, Frame::Imix, 7).unwrap();
            let mean = slots.iter().map(|s| f64::from(s.gap)).sum::<f64>() / UNIT / SCHEDULE as f64;
            assert!((mean - 1.0).abs() < 1e-3, "{mean}");
            let rt = slots.iter().filter(|s| s.flow < 4).count();
            assert_eq!(rt, (0.2 * SCHEDULE as f64).round() as usize);
            assert!(slots.iter().all(|s| s.flow < 16));
            let small = slots.iter().filter(|s| s.frame == 60).count() as f64;
            assert!(
                (small / SCHEDULE as f64 - 7.0 / 12.0).abs() < 0.02,
                "{small}"
            );
        }
    }

    #[test]
    fn flows_of_a_queue_are_in_no_other_and_all_of_them_are_sent() {
        for (flows, queues) in [(16, 1), (16, 2), (5, 3), (4, 4)] {
            let traffic = Traffic {
                rt_ratio: 0.25,
                pattern: Pattern::Poisson,
                frame: Frame::Fixed(128),
                flows,
                seed: 3,
            };
            let schedules = schedules(&traffic, queues).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for (queue, slots) in (0u32..).zip(&schedules) {
                for slot in slots {
                    assert_eq!(u32::from(slot.flow) % flows % queues, queue);
                    seen.insert(u32::from(slot.flow));
                }
                let rt = slots.iter().filter(|s| u32::from(s.flow) < flows).count();
                assert_eq!(rt, SCHEDULE / 4);
            }
            assert_eq!(seen, (0..2 * flows).collect());
        }
    }

    #[test]
    fn a_truncated_capture_is_refused_in_one_line() {
        let path =
            std::env::temp_dir().join(format!("rxlane-truncated-{}.pcap", std::process::id()));
        let mut bytes = vec![
            0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0,
            0,
        ];
        bytes.extend([0; 8]);
        bytes.extend([60, 0, 0, 0, 60, 0, 0, 0, 1, 2, 3]);
        std::fs::write(&path, bytes).unwrap();
        let error = schedule(&Pattern::Pcap(path.clone()), 0.2, 1, 1, Frame::Fixed(64), 1)
            .unwrap_err()
            .to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("truncated after 0 packets"), "{error}");
    }
}
