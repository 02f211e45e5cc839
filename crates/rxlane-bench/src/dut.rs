//! Devices under test by name: the kernel alone, or rxlane in one of its configurations.

use std::collections::BTreeMap;

use rxlane_config::{Datapath, EngineConfig, RouterConfig};
use rxlane_policy::class::{Aim, Class, Lane, Overload, Ring, ThreadScheduling, Trust};
use rxlane_policy::control::ControlRates;
use rxlane_policy::rule::Rule;
use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::{LinearLaw, Throttling, ThrottlingName};

use crate::bare::Bare;

/// Expedited Forwarding (RFC 3246): how the benchmark marks RT.
const EF: u8 = 46;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A device under test: what forwards the packets of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Dut {
    /// Plain Linux forwarding.
    Kernel,
    /// Whatever is behind real ports.
    External,
    /// rxlane with the benchmark's configuration of that name, which gets its ports when it is installed.
    Rxlane(String, Box<RouterConfig>),
    /// The same, looked at in another way than by default: what that costs.
    Observed(String, Box<RouterConfig>, Observation),
    /// A program that does the least with every packet.
    Bare(String, Bare),
    /// `xdp-forward` of xdp-tools.
    XdpForward,
    /// Plain Linux forwarding under `rxlane tune watch` with these options.
    Watched(String, Vec<String>),
}

/// How a router of rxlane is looked at while it forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// `latency = false`: not even how long packets are inside is sampled.
    Unsampled,
    /// `rxlane trace` runs beside it.
    Traced,
}

fn router(classes: Vec<Class>, datapath: Datapath) -> Box<RouterConfig> {
    Box::new(RouterConfig {
        ports: Vec::new(),
        classes,
        datapath,
        egress: BTreeMap::default(),
        ingress: BTreeMap::default(),
        control: ControlRates::default(),
    })
}

/// The class of what the benchmark marks EF.
fn rt(lane: Lane) -> Class {
    let marked = Rule {
        dscp: Some(1 << EF),
        ..Rule::default()
    };
    Class::new("rt", lane).with_rules(vec![marked])
}

/// The class of all packets that are not marked.
fn be(lane: Lane) -> Class {
    Class::new("be", lane)
}

fn express(trust: Trust) -> Lane {
    Lane::express(trust)
}

fn stack(overload: Overload, aim: Aim) -> Lane {
    Lane::Stack {
        ring: Ring {
            packets: 1024,
            cores: Vec::new(),
            thread: ThreadScheduling::Nice(0),
        },
        overload,
        aim,
    }
}

fn by_default() -> Lane {
    stack(Overload::default(), Aim::default())
}

/// Names that `--dut` takes, with what each is.
pub const DUTS: [(&str, &str); 23] = [
    ("kernel", "plain Linux forwarding"),
    ("express", "RT express, BE by the stack, defaults otherwise"),
    (
        "express-established",
        "the same with trust = \"established\"",
    ),
    (
        "express-firewall",
        "the same with trust = \"firewall\": flows without a connection, too",
    ),
    ("express-throughput", "the same with aim = \"throughput\""),
    (
        "express-queue",
        "the same with overload = \"queue\" on the polling core",
    ),
    ("express-shed", "the same with overload = \"shed\""),
    ("express-all", "everything express"),
    (
        "express-all-established",
        "RT first, then all connections express, the rest by the stack",
    ),
    (
        "express-all-firewall",
        "the same with trust = \"firewall\": as examples/voice.toml",
    ),
    ("express-rules", "as express, behind 255 more rules"),
    (
        "EXPRESS+unsampled",
        "one of these with latency = false: what sampling the latency costs",
    ),
    (
        "EXPRESS+traced",
        "one of these while rxlane trace runs beside it",
    ),
    (
        "afxdp",
        "the AF_XDP engine forwards both classes; see --strategy, --budgets, --itr",
    ),
    (
        "afxdp-mixed",
        "the engine forwards RT and gives BE to the stack",
    ),
    (
        "afxdp-stack",
        "the engine's rings and budgets in front of the stack, which forwards both",
    ),
    (
        "watch-LAW",
        "plain Linux forwarding under rxlane tune watch with the law linear, linear:R_MAX:R_MIN:RHO_MAX, three-state or net-dim",
    ),
    (
        "xdp-pass",
        "plain Linux forwarding behind an XDP program on each port that passes everything",
    ),
    ("xdp-drop", "an XDP program that drops everything"),
    (
        "xdp-redirect",
        "one that sends everything out of the first egress port, unseen",
    ),
    (
        "xdp-fib",
        "one that sends everything where the kernel's FIB says",
    ),
    (
        "xdp-forward",
        "xdp-forward of xdp-tools, where it is installed",
    ),
    ("external", "a router behind --in and --out"),
];

