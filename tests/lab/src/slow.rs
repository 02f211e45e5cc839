//! A host behind the router that takes packets more slowly than the router sends them.

use rxlane_bench::lab::Place;

use super::TestLab;

/// The host behind out0 walks so many rules for each packet, and the router's port has a qdisc in which packets can wait.
pub fn slow_host(t: &TestLab, rules: u32) {
    queue(t);
    let rules: String = (1..=rules)
        .map(|n| format!("udp sport {n} udp dport 7 counter\n"))
        .collect();
    let path = format!("/tmp/{}.nft", t.lab.config.name);
    let text = format!(
        "table inet slow {{ chain seen {{ type filter hook prerouting priority -300;\n{rules}}}\n}}\n"
    );
    std::fs::write(&path, text).unwrap();
    t.must(Place::Sink, &format!("nft -f {path} && rm {path}"));
}

pub fn queue(t: &TestLab) {
    t.must(
        Place::Router,
        "ip link set out0 txqueuelen 1000; tc qdisc replace dev out0 root pfifo_fast",
    );
}
