//! The machine's batches of the stack, which routers of all namespaces share: alone in its file, because other tests' routers would
//! change them, too.

use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, sendto, socket,
};
use rxlane_bench::lab::Place;
use rxlane_system::netns::within;
use test_lab::{REST, TestLab, VOICE_ALL, VOICE_ESTABLISHED, wait_for};

const STATEFUL: &str = "table inet fw { chain forwarded { type filter hook forward priority 0; ct state established accept; }; }";
const SETTING: &str = "/proc/sys/net/core/gro_normal_batch";

fn batch() -> u32 {
    let text = std::fs::read_to_string(SETTING).expect("the machine's own namespace");
    text.trim().parse().expect("a number")
}

/// Tests of one file run at once, and the machine is one.
static MACHINE: Mutex<()> = Mutex::new(());

/// The machine's setting for one test, which is set back however that ends.
struct Alone {
    original: u32,
    _lock: MutexGuard<'static, ()>,
}

impl Alone {
    fn with(packets: u32) -> Self {
        let lock = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let original = batch();
        std::fs::write(SETTING, packets.to_string()).expect("root");
        Self {
            original,
            _lock: lock,
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = std::fs::write(SETTING, self.original.to_string());
    }
}

/// Empties the router's connection tracking, as `conntrack -F` does: a request to delete that names no flow.
fn forget_flows(t: &TestLab) {
    const BYTES: u8 = 20;
    const CT_DELETE: [u8; 2] = [2, 1];
    const NLM_F_REQUEST: u8 = 1;
    let mut request = [0; BYTES as usize];
    request[0] = BYTES;
    request[4..6].copy_from_slice(&CT_DELETE);
    request[6] = NLM_F_REQUEST;
    let sent = within(&t.lab.netns(Place::Router), false, || {
        let netfilter = Some(SockProtocol::NetlinkNetFilter);
        let flags = SockFlag::SOCK_CLOEXEC;
        let kernel = socket(AddressFamily::Netlink, SockType::Raw, flags, netfilter)
            .expect("a netlink socket");
        let to = NetlinkAddr::new(0, 0);
        Ok(sendto(kernel.as_raw_fd(), &request, &to, MsgFlags::empty()))
    });
    assert_eq!(sent.expect("the namespace"), Ok(request.len()));
}

#[test]
#[ignore = "needs root: make test"]
fn the_stack_takes_packets_as_before_while_nobody_can_be_express() {
    let _alone = Alone::with(11);
    let mut t = TestLab::up("batch3", |_| ());
    let router = t.router(&(VOICE_ESTABLISHED.to_owned() + REST));
    assert_eq!(batch(), 11, "connection tracking knows of no flow");
    t.must(Place::Router, &format!("nft '{STATEFUL}'"));
    t.must(Place::Gen, "ping -c 1 10.20.0.2");
    wait_for("batches of whole polls", || batch() == 64);
    t.must(Place::Router, "nft flush ruleset");
    forget_flows(&t);
    wait_for("batches as before", || batch() == 11);
    router.end(Signal::SIGTERM);
    assert_eq!(batch(), 11);
}

#[test]
#[ignore = "needs root: make test"]
fn the_stack_takes_whole_polls_from_the_first_router_until_the_last() {
    let _alone = Alone::with(11);
    let classes = VOICE_ALL.to_owned() + REST;
    let mut one = TestLab::up("batch1", |_| ());
    let mut two = TestLab::up("batch2", |_| ());

    let first = one.router(&classes);
    assert_eq!(batch(), 64);
    let second = two.router(&classes);
    first.end(Signal::SIGTERM);
    assert_eq!(batch(), 64, "the second needs it still");
    second.end(Signal::SIGTERM);
    assert_eq!(batch(), 11, "as it was before the first");

    // A killed daemon leaves its router, and what that needs; so does the one that takes over from it.
    for _ in 0..2 {
        let killed = one.router(&classes);
        // It serves a moment before it looks around.
        wait_for("batches of whole polls", || batch() == 64);
        killed.end(Signal::SIGKILL);
    }
    assert_eq!(batch(), 64);
    assert!(one.rxlane(&["detach"]).status.success());
    assert_eq!(batch(), 11);

    // What somebody else has set since is left alone, and so is what is long enough.
    let third = one.router(&classes);
    std::fs::write(SETTING, "32").expect("root");
    third.end(Signal::SIGTERM);
    assert_eq!(batch(), 32);
    std::fs::write(SETTING, "128").expect("root");
    let fourth = one.router(&classes);
    assert_eq!(batch(), 128);
    fourth.end(Signal::SIGTERM);
    assert_eq!(batch(), 128);
}
