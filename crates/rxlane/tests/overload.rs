//! What the controller does when a core cannot keep up. Functional: who is served and in what order,
//! never how fast.

use std::io::{Read, Write};

use rxlane_bench::lab::{Firewall, Place};
use rxlane_bpf::features::Features;
use test_lab::bulk::{self, Uploads};
use test_lab::{REST, TestLab, VOICE_ALL, VOICE_ESTABLISHED};

fn flood(
    classes: &str,
    rt_ratio: f64,
    name: &str,
) -> (TestLab, rxlane_bench::trial::Trial, test_lab::Background) {
    let mut t = TestLab::up(name, |c| c.firewall = Firewall::Linear(400));
    let router = t.router(classes);
    let trial = t.flood(rt_ratio);
    (t, trial, router)
}

#[test]
#[ignore = "needs root: make test"]
fn shedding_protects_rt_and_reorders_nothing() {
    let (t, trial, _router) = flood(&(VOICE_ALL.to_owned() + REST), 0.1, "shed");
    let share = |class: usize| trial.classes[class].received / trial.classes[class].sent;
    assert!(share(0) > 2.0 * share(1), "RT {} BE {}", share(0), share(1));
    assert!(trial.classes[1].received > 0.0, "BE is not starved");
    assert_eq!(trial.classes[0].reordered + trial.classes[1].reordered, 0.0);
    assert!(t.class("rest", "early_drops") > 0);
    assert_eq!(
        t.class("rest", "queued"),
        0,
        "the class shares the polling core"
    );
    let rest = (
        t.class("rest", "packets"),
        t.class("rest", "passed") + t.class("rest", "early_drops"),
    );
    assert_eq!(rest.0, rest.1, "every packet is accounted for");
    let status = t.status_json().unwrap();
    let queues = status["queues"].as_array().unwrap().iter();
    let lost = |class: &str| -> u64 {
        let of_class = queues
            .clone()
            .filter(|q| q["queue"] == "core" && q["class"] == class);
        of_class.filter_map(|q| q["lost"].as_u64()).sum()
    };
    assert_eq!(lost("rest"), t.class("rest", "early_drops"));
    assert_eq!(lost("voice"), 0);
    let of_core = status["cores"].as_array().unwrap().iter();
    let longest_us = of_core.map(|c| c["longest_wait_us"].as_f64().unwrap());
    let longest_us = longest_us.fold(0.0, f64::max);
    assert!(longest_us > 0.0, "RT packets have waited");
    assert_eq!(status["rt_bound"]["longest_wait_us"], longest_us);
}

/// Steered to the core that it comes in by, a packet waits for another poll, as one that came in a tunnel or by a ppp device does.
#[test]
#[ignore = "needs root: make test"]
fn work_that_the_kernel_puts_off_is_counted_as_the_packets_and_rt_is_protected_from_it() {
    let mut t = TestLab::up("putoff", |c| c.firewall = Firewall::Linear(400));
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let core = 1 << t.lab.config.router_core;
    t.must(
        Place::Router,
        &format!("echo {core:x} > /sys/class/net/in0/queues/rx-0/rps_cpus"),
    );
    let trial = t.flood(0.1);
    let share = |class: usize| trial.classes[class].received / trial.classes[class].sent;
    assert!(share(0) > 0.9, "RT {} BE {}", share(0), share(1));
    assert!(trial.classes[1].received > 0.0, "BE is not starved");
    assert!(t.class("rest", "early_drops") > 0);
    assert_eq!(trial.classes[0].reordered + trial.classes[1].reordered, 0.0);
}

#[test]
#[ignore = "needs root: make test"]
fn without_express_traffic_nothing_is_shed() {
    let (t, _, _router) = flood(&(VOICE_ALL.to_owned() + REST), 0.0, "noexpress");
    // What the stack makes of a flood is its affair: on a slow machine nothing arrives within the trial.
    assert!(t.class("rest", "passed") > 0);
    assert_eq!(t.class("rest", "passed"), t.class("rest", "packets"));
    assert_eq!(t.class("rest", "early_drops"), 0);
}

#[test]
#[ignore = "needs root: make test"]
fn what_an_express_class_leaves_to_the_kernel_is_shed_as_the_stack_is() {
    const BULK: &str = "[[class]]\nname = \"bulk\"\nlane = \"express\"\ntrust = { prefixes = [\"10.10.0.0/16\"] }\nmatch = [{ dscp = \"CS0\" }]\n";
    let mut t = TestLab::up("left", |c| c.firewall = Firewall::Linear(400));
    let _router = t.router(&(VOICE_ESTABLISHED.to_owned() + BULK + REST));
    // Translation speaks against trust by prefix: while it is there, the class is the kernel's.
    t.must(
        Place::Router,
        "nft 'add table ip t; add chain ip t c { type nat hook postrouting priority srcnat; }; add rule ip t c ip saddr 192.0.2.1 masquerade'",
    );
    test_lab::wait_for("the class to be the kernel's", || {
        let status = t.status_json().unwrap();
        status["classes"][1]["why"]
            .as_str()
            .is_some_and(|why| why.contains("translates addresses"))
    });
    let trial = t.flood(0.1);
    assert!(t.to_kernel("objection") > 0);
    assert!(t.class("rest", "early_drops") > 0, "within its share");
    // Sixteen a poll is what passed of them before, whatever the core had time for.
    assert_eq!(
        t.class("rest", "packets"),
        t.class("rest", "passed") + t.class("rest", "early_drops")
    );
    let share = |class: usize| trial.classes[class].received / trial.classes[class].sent;
    assert!(share(0) > 2.0 * share(1), "RT {} BE {}", share(0), share(1));
    assert!(trial.classes[1].received > 0.0, "BE is not starved");
}

