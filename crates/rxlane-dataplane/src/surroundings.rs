//! What surrounds a router and decides about forwarded packets besides routes: firewall hooks, policy rules, IPsec policies,
//! filters of traffic control.
//!
//! `trust = "firewall"` and `"established"` ask for devices that take or copy packets of a port, and for what must see every packet of a flow: else
//! their packets follow flows that Linux was seen to forward (lanes/witness.rs).
//! `trust = "all"` and prefixes pass by all of it, so what is here decides whether they may.

use rxlane_config::RouterConfig;
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_ruleset::{Hook, Place};
use rxlane_ruleset::{Meets, PerPacket, Ruleset, Uses};
use rxlane_system::links::Links;
use rxlane_system::rules::Rule;
use rxlane_system::ruleset;
use rxlane_system::{SystemError, rules, sysctl, tc, xfrm};

use crate::DataplaneError;
use crate::lanes::constants::trusts;
use crate::port_links;
use rxlane_topology::{attachment, macvlan, master, vlan};

/// What was found in a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Hooks of the firewall whose rules can do something to a forwarded packet.
    pub hooks: Vec<Hook>,
    /// Hooks whose rules can do something to what is to the router or of it, where there are tunnels, whose outer packets are.
    pub local_hooks: Vec<Hook>,
    /// Rules of policy routing.
    pub rules: Vec<Rule>,
    /// Number of IPsec policies for forwarded packets.
    pub ipsec_policies: usize,
    /// Filters of traffic control: port, and kind with place.
    pub filters: Vec<(String, String)>,
    /// Ports by which routers may tell this one of a better next hop, which look-ups from XDP do not heed (`ip_do_redirect` in
    /// net/ipv4/route.c; a router takes no such advice in IPv6).
    pub advised: Vec<String>,
    /// Ports whose packets a macvlan or ipvlan device takes or copies, with its name.
    pub taken: Vec<(String, String)>,
    /// What must see every packet of flows that meet it.
    pub per_packet: Vec<PerPacket>,
    /// What rules record that express packets pass by, as their comments say.
    pub excepted: Vec<PerPacket>,
    /// What rules ask about established packets.
    pub uses: Uses,
    /// What they ask about packets that connection tracking does not see.
    pub untracked_uses: Uses,
    /// Whether flows that connection tracking does not see are followed, too.
    pub follows_untracked: bool,
    /// Links of this router's own, by id, which are left out.
    pub(crate) ours: Vec<u32>,
}