impl std::str::FromStr for Dut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((base, how)) = text.split_once('+') {
            return observed(text, base.parse()?, how);
        }
        let voice = |trust: Trust| rt(express(trust));
        let classes = match text {
            "kernel" => return Ok(Self::Kernel),
            "external" => return Ok(Self::External),
            "xdp-pass" => return Ok(Self::Bare(text.into(), Bare::Pass)),
            "xdp-drop" => return Ok(Self::Bare(text.into(), Bare::Drop)),
            "xdp-redirect" => return Ok(Self::Bare(text.into(), Bare::Redirect)),
            "xdp-forward" => return Ok(Self::XdpForward),
            "xdp-fib" => return Ok(Self::Bare(text.into(), Bare::Fib)),
            "express" => vec![voice(Trust::All), be(by_default())],
            "express-established" => vec![voice(Trust::Established), be(by_default())],
            "express-firewall" => vec![voice(Trust::Firewall), be(by_default())],
            "express-throughput" => {
                let lane = stack(Overload::default(), Aim::Throughput);
                vec![voice(Trust::All), be(lane)]
            }
            "express-queue" | "express-shed" => {
                let overload = match text {
                    "express-queue" => Overload::Queue,
                    _ => Overload::Shed,
                };
                vec![voice(Trust::All), be(stack(overload, Aim::default()))]
            }
            "express-all-established" | "express-all-firewall" => {
                let trust = match text {
                    "express-all-firewall" => Trust::Firewall,
                    _ => Trust::Established,
                };
                let connections = be(express(trust.clone())).with_rules(vec![Rule {
                    protocols: Some(vec![TCP, UDP]),
                    ..Rule::default()
                }]);
                let rest = Class::new("rest", by_default());
                vec![voice(trust), connections, rest]
            }
            "express-all" => vec![voice(Trust::All), be(express(Trust::All))],
            "express-rules" => vec![others(), voice(Trust::All), be(by_default())],
            "afxdp" | "afxdp-mixed" | "afxdp-stack" => return EngineVariant::default().dut(text),
            _ if text.starts_with("watch-") => return watched(text),
            _ => {
                let names: Vec<&str> = DUTS.iter().map(|(n, _)| *n).collect();
                return Err(format!(
                    "`{text}` is no device under test: use {}",
                    names.join(", ")
                ));
            }
        };
        Ok(Self::Rxlane(
            text.into(),
            router(classes, Datapath::Express),
        ))
    }
}

/// A router of the benchmark, looked at in another way.
fn observed(name: &str, base: Dut, how: &str) -> Result<Dut, String> {
    let how = match how {
        "unsampled" => Observation::Unsampled,
        "traced" => Observation::Traced,
        _ => return Err(format!("`{name}`: use +unsampled or +traced")),
    };
    match base {
        Dut::Rxlane(_, config) if config.datapath == Datapath::Express => {
            Ok(Dut::Observed(name.into(), config, how))
        }
        _ => Err(format!(
            "`{name}`: only what begins with express can be looked at so"
        )),
    }
}

/// A variant of the AF_XDP engine; what is not said is as by default.
#[derive(Debug, Clone, Default)]
pub struct EngineVariant {
    /// How rings are polled.
    pub strategy: Option<StrategyName>,
    /// Ring budgets of RT and BE.
    pub budgets: Option<[u32; 2]>,
    /// `off`, `three-state`, `linear`, `net-dim`, `linear:R_MAX:R_MIN:RHO_MAX`, or an interval for `static`, ns.
    pub itr: Option<String>,
}

impl EngineVariant {
    /// `afxdp`, `afxdp-mixed` or `afxdp-stack` with these settings.
    ///
    /// # Errors
    /// Budgets or an algorithm that make no sense.
    pub fn dut(&self, base: &str) -> Result<Dut, String> {
        let mut name = base.to_owned();
        if let Some(strategy) = self.strategy {
            name += &format!("-{strategy}");
        }
        // Strategies without budgets take none, and LL-RR, whose rings have equal ones, that of BE.
        let budgets = match (self.strategy, self.budgets) {
            (Some(StrategyName::Sq | StrategyName::Rr), _) | (_, None) => [None; 2],
            (Some(StrategyName::LlRr), Some([_, be])) => [Some(be); 2],
            (Some(StrategyName::LlWfq) | None, Some(both)) => both.map(Some),
        };
        let forwarded = || express(Trust::All);
        let classes = match base {
            "afxdp-stack" => vec![rt(by_default()), be(by_default())],
            "afxdp-mixed" => vec![rt(forwarded()), be(by_default())],
            _ => vec![rt(forwarded()), be(forwarded())],
        };
        let mut engine = EngineConfig::new(classes.len());
        engine.strategy = rxlane_config::strategy(self.strategy, &budgets, engine.device_budget)
            .map_err(|e| e.to_string())?;
        if let Some(itr) = &self.itr {
            name += &format!("-{itr}");
            engine.itr = throttling(itr)?;
        }
        engine.layout(&classes).map_err(|e| e.to_string())?;
        Ok(Dut::Rxlane(name, router(classes, Datapath::Afxdp(engine))))
    }
}