#[test]
#[ignore = "needs root: make test"]
fn slow_packets_are_an_overload_before_five_polls_of_them_have_passed() {
    // Long enough a firewall that a poll of 64 packets takes milliseconds on any machine.
    let mut t = TestLab::up("slow", |c| c.firewall = Firewall::Linear(16_000));
    // Protected also without RT traffic, which such polls are too slow to bring in time.
    let rest = REST.to_owned() + "aim = \"latency\"\n";
    let _router = t.router(&(VOICE_ALL.to_owned() + &rest));
    let state = |t: &TestLab, key: &str| {
        let cores = t.status_json().unwrap()["cores"].clone();
        let cores = cores.as_array().unwrap().iter();
        cores.map(|c| c[key].as_u64().unwrap()).max().unwrap_or(0)
    };
    t.must(Place::Gen, "ping -c 1 10.20.0.2");
    // A ring holds 256, which are four polls. From the traffic core, so that they come faster than they are served.
    t.must(
        Place::Gen,
        "taskset -c 1 socat -u -b 100 OPEN:/dev/zero,readbytes=25000 UDP4-DATAGRAM:10.20.0.2:9",
    );
    test_lab::wait_for("the burst to be served", || {
        t.class("rest", "passed") + t.class("rest", "early_drops") >= 200
    });
    assert_eq!(state(&t, "overloads"), 1);
    let service_ns = state(&t, "service_time_ns");
    assert!(
        service_ns > 31_000,
        "measured while entering, not guessed: {service_ns} ns"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn queueing_fills_a_bounded_ring_and_reorders_nothing() {
    let queue = REST.to_owned() + "overload = \"queue\"\nring = 256\ncores = [0]\npriority = 10\n";
    let (t, trial, _router) = flood(&(VOICE_ALL.to_owned() + &queue), 0.1, "queue");
    assert_eq!(trial.classes[0].reordered + trial.classes[1].reordered, 0.0);
    assert!(t.class("rest", "queued") > 0);
    let status = t.status_json().unwrap();
    let ring = &status["classes"][1]["rings"][0];
    assert_eq!(ring["size"], 256);
    assert!(
        ring["drops"].as_u64().unwrap() > 0,
        "the ring was full: {ring}"
    );
    let (entered, served) = (
        ring["enqueued"].as_u64().unwrap(),
        ring["dequeued"].as_u64().unwrap(),
    );
    assert!(entered >= served && entered - served <= 256, "{ring}");
    assert_eq!(
        t.class("rest", "queued"),
        entered + ring["drops"].as_u64().unwrap()
    );
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_that_shares_the_polling_core_waits_for_it_and_is_not_dropped() {
    let mut t = TestLab::up("parked", |c| c.firewall = Firewall::Linear(400));
    bulk::leave_nothing_to_devices(&t);
    // Protected without express traffic, too.
    let rest = REST.to_owned() + "aim = \"latency\"\n";
    let _router = t.router(&(VOICE_ALL.to_owned() + &rest));
    let uploads = Uploads::begin(&t, 8);
    let waits = Features::probe().cpumaps_merge;
    let counter = if waits { "queued" } else { "early_drops" };
    test_lab::wait_for("the core is overloaded", || t.class("rest", counter) > 2000);
    bulk::carry(&t, "10.20.0.2:7000");
    drop(uploads);
    assert_eq!(t.class("rest", "queued") > 0, waits);
    if !waits {
        return;
    }
    // Nothing but TCP and what looks for neighbours has come.
    assert_eq!(t.class("rest", "early_drops"), 0);
    test_lab::wait_for("the ring is empty, and its packets are counted", || {
        let status = t.status_json().unwrap();
        let rest = &status["classes"][1];
        let sum = |key: &str| -> u64 {
            let rings = rest["rings"].as_array().unwrap().iter();
            rings.map(|ring| ring[key].as_u64().unwrap()).sum()
        };
        sum("occupancy") == 0 && rest["queued"] == sum("enqueued") + sum("drops")
    });
}

/// Some hundred segments a second, which an idle core serves at once.
#[test]
#[ignore = "needs root: make test"]
fn an_overload_ends_although_tcp_goes_on() {
    let mut t = TestLab::up("parkedend", |c| c.firewall = Firewall::Linear(400));
    bulk::leave_nothing_to_devices(&t);
    let rest = REST.to_owned() + "aim = \"latency\"\n";
    let _router = t.router(&(VOICE_ALL.to_owned() + &rest));
    let uploads = Uploads::begin(&t, 8);
    let overloaded = |t: &TestLab| {
        let cores = t.status_json().unwrap()["cores"].clone();
        let mut cores = cores.as_array().unwrap().iter();
        cores.any(|core| core["overloaded"] == true)
    };
    test_lab::wait_for("the core is overloaded", || overloaded(&t));
    let (mut near, mut far) = bulk::connect(&t, "10.20.0.2:7000");
    near.set_nodelay(true).unwrap();
    let going = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Also where what is waited for below never comes.
            let begun = std::time::Instant::now();
            let lasts = std::time::Duration::from_secs(120);
            while going.load(std::sync::atomic::Ordering::Relaxed) && begun.elapsed() < lasts {
                near.write_all(&[1; 100]).expect("sent");
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
            near.shutdown(std::net::Shutdown::Both).expect("ended");
        });
        scope.spawn(|| while far.read(&mut [0; 10_000]).is_ok_and(|n| n > 0) {});
        drop(uploads);
        // However a stalled machine bunches them.
        test_lab::wait_for("the core serves TCP as Linux would", || !overloaded(&t));
        going.store(false, std::sync::atomic::Ordering::Relaxed);
    });
}
