use super::*;
use rxlane_ruleset::Effects;
use rxlane_ruleset::Meets;

fn hook(place: Place, effects: Effects) -> Surroundings {
    Surroundings {
        hooks: vec![Hook {
            table: "inet fw".into(),
            chain: "c".into(),
            place,
            device: None,
            effects,
        }],
        ..Surroundings::default()
    }
}

fn prefixes() -> Trust {
    Trust::Prefixes(vec!["10.0.0.0/8".parse().unwrap()])
}

const FILTERS: Effects = Effects {
    filters: true,
    marks: false,
    rewrites: false,
    translates: false,
    untracks: false,
    disguises: false,
};

#[test]
fn a_chain_that_filters_must_be_accepted() {
    for trust in [Trust::All, prefixes()] {
        for place in [Place::Ingress, Place::Prerouting, Place::Forward] {
            let around = hook(place, FILTERS);
            let [o] = &objections(&trust, &around)[..] else {
                panic!("one objection");
            };
            assert!(o.acceptable && o.why.contains("inet fw c at "), "{o:?}");
        }
    }
}

#[test]
fn rules_about_what_is_to_the_router_concern_tunnels_only() {
    let with = |effects| {
        let hooks = hook(Place::Input, effects).hooks;
        Surroundings {
            local_hooks: hooks,
            ..Surroundings::default()
        }
    };
    let around = with(FILTERS);
    assert_eq!(objections(&Trust::All, &around), []);
    let why = against_tunnels(&around, false).unwrap();
    assert!(why.contains("inet fw c at input"), "{why}");
    assert_eq!(against_tunnels(&around, true), None);
    let marks = Effects {
        marks: true,
        ..Effects::default()
    };
    assert!(against_tunnels(&with(marks), true).is_some());
}

#[test]
fn translation_marks_that_route_ipsec_and_redirects_cannot_be_accepted() {
    let nat = Effects {
        translates: true,
        ..Effects::default()
    };
    let marks = Effects {
        marks: true,
        ..Effects::default()
    };
    let rule = Rule {
        v6: false,
        priority: 100,
        by_mark: true,
        by_ingress: false,
        by_ports: false,
        suppresses: false,
        stock: None,
    };
    let marked = Surroundings {
        rules: vec![rule.clone()],
        ..hook(Place::Prerouting, marks)
    };
    let policies = Surroundings {
        ipsec_policies: 1,
        ..Surroundings::default()
    };
    let advised = Surroundings {
        advised: vec!["lan0".into()],
        ..Surroundings::default()
    };
    for around in [&hook(Place::Postrouting, nat), &marked, &policies, &advised] {
        for trust in [Trust::All, prefixes()] {
            let found = objections(&trust, around);
            assert!(found.iter().any(|o| !o.acceptable), "{around:?}");
        }
        assert_eq!(objections(&Trust::Established, around), []);
    }
    // What a macvlan device copies would leave once instead of twice, whoever is trusted.
    let taken = Surroundings {
        taken: vec![("lan0".into(), "mv0".into())],
        ..Surroundings::default()
    };
    for trust in [Trust::All, prefixes(), Trust::Established, Trust::Firewall] {
        let found = objections(&trust, &taken);
        assert!(found.len() == 1 && !found[0].acceptable, "{found:?}");
    }
    // A rule for marks that nobody gives is as Linux has it.
    let unmarked = Surroundings {
        rules: vec![rule],
        ..Surroundings::default()
    };
    assert_eq!(objections(&Trust::All, &unmarked), []);
}

fn config(trust: &str) -> RouterConfig {
    let text = format!(
        "ports = [\"lan0\"]\n[[class]]\nname = \"rt\"\nlane = \"express\"\ntrust = \"{trust}\"\nmatch = [{{ dscp = \"EF\" }}]\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n"
    );
    let Ok(config) = rxlane_config::parse(&text) else {
        panic!("a configuration");
    };
    config
}

/// Rules that limit all tracked, and all untracked flows, in a table with these effects.
fn limits(effects: Effects) -> Surroundings {
    let limit = |tracked| PerPacket {
        what: "limits packets".into(),
        place: format!("the chain {tracked}"),
        meets: Meets {
            tracked: Some(tracked),
            ..Meets::default()
        },
        rules: Vec::new(),
    };
    Surroundings {
        per_packet: vec![limit(true), limit(false)],
        ..hook(Place::Prerouting, effects)
    }
}

