//! Files at the limits of what a router can be, and just beyond; and what no packet can match.

use std::fmt::Write as _;

use rxlane_config::{load, parse, parse_all};

const HEAD: &str = "ports = [\"wan0\", \"lan0\"]\n";
const REST: &str = "[[class]]\nname = \"rest\"\nlane = \"stack\"\n";

/// An express class whose rules stand in line 6.
fn class(trust: &str, rules: &str) -> String {
    format!("[[class]]\nname = \"fast\"\nlane = \"express\"\ntrust = {trust}\nmatch = [{rules}]\n")
}

fn file(rules: &str) -> String {
    format!("{HEAD}{}{REST}", class("\"established\"", rules))
}

/// So many addresses, in this list or that.
fn addresses(from: usize, to: usize) -> String {
    (from..to).fold(String::new(), |mut list, i| {
        write!(list, "\"10.{}.{}.{}\",", i >> 16, i >> 8 & 255, i & 255).unwrap();
        list
    })
}

/// The only mistake, and its line.
fn mistake(text: &str) -> (usize, String) {
    let wrong = parse(text).expect_err("must be refused");
    assert_eq!(wrong.all.len(), 1, "{wrong:?}");
    (wrong.all[0].line, wrong.all[0].message.clone())
}

#[test]
fn a_hundred_thousand_prefixes_are_taken_and_one_more_is_refused_with_their_number() {
    let rules = |n| {
        let (src, dst) = (addresses(0, n / 2), addresses(n / 2, n));
        format!("{{ src = [{src}] }}, {{ protocol = \"udp\", dst = [{dst}] }}")
    };
    let fits = parse(&file(&rules(100_000))).unwrap_or_else(|c| panic!("{c}"));
    assert_eq!(fits.classes[0].prefixes(), 100_000);
    let (line, message) = mistake(&file(&rules(100_001)));
    assert_eq!(line, 2, "the class that has most");
    assert!(message.contains("100001 prefixes"), "{message}");
    assert!(message.contains("100000 in all"), "{message}");
    // Those who are trusted count, too.
    let trust = format!("{{ prefixes = [{}] }}", addresses(0, 100_000));
    let with = |rule| format!("{HEAD}{}{REST}", class(&trust, rule));
    assert!(parse(&with("{ dscp = \"EF\" }")).is_ok());
    assert!(
        mistake(&with("{ dst = \"10.0.0.1\" }"))
            .1
            .contains("100001")
    );
}

#[test]
fn long_lists_of_ports_are_compared_as_short_ones() {
    let list = |from: u32, step: usize| {
        let ports = (from..65_536).step_by(step);
        ports.map(|p| p.to_string()).collect::<Vec<_>>().join(",")
    };
    let rules = format!(
        "{{ dst_port = [{}] }}, {{ dst_port = [{}] }}",
        list(1, 2),
        list(0, 2)
    );
    assert!(parse(&file(&rules)).is_ok());
    let covered = format!("{rules}, {{ dst_port = \"0-65535\" }}");
    assert!(
        parse(&file(&covered)).is_ok(),
        "two rules together cover it"
    );
    let all = format!("{{ dst_port = [{}] }}, {{ dst_port = 80 }}", list(0, 1));
    assert!(mistake(&file(&all)).1.contains("can never match"));
}

#[test]
fn a_prefix_with_bits_behind_its_length_is_refused_with_both_that_may_be_meant() {
    for (wrong, whole, alone) in [
        ("10.0.0.1/8", "10.0.0.0/8", "10.0.0.1 for"),
        ("2001:db8::1/32", "2001:db8::/32", "2001:db8::1 for"),
    ] {
        let (line, message) = mistake(&file(&format!("{{ dst = \"{wrong}\" }}")));
        assert_eq!(line, 6);
        assert!(message.contains(wrong), "{message}");
        assert!(
            message.contains(whole) && message.contains(alone),
            "{message}"
        );
        let trust = format!("{{ prefixes = [\"{wrong}\"] }}");
        let text = format!("{HEAD}{}{REST}", class(&trust, "{ dscp = 46 }"));
        let (line, message) = mistake(&text);
        assert_eq!(line, 5);
        assert!(message.contains(whole), "{message}");
    }
    assert!(
        parse(&file(
            "{ dst = [\"10.0.0.1/32\", \"10.0.0.1\", \"0.0.0.0/0\"] }"
        ))
        .is_ok()
    );
}

