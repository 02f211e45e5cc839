//! A firewall of a given length for the router, with connection tracking.

/// A ruleset that every test packet walks to its end: conntrack, `n` rules in the forward chain.
///
/// Rules are of the usual kind (prefix, protocol, port) and none but the last takes a test packet, which
/// is what a packet costs that the tenth page of a rule list lets through.
pub(super) fn rules(n: u32) -> String {
    let mut text = String::from(
        "table inet rxlane_lab {\n chain forward {\n  type filter hook forward priority filter; policy drop;\n  ct state invalid counter drop\n",
    );
    for i in 0..n.saturating_sub(2) {
        let (a, b) = (i / 250, i % 250);
        text += &format!(
            "  ip saddr 192.0.{a}.{b} tcp dport {} counter drop\n",
            1024 + i
        );
    }
    text += "  counter accept\n }\n}\n";
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_chain_has_as_many_rules_as_asked_for() {
        let counted = super::rules(60).matches("counter").count();
        assert_eq!(counted, 60);
    }
}
