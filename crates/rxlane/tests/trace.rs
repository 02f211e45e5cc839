//! `rxlane trace`: packets that are seen, with what happened to them, and a router that nobody looks at any more.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use rxlane_bench::lab::{Firewall, Place};
use rxlane_dataplane::instance::Instance;
use rxlane_dataplane::trace::is_on;
use serde_json::Value;
use test_lab::{
    Background, REST, TestLab, VOICE_ALL, VOICE_ESTABLISHED, binary, error_of, wait_for,
};

const EF_PING: &str = "ping -Q 0xb8 -c 1 -W 1";

fn start(t: &TestLab, args: &[&str]) -> Child {
    Command::new(binary())
        .args(["--netns", &t.lab.netns(Place::Router), "trace"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rxlane starts")
}

fn is_traced(t: &TestLab) -> bool {
    let netns = t.lab.netns(Place::Router);
    let instance =
        rxlane_system::netns::within(&netns, false, || Ok(Instance::current().expect("one")));
    is_on(&instance.expect("the namespace")).expect("a router")
}

/// Traces while `traffic` is made again and again, until it ends by itself.
fn traced(t: &TestLab, args: &[&str], traffic: &str) -> (String, String) {
    let mut child = start(t, args);
    wait_for("the trace ends", || {
        // Some of it is not answered, which is no failure here.
        let _ = t.exec(Place::Gen, traffic);
        child.try_wait().expect("a child").is_some()
    });
    let out = child.wait_with_output().expect("its output");
    let (said, complaints) = (
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    );
    assert!(out.status.success(), "{said}{complaints}");
    (said, complaints)
}

fn accounts(t: &TestLab, args: &[&str], traffic: &str) -> Vec<Value> {
    let (said, _) = traced(t, &[args, &["--json"]].concat(), traffic);
    let lines = said.lines().map(|l| serde_json::from_str(l).expect("JSON"));
    lines.collect()
}

#[test]
#[ignore = "needs root: make test"]
fn packets_are_seen_with_their_rule_their_way_and_the_reason_for_it() {
    let mut t = TestLab::up("trace", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(Place::Gen, "ping -c 1 -W 2 10.20.0.2");
    let ping = format!("{EF_PING} 10.20.0.2");
    for a in accounts(&t, &["--verdict", "express", "-c", "4"], &ping) {
        let (from, to) = (a["from"].as_str(), a["to"].as_str());
        assert!(
            [(Some("in0"), Some("out0")), (Some("out0"), Some("in0"))].contains(&(from, to)),
            "{a}"
        );
        assert_eq!(
            (&a["class"], &a["named"]),
            (&"voice".into(), &"voice".into())
        );
        assert_eq!((&a["rule"], &a["line"]), (&1.into(), &7.into()), "{a}");
        assert_eq!((&a["trust"], &a["reason"]), (&"all".into(), &Value::Null));
        let packet = a["packet"].as_str().unwrap();
        assert!(packet.starts_with("icmp 10."), "{a}");
        assert!(packet.ends_with(" dscp 46"), "{a}");
        assert!(a["took_ns"].as_u64().is_some_and(|ns| ns > 0), "{a}");
    }
    let last_hop = format!("{EF_PING} -t 1 10.20.0.2");
    let seen = accounts(
        &t,
        &["--class", "voice", "--verdict", "kernel", "-c", "2"],
        &last_hop,
    );
    for a in seen {
        assert_eq!(
            (&a["verdict"], &a["reason"]),
            (&"kernel".into(), &"ttl".into()),
            "{a}"
        );
        assert!(a["because"].as_str().unwrap().contains("TTL"), "{a}");
    }
    let (said, complaints) = traced(&t, &["--class", "rest", "-c", "2"], "ping -c 1 10.20.0.2");
    for line in said.lines() {
        assert!(line.contains("kernel, class rest ("), "{line}");
    }
    assert!(complaints.starts_with("2 packets; "), "{complaints}");
    // What is not to be routed has no class.
    t.must(Place::Gen, "ip neigh flush all");
    let arp = "ip neigh flush all; ping -c 1 10.20.0.2";
    let seen = accounts(&t, &["--verdict", "kernel", "-c", "12"], arp);
    // The question goes to everybody.
    let arp = seen.iter().find(|a| a["reason"] == "not_to_us");
    assert_eq!(arp.expect("ARP")["class"], Value::Null);

    let out = t.rxlane(&["trace", "--class", "void"]);
    assert!(error_of(&out).contains("voice, rest"), "{out:?}");
}

#[test]
#[ignore = "needs root: make test"]
fn who_is_not_trusted_is_told_why() {
    let mut t = TestLab::up("tracetrust", |c| {
        c.firewall = "stateful:20".parse().unwrap();
    });
    let _router = t.router(&(VOICE_ESTABLISHED.to_owned() + REST));
    // The tracker knows of this flow, so that it is asked.
    t.must(Place::Gen, "ping -c 1 -W 2 10.20.0.2");
    let ping = format!("{EF_PING} 10.20.0.2");
    for a in accounts(&t, &["--class", "voice", "-c", "2"], &ping) {
        assert_eq!(
            (&a["class"], &a["named"]),
            (&"rest".into(), &"voice".into())
        );
        let why = a["trust"].as_str().expect("a reason");
        assert!(
            why.contains("not trusted by voice") && why.contains("UDP"),
            "{a}"
        );
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_flood_is_dropped_before_the_trace_and_shown_within_its_budget() {
    let mut t = TestLab::up("tracedrop", |c| c.firewall = Firewall::Linear(400));
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let child = start(&t, &["--verdict", "dropped", "--json", "--budget", "20"]);
    wait_for("it is on", || is_traced(&t));
    t.flood(0.1);
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, Signal::SIGINT).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let mut times = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let a: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&a["verdict"], &a["class"]),
            (&"dropped".into(), &"rest".into())
        );
        assert_eq!(a["reason"], "overload", "{a}");
        times.push(a["time_s"].as_f64().unwrap());
    }
    assert!(!times.is_empty(), "some of them are seen");
    for (i, from) in times.iter().enumerate() {
        let within = times[i..].iter().filter(|at| **at < from + 1.0).count();
        assert!(within <= 20, "{within} in a second: {times:?}");
    }
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!said.contains("; 0 not looked at"), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_written_can_be_read_and_says_what_happened() {
    let mut t = TestLab::up("tracefile", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(Place::Gen, "ping -c 1 -W 2 10.20.0.2");
    let path = std::env::temp_dir().join("t-tracefile.pcapng");
    let ping = format!("{EF_PING} -s 400 10.20.0.2");
    let written = path.to_str().unwrap();
    traced(
        &t,
        &["--verdict", "express", "-c", "4", "-w", written],
        &ping,
    );
    read(&path);
    // The same through a pipe.
    let piped = format!(
        "sh -c '{} --netns {} trace --verdict express -c 4 -w - > {written}'",
        binary().display(),
        t.lab.netns(Place::Router)
    );
    std::fs::remove_file(&path).unwrap();
    let mut shell = Command::new("sh").args(["-c", &piped]).spawn().unwrap();
    wait_for("the trace ends", || {
        t.must(Place::Gen, &ping);
        shell.try_wait().unwrap().is_some()
    });
    read(&path);
    std::fs::remove_file(&path).unwrap();
}

/// Four packets of 442 bytes, of which the first 255 are there, from two ports.
fn read(path: &Path) {
    let file = std::fs::File::open(path).expect("the file");
    let mut reader = PcapNgReader::new(file).expect("pcapng");
    let (mut ports, mut packets) = (Vec::new(), 0);
    while let Some(block) = reader.next_block() {
        match block.expect("a block") {
            Block::InterfaceDescription(i) => {
                ports.extend(i.options.into_iter().filter_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.into_owned()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(p) => {
                packets += 1;
                assert_eq!((p.original_len, p.data.len()), (442, 255));
                // As it came: the TTL is that of the sender.
                assert_eq!((p.data[12], p.data[22]), (8, 64));
                let year = p.timestamp.as_secs() / 31_556_952 + 1970;
                assert!((2024..2200).contains(&year), "{year}");
                let comment = p.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => Some(text.as_ref()),
                    _ => None,
                });
                let comment = comment.expect("a comment");
                assert!(comment.starts_with("express, class voice ("), "{comment}");
            }
            other => panic!("{other:?}"),
        }
    }
    ports.sort();
    assert_eq!((ports, packets), (vec!["in0".into(), "out0".into()], 4));
}

#[test]
#[ignore = "needs root: make test"]
fn a_killed_trace_leaves_nothing_on_and_a_second_one_waits_for_its_turn() {
    let mut t = TestLab::up("tracekill", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let first = Background(start(&t, &[]));
    wait_for("it is on", || is_traced(&t));
    let second = t.rxlane(&["trace"]);
    let said = error_of(&second);
    assert!(said.contains(&format!("pid {}", first.0.id())), "{said}");
    first.end(Signal::SIGKILL);
    assert!(is_traced(&t), "nobody has switched it off");
    wait_for("the lease ends with a packet after it", || {
        let _ = t.exec(Place::Gen, &format!("{EF_PING} 10.20.0.2"));
        !is_traced(&t)
    });
    // One that ends in order switches it off itself.
    let third = Background(start(&t, &[]));
    wait_for("it is on", || is_traced(&t));
    third.end(Signal::SIGTERM);
    assert!(!is_traced(&t));
}

#[test]
#[ignore = "needs root: make test"]
fn a_trace_goes_on_through_a_reload_and_ends_with_its_router() {
    let mut t = TestLab::up("tracereload", |_| ());
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(Place::Gen, "ping -c 1 -W 2 10.20.0.2");
    let mut child = start(
        &t,
        &[
            "--class",
            "voice",
            "--verdict",
            "express",
            "--json",
            "-c",
            "2",
        ],
    );
    wait_for("it is on", || is_traced(&t));
    // The class has another number now.
    let first = "[[class]]\nname = \"first\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"CS7\" }]\n";
    t.config("router", &format!("{first}{VOICE_ALL}{REST}"));
    t.reloaded();
    wait_for("the trace ends", || {
        t.must(Place::Gen, &format!("{EF_PING} 10.20.0.2"));
        child.try_wait().unwrap().is_some()
    });
    let out = child.wait_with_output().unwrap();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let account: Value = serde_json::from_str(line).unwrap();
        assert_eq!(account["class"], "voice");
    }
    let child = start(&t, &[]);
    wait_for("it is on", || is_traced(&t));
    router.end(Signal::SIGTERM);
    let out = child.wait_with_output().unwrap();
    assert!(error_of(&out).contains("no router"), "{out:?}");
}
