//! Scenario files: what they may say, and what is said about those that may not.

use std::path::Path;

use proptest::prelude::*;
use rxlane_sim::SimError;
use rxlane_sim::run::{Row, run_point};
use rxlane_sim::scenario::{Scenario, load, parse};
use rxlane_sim::sweep::Sweep;

fn message(text: &str) -> String {
    parse(text, Path::new("s.toml"), &[])
        .map(|_| ())
        .unwrap_err()
        .to_string()
}

#[test]
fn an_error_names_file_line_and_cure() {
    for (text, expected) in [
        (
            "seconds = 1\nsecond = 1\n",
            "s.toml:2: unknown field `second`",
        ),
        (
            "[tcp]\nconnections = 0\n",
            "s.toml:2: tcp.connections = 0: give 1 to 1024",
        ),
        (
            "[tcp]\n[cpu]\ncores = 2\n",
            "tcp.connections = 4: connections need cpu.cores = 1",
        ),
        (
            "[tcp]\nclass = 2\n",
            "s.toml:2: tcp.class = 2: give a class that there is",
        ),
        (
            "[express]\negress = \"auto\"\n",
            "s.toml:2: express.egress = auto: there is no link that could be full",
        ),
        (
            "[qdisc]\ndescriptors = 8\ndiscipline = \"token-bucket\"\n",
            "s.toml:2: qdisc.descriptors = 8: a token bucket stands",
        ),
        (
            "[traffic]\n\npps = -1.0\n",
            "s.toml:3: traffic.pps = -1: give a rate",
        ),
        (
            "[traffic]\npps = 1e9\n",
            "s.toml:2: traffic.pps = 1000000000: more than the links carry",
        ),
        (
            "[reception]\nstrategy = \"ll-wfq\"\nbudgets = [4, 0]\n",
            "a budget of 0 would never serve",
        ),
        (
            "[reception]\nstrategy = \"ll-wfq\"\nbudgets = [4]\n",
            "1 ring budgets for 2 classes",
        ),
        (
            "[reception]\nprb = [4, 60]\n",
            "s.toml:2: `prb` is gone: the key is `budgets`, highest class first",
        ),
        (
            "[traffic]\nshares = [0.5, 0.6]\n",
            "s.toml:2: traffic.shares",
        ),
        ("[cpu]\npacket_ns = \"fast\"\n", "s.toml:2:"),
        (
            "[interrupt]\nthrottling = { algorithm = \"linear\", r_min = 0 }\n",
            "0 < r_min",
        ),
        (
            "[nic]\ncount = 0\n",
            "s.toml:2: nic.count = 0: give 1 to 64 NICs",
        ),
        (
            "[sweep]\n\"traffic.pps\" = { from = 2.0, to = 1.0, step = 1.0 }\n",
            "from <= to",
        ),
        (
            "[nic]\ntx_lock = 5\n",
            "s.toml:2: unknown field `tx_lock`, expected one of `count`, `descriptors`, `tx_descriptors`, `tx_lock_ns`",
        ),
        (
            "[[resource]]\nname = \"bus\"\nunits = 0\n",
            "s.toml:3: resource.units = 0: give 1 to 1024 units",
        ),
        (
            "[reception]\nscheme = \"express\"\n[cpu]\ngiant_lock = true\n",
            "without cpu.giant_lock",
        ),
        (
            "[cpu]\nspread = \"round-robin\"\n[reception]\nstrategy = \"rr\"\n",
            "s.toml:2: cpu.spread = round-robin: a NIC that goes",
        ),
        (
            "[host]\nsocket = 9\napplication_ns = 1\nbeside_softirq = 2\n",
            "s.toml:4: host.beside_softirq = 2: give a speed from 0 to 1",
        ),
        (
            "[host]\nsocket = 9\napplication_ns = 1\nprotocol_ns = 2\n",
            "s.toml:4: host.protocol_ns = 2: only behind a backlog",
        ),
        (
            "[transmit]\nqueue = 0\n",
            "s.toml:2: transmit.queue = 0: give 1",
        ),
        (
            "[transmit]\nqueue = 9\n[qdisc]\nlimit = 5\n",
            "packets leave by one way",
        ),
        (
            "[reception]\nold_interfaces = [1]\n",
            "s.toml:2: reception.old_interfaces = 1: number NICs from 0",
        ),
        (
            "[reception]\npriority = \"global\"\nstrategy = \"rr\"\n",
            "s.toml:2: reception.priority = global: classes of all devices",
        ),
        (
            "[interrupt]\nestimate = { algorithm = \"sojourn\", target_us = 0 }\n",
            "target_us > 0",
        ),
        (
            "[interrupt]\nestimate = { algorithm = \"soujourn\" }\n",
            "s.toml:2: unknown variant `soujourn`, expected one of `inter-arrival`, `sojourn`, `fill-level`",
        ),
        (
            "[cpu]\nprobe = { pause_us = 0, work_us = 1 }\n",
            "cpu.probe.pause_us = 0: give",
        ),
        (
            "[nic]\ntx_rings = \"class\"\n",
            "s.toml:2: nic.tx_rings = class: Tx rings fill only",
        ),
        (
            "[cpu]\npoll_ns = 0\n[reception]\nscheme = \"busy-polling\"\n",
            "s.toml:2: cpu.poll_ns = 0: a core that polls for ever",
        ),
        (
            "[cpu]\npreemptible = false\n[worker]\nring = 9\n",
            "it is a thread itself",
        ),
        (
            "[qdisc]\ndiscipline = \"token-bucket\"\nburst = 64\n",
            "s.toml:3: qdisc.burst = 64: no frame would ever be sent",
        ),
        (
            "[qdisc.red]\nmin = 30\nmax = 30\n",
            "s.toml:3: qdisc.red.max = 30: give at least a packet more",
        ),
        (
            "[qdisc]\nbuckets = 0\n",
            "s.toml:2: qdisc.buckets = 0: give 1",
        ),
        ("extends = \"nowhere.toml\"\n", "nowhere.toml"),
        ("seconds = nan\n", "s.toml:1: seconds"),
    ] {
        let found = match parse(text, Path::new("s.toml"), &[]) {
            Ok(loaded) => Sweep::new(&loaded).map(|_| ()).unwrap_err().to_string(),
            Err(e) => e.to_string(),
        };
        assert!(found.contains(expected), "{text:?}: {found}");
        assert!(!found.contains('\n'), "{found}");
    }
}

