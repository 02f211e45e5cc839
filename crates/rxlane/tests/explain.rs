//! `rxlane explain` and the rules of a firewall.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use serde_json::Value;
use test_lab::program::{Program, text};

const PROGRAM: Program = Program(env!("CARGO_BIN_EXE_rxlane"));

const RULES: &str = r#"table inet fw {
  set blocked { type ipv4_addr; flags interval; elements = { 203.0.113.0/24 } }
  chain forward {
    type filter hook forward priority filter; policy drop;
    ip saddr @blocked drop
    udp dport 5060 limit rate over 200/second drop
    ct state vmap { established : accept, related : accept, invalid : drop }
    iif "lan0" oifname "wan0" jump from_lan
  }
  chain from_lan {
    tcp dport { 80, 443 } accept
    udp dport { 53, 5060 } accept
  }
  chain nat { type nat hook postrouting priority srcnat; oifname "wan0" masquerade; }
}
"#;

fn asked(rules: &str, options: &[&str], packet: &str) -> std::process::Output {
    let mut arguments = vec![
        "explain",
        "--ruleset",
        "-",
        "--from",
        "lan0",
        "--to",
        "wan0",
    ];
    arguments.extend(options);
    arguments.push(packet);
    PROGRAM.with_input(&arguments, rules)
}

fn json(rules: &str, packet: &str) -> Value {
    let out = asked(rules, &["--json"], packet);
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"))
}