impl Surroundings {
    /// Looks around in the current network namespace, which has these devices. What is said of ports goes for the VLAN and macvlan devices
    /// over them, too, whose packets may be express, for the devices of `sessions` of PPPoE and for those of `tunnels`.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn read(
        ports: &[String],
        links: &Links,
        sessions: &[String],
        tunnels: &[String],
    ) -> Result<Self, SystemError> {
        let over = macvlan::served(ports, links);
        let over = over.into_iter().map(|(device, _)| device.name.clone());
        let vlans = vlan::served(ports, links);
        let under = attachment::under(ports, links);
        let beside = master::beside(ports, links).into_iter().chain(under);
        let beside: Vec<String> = beside.collect();
        let over = vlans
            .into_iter()
            .chain(over)
            .chain(sessions.iter().chain(tunnels).cloned());
        // A VLAN device that is named is among those over ports, unless it is not served.
        let whole = attachment::whole(ports, links).map(|port| port.name.clone());
        let ports: Vec<String> = whole.chain(over).collect();
        let passed: Vec<&String> = ports.iter().chain(&beside).collect();
        let Ruleset {
            hooks,
            per_packet,
            excepted,
            uses,
            untracked_uses,
            ..
        } = ruleset::read(links)?;
        let (local_hooks, hooks) = hooks.into_iter().partition(|hook| hook.place.is_local());
        let mut found = Self {
            hooks,
            local_hooks,
            per_packet,
            excepted,
            uses,
            untracked_uses,
            rules: rules::all()?,
            ipsec_policies: xfrm::policies()?,
            ..Self::default()
        };
        if tunnels.is_empty() {
            found.local_hooks.clear();
        }
        found.hooks.retain(|hook| {
            let of = hook.device.as_ref();
            of.is_none_or(|device| passed.contains(&device))
        });
        found.ours = port_links::ours();
        for link in links.iter().filter(|l| passed.contains(&&l.name)) {
            let filters = tc::filters(link.ifindex, &found.ours)?;
            found
                .filters
                .extend(filters.into_iter().map(|f| (link.name.clone(), f)));
            found
                .per_packet
                .extend(ruleset::per_packet_at(link, &found.ours)?);
        }
        // What comes in or leaves by other devices is not express.
        let passes = |device: &Option<String>| device.as_ref().is_none_or(|d| passed.contains(&d));
        found
            .per_packet
            .retain(|p| passes(&p.meets.ingress) && passes(&p.meets.egress));
        let on = |interface: &str, setting| {
            sysctl::of_interface("ipv4", interface, setting).is_some_and(|n| n != 0)
        };
        // As IN_DEV_RX_REDIRECTS of include/linux/inetdevice.h has it for a router.
        let all = on("all", "accept_redirects");
        let heeds = |port: &str| all && on(port, "accept_redirects") && on(port, "forwarding");
        let advised = ports.iter().filter(|port| heeds(port));
        found.advised = advised.cloned().collect();
        for link in links.iter().filter(|l| ports.contains(&l.name)) {
            let over = links.over(link.ifindex);
            let over = over.filter(|l| l.takes_from == Some(link.ifindex));
            found
                .taken
                .extend(over.map(|l| (link.name.clone(), l.name.clone())));
        }
        Ok(found)
    }

    /// Follows flows that connection tracking does not see, if a class wants them and there can be any: nothing is tracked, or a rule
    /// says what not to track. Else rules about them do not count.
    #[must_use]
    pub fn for_classes_of(self, config: &RouterConfig) -> Self {
        self.with_untracked(config, nothing_is_tracked())
    }

    fn with_untracked(mut self, config: &RouterConfig, nothing_is_tracked: bool) -> Self {
        let untracks = || self.hooks.iter().any(|h| h.effects.untracks);
        let wants = trusts(config, |t| *t == Trust::Firewall);
        if !wants || !(nothing_is_tracked || untracks()) {
            self.per_packet.retain(|p| p.meets.tracked != Some(false));
            self.per_packet
                .iter_mut()
                .for_each(|p| p.meets.tracked = None);
            self.untracked_uses = Uses::default();
            return self;
        }
        let all = std::mem::take(&mut self.untracked_uses);
        self.uses.source_mac |= all.source_mac;
        self.uses.sets.extend(all.sets);
        self.uses.ipsets.extend(all.ipsets);
        // What leaves looks like another flow, and nothing else tells it from that.
        let disguise = self.hooks.iter().find(|h| h.effects.disguises);
        self.follows_untracked = disguise.is_none();
        self.per_packet.extend(disguise.map(|hook| PerPacket {
            what: "rewrites addresses, ports, types of service or TTLs".into(),
            place: format!("the chain {hook}"),
            meets: Meets {
                tracked: Some(false),
                ..Meets::default()
            },
            rules: Vec::new(),
        }));
        self
    }

    /// Whether hooks or filters see what leaves by a port: not as the stack sends it what comes in at tc ingress, which has no mark and
    /// no connection.
    pub(crate) fn see_what_leaves(&self) -> bool {
        self.hooks.iter().any(|h| h.place == Place::Egress)
            || self.filters.iter().any(|(_, f)| f.ends_with("egress"))
    }

    /// Whether something may give packets marks before they are routed.
    fn marks(&self) -> bool {
        let early = |h: &&Hook| matches!(h.place, Place::Ingress | Place::Prerouting);
        self.hooks.iter().filter(early).any(|h| h.effects.marks)
            || self.filters.iter().any(|(_, f)| f.ends_with("ingress"))
    }
}

/// How many flows connection tracking knows of in this network namespace.
pub(crate) const FLOWS: &str = "net.netfilter.nf_conntrack_count";

/// Whether connection tracking knows of no flow in this network namespace.
pub(crate) fn nothing_is_tracked() -> bool {
    sysctl::read(FLOWS).unwrap_or(0) == 0
}

/// Why a class stays with the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// What its packets would pass by, and what that would do.
    pub why: String,
    /// Whether an operator may accept it (`--accept-bypass`); otherwise packets would leave other than by Linux.
    pub acceptable: bool,
}