#[test]
fn a_key_that_does_not_exist_cannot_be_set_or_swept() {
    let set = |text: &str| {
        parse("", Path::new("s.toml"), &[text.into()])
            .unwrap_err()
            .to_string()
    };
    assert!(
        set("traffic.ppz=1").contains("ppz"),
        "{}",
        set("traffic.ppz=1")
    );
    assert!(set("nonsense").contains("no such key"));
    assert!(set("seed.x=1").contains("seed"));
    let swept = parse("[sweep]\n\"cpu.speed\" = [1]\n", Path::new("s.toml"), &[]).unwrap();
    assert!(Sweep::new(&swept).unwrap().point(0).is_err());
}

#[test]
fn a_truncated_capture_is_refused_with_the_packet_it_ends_in() {
    let folder = std::env::temp_dir().join(format!("rxlane-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut bytes = Vec::new();
    // Header of a little-endian capture of Ethernet frames, then two packets of 4 bytes.
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for usec in [0u32, 10] {
        for word in [1, usec, 4, 4, 0] {
            bytes.extend(word.to_le_bytes());
        }
    }
    let text = "[traffic]\npps = 1e5\npattern = { pattern = \"gaps\", file = \"a.pcap\" }\n";
    let path = folder.join("s.toml");
    std::fs::write(&path, text).unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(folder.join("a.pcap"), bytes).unwrap();
        load(&path, &[])
    };
    assert!(read(&bytes).is_ok());
    let cut = read(&bytes[..bytes.len() - 3]).unwrap_err();
    assert!(matches!(cut, SimError::Capture { .. }), "{cut}");
    assert!(cut.to_string().contains("a.pcap: packet 2"), "{cut}");
    let one = read(&bytes[..24]).unwrap_err().to_string();
    assert!(one.contains("record more"), "{one}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_that_extend_each_other_are_refused() {
    let folder = std::env::temp_dir().join(format!("rxlane-sim-circle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.toml");
    std::fs::write(&path, "extends = \"a.toml\"\n").unwrap();
    assert!(
        load(&path, &[])
            .unwrap_err()
            .to_string()
            .contains("without end")
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

const SWEPT: &str = r#"
seconds = 0.001
[[case]]
name = "sq"
set = { "reception.strategy" = "sq" }
[[case]]
name = "rr"
set = { "reception.strategy" = "rr" }
[sweep]
"traffic.pps" = { from = 0.1e6, to = 0.3e6, step = 0.1e6 }
"traffic.rt_ratio" = [0.0, 0.5]
"#;

#[test]
fn a_sweep_is_every_case_with_every_combination_and_its_points_and_rows_serialise() {
    let sweep = Sweep::new(&parse(SWEPT, Path::new("s.toml"), &[]).unwrap()).unwrap();
    assert_eq!(sweep.len(), 12);
    let points: Vec<_> = (0..12).map(|i| sweep.point(i).unwrap()).collect();
    let mut seen: Vec<String> = points
        .iter()
        .map(|p| format!("{} {:?}", p.case, p.keys))
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 12);
    assert_eq!(
        points[1].scenario.traffic.rt_ratio, 0.5,
        "the last key varies fastest"
    );
    let json = serde_json::to_string(&points[3]).unwrap();
    assert!(json.contains("\"rt_ratio\":0.5"), "{json}");
    let row = run_point(&points[3]).unwrap();
    let again: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
    assert_eq!(again, row);
}

#[test]
fn the_examples_are_sound() {
    for file in [
        "sim.toml",
        "sweep.toml",
        "overload.toml",
        "qdisc.toml",
        "tcp.toml",
        "tcp-core.toml",
        "masking.toml",
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(file);
        let sweep = Sweep::new(&load(&path, &[]).unwrap()).unwrap();
        for i in 0..sweep.len() {
            sweep.point(i).unwrap();
        }
    }
}

/// Texts that are mutated: a short one, ones with cases and a sweep, and every key that has a default.
fn seeds() -> &'static [String; 5] {
    static SEEDS: std::sync::OnceLock<[String; 5]> = std::sync::OnceLock::new();
    SEEDS.get_or_init(|| {
        [
            include_str!("../../../examples/sim.toml").to_owned(),
            include_str!("../../../examples/sweep.toml").to_owned(),
            include_str!("../../../examples/qdisc.toml").to_owned(),
            include_str!("../../../examples/tcp.toml").to_owned(),
            toml::to_string(&Scenario::default()).unwrap(),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(
        seed in 0usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0u8..5, any::<u8>()), 0..12),
        sets in prop::collection::vec("[a-z_.]{0,20}=?[-0-9a-z.\\[\\]{}\"]{0,8}", 0..3),
    ) {
        let mut text = seeds()[seed].replace("extends", "# extends").into_bytes();
        for (at, how, byte) in edits {
            let at = at.index(text.len().max(1)).min(text.len().saturating_sub(1));
            match how {
                0 if !text.is_empty() => { text.remove(at); }
                1 => text.insert(at, byte),
                2 if !text.is_empty() => text[at] = byte,
                3 => { let digit = b'0' + byte % 10; text.insert(at, digit); }
                _ => text.truncate(at),
            }
        }
        let text = String::from_utf8_lossy(&text);
        if let Ok(loaded) = parse(&text, Path::new("fuzz.toml"), &sets)
            && let Ok(sweep) = Sweep::new(&loaded)
            && !sweep.is_empty()
        {
            let _ = sweep.point(0);
            let _ = sweep.point(sweep.len() - 1);
        }
        let _ = message;
    }
}