#[test]
fn a_rule_whose_ends_are_of_two_families_is_refused() {
    let (line, message) = mistake(&file("\n{ src = \"10.0.0.0/8\", dst = \"2001:db8::/32\" }"));
    assert_eq!(line, 7);
    assert!(message.contains("no packet ever matches"), "{message}");
    assert!(
        parse(&file(
            "{ src = \"::/0\", dst = [\"10.0.0.0/8\", \"192.0.2.1\"] }"
        ))
        .is_err()
    );
    // A packet of IPv6 can match.
    assert!(
        parse(&file(
            "{ src = [\"10.0.0.0/8\", \"::/0\"], dst = \"2001:db8::/32\" }"
        ))
        .is_ok()
    );
}

#[test]
fn the_loopback_is_no_port() {
    let (line, message) = mistake(&format!("ports = [\"wan0\", \"lo\"]\n{REST}"));
    assert_eq!(line, 1);
    assert!(message.contains("`lo` cannot be a port"), "{message}");
}

#[test]
fn what_is_hardly_meant_is_a_warning_with_its_line() {
    let warned = |text: &str| {
        let config = parse_all(text).unwrap_or_else(|c| panic!("{c}"));
        let lines = config.warnings.into_iter().map(|w| (w.line, w.message));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(warned(&file("{ dscp = 46 }")), []);
    let one = warned(&format!("\nports = [\"wan0\"]\n{REST}"));
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].0, 2);
    assert!(one[0].1.contains("the only port"), "{one:?}");
    // Nothing comes to a class without rules, unless from another class.
    let none = warned(&file(""));
    assert_eq!(none.len(), 1);
    assert!(none[0].1.contains("class `fast` has no rule"), "{none:?}");
    let heir = "[[class]]\nname = \"heir\"\nlane = \"stack\"\n";
    let fast = class("\"established\"", "{ dscp = 46 }");
    assert_eq!(
        warned(&format!("{HEAD}{fast}{heir}{REST}")),
        [],
        "untrusted"
    );
    let stack = "[[class]]\nname = \"s\"\nlane = \"stack\"\nmatch = [{ dscp = 0 }]\n";
    assert_eq!(warned(&format!("{HEAD}{stack}{heir}{REST}")).len(), 1);
    let police = "police = { pps = 10, burst = 1 }\n";
    assert_eq!(warned(&format!("{HEAD}{stack}{police}{heir}{REST}")), []);
}

#[test]
fn a_list_that_is_wrong_in_each_of_its_values_is_told_line_by_line() {
    let list = "\n\"10.0.0.1/8\",\"10.0.0.2/8\",".repeat(20_000);
    let wrong = parse(&file(&format!("{{ dst = [{list}] }}"))).expect_err("host bits");
    let (first, last) = (&wrong.all[0], &wrong.all[wrong.all.len() - 1]);
    assert_eq!((first.line, first.column), (7, 1));
    assert!(wrong.all.len() == 1 || last.line == 20_006);
    let wrong = parse(&file(&format!(
        "{{ dst_port = [{}] }}",
        "\n80, \"x\",".repeat(20_000)
    )));
    let wrong = wrong.expect_err("no ports");
    assert_eq!((wrong.all[0].line, wrong.all[0].column), (7, 5));
}

#[test]
fn a_file_in_another_encoding_is_refused_with_its_name_and_the_cure() {
    let path = std::env::temp_dir().join(format!("rxlane-utf16-{}.toml", std::process::id()));
    let bytes: Vec<u8> = format!("\u{feff}{HEAD}{REST}")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    std::fs::write(&path, bytes).unwrap();
    let message = load(&path).expect_err("UTF-16").to_string();
    assert!(message.contains("it is UTF-16"), "{message}");
    assert!(message.contains("iconv -f UTF-16 -t UTF-8"), "{message}");
    std::fs::write(&path, format!("\u{feff}{HEAD}{REST}")).unwrap();
    assert!(load(&path).is_ok(), "UTF-8 with a mark");
    std::fs::remove_file(&path).unwrap();
}
