//! Statements applied to a router.
//!
//! A statement that the kernel refuses is passed over: shrinking takes away what others need, and as both routers are
//! equal they refuse the same.

use std::io::Write as _;
use std::process::{Command, Stdio};

use rxlane_system::{netns, sysctl};

use crate::scenario::Statement;
use crate::{OracleError, connections};

/// Runs a tool that must succeed.
pub(crate) fn tool(program: &str, args: &[&str]) -> Result<String, OracleError> {
    tool_with_input(program, args, "")
}

/// The same, with something to read.
pub(crate) fn tool_with_input(
    program: &str,
    args: &[&str],
    input: &str,
) -> Result<String, OracleError> {
    let failed = |output: String| OracleError::Tool {
        command: format!("{program} {}", args.join(" ")),
        output,
    };
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that ends without reading says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let words = String::from_utf8_lossy(&output.stderr);
        Err(failed(
            words.split_whitespace().collect::<Vec<_>>().join(" "),
        ))
    }
}

/// Applies statements in order; neighbours of one kind go to their tool together. Returns what was refused.
pub(crate) fn statements(router: &str, all: &[Statement]) -> Result<Vec<String>, OracleError> {
    let mut refused = Vec::new();
    let mut rest = all;
    while let Some(first) = rest.first() {
        let kind = std::mem::discriminant(first);
        let same = rest
            .iter()
            .take_while(|s| std::mem::discriminant(*s) == kind)
            .count();
        let (group, after) = rest.split_at(same);
        rest = after;
        match first {
            Statement::Ip(_) => refused.extend(ip(router, &lines(group))),
            Statement::Nft(_) => refused.extend(nft(router, &lines(group))?),
            Statement::Sysctl { .. } => refused.extend(write_sysctls(router, group)?),
            Statement::Session { .. } => refused.extend(sessions(router, group)),
            Statement::ForgetConnections => connections::forget(router)?,
            Statement::MarkConnections { .. } => mark_connections(router, group)?,
        }
    }
    Ok(refused)
}

fn lines(group: &[Statement]) -> Vec<&str> {
    group
        .iter()
        .filter_map(|s| match s {
            Statement::Ip(line) | Statement::Nft(line) => Some(line.as_str()),
            _ => None,
        })
        .collect()
}

/// In batches of one family: a batch has no place for `-6` in a line.
fn ip(router: &str, lines: &[&str]) -> Vec<String> {
    let six = |line: &str| line.starts_with("-6 ");
    let batches = lines.chunk_by(|a, b| six(a) == six(b));
    let one = |batch: &[&str]| {
        let bare = batch.iter().map(|l| l.strip_prefix("-6 ").unwrap_or(l));
        let text: String = bare.map(|l| format!("{l}\n")).collect();
        let family = batch.first().is_some_and(|l| six(l)).then_some("-6");
        let args = ["-n", router, "-force", "-batch", "-"];
        let args: Vec<&str> = family.into_iter().chain(args).collect();
        tool_with_input("ip", &args, &text).err()
    };
    batches.filter_map(one).map(|e| e.to_string()).collect()
}

/// All at once, as a file is; each alone when the file is refused.
fn nft(router: &str, lines: &[&str]) -> Result<Vec<String>, OracleError> {
    let within = ["netns", "exec", router, "nft", "-f", "-"];
    if tool_with_input("ip", &within, &(lines.join("\n") + "\n")).is_ok() {
        return Ok(Vec::new());
    }
    let alone = |line: &&str| tool_with_input("ip", &within, &format!("{line}\n")).err();
    Ok(lines
        .iter()
        .filter_map(alone)
        .map(|e| e.to_string())
        .collect())
}

fn sessions(router: &str, group: &[Statement]) -> Vec<String> {
    let open = |s: &Statement| match s {
        Statement::Session {
            name,
            device,
            id,
            remote,
        } => crate::sessions::open(router, name, device, *id, *remote).err(),
        _ => None,
    };
    group
        .iter()
        .filter_map(open)
        .map(|e| e.to_string())
        .collect()
}

fn write_sysctls(router: &str, group: &[Statement]) -> Result<Vec<String>, OracleError> {
    Ok(netns::within(router, false, || {
        let write = |s: &Statement| match s {
            Statement::Sysctl { name, value } => sysctl::write(name, value).err(),
            _ => None,
        };
        Ok(group
            .iter()
            .filter_map(write)
            .map(|e| e.to_string())
            .collect())
    })?)
}

fn mark_connections(router: &str, group: &[Statement]) -> Result<(), OracleError> {
    for statement in group {
        if let Statement::MarkConnections { tcp, mark } = statement {
            let protocol = if *tcp {
                connections::TCP
            } else {
                connections::UDP
            };
            connections::mark(router, protocol, *mark)?;
        }
    }
    Ok(())
}
