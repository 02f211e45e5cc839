//! The configurations: all pairs of what a configuration can ask of the programs, and the examples.

use crate::pairs::all_pairs;

/// One configuration, and what its traffic must show.
pub(crate) struct Shape {
    /// The values of its dimensions, or the name of an example.
    pub(crate) name: String,
    /// The file.
    pub(crate) toml: String,
    /// Whether packets of the test's flow must be seen on the express lane.
    pub(crate) express: bool,
}

/// Classes by letter, highest first: express or stack.
const LANES: [&str; 6] = ["ES", "E", "S", "EE", "EESS", "ESESESES"];
/// Trusts of the express classes, which take turns.
const TRUSTS: [&[&str]; 4] = [
    &["all"],
    &["established"],
    &["prefixes"],
    &["established", "prefixes", "all"],
];
/// What the first class matches on.
const FIELDS: [&str; 12] = [
    "dscp", "none", "port", "protocol", "vlan", "pcp", "src", "dst", "src_port", "dst_port",
    "bytes", "every",
];
/// Rules in all: one word of a rule set, two, or all four.
const RULES: [usize; 3] = [1, 65, 256];
const POLICE: [&str; 3] = [
    "",
    "police = { pps = 100000, burst = 500 }\n",
    "police = { bps = 1_000_000_000, burst = 100000 }\n",
];
const STACK: [&str; 5] = [
    "",
    "cores = [1]\nring = 256\n",
    "overload = \"queue\"\nweight = 512\n",
    "overload = \"shed\"\naim = \"latency\"\n",
    "overload = \"queue\"\ncores = [0, 1]\npriority = 10\naim = \"throughput\"\n",
];
const DATAPATHS: [&str; 5] = ["express", "sq", "rr", "ll-rr", "ll-wfq"];

/// What one rule says, so that it holds for the flow of `traffic.rs`, of both families and directions where it can.
fn rule(field: &str) -> Option<&'static str> {
    Some(match field {
        "dscp" => "{ dscp = \"EF\" }",
        "port" => "{ port = [\"in0\", \"out0\"] }",
        "protocol" => "{ protocol = \"udp\" }",
        "vlan" => "{ vlan = [5, 4094] }",
        "pcp" => "{ pcp = 5 }",
        "src" => "{ src = [\"10.0.0.0/8\", \"fd00::/8\"] }",
        "dst" => "{ dst = [\"10.0.0.0/8\", \"fd00::/8\"] }",
        "src_port" => "{ src_port = [\"4000-4999\", 5004] }",
        "dst_port" => "{ dst_port = [\"4000-4999\", 5004] }",
        "bytes" => "{ bytes = { offset = 36, value = 0x1000, mask = 0xf000 } }",
        "every" => concat!(
            "{ port = \"in0\", dscp = \"EF\", protocol = \"udp\", src = \"10.10.0.0/16\", dst = \"10.20.0.0/16\", ",
            "src_port = \"4000-4999\", dst_port = 5004, bytes = { offset = 36, value = 5004 } },\n",
            "  { vlan = 5, pcp = 5, bytes = { offset = 16, value = 1 } },\n",
            "  { bytes = { offset = 48, value = 1 }, protocol = \"tcp\" }, { bytes = { offset = 62, value = 1 }, dscp = 1 }"
        ),
        _ => return None,
    })
}

/// Whether the flow, which carries no tag, is matched.
fn matches_flow(field: &str) -> bool {
    !matches!(field, "none" | "vlan" | "pcp")
}

fn trust(name: &str) -> &str {
    match name {
        "prefixes" => "trust = { prefixes = [\"10.0.0.0/8\", \"fd00::/8\"] }\n",
        "established" => "trust = \"established\"\n",
        _ => "trust = \"all\"\n",
    }
}

fn pairwise(row: &[usize]) -> Shape {
    let lanes = LANES[row[0]];
    let trusts = TRUSTS[row[1]];
    let field = FIELDS[row[2]];
    let (rules, police, stack, datapath) = (
        RULES[row[3]],
        POLICE[row[4]],
        STACK[row[5]],
        DATAPATHS[row[6]],
    );
    // One ring for all classes cannot have two lanes, which `run` says; and the default class has no next one.
    let mixed = lanes.contains('E') && lanes.contains('S');
    let datapath = if mixed && datapath == "sq" {
        "ll-wfq"
    } else {
        datapath
    };
    let police = if lanes.len() == 1 { "" } else { police };
    let mut toml = "ports = [\"in0\", \"out0\"]\ningress = { in0 = \"xdp\", out0 = \"xdp\" }\noverlap = \"first-match\"\n".to_owned();
    if datapath != "express" {
        toml += &format!("datapath = \"afxdp\"\n[afxdp]\nstrategy = \"{datapath}\"\n");
    }
    for (i, lane) in lanes.chars().enumerate() {
        toml += &format!(
            "[[class]]\nname = \"c{i}\"\nlane = \"{}\"\n",
            if lane == 'E' { "express" } else { "stack" }
        );
        if i + 1 < lanes.len() {
            toml += police;
        }
        toml += if lane == 'E' {
            trust(trusts[i / 2 % trusts.len()])
        } else {
            stack
        };
        if i + 1 == lanes.len() {
            continue; // the default class has no rules
        }
        let mut list: Vec<String> = Vec::new();
        if i == 0 {
            list.extend(rule(field).map(str::to_owned));
            // Rules that nothing matches, so that the one above is not in the last word of the set.
            let more = rules.saturating_sub(8);
            list.extend(
                (0..more).map(|n| format!("{{ dst_port = {}, protocol = \"tcp\" }}", 20_000 + n)),
            );
        } else if i < 4 {
            list.push(format!("{{ dscp = {} }}", 9 + i));
        }
        if !list.is_empty() {
            toml += &format!("match = [{}]\n", list.join(",\n  "));
        }
    }
    let first = lanes.starts_with('E');
    let names = [
        lanes,
        &trusts.join("+"),
        field,
        &rules.to_string(),
        ["free", "pps", "bps"][row[4]],
        ["auto", "auto-core", "queue", "shed", "queue-cores"][row[5]],
        datapath,
    ];
    Shape {
        name: names.join(","),
        toml,
        express: first && (lanes == "E" || matches_flow(field)),
    }
}

/// An example as it is, with the lab's ports in place of its own.
fn example(name: &str, text: &str) -> Shape {
    Shape {
        name: format!("examples/{name}"),
        toml: text.replace("wan0", "in0").replace("lan0", "out0"),
        express: true,
    }
}

/// Every shape, in an order that does not change.
pub(crate) fn shapes() -> Vec<Shape> {
    let sizes = [
        LANES.len(),
        TRUSTS.len(),
        FIELDS.len(),
        RULES.len(),
        POLICE.len(),
        STACK.len(),
        DATAPATHS.len(),
    ];
    let mut shapes = vec![
        example(
            "voice.toml",
            include_str!("../../../../examples/voice.toml"),
        ),
        example(
            "router.toml",
            include_str!("../../../../examples/router.toml"),
        ),
        example("lab.toml", include_str!("../../../../examples/lab.toml")),
        example(
            "engine.toml",
            include_str!("../../../../examples/engine.toml"),
        ),
    ];
    shapes.extend(all_pairs(&sizes).iter().map(|row| pairwise(row)));
    shapes
}