#[test]
fn untracked_flows_are_followed_where_a_class_wants_them_and_there_can_be_any() {
    let untracks = Effects {
        untracks: true,
        ..Effects::default()
    };
    for (trust, effects, nothing_is_tracked, follows) in [
        ("firewall", Effects::default(), true, true),
        ("firewall", untracks, false, true),
        ("firewall", Effects::default(), false, false),
        ("established", untracks, true, false),
    ] {
        let config = config(trust);
        let around = limits(effects).with_untracked(&config, nothing_is_tracked);
        assert_eq!(around.follows_untracked, follows, "{trust} {effects:?}");
        let closed: Vec<String> = against(&config, &around, false)
            .into_iter()
            .flat_map(|(_, why)| why)
            .collect();
        let kept = kept_of_classes(&config, &around, false);
        if follows {
            // One limit keeps one kind of flows, the other the other.
            assert_eq!(closed, [""; 0]);
            let of =
                |tracked, flows| format!("the chain {tracked} limits packets (of all {flows})");
            let both = vec![of(true, "tracked flows"), of(false, "untracked flows")];
            assert_eq!(kept, [("rt".to_owned(), both)]);
        } else {
            // There are only the flows of the first.
            assert_eq!(closed, ["the chain true limits packets"]);
            assert_eq!(kept, []);
        }
    }
}

#[test]
fn what_looks_like_another_flow_has_untracked_flows_stay_and_says_why() {
    let disguises = Effects {
        disguises: true,
        rewrites: true,
        ..Effects::default()
    };
    let config = config("firewall");
    let around = hook(Place::Postrouting, disguises).with_untracked(&config, true);
    assert!(!around.follows_untracked);
    assert_eq!(against(&config, &around, false), []);
    let why = "the chain inet fw c at postrouting rewrites addresses, ports, types of service or TTLs (of all untracked flows)";
    let kept = vec![("rt".to_owned(), vec![why.to_owned()])];
    assert_eq!(kept_of_classes(&config, &around, false), kept);
}

#[test]
fn what_all_flows_meet_holds_established_back_and_what_some_meet_is_kept() {
    let text = "ports = [\"lan0\"]\n[[class]]\nname = \"rt\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ dscp = \"EF\" }]\n\
        [[class]]\nname = \"all\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"AF41\" }]\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n";
    let Ok(config) = rxlane_config::parse(text) else {
        panic!("a configuration");
    };
    let found = |meets| Surroundings {
        per_packet: vec![PerPacket {
            what: "logs packets".into(),
            place: "the chain inet fw c at forward".into(),
            meets,
            rules: Vec::new(),
        }],
        ..Surroundings::default()
    };
    let of_all = found(Meets::default());
    let of_some = found(Meets {
        protocol: Some(17),
        ..Meets::default()
    });
    let why = |text: &str| vec![("rt".to_owned(), vec![text.to_owned()])];
    let held_back = why("the chain inet fw c at forward logs packets");
    assert_eq!(against(&config, &of_all, false), held_back);
    assert_eq!(against(&config, &of_all, true), []);
    assert_eq!(accepted(&config, &of_all), held_back);
    assert_eq!(kept_of_classes(&config, &of_all, false), []);
    // While the class stays with the kernel nothing is passed by.
    assert!(refuse(&config, &of_all, false).is_ok());

    let kept = why("the chain inet fw c at forward logs packets (of flows: UDP)");
    assert_eq!(against(&config, &of_some, false), []);
    assert_eq!(kept_of_classes(&config, &of_some, false), kept);
    assert_eq!(kept_of_classes(&config, &of_some, true), []);
    assert_eq!(accepted(&config, &of_some), kept);
    let said = warnings(&config, &of_some, false);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("class `rt` keeps flows with the kernel: the chain"),
        "{said:?}"
    );

    // What nobody may accept refuses a start still, and so does what `all` must accept.
    let taken = Surroundings {
        taken: vec![("lan0".into(), "mv0".into())],
        ..of_all
    };
    assert!(refuse(&config, &taken, true).is_err());
    assert!(refuse(&config, &hook(Place::Forward, FILTERS), false).is_err());
}
