//! Who is logged in over SSH, and from where: the connections that must not be cut.
//!
//! Guarantee: a session is found where its environment says so (`SSH_CONNECTION` of ssh(1), here or in a parent, because
//! sudo(8) strips it) or where a server of SSH has an established connection; whatever cannot be read is passed over, so
//! root finds more than others.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A connection, by its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// Address on this machine.
    pub local: IpAddr,
    /// Address of whoever is logged in.
    pub client: IpAddr,
}

/// Processes that serve SSH, by the beginning of their names: OpenSSH has `sshd` and `sshd-session`.
const SERVERS: [&str; 3] = ["sshd", "dropbear", "tinysshd"];
const VARIABLE: &str = "SSH_CONNECTION=";
/// `TCP_ESTABLISHED` of include/net/tcp_states.h, as /proc/net/tcp has it.
const ESTABLISHED: &str = "01";
/// Parents are followed so far.
const GENERATIONS: usize = 64;

/// All connections that can be found: of this process and its parents, and of the servers of this network namespace.
pub fn connections() -> BTreeSet<Connection> {
    let mut found: BTreeSet<Connection> = std::env::var("SSH_CONNECTION")
        .ok()
        .and_then(|text| of_variable(&text))
        .into_iter()
        .collect();
    let mut process = std::process::id();
    for _ in 0..GENERATIONS {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        found.extend(
            environment
                .split(|byte| *byte == 0)
                .filter_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix(VARIABLE))
                .filter_map(of_variable),
        );
        match parent(process) {
            Some(parent) if parent > 1 => process = parent,
            _ => break,
        }
    }
    let sockets = server_sockets();
    for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        found.extend(established(&text, &sockets));
    }
    found
}

/// Client's address and port, then the server's (ssh(1)).
fn of_variable(text: &str) -> Option<Connection> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let address = |at: usize| {
        let word = words.get(at)?.split('%').next()?;
        word.parse().ok().map(|a: IpAddr| a.to_canonical())
    };
    let (client, local) = (address(0)?, address(2)?);
    Some(Connection { local, client })
}

/// The name of a process may have spaces and brackets; its parent stands second after the last of them (proc_pid_stat(5)).
fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Inodes of the sockets that servers hold.
fn server_sockets() -> BTreeSet<u64> {
    let folder = |path: String| std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut inodes = BTreeSet::new();
    for process in folder("/proc".into()) {
        let name = process.file_name().to_string_lossy().into_owned();
        let comm = std::fs::read_to_string(format!("/proc/{name}/comm")).unwrap_or_default();
        if !SERVERS.iter().any(|server| comm.starts_with(server)) {
            continue;
        }
        for descriptor in folder(format!("/proc/{name}/fd")) {
            let target = std::fs::read_link(descriptor.path()).unwrap_or_default();
            let inode = target.to_str().and_then(|t| t.strip_prefix("socket:["));
            inodes.extend(inode.and_then(|i| i.strip_suffix(']')?.parse::<u64>().ok()));
        }
    }
    inodes
}

/// The connections of those sockets, from the text of /proc/net/tcp or tcp6 (proc_net_tcp of the kernel's documentation).
fn established(table: &str, sockets: &BTreeSet<u64>) -> Vec<Connection> {
    let connection = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let inode = words.get(9)?.parse().ok()?;
        (*words.get(3)? == ESTABLISHED && sockets.contains(&inode)).then_some(())?;
        Some(Connection {
            local: address(words.get(1)?)?,
            client: address(words.get(2)?)?,
        })
    };
    table.lines().skip(1).filter_map(connection).collect()
}

/// `0100007F:0016`: words of the address in the machine's byte order, then the port.
fn address(text: &str) -> Option<IpAddr> {
    let (digits, _) = text.split_once(':')?;
    if !digits.is_ascii() || digits.len() % 8 != 0 {
        return None;
    }
    let mut bytes = Vec::new();
    for at in (0..digits.len()).step_by(8) {
        let word = u32::from_str_radix(&digits[at..at + 8], 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    if let Ok(v4) = <[u8; 4]>::try_from(&bytes[..]) {
        return Some(Ipv4Addr::from(v4).into());
    }
    let v6 = <[u8; 16]>::try_from(&bytes[..]).ok()?;
    Some(IpAddr::from(Ipv6Addr::from(v6)).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(local: &str, client: &str) -> Connection {
        Connection {
            local: local.parse().unwrap(),
            client: client.parse().unwrap(),
        }
    }

    #[test]
    fn the_variable_names_client_and_server() {
        let found = of_variable("192.0.2.7 51234 198.51.100.1 22");
        assert_eq!(found, Some(connection("198.51.100.1", "192.0.2.7")));
        let found = of_variable("fe80::7%eth0 51234 fe80::1%eth0 22");
        assert_eq!(found, Some(connection("fe80::1", "fe80::7")));
        let found = of_variable("::ffff:192.0.2.7 51234 ::ffff:198.51.100.1 22");
        assert_eq!(found, Some(connection("198.51.100.1", "192.0.2.7")));
        for bad in ["", "192.0.2.7", "192.0.2.7 1 x 22", "a b c d"] {
            assert_eq!(of_variable(bad), None, "{bad}");
        }
    }

    #[test]
    fn established_connections_of_servers_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1\n\
            1: 0100000A:0016 0700000A:C822 01 00000000:00000000 00:00000000 00000000     0        0 12 1\n\
            2: 0100000A:0050 0800000A:C822 01 00000000:00000000 00:00000000 00000000     0        0 13 1\n\
            3: broken\n";
        let of_server = BTreeSet::from([11, 12]);
        let expected = connection("10.0.0.1", "10.0.0.7");
        #[cfg(target_endian = "little")]
        assert_eq!(established(table, &of_server), [expected]);
        assert_eq!(
            address("0000000000000000FFFF00000100007F:0016"),
            Some("127.0.0.1".parse().unwrap())
        );
        assert_eq!(address("7F:0016"), None);
    }

    #[test]
    fn every_process_but_the_first_has_a_parent() {
        assert_eq!(
            parent(std::process::id()),
            Some(std::os::unix::process::parent_id())
        );
        assert_eq!(parent(1), Some(0));
    }
}
