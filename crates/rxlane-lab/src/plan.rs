//! `rxlane-lab plan`: what a lane must be set to for a latency target.

use clap::{Args as ClapArgs, ValueEnum};
use rxlane_policy::Bps;
use rxlane_policy::bound::EXPRESS_SERVICE_NS;
use rxlane_policy::plan::{EnginePlan, ExpressPlan, Giving, Plan, Polled, Wanted, saturating_pps};
use rxlane_policy::poll::DEVICE_BUDGET;

use crate::one_line;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lane {
    /// RT is forwarded inside the poll, the stack classes give way: the default datapath
    Express,
    /// Ring budgets of the AF_XDP engine (datapath = "afxdp")
    Engine,
}

#[derive(ClapArgs)]
#[command(after_help = "Examples:
  rxlane-lab plan --service-time 2us --rt-rate 100k --target 300us
  rxlane-lab plan --service-time 2us --rt-rate 100k --target 300us --link 1G --frame 512
  rxlane-lab plan --lane engine --service-time 600ns --rt-rate 500k --target 60us
  rxlane-lab plan --lane engine --ports 1 --service-time 571ns --rt-rate 875k --total-rate 1.75M --target 3.43us --json")]
pub(crate) struct Args {
    /// The lane that is to be at work
    #[arg(long, value_enum, default_value_t = Lane::Express)]
    lane: Lane,
    /// Service time of a packet: 1 / the highest packet rate of one core (571ns, 1.2us); for the express lane that of a
    /// stack packet
    #[arg(long, value_parser = duration_ns)]
    service_time: f64,
    /// Service time of an RT packet; without it 600ns in the express lane, and that of the others in the engine
    #[arg(long, value_parser = duration_ns)]
    rt_service_time: Option<f64>,
    /// Highest rate of RT packets: that of the highest class (450k, 1.2M)
    #[arg(long, value_parser = rate_pps)]
    rt_rate: f64,
    /// Highest rate of all packets; without it, all that the core can serve
    #[arg(long, value_parser = rate_pps)]
    total_rate: Option<f64>,
    /// The link that all packets come over, full of frames of one size (10G, 2.5G), in place of the total rate
    #[arg(long, value_parser = link_bps, conflicts_with = "total_rate", value_name = "BITS")]
    link: Option<Bps>,
    /// Their size with FCS, bytes
    #[arg(long, default_value_t = 64, requires = "link", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=65_535))]
    frame: u32,
    /// What an RT packet may wait at most (3.5us)
    #[arg(long, value_parser = duration_ns)]
    target: f64,
    /// Engine: ports that take turns on a core; whole polls of the others are part of the bound
    #[arg(long, default_value_t = 2)]
    ports: u32,
    /// Engine: packets of a port in one poll
    #[arg(long, default_value_t = DEVICE_BUDGET)]
    device_budget: u32,
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

fn link_bps(text: &str) -> Result<Bps, String> {
    scaled(text, &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)])
        .filter(|bps| *bps > 0.0)
        .map(Bps)
        .ok_or_else(|| format!("`{text}` is no link: use bits a second, as 1G, 2.5G or 100M"))
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let rt_service_time_ns = args.rt_service_time.unwrap_or(match args.lane {
        Lane::Express => EXPRESS_SERVICE_NS,
        Lane::Engine => args.service_time,
    });
    let wanted = Wanted {
        service_time_ns: args.service_time,
        rt_service_time_ns,
        rt_pps: args.rt_rate,
        total_pps: args
            .link
            .map(|link| link.line_rate(args.frame).0)
            .or(args.total_rate)
            .unwrap_or_else(|| saturating_pps(args.service_time, rt_service_time_ns, args.rt_rate)),
        target_ns: args.target,
    };
    let plan = match args.lane {
        Lane::Express => wanted.express().map(Plan::Express),
        Lane::Engine => {
            let polled = Polled {
                ports: args.ports,
                device_budget: args.device_budget,
            };
            wanted.engine(polled).map(Plan::Engine)
        }
    }
    .map_err(one_line)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&plan).map_err(one_line)?);
        return Ok(());
    }
    if let Some(link) = args.link {
        println!(
            "link     = {} Gbit/s / (({} + 20) x 8 bit) = {:.3} Mpps of {} bytes",
            link.0 / 1e9,
            args.frame,
            wanted.total_pps / 1e6,
            args.frame
        );
    }
    match &plan {
        Plan::Express(plan) => print_express(plan),
        Plan::Engine(plan) => print_engine(plan),
    }
    Ok(())
}

