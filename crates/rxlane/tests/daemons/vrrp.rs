//! Two routers that share addresses by VRRP: which of both has them must not depend on how much traffic there is.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use rxlane_bench::trial::Trial;
use test_lab::{Background, TestLab, wait_for};

use crate::frr::ALWAYS;
use crate::{alone_and_with, overload};

const ENDS: [(Place, &str); 2] = [(Place::Gen, "gen0"), (Place::Router, "in0")];

/// Seconds between advertisements, three of which may be lost. Both routers of a machine that stands still for as long take the
/// addresses; with 0.5 s Linux alone still moves them in 5 s.
const ADVERTISED_S: f32 = 0.5;

/// An address that one of both routers is to have.
struct Shared {
    /// Number of the virtual router.
    id: u8,
    master: Place,
    addresses: &'static str,
    /// With the MAC address of the virtual router, on a device of its own.
    own_mac: bool,
}

/// The overloaded router is to hear that the other has an address, and to be heard.
const SHARED: [Shared; 4] = [
    Shared {
        id: 51,
        master: Place::Gen,
        addresses: "10.10.0.51/24",
        own_mac: false,
    },
    Shared {
        id: 52,
        master: Place::Router,
        addresses: "10.10.0.52/24",
        own_mac: false,
    },
    Shared {
        id: 53,
        master: Place::Gen,
        addresses: "fe80::53/64\n  fd10::53/64",
        own_mac: false,
    },
    Shared {
        id: 54,
        master: Place::Gen,
        addresses: "10.10.0.54/24",
        own_mac: true,
    },
];

/// keepalived at an end. Ended by a signal it gives its addresses up and ends its children.
struct Keepalived {
    log: PathBuf,
    daemon: Option<Background>,
}

impl Keepalived {
    fn up(t: &mut TestLab, (place, interface): (Place, &str), shared: &[&Shared]) -> Self {
        let mut config = format!("global_defs {{\n router_id {interface}\n vrrp_version 3\n}}\n");
        for s in shared {
            let own_mac = match s.own_mac {
                true => format!(" use_vmac vrrp{}\n", s.id),
                false => String::new(),
            };
            config += &format!(
                "vrrp_instance v{id} {{\n state BACKUP\n interface {interface}\n virtual_router_id {id}\n priority {}\n advert_int {ADVERTISED_S}\n{own_mac} virtual_ipaddress {{\n  {}\n }}\n}}\n",
                if s.master == place { 200 } else { 100 },
                s.addresses,
                id = s.id,
            );
        }
        let file = t.file(&format!("keepalived-{interface}"), &config);
        let log = t.file(&format!("keepalived-{interface}-log"), "");
        let pid = |what: &str| file.with_extension(what).display().to_string();
        let line = format!(
            "taskset -c {} {ALWAYS} keepalived -n -l -D -G -P -f {} -p {} -r {} > {} 2>&1",
            t.lab.config.traffic_core,
            file.display(),
            pid("pid"),
            pid("vrrp-pid"),
            log.display(),
        );
        Self {
            daemon: Some(t.spawn(place, &line)),
            log,
        }
    }

    /// How often a state of a virtual router was entered.
    fn entered(&self, state: &str, id: u8) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let text = format!("(v{id}) Entering {state} STATE");
        log.lines().filter(|line| line.contains(&text)).count()
    }
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        self.daemon.take().unwrap().end(Signal::SIGTERM);
    }
}

/// Whether this kernel has the devices by which a virtual router has a MAC address of its own.
fn has_macvlan(t: &TestLab) -> bool {
    let made = t.exec(
        Place::Gen,
        "ip link add try0 link gen0 type macvlan && ip link delete try0",
    );
    made.status.success()
}

/// How often each virtual router was moved from one router to another, or had two masters, during an overload.
fn moved_under_load(t: &mut TestLab) -> (Vec<(u8, usize)>, Trial) {
    let with_mac = has_macvlan(t);
    if !with_mac {
        println!("without virtual MAC addresses: this kernel has no macvlan");
    }
    let shared: Vec<&Shared> = SHARED.iter().filter(|s| with_mac || !s.own_mac).collect();
    let routers = ENDS.map(|end| Keepalived::up(t, end, &shared));
    let entered = |id: u8| -> [usize; 2] {
        ["MASTER", "BACKUP"].map(|state| routers.iter().map(|r| r.entered(state, id)).sum())
    };
    wait_for("each address has its master", || {
        shared.iter().all(|s| {
            ENDS.iter().zip(&routers).all(|((place, _), router)| {
                let changes = ["MASTER", "BACKUP"].map(|state| router.entered(state, s.id));
                let leads = changes[0] > 0 && changes[0] >= changes[1];
                let follows = changes[1] > changes[0];
                if *place == s.master { leads } else { follows }
            })
        })
    });
    let before: Vec<_> = shared.iter().map(|s| entered(s.id)).collect();
    let trial = crate::overload_while(t, overload(), || ());
    let changes = shared.iter().zip(&before).map(|(s, before)| {
        let after = entered(s.id);
        (s.id, after[0] + after[1] - before[0] - before[1])
    });
    (changes.collect(), trial)
}

#[test]
#[ignore = "needs root: make test"]
fn addresses_that_keepalived_shares_stay_where_they_are_under_overload() {
    let mut t = TestLab::up("vrrp", |c| c.firewall = crate::RULES);
    let (alone, (with, trial)) = alone_and_with(&mut t, moved_under_load);
    println!(
        "{:?} of overload, an advertisement each {ADVERTISED_S} s, changes of state by virtual router: Linux alone {:?}; rxlane {with:?}",
        overload(),
        alone.map(|(moved, _)| moved),
    );
    assert!(trial.loss > 0.3, "the core was overloaded: {}", trial.loss);
    assert!(with.iter().all(|(_, moved)| *moved == 0), "{with:?}");
}