/// What speaks against the express lane for a trust.
pub fn objections(trust: &Trust, around: &Surroundings) -> Vec<Objection> {
    let never = |why: String| Objection {
        why,
        acceptable: false,
    };
    // Of a packet that leaves twice a witness sees no more than of one that leaves once.
    let taken = around.taken.iter().map(|(port, over)| {
        never(format!(
            "`{over}` takes or copies packets of the port `{port}`"
        ))
    });
    let mut found: Vec<Objection> = taken.collect();
    let acceptable = |why: String| Objection {
        why,
        acceptable: true,
    };
    if trust.asks_linux() {
        // Of those that the class asks for.
        let is_of_all = |p: &&PerPacket| {
            p.meets.is_universal()
                && match p.meets.tracked {
                    None => true,
                    Some(tracked) => {
                        tracked && !(around.follows_untracked && *trust == Trust::Firewall)
                    }
                }
        };
        let of_all = around.per_packet.iter().filter(is_of_all);
        found.extend(of_all.map(|p| acceptable(format!("{} {}", p.place, p.what))));
        return found;
    }
    for hook in &around.hooks {
        let e = hook.effects;
        if e.translates {
            found.push(never(format!("the chain {hook} translates addresses")));
        }
        if e.filters || e.marks || e.rewrites {
            let does = match (e.filters, e.rewrites) {
                (true, _) => "filters",
                (false, true) => "rewrites",
                (false, false) => "marks",
            };
            found.push(acceptable(format!("the chain {hook} {does} packets")));
        }
    }
    for (port, filter) in &around.filters {
        found.push(acceptable(format!(
            "port `{port}` has a traffic control filter ({filter})"
        )));
    }
    for port in &around.advised {
        found.push(never(format!(
            "port `{port}` accepts ICMP redirects, which look-ups from XDP do not heed (net.ipv4.conf.all.accept_redirects)"
        )));
    }
    if around.ipsec_policies > 0 {
        found.push(never(format!(
            "there are {} IPsec policies for forwarded packets (ip xfrm policy)",
            around.ipsec_policies
        )));
    }
    for rule in &around.rules {
        // Linux asks the way back to a source as if from itself, and with the ports as one kernel or another has them.
        if rule.by_ingress || rule.by_ports {
            let what = if rule.by_ingress {
                "the ingress interface"
            } else {
                "ports"
            };
            found.push(never(format!(
                "`{rule}` asks for {what}, so whether a source is right cannot be known"
            )));
        }
        // fib6_rule_suppress (net/ipv6/fib6_rules.c) looks at a result that bpf_fib_lookup does not fill in.
        if rule.suppresses && rule.v6 {
            found.push(never(format!(
                "`{rule}` suppresses routes, which look-ups from XDP do not heed in IPv6"
            )));
        }
        if rule.by_mark && around.marks() {
            found.push(never(format!(
                "`{rule}` routes by mark, and packets are marked"
            )));
        }
    }
    found
}

/// Why classes that trust all or prefixes do not use tunnels, if something speaks against it that nobody accepted.
pub(crate) fn against_tunnels(around: &Surroundings, accepted: bool) -> Option<String> {
    around.local_hooks.iter().find_map(|hook| {
        let e = hook.effects;
        // Marks may choose another route for outer packets.
        let never = e.translates || e.marks;
        let does = never || !accepted && (e.filters || e.rewrites);
        does.then(|| format!("the chain {hook} has rules about packets to the router or of it"))
    })
}

/// What keeps the flows that meet it with the kernel, where not all do, unless that was accepted.
pub fn kept(around: &Surroundings, accepted: bool) -> Vec<&PerPacket> {
    let of_some = |p: &&PerPacket| !p.meets.is_universal() || p.meets.tracked.is_some();
    let all = around.per_packet.iter().filter(of_some);
    all.filter(|_| !accepted).collect()
}

/// The same for people, of each class that has some.
pub fn kept_of_classes(
    config: &RouterConfig,
    around: &Surroundings,
    accepted: bool,
) -> Vec<(String, Vec<String>)> {
    let kept = kept(around, accepted);
    if kept.is_empty() {
        return Vec::new();
    }
    let of = |class: &Class| match &class.lane {
        Lane::Express { trust, .. } if trust.asks_linux() => Some(*trust == Trust::Firewall),
        _ => None,
    };
    let classes = config.classes.iter().filter_map(|class| {
        let follows_untracked = of(class)?;
        let of_class = kept
            .iter()
            .filter(|p| follows_untracked || p.meets.tracked != Some(false));
        let kept: Vec<String> = of_class.map(ToString::to_string).collect();
        (!kept.is_empty()).then(|| (class.name.clone(), kept))
    });
    classes.collect()
}

