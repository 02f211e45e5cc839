//! What must see every packet of an established flow is named, keeps with the kernel what meets it, and can be accepted.

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, VOICE_ESTABLISHED, error_of, udp, wait_for};

/// A router that nobody has accepted anything of, and what it says.
fn run(t: &TestLab, config: &std::path::Path) -> (test_lab::Background, std::path::PathBuf) {
    let log = std::env::temp_dir().join(format!("{}-said.log", t.lab.config.name));
    let said = std::fs::File::create(&log).unwrap();
    (t.strict_router(config, said.into()), log)
}

/// Two hosts that say something to each other, marked EF, each time they are asked to.
fn marked_talk(t: &TestLab) -> impl Fn() {
    let host = udp(t, Place::Gen, "10.10.0.2:6000");
    let sink = udp(t, Place::Sink, "10.20.0.2:7000");
    for socket in [&host, &sink] {
        setsockopt(socket, sockopt::Ipv4Tos, &0xb8).unwrap();
    }
    move || {
        for (from, to, at) in [
            (&host, &sink, "10.20.0.2:7000"),
            (&sink, &host, "10.10.0.2:6000"),
        ] {
            from.send_to(b"said", at).expect("sent");
            to.recv(&mut [0; 64]).expect("received");
        }
    }
}

