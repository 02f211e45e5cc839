use super::*;
use rxlane_system::firewall::Effects;

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
    for trust in [Trust::All, prefixes(), Trust::Established] {
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
