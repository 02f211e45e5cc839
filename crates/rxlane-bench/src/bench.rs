//! placeholder
use crate::BenchError;
use crate::dut::Dut;
use crate::lab::{Lab, LabConfig};
use crate::trial::{Bed, Traffic};
/// quick
pub fn quick(
    duts: &str,
    pps: f64,
    seconds: f64,
    firewall: u32,
    rt: f64,
    frame: usize,
    repeat: u32,
) -> Result<(), BenchError> {
    let lab = Lab::up(LabConfig {
        name: "rxb".into(),
        firewall,
        ..Default::default()
    })?;
    let r = (|| {
        let traffic = Traffic {
            rt_ratio: rt,
            pattern: crate::pattern::Pattern::Poisson,
            frame,
            flows: 16,
            seed: 1,
        };
        let mut bed = Bed::new(&lab, &traffic)?;
        for _ in 0..repeat {
            for d in duts.split(',') {
                let dut: Dut = d.parse().map_err(BenchError::Parameter)?;
                let inst = dut.install(&lab)?;
                let s = lab.tune()?;
                let t = bed.run(pps, seconds, &s.napi_threads)?;
                println!(
                    "{:20} valid {} sent {:.3} fwd {:.3} cpu {:.2} wake {:.0}",
                    dut.name(),
                    t.valid,
                    t.sent_pps / 1e6,
                    t.forwarded_pps / 1e6,
                    t.cpu,
                    t.wakeups_per_s
                );
                for c in &t.classes {
                    println!(
                        "   {} sent {} lost {:.2}% reord {} p50 {:.1} p99 {:.1} p999 {:.1} max {:.0}",
                        c.name,
                        c.sent,
                        100.0 * c.lost / c.sent.max(1.0),
                        c.reordered,
                        c.latency_us.p50,
                        c.latency_us.p99,
                        c.latency_us.p999,
                        c.latency_us.max
                    );
                }
                if std::env::var("ST").is_ok() && d != "kernel" {
                    let o = std::process::Command::new(std::env::current_exe().unwrap())
                        .args(["--netns", "rxb-router", "status"])
                        .output()
                        .unwrap();
                    println!("{}", String::from_utf8_lossy(&o.stdout));
                }
                drop(inst);
            }
        }
        Ok(())
    })();
    lab.down()?;
    r
}