/// The algorithm for a word of `--itr`.
fn throttling(word: &str) -> Result<Throttling, String> {
    if let Ok(interval_ns) = word.parse::<u64>() {
        return Ok(Throttling::Static { interval_ns });
    }
    if let Some(name) = ThrottlingName::ALL
        .into_iter()
        .find(|n| n.to_string() == word)
    {
        return Ok(name.into());
    }
    let law: Option<Vec<f64>> = word
        .strip_prefix("linear:")
        .and_then(|law| law.split(':').map(|n| n.parse().ok()).collect());
    match law.as_deref() {
        Some([r_max, r_min, rho_max_pps]) => Ok(Throttling::Linear(LinearLaw {
            r_max: *r_max,
            r_min: *r_min,
            rho_max_pps: *rho_max_pps,
        })),
        _ => Err(format!(
            "`{word}` is no throttling: use off, three-state, linear, net-dim, linear:R_MAX:R_MIN:RHO_MAX (per second), or an interval in ns"
        )),
    }
}

/// Plain forwarding under `rxlane tune watch`, from a name like `watch-linear`.
fn watched(name: &str) -> Result<Dut, String> {
    let law = name.trim_start_matches("watch-");
    let mut parts = law.split(':');
    let algorithm = parts.next().unwrap_or_default();
    if !["linear", "three-state", "net-dim"].contains(&algorithm) {
        return Err(format!(
            "`{law}` is no law of rxlane tune watch: use linear, linear:R_MAX:R_MIN:RHO_MAX, three-state or net-dim"
        ));
    }
    let mut options = vec!["--law".to_owned(), algorithm.to_owned()];
    let numbers: Vec<&str> = parts.collect();
    if !numbers.is_empty() {
        let all = algorithm == "linear" && numbers.len() == 3;
        if !all || numbers.iter().any(|n| n.parse::<f64>().is_err()) {
            return Err(format!(
                "`{law}`: write linear:R_MAX:R_MIN:RHO_MAX, per second"
            ));
        }
        for (option, number) in ["--r-max", "--r-min", "--rho-max"].iter().zip(numbers) {
            options.extend([(*option).to_owned(), number.to_owned()]);
        }
    }
    Ok(Dut::Watched(name.into(), options))
}

/// Rules that no test packet matches, over several fields.
fn others() -> Class {
    let rule = |i: u16| Rule {
        src: vec![std::net::IpAddr::from([192, 0, (i / 250) as u8, (i % 250) as u8]).into()],
        dscp: Some(1 << (i % u16::from(EF))),
        protocols: Some(vec![TCP]),
        dst_ports: vec![1000 + i..=1000 + i],
        ..Rule::default()
    };
    Class::new("others", by_default()).with_rules((0..255).map(rule).collect())
}

impl Dut {
    /// Its name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Kernel => "kernel",
            Self::External => "external",
            Self::XdpForward => "xdp-forward",
            Self::Rxlane(name, _) | Self::Observed(name, ..) => name,
            Self::Bare(name, _) | Self::Watched(name, _) => name,
        }
    }

    /// Whether a class of it waits in rings whatever it consists of.
    pub(crate) fn queues(&self) -> bool {
        let queues = |class: &Class| {
            matches!(
                class.lane,
                Lane::Stack {
                    overload: Overload::Queue,
                    ..
                }
            )
        };
        self.config()
            .is_some_and(|config| config.classes.iter().any(queues))
    }

    /// Its configuration, which has no ports yet; `None` where it is not rxlane's.
    pub fn config(&self) -> Option<&RouterConfig> {
        match self {
            Self::Kernel | Self::External | Self::XdpForward => None,
            Self::Bare(..) | Self::Watched(..) => None,
            Self::Rxlane(_, config) | Self::Observed(_, config, _) => Some(config),
        }
    }
}
