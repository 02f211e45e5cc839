//! Simulated packets per second of wall clock: one core, NAPI, SQ, 1.5 Mpps Poisson. Beside the same model on
//! ns-3's event core where its library is installed (Debian: libns3-dev), in turn.
//!
//!   cargo bench -p rxlane-sim --bench speed

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rxlane_sim::outcome::simulate;
use rxlane_sim::scenario::Scenario;

const ROUNDS: usize = 7;
const SECONDS: f64 = 20.0;
/// ns-3 is slower; a tenth of the time is long enough for it.
const NS3_SECONDS: f64 = 2.0;

fn scenario() -> Scenario {
    let mut s = Scenario {
        seconds: SECONDS,
        warmup_s: 0.0,
        ..Scenario::default()
    };
    s.traffic.pps = 1.5e6;
    s.nic.link_bps = 1e13;
    s.cpu.packet_ns = 571.0;
    s.cpu.isr_ns = 1700.0;
    s.cpu.wake_ns = 2400.0;
    s
}

fn ours(s: &Scenario) -> (f64, f64, f64) {
    let begin = Instant::now();
    let o = simulate(s, 0).expect("the scenario is sound");
    let took = begin.elapsed().as_secs_f64();
    let get = |name: &str| o.get(name).unwrap_or(f64::NAN);
    (
        get("arrived") / took,
        get("irq_per_s"),
        get("latency_us.mean"),
    )
}

/// Builds the ns-3 program, if ns-3 is there.
fn build_ns3() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/ns3/napi.cc");
    let out = std::env::temp_dir().join("rxlane-ns3-napi");
    // Debian's pkg-config file asks for libraries that only other parts of ns-3 need.
    Command::new("g++")
        .args(["-O3", "-o"])
        .arg(&out)
        .arg(&source)
        .arg("-lns3-core")
        .output()
        .ok()
        .filter(|o| o.status.success())
        .map(|_| out)
}

fn ns3(program: &Path, s: &Scenario) -> Option<(f64, f64, f64)> {
    let cpu = &s.cpu;
    let arguments = [
        s.traffic.pps,
        NS3_SECONDS,
        cpu.packet_ns,
        cpu.isr_ns,
        cpu.wake_ns,
    ];
    let out = Command::new(program)
        .args(arguments.map(|a| a.to_string()))
        .output()
        .ok()?;
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).ok()?;
    let get = |key: &str| v[key].as_f64();
    Some((
        get("packets")? / get("wall_s")?,
        get("irq_per_s")?,
        get("latency_us")?,
    ))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let s = scenario();
    let program = build_ns3();
    let (mut fast, mut ratios) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (rate, irq, latency) = ours(&s);
        fast.push(rate / 1e6);
        if round == 0 {
            println!("rxlane-sim: {irq:.0} IRQ/s, mean latency {latency:.3} us");
        }
        if let Some((slow, irq, latency)) = program.as_deref().and_then(|p| ns3(p, &s)) {
            ratios.push(rate / slow);
            if round == 0 {
                println!("ns-3:       {irq:.0} IRQ/s, mean latency {latency:.3} us");
            }
        }
    }
    println!(
        "rxlane-sim: {:.1} million packets a second, median of {ROUNDS}",
        median(fast)
    );
    if ratios.is_empty() {
        println!("ns-3: not measured (g++ and libns3-dev are needed)");
    } else {
        println!(
            "rxlane-sim / ns-3: {:.1}, median of {}",
            median(ratios.clone()),
            ratios.len()
        );
    }
}
