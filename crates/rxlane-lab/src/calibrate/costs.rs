//! The costs with which the model comes closest to what was measured.

use indicatif::ProgressBar;
use rxlane_bench::bench::{Options, Prediction, SweepPoint};
use rxlane_config::EngineConfig;
use rxlane_sim::descent::{Axis, descend};
use rxlane_sim::scenario::{Scenario, Worker};

use crate::model;

/// Frames that the ring of a veth port holds (VETH_RING_SIZE, drivers/net/veth.c): ports of the lab.
const VETH_RING: usize = 256;
/// Where the search for the cost of an interrupt, of giving the core to the worker and of waking the core begins, its first step
/// and its highest value, ns.
const START_NS: f64 = 4000.0;
const STEP_NS: f64 = 2000.0;
const MOST_NS: f64 = 50_000.0;
/// What is forwarded under overload counts as much as so many latencies: everything near saturation hangs on it.
const WEIGHT_OF_OVERLOAD: f64 = 10.0;

/// What was measured: some loads below saturation, and one above.
pub(super) struct Measured<'a> {
    pub(super) options: &'a Options,
    pub(super) engine: &'a EngineConfig,
    pub(super) points: &'a [SweepPoint],
    pub(super) overloaded: &'a SweepPoint,
}

impl Measured<'_> {
    /// What the model says of a measured point.
    pub(super) fn predict(
        &self,
        costs: &Scenario,
        point: &SweepPoint,
    ) -> Result<Prediction, String> {
        let offered = &self.options.traffic;
        let pps = point.dut.offered_pps;
        model::predict(costs, self.engine, offered, point.rt_ratio, pps)
    }

    /// Costs of packet, interrupt, change of thread and waking by mean latencies, by how much of the core is in use, and by what is
    /// forwarded under overload. What NAPI takes for a packet is what the core was found doing under overload.
    pub(super) fn fit(&self, bar: &ProgressBar) -> Result<Scenario, String> {
        let dut = &self.overloaded.dut;
        let all_ns = 1e9 / dut.forwarded_pps;
        let receive_ns = dut.core.map_or(0.0, |core| {
            1e9 * (core.receive + core.programs) / dut.offered_pps
        });
        let free = |start, step, max| Axis {
            start,
            step,
            min: 0.0,
            max,
        };
        let packet = Axis {
            min: 1.0,
            ..free((all_ns - receive_ns).max(1.0), all_ns / 8.0, all_ns)
        };
        let other = free(START_NS, STEP_NS, MOST_NS);
        let (_, costs) = descend(&[packet, other, other, other], |values| {
            bar.inc(1);
            let mut costs = Scenario {
                seconds: 0.5,
                replications: 3,
                ..Scenario::default()
            };
            costs.nic.descriptors = VETH_RING;
            costs.cpu.packet_ns = values[0];
            costs.cpu.isr_ns = values[1];
            costs.cpu.wake_ns = values[2];
            costs.worker = Some(Worker {
                receive_ns,
                switch_ns: values[3],
                ..Worker::default()
            });
            let error = self.error(&mut costs)?;
            Ok::<_, String>((error, costs))
        })?;
        Ok(costs)
    }

    /// The sum of squared relative errors, with the latency outside of the model set to what fits best.
    fn error(&self, costs: &mut Scenario) -> Result<f64, String> {
        let (mut means, mut error) = (Vec::new(), 0.0);
        let relative = |model: f64, measured: f64| (model / measured - 1.0).powi(2);
        for p in self.points {
            let model = self.predict(costs, p)?;
            error += relative(model.cpu, p.dut.cpu);
            for (class, modelled) in p.dut.classes.iter().zip(model.mean_us) {
                if class.received > 0.0 {
                    means.push((class.latency_us.mean, modelled));
                }
            }
        }
        let overload = self.predict(costs, self.overloaded)?;
        let forwarded = self.overloaded.dut.forwarded_pps;
        error += WEIGHT_OF_OVERLOAD * relative(overload.forwarded_pps, forwarded);
        // Least squares of (model + offset - measured) / measured.
        let weights: f64 = means.iter().map(|(m, _)| 1.0 / (m * m)).sum();
        let offset: f64 = means.iter().map(|(m, s)| (m - s) / (m * m)).sum::<f64>() / weights;
        costs.nic.fixed_latency_us = offset.max(0.0);
        let of_means = |(m, s): &(f64, f64)| relative(s + costs.nic.fixed_latency_us, *m);
        Ok(error + means.iter().map(of_means).sum::<f64>())
    }
}
