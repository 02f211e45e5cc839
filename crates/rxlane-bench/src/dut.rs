//! Devices under test by name: the kernel alone, or rxlane in one of its configurations.

/// What forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dut {
    /// Plain Linux forwarding.
    Kernel,
    /// Whatever is behind real ports.
    External,
    /// rxlane with the benchmark's configuration of that name.
    Rxlane(String, String),
    /// Plain Linux forwarding under `rxlane tune watch` with these options.
    Watched(String, Vec<String>),
}

/// RT is what the benchmark marks EF.
fn voice(trust: &str) -> String {
    format!(
        "[[class]]\nname = \"rt\"\nlane = \"express\"\ntrust = \"{trust}\"\nmatch = [{{ dscp = \"EF\" }}]\n\n"
    )
}

fn rest(keys: &str) -> String {
    format!("[[class]]\nname = \"be\"\nlane = \"stack\"\n{keys}")
}

/// Names that `--dut` takes, with what each is.
pub const DUTS: [(&str, &str); 12] = [
    ("kernel", "plain Linux forwarding"),
    ("express", "RT express, BE by the stack, defaults otherwise"),
    (
        "express-established",
        "the same with trust = \"established\"",
    ),
    ("express-throughput", "the same with aim = \"throughput\""),
    (
        "express-queue",
        "the same with overload = \"queue\" on the polling core",
    ),
    ("express-all", "everything express"),
    ("express-rules", "as express, behind 255 more rules"),
    (
        "afxdp",
        "the AF_XDP engine forwards both classes; see --strategy, --prb, --itr",
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
    ("external", "a router behind --in and --out"),
];

impl std::str::FromStr for Dut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let classes = match text {
            "kernel" => return Ok(Self::Kernel),
            "external" => return Ok(Self::External),
            "express" => voice("all") + &rest(""),
            "express-established" => voice("established") + &rest(""),
            "express-throughput" => voice("all") + &rest("aim = \"throughput\"\n"),
            "express-queue" => voice("all") + &rest("overload = \"queue\"\n"),
            "express-all" => {
                voice("all") + "[[class]]\nname = \"be\"\nlane = \"express\"\ntrust = \"all\"\n"
            }
            "afxdp" | "afxdp-mixed" | "afxdp-stack" => return Engine::default().dut(text),
            "express-rules" => many_rules() + &voice("all") + &rest(""),
            _ if text.starts_with("watch-") => return watched(text),
            _ => {
                let names: Vec<&str> = DUTS.iter().map(|(n, _)| *n).collect();
                return Err(format!(
                    "`{text}` is no device under test: use {}",
                    names.join(", ")
                ));
            }
        };
        Ok(Self::Rxlane(text.into(), classes))
    }
}

/// Variants of the AF_XDP engine.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// `sq`, `rr`, `ll-rr`, `ll-wfq`; the default where there is none.
    pub strategy: Option<String>,
    /// Ring budgets, BE first.
    pub prb: Option<Vec<u32>>,
    /// `off`, `three-state`, `linear`, `net-dim`, `linear:R_MAX:R_MIN:RHO_MAX`, or an interval for `static`, ns.
    pub itr: Option<String>,
}

impl Engine {
    /// `afxdp`, `afxdp-mixed` or `afxdp-stack` with these settings.
    ///
    /// # Errors
    /// An unknown strategy or algorithm.
    pub fn dut(&self, base: &str) -> Result<Dut, String> {
        let mut name = base.to_owned();
        let mut keys = String::new();
        if let Some(strategy) = &self.strategy {
            if !["sq", "rr", "ll-rr", "ll-wfq"].contains(&strategy.as_str()) {
                return Err(format!(
                    "`{strategy}` is no strategy: use sq, rr, ll-rr or ll-wfq"
                ));
            }
            name += &format!("-{strategy}");
            keys += &format!("strategy = \"{strategy}\"\n");
        }
        let budgeted = !matches!(self.strategy.as_deref(), Some("sq" | "rr"));
        match (&self.prb, self.strategy.as_deref()) {
            (Some(prb), Some("ll-rr")) => keys += &format!("prb = {:?}\n", &prb[..1]),
            (Some(prb), _) if budgeted => keys += &format!("prb = {prb:?}\n"),
            _ => {}
        }
        if let Some(itr) = &self.itr {
            name += &format!("-{itr}");
            keys += &throttling(itr)?;
        }
        let forwarded = "lane = \"express\"\ntrust = \"all\"\n";
        let by_stack = "lane = \"stack\"\n";
        let (rt, be) = match base {
            "afxdp-stack" => (by_stack, by_stack),
            "afxdp-mixed" => (forwarded, by_stack),
            _ => (forwarded, forwarded),
        };
        let text = format!(
            "datapath = \"afxdp\"\n[afxdp]\n{keys}\n[[class]]\nname = \"rt\"\n{rt}match = [{{ dscp = \"EF\" }}]\n\n[[class]]\nname = \"be\"\n{be}"
        );
        Ok(Dut::Rxlane(name, text))
    }
}

/// The configuration's `itr` for a word of `--itr`.
fn throttling(word: &str) -> Result<String, String> {
    if let Ok(ns) = word.parse::<u64>() {
        return Ok(format!(
            "itr = {{ algorithm = \"static\", interval_ns = {ns} }}\n"
        ));
    }
    if ["off", "three-state", "linear", "net-dim"].contains(&word) {
        return Ok(format!("itr = \"{word}\"\n"));
    }
    let law: Option<Vec<f64>> = word
        .strip_prefix("linear:")
        .and_then(|law| law.split(':').map(|n| n.parse().ok()).collect());
    match law.as_deref() {
        Some([r_max, r_min, rho_max]) => Ok(format!(
            "itr = {{ algorithm = \"linear\", r_max = {r_max:?}, r_min = {r_min:?}, rho_max_pps = {rho_max:?} }}\n"
        )),
        _ => Err(format!(
            "`{word}` is no throttling: use off, three-state, linear, net-dim, linear:R_MAX:R_MIN:RHO_MAX (per second), or an interval in ns"
        )),
    }
}

/// `watch-LAW`.
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
fn many_rules() -> String {
    let mut text = String::from("[[class]]\nname = \"others\"\nlane = \"stack\"\nmatch = [\n");
    for i in 0..255u32 {
        text += &format!(
            "  {{ src = \"192.0.{}.{}\", dscp = {}, protocol = \"tcp\", dst_port = {} }},\n",
            i / 250,
            i % 250,
            i % 46,
            1000 + i
        );
    }
    text + "]\n\n"
}

impl Dut {
    /// Its name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Kernel => "kernel",
            Self::External => "external",
            Self::Rxlane(name, _) | Self::Watched(name, _) => name,
        }
    }

    /// The configuration without its ports; `None` where there is none.
    pub fn classes(&self) -> Option<&str> {
        match self {
            Self::Kernel | Self::External | Self::Watched(..) => None,
            Self::Rxlane(_, classes) => Some(classes),
        }
    }
}
