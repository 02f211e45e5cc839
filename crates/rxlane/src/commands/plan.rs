//! `rxlane plan`: ring budgets for a latency target.

use clap::Args as ClapArgs;
use rxlane_policy::plan::{Plan, Wanted};
use rxlane_policy::poll::DEVICE_BUDGET;

use crate::one_line;

#[derive(ClapArgs)]
#[command(after_help = "Examples:
  rxlane plan --service-time 571ns --rt-rate 525k --target 3.43us
  rxlane plan --service-time 571ns --rt-rate 875k --total-rate 1.75M --target 3.43us --json")]
pub(crate) struct Args {
    /// Service time of a packet: 1 / the highest packet rate of one core (571ns, 1.2us)
    #[arg(long, value_parser = duration_ns)]
    service_time: f64,
    /// Highest rate of RT packets (450k, 1.2M)
    #[arg(long, value_parser = rate_pps)]
    rt_rate: f64,
    /// Highest rate of all packets; without it, all that the core can serve
    #[arg(long, value_parser = rate_pps)]
    total_rate: Option<f64>,
    /// What an RT packet may wait at most (3.5us)
    #[arg(long, value_parser = duration_ns)]
    target: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) = units
        .iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))?;
    let value: f64 = number.trim().parse().ok()?;
    value.is_finite().then_some(value * unit)
}

fn duration_ns(text: &str) -> Result<f64, String> {
    scaled(
        text,
        &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("", 1.0)],
    )
    .ok_or_else(|| format!("`{text}` is no time: use 571ns, 1.2us or 1ms"))
}

fn rate_pps(text: &str) -> Result<f64, String> {
    scaled(text, &[("k", 1e3), ("M", 1e6), ("", 1.0)]).ok_or_else(|| {
        format!("`{text}` is no rate: use packets a second, as 450000, 450k or 1.2M")
    })
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let wanted = Wanted {
        service_time_ns: args.service_time,
        rt_pps: args.rt_rate,
        total_pps: args
            .total_rate
            .unwrap_or((1e9 / args.service_time).max(args.rt_rate)),
        target_ns: args.target,
    };
    let plan = wanted.plan().map_err(one_line)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&plan).map_err(one_line)?);
    } else {
        print(&plan);
    }
    Ok(())
}

fn print(plan: &Plan) {
    let w = &plan.wanted;
    let x = w.service_time_ns;
    println!(
        "x        = {x:.0} ns, service time of a packet: {:.2} Mpps at most",
        1e3 / x
    );
    println!(
        "rho_RT   = x lambda_RT = {x:.0} ns x {:.3} Mpps = {:.3}, the core's load by RT packets",
        w.rt_pps / 1e6,
        plan.rho_rt
    );
    println!(
        "m        = T* / x = {:.2} us / {x:.0} ns = {:.2}",
        w.target_ns / 1e3,
        plan.m
    );
    println!(
        "b       <= m (1 - rho_RT) = {:.2} x {:.3} = {:.2}, so b = {}",
        plan.m,
        1.0 - plan.rho_rt,
        plan.b_limit,
        plan.be_ring_budget
    );
    println!(
        "T_max    = b x / (1 - rho_RT) = {} x {x:.0} ns / {:.3} = {:.2} us, for T* = {:.2} us",
        plan.be_ring_budget,
        1.0 - plan.rho_rt,
        plan.bound.t_max_ns / 1e3,
        w.target_ns / 1e3
    );
    println!(
        "RT ring  = {DEVICE_BUDGET} - b = {}; while b BE packets are served, {:.1} RT packets arrive in the mean",
        plan.rt_ring_budget, plan.rt_per_turn
    );
    println!();
    println!(
        "BE ring budget {}, RT ring budget {} (PRB = {},{})",
        plan.be_ring_budget, plan.rt_ring_budget, plan.be_ring_budget, plan.rt_ring_budget
    );
    println!(
        "Holds while the RT ring is never left before it is empty and RT packets arrive smoothly"
    );
    println!(
        "(low-latency-router III.D). Police the RT class to {:.3} Mpps.",
        w.rt_pps / 1e6
    );
    if plan.rho > 1.0 {
        println!(
            "All traffic together needs {:.2} cores like this one: BE packets will be lost.",
            plan.rho
        );
    }
}
