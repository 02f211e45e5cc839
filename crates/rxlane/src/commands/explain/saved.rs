//! A saved ruleset, loaded into a network namespace that this process alone has: the kernel reads it, and without root, too.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// What a file has, or standard input.
pub(super) fn read(file: &Path) -> Result<String, String> {
    let read = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    read.map_err(|e| {
        let cure = "save it with `nft list ruleset > FILE` or `iptables-save > FILE`";
        format!("cannot read the ruleset {}: {e}; {cure}", file.display())
    })
}

/// Loads what `nft list ruleset` or `iptables-save` has printed. From then on the process is in a namespace that has nothing else but
/// devices of these names, and of those that the rules name.
pub(super) fn load(text: &str, devices: &[&str]) -> Result<(), String> {
    enter_namespace()?;
    let named = devices_named(text);
    let devices = named
        .iter()
        .map(String::as_str)
        .chain(devices.iter().copied());
    let devices: BTreeSet<&str> = devices.filter(|name| *name != "lo").collect();
    for (n, name) in devices.iter().enumerate() {
        // A veth of two ends is what every kernel with containers has.
        run(
            "ip",
            &[
                "link",
                "add",
                name,
                "type",
                "veth",
                "peer",
                "name",
                &format!("rxlane-{n}"),
            ],
            "",
        )?;
    }
    match reader(text) {
        Reader::Nft => run("nft", &["-f", "-"], text),
        Reader::Iptables(tool) => run(tool, &[], text),
    }
}

/// The rules of this namespace as `nft -a` prints them, if it is there.
pub(super) fn printed() -> Option<String> {
    let output = Command::new("nft").args(["-a", "list", "ruleset"]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn enter_namespace() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    let cure = "run it as root, or let users make namespaces (user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)";
    let failed = |e: &dyn std::fmt::Display| {
        format!("cannot make a network namespace to read the ruleset in: {e}; {cure}")
    };
    if user.is_root() && unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|e| failed(&e))?;
    // Whoever maps only itself must give up changing groups first.
    for (file, line) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ] {
        std::fs::write(file, line).map_err(|e| failed(&e))?;
    }
    Ok(())
}

enum Reader {
    Nft,
    Iptables(&'static str),
}

/// Who reads a ruleset: `iptables-save` begins a table with an asterisk.
fn reader(text: &str) -> Reader {
    let of_iptables = text.lines().any(|line| line.starts_with('*'));
    match of_iptables {
        false => Reader::Nft,
        true if text.contains("ip6tables-save") || has_v6(text) => {
            Reader::Iptables("ip6tables-nft-restore")
        }
        true => Reader::Iptables("iptables-nft-restore"),
    }
}

/// Whether a rule of iptables has an address of IPv6.
fn has_v6(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .windows(2)
        .any(|two| matches!(two[0], "-s" | "-d") && two[1].contains(':'))
}

fn run(tool: &str, arguments: &[&str], input: &str) -> Result<(), String> {
    let missing = |e: std::io::Error| format!("cannot run `{tool}`: {e}; install it");
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever ends without reading says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let is_pointer = |line: &&str| line.chars().all(|c| matches!(c, '^' | '~' | ' '));
    let lines = said.lines().map(str::trim).filter(|line| !is_pointer(line));
    let first: Vec<&str> = lines.take(2).collect();
    let cure = match &said {
        said if input.contains("xt match")
            || input.contains("xt target")
            || said.contains("xtables") =>
        {
            "; save rules of iptables with `iptables-save`"
        }
        said if said.contains("No such file or directory") => {
            "; this kernel lacks what it names: leave such lines out"
        }
        _ => "",
    };
    Err(format!(
        "`{tool}` refuses the ruleset: {}{cure}",
        first.join(": ")
    ))
}

/// Devices that must be there when rules are read, because they are known by their index.
fn devices_named(text: &str) -> BTreeSet<String> {
    let spaced: String = text
        .chars()
        .flat_map(|c| match c {
            '{' | '}' | ',' | ';' | '=' => vec![' ', c, ' '],
            '"' => vec![' '],
            c => vec![c],
        })
        .collect();
    let mut found = BTreeSet::new();
    let (mut wanted, mut in_list) = (false, false);
    for word in spaced.split_whitespace() {
        match word {
            "iif" | "oif" | "device" | "devices" => (wanted, in_list) = (true, false),
            "!" | "=" | "," if wanted => {}
            "{" if wanted => in_list = true,
            "}" => wanted = false,
            name if wanted => {
                let is_name = name.len() < 16 && !name.starts_with('$');
                if is_name && name.parse::<u32>().is_err() {
                    found.insert(name.to_owned());
                }
                wanted = in_list;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_that_rules_know_by_their_index() {
        let text = "table inet t { flowtable f { hook ingress priority 0; devices = { eth0, \"eth1.7\" }; }
            chain c { type filter hook ingress device \"wan0\" priority 0; iif \"lan0\" oif != ppp0 iifname \"any*\" accept
            iif { a, b } oif 3 drop } }";
        let found = devices_named(text);
        let wanted = ["a", "b", "eth0", "eth1.7", "lan0", "ppp0", "wan0"];
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn whoever_has_saved_a_ruleset_reads_it() {
        let of = |text| match reader(text) {
            Reader::Nft => "nft",
            Reader::Iptables(tool) => tool,
        };
        assert_eq!(of("table inet t {\n}\n"), "nft");
        assert_eq!(
            of("*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"),
            "iptables-nft-restore"
        );
        let v6 = "# Generated by ip6tables-save v1.8.9\n*filter\nCOMMIT\n";
        assert_eq!(of(v6), "ip6tables-nft-restore");
    }
}
