//! The configuration as constants of the XDP program.

use std::hash::{BuildHasher, Hasher, RandomState};

use rxlane_bpf::BpfError;
use rxlane_bpf::features::Features;
use rxlane_bpf::possible_cores;
use rxlane_bpf::skeletons::lane as skel;
use rxlane_bpf::skeletons::lane::types;
use rxlane_config::{Datapath, RouterConfig};
use rxlane_policy::bits::RuleSet;
use rxlane_policy::class::{Class, Lane, Overload, Trust};
use rxlane_policy::compile::Classifier;
use rxlane_policy::rule::Rule;

use crate::DataplaneError;
use crate::lanes::fast;
use crate::lanes::flows::FlowMaps;
use crate::lanes::rings;
use crate::lanes::tables;
use crate::options::Options;

/// What a program is made for.
pub(crate) struct Wanted<'a> {
    pub(crate) features: &'a Features,
    pub(crate) config: &'a RouterConfig,
    pub(crate) options: Options,
    /// Of ports that are named themselves, each with its position in the configuration.
    pub(crate) slots: &'a [(u8, u8)],
    /// Whether ports may be served at tc ingress.
    pub(crate) at_tc: bool,
    /// Where flows are counted, if they are.
    pub(crate) flows: Option<&'a FlowMaps>,
}

/// Whether the short program does everything that the configuration asks for.
pub(super) fn is_plain(classes: &[Class], classifier: &Classifier) -> bool {
    const FIELDS: u32 = tables::field::PORT | tables::field::DSCP | tables::field::PROTOCOL;
    let trusts_all = |c: &Class| match &c.lane {
        Lane::Express { trust, .. } => *trust == Trust::All,
        Lane::Stack { .. } => true,
    };
    tables::fields(classifier) & !FIELDS == 0
        && classifier.flex.is_empty()
        && classifier.words() <= 1
        && classes.iter().all(trusts_all)
}

pub(super) fn set_constants(
    open: &mut skel::OpenLaneSkel<'_>,
    wanted: &Wanted<'_>,
    classifier: &Classifier,
) -> Result<(), DataplaneError> {
    let config = wanted.config;
    let all = possible_cores()?;
    let Some(c) = open.maps.rodata_data.as_deref_mut() else {
        return Err(BpfError::Layout {
            map: ".rodata",
            expected: size_of::<types::rodata>(),
            actual: 0,
        }
        .into());
    };
    let rules = classifier.rule_class.len();
    c.fields = tables::fields(classifier);
    c.rule_words = classifier.words() as u32;
    c.flex_fields = classifier.flex.len() as u32;
    for (to, (offset, _)) in c.flex_offset.iter_mut().zip(&classifier.flex) {
        *to = *offset;
    }
    c.rule_class[..rules].copy_from_slice(&classifier.rule_class);
    c.default_class = classifier.default_class;
    c.all_rules.word = (0..rules).collect::<RuleSet>().0;
    c.no_src.word = classifier.src.as_ref().map_or(RuleSet::EMPTY, |t| t.none).0;
    c.no_dst.word = classifier.dst.as_ref().map_or(RuleSet::EMPTY, |t| t.none).0;

    c.n_classes = config.classes.len() as u32;
    let express = |class: &Class| matches!(class.lane, Lane::Express { .. });
    c.express_below = config
        .classes
        .iter()
        .rposition(express)
        .map_or(0, |i| i as u32 + 1);
    c.first_express = config.classes.iter().position(express).unwrap_or(0) as u32;
    c.local_tcp = local_tcp(config);
    c.any_police = u32::from(config.classes.iter().any(|c| c.police.is_some()));
    c.any_conntrack = u32::from(trusts(config, Trust::asks_linux));
    for word in &mut c.known_secret {
        *word = RandomState::new().build_hasher().finish();
    }
    c.ends_after = wanted.options.ends_after as u32;
    c.known_dscps = dscps_of_established(&config.classes);
    c.any_prefix = u32::from(trusts(config, |t| matches!(t, Trust::Prefixes(_))));
    for (to, class) in c.classes.iter_mut().zip(&config.classes) {
        *to = constants_of(class)?;
    }
    let classes = &config.classes;
    for (class, below) in c.stack_below.iter_mut().enumerate() {
        let stack = |i: &usize| matches!(classes[*i].lane, Lane::Stack { .. });
        *below = (class + 1..classes.len())
            .find(stack)
            .unwrap_or(classes.len()) as u8;
    }
    let parks_tcp = rings::parks_tcp(config, wanted.features);
    let has_ring = |c: &Class| rxlane_config::ring_cores(c, &all, parks_tcp).is_some();
    c.any_ring = u32::from(config.classes.iter().any(has_ring));
    c.parks_tcp = u32::from(parks_tcp);
    if config.datapath == Datapath::Express && !wanted.options.observe {
        for (dscp, to) in (0..).zip(&mut c.shed_by_dscp) {
            *to = shed_of(&config.classes, dscp, parks_tcp);
        }
    }
    c.any_shed_by_dscp = u32::from(c.shed_by_dscp.iter().any(|class| *class > 0));

    c.control_salt = RandomState::new().build_hasher().finish() as u32;
    let [source, all] = config.control.compile()?;
    for (to, rate) in [(&mut c.control_source, source), (&mut c.control_all, all)] {
        to.cost = rate.cost;
        to.limit = rate.limit;
    }
    c.measures_latency = u32::from(wanted.options.measures_latency(config));
    c.counts_flows = u32::from(wanted.flows.is_some());
    c.observes = u32::from(wanted.options.observe);

    if wanted.features.fib_skips_neighbours {
        c.fib_of_sources = libbpf_sys::BPF_FIB_LOOKUP_SKIP_NEIGH;
    }
    c.netns_cookie = rxlane_system::netns::cookie()?;
    c.kernel_hz = rxlane_system::features::hz().unwrap_or(0);
    Ok(())
}

