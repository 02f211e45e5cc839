//! `rxlane health`: what redundancy believes of a router.

use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::lab::{Firewall, Place};
use test_lab::{Background, REST, TestLab, VOICE_ALL, binary, wait_for};

const ADDRESS: &str = "10.10.0.254";

#[test]
#[ignore = "needs root: make test"]
fn a_router_is_healthy_until_its_port_or_its_daemon_is_gone() {
    let mut t = TestLab::up("health", |_| ());
    let health = |t: &TestLab| {
        let out = t.rxlane(&["health", "--interval", "0.1"]);
        let said = [out.stdout, out.stderr].concat();
        (
            out.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let (well, said) = health(&t);
    assert!(!well && said.contains("unhealthy"), "{said}");
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("the router is well", || health(&t).0);
    t.must(Place::Router, "ip link del out0");
    wait_for("the port is missed", || {
        health(&t).1.contains("port `out0` is not there")
    });
    let json = t.rxlane(&["health", "--interval", "0.1", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["healthy"], false);
    router.end(Signal::SIGKILL);
    wait_for("the daemon is missed", || {
        health(&t).1.contains("the daemon is gone")
    });
}

/// As docs/src/how-to/health.md has it.
fn keepalived(t: &mut TestLab) -> Background {
    let netns = t.lab.netns(Place::Router);
    let script = format!(
        "{} --netns {netns} health --interval 0.2 --overloaded-s 0.5",
        binary().display()
    );
    let conf = t.file(
        "keepalived",
        &format!(
            "global_defs {{ script_user root\n enable_script_security }}\n\
             vrrp_script well {{ script \"{script}\"\n interval 1\n timeout 30\n fall 1\n rise 1 }}\n\
             vrrp_instance lan {{ interface in0\n state MASTER\n virtual_router_id 7\n priority 100\n\
             virtual_ipaddress {{ {ADDRESS}/24 }}\n track_script {{ well }} }}\n"
        ),
    );
    let pid = |of: &str| format!("--{of}=/tmp/{}.{of}", t.lab.config.name);
    // Not as `ip netns exec`, which hides the programs in /sys/fs/bpf.
    let child = Command::new("nsenter")
        .arg(format!("--net=/run/netns/{netns}"))
        .args(["keepalived", "-n", "-P", "-f"])
        .arg(conf)
        .args([pid("pid"), pid("vrrp_pid")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("keepalived is installed");
    Background(child)
}

#[test]
#[ignore = "needs root: make test"]
fn keepalived_takes_an_address_from_an_overloaded_router_and_gives_it_back() {
    let mut t = TestLab::up("vrrp", |lab| lab.firewall = Firewall::Linear(400));
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let _keepalived = keepalived(&mut t);
    let is_here = |t: &TestLab| {
        t.must(Place::Router, "ip -4 addr show in0")
            .contains(ADDRESS)
    };
    wait_for("the address is here", || is_here(&t));
    t.offer_while(500_000.0, 0.1, Duration::from_secs(1), || {
        wait_for("the address is elsewhere", || !is_here(&t));
    });
    wait_for("the address is back", || is_here(&t));
}
