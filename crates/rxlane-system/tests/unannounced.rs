//! What decides about packets without rules of netfilter that are announced: filters of traffic control, and changes of which
//! nobody tells.

mod common;

use common::{beside, nft, read, sh};
use rxlane_system::links;
use rxlane_system::ruleset::{Unannounced, per_packet_at};

#[test]
#[ignore = "needs root: make test"]
fn filters_of_traffic_control_are_read_with_what_they_compare() {
    for (matches, found) in [
        ("match ip dst 10.0.0.1 match ip dport 5004 0xffff", false),
        ("match ip tos 0xb8 0xfc", false),
        ("match ip protocol 1 0xff match u8 8 0xff at 20", false),
        ("match u8 64 0xff at 8", true),
        ("match u32 0x41545441 0xffffffff at nexthdr+8", true),
    ] {
        let said = beside(|| {
            sh(&format!(
                "tc qdisc add dev lan0 clsact; tc filter add dev lan0 ingress protocol ip u32 {matches} flowid :1"
            ));
            let links = links::all().unwrap();
            let lan0 = links.iter().find(|link| link.name == "lan0").unwrap();
            per_packet_at(lan0, &[]).unwrap()
        });
        assert_eq!(!said.is_empty(), found, "{matches}: {said:?}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_nobody_announces_changes_the_digest_and_counters_and_time_do_not() {
    beside(|| {
        nft(
            "table inet t {;; set s { type ipv4_addr; flags timeout;; };;
            chain f { type filter hook forward priority 0; ip saddr @s drop;; };; }",
        );
        sh("ipset create banned hash:ip timeout 600 counters");
        sh("iptables-legacy -A FORWARD -m set --match-set banned src -j DROP");
        sh("iptables-legacy -A OUTPUT -p udp -j ACCEPT");
        let uses = read().uses;
        let mut unannounced = Unannounced::open(&uses, &[1], &[]).unwrap();
        let mut digest = || unannounced.digest().unwrap();
        let mut last = digest();
        assert_eq!(digest(), last);
        for change in [
            "nft add element inet t s '{ 10.0.0.1 timeout 1h }'",
            "nft add element inet t s '{ 10.0.0.2 timeout 1h }'",
            "nft delete element inet t s '{ 10.0.0.1 }'",
            "ipset add banned 10.0.0.1 timeout 500",
            "ipset add banned 10.0.0.2",
            "ipset del banned 10.0.0.1",
            "iptables-legacy -A FORWARD -p tcp -j ACCEPT",
            "iptables-legacy -R FORWARD 2 -p udp -j ACCEPT",
            "ip6tables-legacy -t mangle -A FORWARD -j ACCEPT",
            "nft add element inet t s '{ 10.0.0.3 timeout 1s }'",
        ] {
            sh(change);
            let now = digest();
            assert_ne!(now, last, "{change}");
            last = now;
        }
        // Until the time of the last element is over.
        let with = last;
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while digest() == with {
            assert!(
                std::time::Instant::now() < end,
                "an element goes when its time is over"
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        last = digest();
        // Counters count.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"counted", "127.0.0.1:9").unwrap();
        sh("ipset add banned 10.0.0.2 timeout 300 -exist");
        assert_eq!(digest(), last);
    });
}