#[test]
#[ignore = "needs root: make test"]
fn the_rule_of_a_saved_ruleset_that_decides_is_named() {
    let said = json(RULES, "tcp 10.2.0.10:4000 > 192.0.2.1:443");
    let firewall = &said["firewall"];
    assert_eq!(firewall["first"]["outcome"], "accept", "{said:#}");
    let rule = &firewall["first"]["because"][0];
    assert_eq!(rule["chain"], "from_lan", "{said:#}");
    assert_eq!(rule["text"], "tcp dport { 80, 443 } accept", "{said:#}");
    assert_eq!(firewall["established"]["outcome"], "accept", "{said:#}");
    assert_eq!(firewall["keeps"], Value::Array(Vec::new()), "{said:#}");
    let said = json(RULES, "tcp 10.2.0.10:4000 > 192.0.2.1:22");
    let first = &said["firewall"]["first"];
    assert_eq!(
        (&first["outcome"], &first["because"][0]["handle"]),
        (&"drop".into(), &Value::Null)
    );
    // An answer, to the address that the flow was translated from.
    let said = json(RULES, "tcp 10.2.0.10:4000 > 203.0.113.7:443");
    assert_eq!(said["firewall"]["answers"]["outcome"], "drop", "{said:#}");
    let out = asked(RULES, &[], "udp 10.2.0.10:4000 > 192.0.2.1:5060");
    let said = text(&out.stdout);
    for wanted in [
        "its first packet: accepted or dropped; it depends",
        "drops, or not: it limits packets: udp dport 5060 limit rate over 200/second drop",
        "It stays with the kernel: the chain inet fw forward at forward limits packets (of flows: UDP, to port 5060), rule ",
        "ct state established,related accept",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn rules_of_iptables_save_are_read_and_a_configuration_beside_them() {
    let rules = include_str!("../../rxlane-system/tests/rulesets/docker.rules");
    let arguments = [
        "explain",
        "-c",
        "examples/voice.toml",
        "--ruleset",
        "-",
        "--from",
        "lan0",
    ];
    let to = ["--to", "docker0", "tcp 10.2.0.10:4000 > 172.17.0.2:80"];
    let out = PROGRAM.with_input(&[&arguments[..], &to].concat(), rules);
    let said = text(&out.stdout);
    for wanted in [
        "class connections, which leaves by the express lane",
        "ip filter DOCKER at forward, rule ",
        "No rule has to see every packet of this flow.",
    ] {
        assert!(
            said.contains(wanted),
            "{wanted}: {said} {}",
            text(&out.stderr)
        );
    }
}

/// What the owners of twenty firewalls want of their flows was looked at with packets. An answer may depend on what is not evaluated,
/// and a flow may be kept that need not be; neither may become more.
#[test]
#[ignore = "needs root: make test"]
fn flows_of_twenty_firewalls_fare_as_their_owners_see() {
    const DEPEND: usize = 13;
    const KEPT: usize = 12;
    let place =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../rxlane-system/tests/rulesets");
    let (mut answers, mut depend, mut kept) = (0, Vec::new(), Vec::new());
    let flows = include_str!("../../rxlane-system/tests/rulesets/flows.tsv");
    for line in flows.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [ruleset, from, to, packet, first, established, back, keeps] = fields[..] else {
            panic!("{line}");
        };
        let text = std::fs::read_to_string(place.join(ruleset)).unwrap();
        // Kernels without flowtables take the rest.
        let has = |line: &&str| !line.contains("flowtable ft") && !line.contains("flow add");
        let lines: Vec<&str> = text.lines().filter(has).collect();
        let arguments = [
            "explain",
            "--ruleset",
            "-",
            "--from",
            from,
            "--to",
            to,
            "--json",
            packet,
        ];
        let out = PROGRAM.with_input(&arguments, &(lines.join("\n") + "\n"));
        let said: Value = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{line}: {e}: {}", self::text(&out.stderr)));
        let firewall = &said["firewall"];
        for (stage, wanted) in [
            ("first", first),
            ("established", established),
            ("answers", back),
        ] {
            let outcome = firewall[stage]["outcome"].as_str().unwrap();
            answers += 1;
            if outcome != wanted {
                assert_eq!(
                    outcome, "depends",
                    "{stage} should be {wanted}: {line}: {said:#}"
                );
                depend.push(line);
            }
        }
        match (keeps, firewall["keeps"].as_array().unwrap().is_empty()) {
            ("-", false) => kept.push(line),
            ("-", true) | (_, false) => {}
            (rule, true) => panic!("{rule} keeps none: {line}: {said:#}"),
        }
    }
    assert!(answers > 270, "{answers}");
    assert!(depend.len() <= DEPEND, "{depend:#?}");
    assert!(kept.len() <= KEPT, "{kept:#?}");
}

#[test]
#[ignore = "needs root: make test"]
fn what_cannot_be_read_is_one_line() {
    let packet = "udp 10.2.0.10:4000 > 192.0.2.1:5060";
    let out = asked("table inet t { chain", &[], packet);
    let said = text(&out.stderr);
    assert!(
        said.starts_with("rxlane: `nft` refuses the ruleset: "),
        "{said}"
    );
    assert_eq!((said.lines().count(), out.status.success()), (1, false));
    let file = ["explain", "--ruleset", "/nowhere", "--from", "lan0", packet];
    let said = text(&PROGRAM.run(&file).stderr);
    assert!(
        said.contains("the ruleset /nowhere") && said.contains("nft list ruleset"),
        "{said}"
    );
    let both = [
        "explain",
        "-c",
        "-",
        "--ruleset",
        "-",
        "--from",
        "lan0",
        packet,
    ];
    let said = text(&PROGRAM.run(&both).stderr);
    assert!(said.contains("standard input cannot be"), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn whoever_is_not_root_is_answered_too_or_told_what_it_takes() {
    const NOBODY: u32 = 65534;
    let place = std::env::temp_dir().join(format!("rxlane-explain-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let (program, rules) = (place.join("rxlane"), place.join("rules.nft"));
    std::fs::copy(env!("CARGO_BIN_EXE_rxlane"), &program).unwrap();
    std::fs::write(&rules, RULES).unwrap();
    for (path, mode) in [(&place, 0o755), (&program, 0o755), (&rules, 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let out = Command::new(&program)
        .args(["explain", "--from", "lan0", "--to", "wan0", "--ruleset"])
        .arg(&rules)
        .arg("tcp 10.2.0.10:4000 > 192.0.2.1:443")
        .current_dir(&place)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&place).unwrap();
    let (said, error) = (text(&out.stdout), text(&out.stderr));
    let answered = said.contains("its first packet: accepted");
    let told = error.contains("user.max_user_namespaces");
    assert!(answered || told, "{said} {error}");
}
