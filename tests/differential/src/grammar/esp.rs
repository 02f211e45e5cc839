//! IPsec between two networks, one behind the router and one behind a peer.

use super::behind::ENDS;
use super::{Dice, REMOTE};
use crate::scenario::Statement;

/// Encryption that does nothing, and a signature that is always the same for the same bytes.
const CIPHERS: [&str; 2] = [
    r#"auth digest_null "" enc ecb(cipher_null) """#,
    r#"auth hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f enc ecb(cipher_null) """#,
];

/// Policies with the states that they need, for a network behind the router and one behind a peer.
pub(super) fn draw(dice: &mut Dice) -> Vec<Statement> {
    let v6 = dice.chance(35);
    let [local, remote] = ENDS[usize::from(dice.chance(if v6 { 70 } else { 15 }))];
    let ours = dice.pick(if v6 {
        &["fd02::/64", "fd03::/64"]
    } else {
        &["10.2.0.0/24", "10.3.0.0/24"]
    });
    let theirs = dice.pick(&REMOTE[usize::from(v6)]);
    let cipher = dice.pick(&CIPHERS);
    let family = if v6 == local.contains(':') {
        String::new()
    } else if v6 {
        " sel src ::/0 dst ::/0".into()
    } else {
        " sel src 0.0.0.0/0 dst 0.0.0.0/0".into()
    };
    let tunnel =
        |from: &str, to: &str| format!("tmpl src {from} dst {to} proto esp reqid 1 mode tunnel");
    let state = |from: &str, to: &str| {
        format!(
            "xfrm state add src {from} dst {to} proto esp spi 0x100 reqid 1 mode tunnel {cipher}{family}"
        )
    };
    let mut lines = vec![
        state(local, remote),
        state(remote, local),
        format!(
            "xfrm policy add src {ours} dst {theirs} dir out {}",
            tunnel(local, remote)
        ),
    ];
    let back = tunnel(remote, local);
    for dir in ["fwd", "in"] {
        if dice.chance(85) {
            let level = dice.pick(&["", " level use"]);
            lines.push(format!(
                "xfrm policy add src {theirs} dst {ours} dir {dir} {back}{level}"
            ));
        }
    }
    if dice.chance(30) {
        let dir = dice.pick(&["out", "fwd", "in"]);
        let action = dice.pick(&["block", "allow"]);
        let protocol = dice.pick(&["", " proto udp", " proto tcp"]);
        lines.push(format!(
            "xfrm policy add src {ours} dst {theirs}{protocol} dir {dir} priority 1 action {action}"
        ));
    }
    lines.into_iter().map(Statement::Ip).collect()
}