fn print_rho_rt(w: &Wanted, rho_rt: f64) {
    println!(
        "rho_RT   = x_RT lambda_RT = {:.0} ns x {:.3} Mpps = {rho_rt:.3}, the core's load by RT packets",
        w.rt_service_time_ns,
        w.rt_pps / 1e6
    );
}

fn print_express(plan: &ExpressPlan) {
    let w = &plan.wanted;
    println!(
        "x        = {:.0} ns, service time of a stack packet",
        w.service_time_ns
    );
    print_rho_rt(w, plan.rho_rt);
    for (setting, t_max_ns) in plan.settings {
        let kept = if t_max_ns <= w.target_ns {
            "kept"
        } else {
            "not kept"
        };
        println!(
            "{:<35} T_max = {:.1} us, T* = {:.1} us: {kept}",
            setting_of(setting),
            t_max_ns / 1e3,
            w.target_ns / 1e3
        );
    }
    println!(
        "T_max    = b x / (1 - rho_RT) = {:.0} x {:.0} ns / {:.3} = {:.1} us",
        plan.bound.ring_budget,
        w.service_time_ns,
        1.0 - plan.rho_rt,
        plan.bound.t_max_ns / 1e3
    );
    println!();
    println!("Stack classes: {}", setting_of(plan.setting));
    match plan.setting {
        Giving::Queue => println!(
            "b is a batch of the threads that serve the ring, on cores that do not poll; without such cores there is no"
        ),
        _ => println!(
            "b are the stack packets of a turn of the Rx ring, in {} polls of at most {DEVICE_BUDGET}, once overload has been noticed",
            plan.polls
        ),
    }
    println!(
        "{}police the highest class to {:.3} Mpps.",
        match plan.setting {
            Giving::Queue => "bound below that of a turn of the Rx ring. Also ",
            _ => "(a ms of full polls). Also ",
        },
        w.rt_pps / 1e6
    );
    if plan.rho > 1.0 {
        println!(
            "All traffic together needs {:.2} cores like this one: {:.0} that share nothing, with a queue each. On one, stack packets will be shed.",
            plan.rho,
            plan.rho.ceil()
        );
    }
}

fn setting_of(setting: Giving) -> &'static str {
    match setting {
        Giving::Throughput => "shed, aim = \"throughput\"",
        Giving::Latency => "shed, aim = \"latency\"",
        Giving::Queue => "overload = \"queue\" on other cores",
    }
}

fn print_engine(plan: &EnginePlan) {
    let w = &plan.wanted;
    let x = w.service_time_ns;
    println!(
        "x        = {x:.0} ns, service time of a packet: {:.2} Mpps at most",
        1e3 / x
    );
    print_rho_rt(w, plan.rho_rt);
    println!(
        "m        = T* / x = {:.2} us / {x:.0} ns = {:.2}",
        w.target_ns / 1e3,
        plan.m
    );
    let others = plan.other_ports;
    println!(
        "b       <= m (1 - rho_RT) = {:.2} x {:.3} = {:.2}, less {others} in polls of {} other port(s), so b = {}",
        plan.m,
        1.0 - plan.rho_rt,
        plan.b_limit,
        plan.polled.ports - 1,
        plan.be_ring_budget
    );
    println!(
        "T_max    = (b + {others}) x / (1 - rho_RT) = {} x {x:.0} ns / {:.3} = {:.2} us, for T* = {:.2} us",
        plan.bound.ring_budget,
        1.0 - plan.rho_rt,
        plan.bound.t_max_ns / 1e3,
        w.target_ns / 1e3
    );
    let arrive = plan.rt_per_turn.map_or(String::new(), |n| {
        format!("; while b BE packets arrive, so do {n:.1} RT packets in the mean")
    });
    println!(
        "RT ring  = {} - b = {}{arrive}",
        plan.polled.device_budget, plan.rt_ring_budget
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
            "All traffic together needs {:.2} cores like this one: {:.0} that share nothing, with a queue each. On one, BE packets will be lost.",
            plan.rho,
            plan.rho.ceil()
        );
    }
}