/// The objections against each express class that has some; of the acceptable ones, those that nobody accepted.
pub fn against(
    config: &RouterConfig,
    around: &Surroundings,
    accepted: bool,
) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for class in &config.classes {
        let Lane::Express { trust, .. } = &class.lane else {
            continue;
        };
        let against: Vec<String> = objections(trust, around)
            .into_iter()
            .filter(|o| !(o.acceptable && accepted))
            .map(|o| o.why)
            .collect();
        if !against.is_empty() {
            all.push((class.name.clone(), against));
        }
    }
    all
}

/// What rules record that express packets pass by, of each class that asks Linux.
fn excepted(config: &RouterConfig, around: &Surroundings) -> Vec<(String, Vec<String>)> {
    let asks = |class: &&Class| match &class.lane {
        Lane::Express { trust, .. } => trust.asks_linux(),
        _ => false,
    };
    let why: Vec<String> = around.excepted.iter().map(ToString::to_string).collect();
    let classes = config.classes.iter().filter(asks);
    let classes = classes.filter(|_| !why.is_empty());
    classes.map(|c| (c.name.clone(), why.clone())).collect()
}

/// What the classes of a configuration pass by because it was accepted.
fn accepted(config: &RouterConfig, around: &Surroundings) -> Vec<(String, Vec<String>)> {
    let all = against(config, around, false);
    let left = against(config, around, true);
    let accepted = all.into_iter().filter_map(|(class, mut why)| {
        let never = left.iter().find(|(c, _)| *c == class);
        why.retain(|w| never.is_none_or(|(_, n)| !n.contains(w)));
        (!why.is_empty()).then_some((class, why))
    });
    accepted
        .chain(kept_of_classes(config, around, false))
        .collect()
}

/// What a line of the log says of classes, and of which for what reasons.
pub type Said = (&'static str, Vec<(String, Vec<String>)>);

/// What the classes of a configuration pass by, and who said that they may.
pub fn passed_by(config: &RouterConfig, around: &Surroundings, is_accepted: bool) -> [Said; 2] {
    let accepted = match is_accepted {
        true => accepted(config, around),
        false => Vec::new(),
    };
    [
        ("passes by, as accepted", accepted),
        ("passes by, as their comments say", excepted(config, around)),
    ]
}

/// What a start would say of classes: which stay with the kernel, which flows are kept there, what is passed by as accepted.
pub fn warnings(config: &RouterConfig, around: &Surroundings, is_accepted: bool) -> Vec<String> {
    let all = [
        (
            "stays with the kernel",
            against(config, around, is_accepted),
        ),
        (
            "keeps flows with the kernel",
            kept_of_classes(config, around, is_accepted),
        ),
    ];
    let passed = passed_by(config, around, is_accepted);
    let of = |(does, classes): Said| {
        let classes = classes.into_iter();
        classes.map(move |(class, why)| format!("class `{class}` {does}: {}", why.join("; ")))
    };
    all.into_iter().chain(passed).flat_map(of).collect()
}

/// Refuses a configuration that could not be served as it asks. Classes of established flows may stay with the kernel for what only has
/// to be accepted: nothing that Linux does is passed by then.
///
/// # Errors
/// [`DataplaneError::Objections`] for the first class that has some.
pub fn refuse(
    config: &RouterConfig,
    around: &Surroundings,
    accepted: bool,
) -> Result<(), DataplaneError> {
    let never = against(config, around, true);
    let may_stay = |class: &str| {
        let mut of = config.classes.iter().filter(|c| c.name == class);
        of.all(|c| matches!(&c.lane, Lane::Express { trust, .. } if trust.asks_linux()))
            && never.iter().all(|(name, _)| name != class)
    };
    let mut against = against(config, around, accepted).into_iter();
    match against.find(|(class, _)| !may_stay(class)) {
        None => Ok(()),
        Some((class, why)) => {
            let acceptable = never.is_empty();
            Err(DataplaneError::Objections {
                class,
                why: why.join("; "),
                cure: if !around.taken.is_empty() {
                    "leave the port out of `ports`, or remove the device"
                } else if acceptable {
                    "use trust = \"established\", or accept this with --accept-bypass"
                } else {
                    "use trust = \"established\", which follows what Linux does with each flow"
                },
            })
        }
    }
}

#[cfg(test)]
mod tests;