/// Whether a class is express whose trust is such.
pub(crate) fn trusts(config: &RouterConfig, which: impl Fn(&Trust) -> bool) -> bool {
    config
        .classes
        .iter()
        .any(|c| matches!(&c.lane, Lane::Express { trust, .. } if which(trust)))
}

/// When TCP may pass by the stack at tc ingress (`enum local_tcp` of bpf/forward/local_tcp.h).
fn local_tcp(config: &RouterConfig) -> u32 {
    const TCP: u8 = 6;
    let takes = |rule: &Rule| rule.protocols.as_ref().is_none_or(|all| all.contains(&TCP));
    // The last class takes all that no rule took.
    let last = config.classes.len().saturating_sub(1);
    let may_pass = |(i, class): (usize, &Class)| {
        class.lane.is_express() && (i == last || class.rules.iter().any(takes))
    };
    match config.classes.iter().enumerate().any(may_pass) {
        _ if fast::any_class(config) => 2,
        true => 1,
        false => 0,
    }
}

/// The code points that packets of classes with `trust = "established"` can have, one bit each.
fn dscps_of_established(classes: &[Class]) -> u64 {
    let is_established =
        |class: &&Class| matches!(&class.lane, Lane::Express { trust, .. } if trust.asks_linux());
    let last = classes.len().saturating_sub(1);
    let of_class = |(i, class): (usize, &Class)| {
        // The last class takes all that no rule took.
        let all = if i == last { u64::MAX } else { 0 };
        let of_rules = class.rules.iter().map(|rule| rule.dscp.unwrap_or(u64::MAX));
        of_rules.fold(all, |set, dscps| set | dscps)
    };
    let established = classes
        .iter()
        .enumerate()
        .filter(|(_, class)| is_established(class));
    established.map(of_class).fold(0, |set, dscps| set | dscps)
}

/// The class of all packets with this code point, whatever else is in them; `None`: other fields decide.
fn class_of_dscp(classes: &[Class], dscp: u8) -> Option<usize> {
    let rules = (0..)
        .zip(classes)
        .flat_map(|(i, class)| class.rules.iter().map(move |r| (i, r)));
    for (class, rule) in rules {
        if rule.dscp.is_none_or(|set| set >> dscp & 1 == 1) {
            let asks_no_more = *rule
                == Rule {
                    dscp: rule.dscp,
                    ..Rule::default()
                };
            return asks_no_more.then_some(class);
        }
    }
    classes.len().checked_sub(1)
}

/// The entry of a code point in `shed_by_dscp` (bpf/overload/early.h).
fn shed_of(classes: &[Class], dscp: u8, parks_tcp: bool) -> u8 {
    const KEEPS_TCP: u8 = 16;
    let Some(number) = class_of_dscp(classes, dscp) else {
        return 0;
    };
    let class = &classes[number];
    match &class.lane {
        Lane::Stack { ring, overload, .. } if class.police.is_none() => match overload {
            Overload::Shed => number as u8 + 1,
            Overload::Auto if !ring.cores.is_empty() => 0,
            Overload::Auto if parks_tcp => (number as u8 + 1) | KEEPS_TCP,
            Overload::Auto => number as u8 + 1,
            Overload::Queue => 0,
        },
        _ => 0,
    }
}

/// The class as the XDP program has it (`struct class` of bpf/classify/admit.h).
fn constants_of(class: &Class) -> Result<types::class, DataplaneError> {
    let mut c = types::class::default();
    if let Some(police) = &class.police {
        let gcra = police.compile()?;
        c.polices = 1;
        c.police.cost = gcra.cost;
        c.police.limit = gcra.limit;
        c.police.per_byte = u64::from(gcra.per_byte);
    }
    match &class.lane {
        Lane::Express { trust, by_qdisc } => {
            c.lane = if *by_qdisc { 2 } else { 1 };
            c.trust = match trust {
                Trust::All => 0,
                Trust::Established => 1,
                Trust::Prefixes(_) => 2,
                Trust::Firewall => 3,
            };
        }
        Lane::Stack { ring, overload, .. } => {
            c.overload = match overload {
                Overload::Auto => 0,
                Overload::Queue => 1,
                Overload::Shed => 2,
            };
            c.ring_cores = ring.cores.len() as u32;
            for (to, core) in c.ring_core.iter_mut().zip(&ring.cores) {
                *to = *core;
            }
        }
    }
    Ok(c)
}