fn printed(out: std::process::Output) -> String {
    assert!(out.status.success(), "{}", error_of(&out));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
#[ignore = "needs root: make test"]
fn rules_that_must_see_every_packet_are_named_by_run_check_and_status() {
    let mut t = TestLab::up("perpacket", |_| ());
    let rules = "nft 'table inet fw { chain perpacket { type filter hook forward priority 0; udp dport 6000 limit rate over 50/second drop; ct state established,new accept; }; }'";
    t.must(Place::Router, rules);
    let config = t.config("router", &(VOICE_ESTABLISHED.to_owned() + REST));
    let file = config.to_str().unwrap();
    let named = "keeps flows with the kernel: the chain inet fw perpacket at forward limits packets (of flows: UDP, to port 6000)";
    let checked = printed(t.rxlane(&["check", "--live", file]));
    assert!(checked.contains(named), "{checked}");
    let accepted = printed(t.rxlane(&["check", "--live", "--accept-bypass", file]));
    assert!(
        accepted.contains("passes by, as accepted: the chain inet fw perpacket"),
        "{accepted}"
    );
    let (router, log) = run(&t, &config);
    wait_for("run says so", || {
        std::fs::read_to_string(&log).is_ok_and(|said| said.contains(named))
    });
    let status = printed(t.rxlane(&["status"]));
    assert!(status.contains(&format!("voice: {named}")), "{status}");
    let voice = t.status_json().unwrap()["classes"][0].clone();
    assert_eq!(voice["kept"].as_array().map(Vec::len), Some(1), "{voice}");
    assert_ne!(
        voice["why"]
            .as_str()
            .map(|why| why.contains("left to the kernel")),
        Some(true)
    );
    // What all flows meet leaves the class with the kernel, as long as it is there.
    t.must(Place::Router, "nft insert rule inet fw perpacket log");
    let why = || t.status_json().unwrap()["classes"][0]["why"].to_string();
    wait_for("the class stays with the kernel", || {
        why().contains("perpacket at forward logs packets")
    });
    t.must(Place::Router, "nft flush ruleset");
    wait_for("nothing is kept", || {
        t.status_json().unwrap()["classes"][0]["kept"].is_null() && !why().contains("perpacket")
    });
    router.end(Signal::SIGTERM);
    let _ = std::fs::remove_file(log);
}

#[test]
#[ignore = "needs root: make test"]
fn packets_that_a_rule_gives_another_mark_prove_nothing_for_those_that_came_with_it() {
    let mut t = TestLab::up("marked-anew", |_| ());
    let rules = "nft 'table ip fw { chain forwarded { type filter hook forward priority 0; ip dscp ef drop; ct state established,new accept; }; chain post { type filter hook postrouting priority 0; udp dport 7000 ip dscp cs1 ip dscp set ef; }; }'";
    t.must(Place::Router, rules);
    let config = t.config("router", &(VOICE_ESTABLISHED.to_owned() + REST));
    let (router, log) = run(&t, &config);
    let host = udp(&t, Place::Gen, "10.10.0.2:6000");
    let sink = udp(&t, Place::Sink, "10.20.0.2:7000");
    let says = |tos: i32| {
        setsockopt(&host, sockopt::Ipv4Tos, &tos).unwrap();
        host.send_to(b"said", "10.20.0.2:7000").unwrap();
        sink.recv(&mut [0; 64]).is_ok()
    };
    // A stream, of which both directions are known.
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(3) {
        assert!(says(0x20));
        sink.send_to(b"answer", "10.10.0.2:6000").unwrap();
        assert!(host.recv(&mut [0; 64]).is_ok());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for _ in 0..10 {
        assert!(!says(0xb8), "Linux drops it");
        assert!(says(0x20));
    }
    let kept = t.status_json().unwrap()["classes"][0]["kept"].to_string();
    assert!(
        kept.contains("gives packets other types of service"),
        "{kept}"
    );
    router.end(Signal::SIGTERM);
    let _ = std::fs::remove_file(log);
}

#[test]
#[ignore = "needs root: make test"]
fn what_all_flows_meet_refuses_no_start_and_is_passed_by_when_accepted() {
    let mut t = TestLab::up("universal", |_| ());
    let rules = "nft 'table inet fw { chain every { type filter hook forward priority 0; ct state established,new log; }; }'";
    t.must(Place::Router, rules);
    let config = t.config("router", &(VOICE_ESTABLISHED.to_owned() + REST));
    let (router, log) = run(&t, &config);
    let why = |t: &TestLab| t.status_json().unwrap()["classes"][0]["why"].to_string();
    wait_for("status says why", || {
        why(&t).contains("the chain inet fw every at forward logs packets")
    });
    router.end(Signal::SIGTERM);
    let _router = t.router_from(&config);
    assert!(!why(&t).contains("logs packets"), "it is accepted");
    let _ = std::fs::remove_file(log);
}

#[test]
#[ignore = "needs root: make test"]
fn a_rule_whose_comment_says_so_need_not_log_express_packets() {
    let mut t = TestLab::up("excepted", |_| ());
    let rules = r#"nft 'table inet fw { chain every { type filter hook forward priority 0; ct state established,new log group 5 comment "rxlane: express"; }; }'"#;
    t.must(Place::Router, rules);
    let config = t.config("router", &(VOICE_ESTABLISHED.to_owned() + REST));
    let (router, log) = run(&t, &config);
    let talk = marked_talk(&t);
    t.settle(2, talk);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(
        said.contains("passes by, as their comments say: the chain inet fw every at forward logs packets to group 5"),
        "{said}"
    );
    router.end(Signal::SIGTERM);
    let _ = std::fs::remove_file(log);
}

#[test]
#[ignore = "needs root: make test"]
fn rules_that_are_gone_when_a_daemon_takes_over_keep_nothing() {
    let mut t = TestLab::up("keptgone", |_| ());
    let rules = "nft 'table inet fw { chain forwarded { type filter hook forward priority 0; udp dport 7000 limit rate over 100000/second drop; ct state established,new accept; }; }'";
    t.must(Place::Router, rules);
    let config = t.config("router", &(VOICE_ESTABLISHED.to_owned() + REST));
    let (router, log) = run(&t, &config);
    let talk = marked_talk(&t);
    wait_for("the flow is kept", || {
        talk();
        t.to_kernel("objection") > 0
    });
    router.end(Signal::SIGUSR1);
    let less = "nft 'flush chain inet fw forwarded; add rule inet fw forwarded ct state established,new accept'";
    t.must(Place::Router, less);
    let (router, log2) = run(&t, &config);
    t.settle(2, talk);
    router.end(Signal::SIGTERM);
    let _ = (std::fs::remove_file(log), std::fs::remove_file(log2));
}
