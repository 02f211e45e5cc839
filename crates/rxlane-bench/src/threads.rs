//! What the router's threads have done: how long they ran, how often they were woken, what they took from rings.

use rxlane_system::netns;

/// Threads of the router whose wake-ups are counted.
#[derive(Debug, Default)]
pub struct Threads {
    /// Threads that poll devices (`napi/DEVICE-ID`), by their number.
    pub napi: Vec<i32>,
    /// Of a lab's generators and sinks.
    pub traffic: Vec<i32>,
    /// Of the AF_XDP engine.
    pub workers: Vec<i32>,
    /// Network namespace and ingress ports of a lab's router.
    pub ingress: Option<(String, Vec<String>)>,
}

/// What threads have done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// How long they have run, s.
    pub(crate) ran_s: f64,
    /// Packets that they have taken from the ingress ports' rings; `None` where these are not of a lab.
    pub(crate) taken: Option<u64>,
}

impl Work {
    /// The time of a packet that was taken from a ring since `before`, ns, whatever became of it.
    pub(crate) fn ns_per_packet_since(self, before: Self) -> Option<f64> {
        let taken = self.taken?.checked_sub(before.taken?)?;
        (taken > 0).then(|| (self.ran_s - before.ran_s) * 1e9 / taken as f64)
    }
}

impl Threads {
    /// How long those of the router have run, s.
    pub(crate) fn run_time_s(&self) -> f64 {
        run_time_s(&self.napi) + run_time_s(&self.workers)
    }

    pub(crate) fn work(&self) -> Work {
        let ran_s = self.run_time_s();
        let taken = self.ingress.as_ref().and_then(|(router, ports)| {
            netns::within(router, true, || Ok(ports.iter().map(|p| received(p)).sum())).ok()
        });
        Work { ran_s, taken }
    }

    pub(crate) fn wakeups(&self) -> [u64; 2] {
        [wakeups(&self.napi), wakeups(&self.workers)]
    }
}

/// How long threads have run, s (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat).
pub(crate) fn run_time_s(threads: &[i32]) -> f64 {
    let ns = threads
        .iter()
        .filter_map(|t| std::fs::read_to_string(format!("/proc/{t}/schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok());
    ns.sum::<u64>() as f64 / 1e9
}

/// Packets that a device's polls have taken from its ring so far.
fn received(device: &str) -> u64 {
    let file = format!("/sys/class/net/{device}/statistics/rx_packets");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Times that the threads have gone to sleep, hence been woken.
fn wakeups(threads: &[i32]) -> u64 {
    threads
        .iter()
        .filter_map(|t| std::fs::read_to_string(format!("/proc/{t}/status")).ok())
        .filter_map(|text| {
            text.lines()
                .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?
                .trim()
                .parse::<u64>()
                .ok()
        })
        .sum()
}
