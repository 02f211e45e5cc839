//! XDP programs of others: which one is on a port, who holds it, and how it comes off.
//!
//! Sources: `fdinfo` of programs and links (`bpf_prog_show_fdinfo` and `bpf_link_show_fdinfo` in kernel/bpf/syscall.c), of processes as
//! well as of what is pinned.

use std::fmt::{Display, Formatter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, Program};
use rxlane_system::bpffs;

/// Folders below each other in which pins are looked for.
const DEEPEST: usize = 8;
/// The program with which libxdp calls several in turn (xdp-tools, lib/libxdp).
const DISPATCHER: &str = "xdp_dispatcher";

/// A process that holds a program, or the link by which it is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    pid: u32,
    name: String,
}

/// An XDP program that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    port: String,
    id: u32,
    name: Option<String>,
    pins: Vec<PathBuf>,
    /// Those of `pins` that are links, whose end takes the program off.
    pinned_links: Vec<PathBuf>,
    holders: Vec<Holder>,
    /// The holders of a link.
    link_holders: Vec<Holder>,
}

impl Foreign {
    /// What can be found out about the program on a port, as far as this process may know.
    pub fn find(port: &str, id: u32) -> Self {
        let mut this = Self {
            port: port.into(),
            id,
            name: name_of(id),
            pins: Vec::new(),
            pinned_links: Vec::new(),
            holders: Vec::new(),
            link_holders: Vec::new(),
        };
        this.look_at_pins(Path::new(bpffs::MOUNT_POINT), DEEPEST);
        this.look_at_processes();
        this
    }

    fn look_at_pins(&mut self, folder: &Path, deepest: usize) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && deepest > 0 => self.look_at_pins(&path, deepest - 1),
                Ok(kind) if kind.is_file() => {
                    let Some(held) = Held::pinned(&path).filter(|h| h.program == self.id) else {
                        continue;
                    };
                    if held.by_link {
                        self.pinned_links.push(path.clone());
                    }
                    self.pins.push(path);
                }
                _ => {}
            }
        }
    }

    fn look_at_processes(&mut self) {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|p| p.file_name().to_str()?.parse::<u32>().ok());
        for pid in numbers.filter(|pid| *pid != std::process::id()) {
            let folder = format!("/proc/{pid}/fdinfo");
            let descriptors = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let held = descriptors
                .filter_map(|d| Held::read(&std::fs::read_to_string(d.path()).ok()?))
                .filter(|held| held.program == self.id);
            let links: Vec<bool> = held.map(|held| held.by_link).collect();
            if links.is_empty() {
                continue;
            }
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = name.trim().to_owned();
            let holder = Holder { pid, name };
            if links.contains(&true) {
                self.link_holders.push(holder.clone());
            }
            self.holders.push(holder);
        }
    }

    /// How the program comes off the port.
    fn cure(&self) -> String {
        if self.name.as_deref() == Some(DISPATCHER) {
            return format!("xdp-loader unload {} --all", self.port);
        }
        let mut steps: Vec<String> = self
            .link_holders
            .iter()
            .map(|h| format!("end {h}"))
            .collect();
        steps.extend(
            self.pinned_links
                .iter()
                .map(|p| format!("rm {}", p.display())),
        );
        if steps.is_empty() {
            return format!("ip link set dev {} xdp off", self.port);
        }
        steps.join(", ")
    }
}

/// Which, whose, and how it comes off.
impl Display for Foreign {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}` (id {}", self.id)?,
            None => write!(f, "{} (", self.id)?,
        }
        let mut owners: Vec<String> = self
            .pins
            .iter()
            .map(|p| format!("pinned at {}", p.display()))
            .collect();
        owners.extend(self.holders.iter().map(|h| format!("held by {h}")));
        if owners.is_empty() {
            owners.push("nobody is found to hold it".into());
        }
        let separator = if self.name.is_some() { ", " } else { "" };
        write!(
            f,
            "{separator}{}; to remove it: {})",
            owners.join(", "),
            self.cure()
        )
    }
}

impl Display for Holder {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// What a descriptor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    program: u32,
    by_link: bool,
}

impl Held {
    /// What is pinned under a name.
    fn pinned(path: &Path) -> Option<Self> {
        let by_us = |object: BorrowedFd<'_>| {
            let path = format!("/proc/self/fdinfo/{}", object.as_raw_fd());
            Self::read(&std::fs::read_to_string(path).ok()?)
        };
        match Program::fd_from_pinned_path(path) {
            Ok(program) => by_us(program.as_fd()),
            Err(_) => by_us(Link::open(path).ok()?.as_fd()),
        }
    }

    /// `None` for the `fdinfo` of anything else.
    fn read(fdinfo: &str) -> Option<Self> {
        let value = |key: &str| fdinfo.lines().find_map(|l| l.strip_prefix(key));
        Some(Self {
            program: value("prog_id:")?.trim().parse().ok()?,
            by_link: value("link_type:").is_some(),
        })
    }
}

fn name_of(id: u32) -> Option<String> {
    let program = ProgInfoIter::default().find(|p| p.id == id)?;
    let name = program.name.to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign() -> Foreign {
        Foreign {
            port: "wan0".into(),
            id: 7,
            name: Some("firewall".into()),
            pins: Vec::new(),
            pinned_links: Vec::new(),
            holders: Vec::new(),
            link_holders: Vec::new(),
        }
    }

    fn somebody() -> Holder {
        Holder {
            pid: 12,
            name: "xdpd".into(),
        }
    }

    #[test]
    fn descriptors_of_programs_and_links_say_which_program_they_hold() {
        let link = "pos:\t0\nflags:\t02000000\nlink_type:\txdp\nlink_id:\t3\nprog_tag:\tab\nprog_id:\t7\nifindex:\t4\n";
        let by_link = true;
        assert_eq!(
            Held::read(link),
            Some(Held {
                program: 7,
                by_link
            })
        );
        let program = Held::read("prog_type:\t6\nprog_jited:\t1\nprog_id:\t7\n");
        assert_eq!(program.map(|held| held.by_link), Some(false));
        assert_eq!(Held::read("pos:\t0\nmap_id:\t9\n"), None);
    }

    #[test]
    fn who_holds_it_is_named_and_each_way_of_attaching_has_its_own_cure() {
        let netlink = foreign();
        assert_eq!(
            netlink.to_string(),
            "`firewall` (id 7, nobody is found to hold it; to remove it: ip link set dev wan0 xdp off)"
        );
        let held = Foreign {
            holders: vec![somebody()],
            link_holders: vec![somebody()],
            ..foreign()
        };
        assert!(
            held.to_string()
                .contains("held by xdpd (pid 12); to remove it: end xdpd (pid 12)")
        );
        let path = PathBuf::from("/sys/fs/bpf/x/link");
        let pinned = Foreign {
            pins: vec![path.clone()],
            pinned_links: vec![path],
            name: None,
            ..foreign()
        };
        assert_eq!(
            pinned.to_string(),
            "7 (pinned at /sys/fs/bpf/x/link; to remove it: rm /sys/fs/bpf/x/link)"
        );
        let dispatcher = Foreign {
            name: Some(DISPATCHER.into()),
            ..foreign()
        };
        assert!(
            dispatcher
                .to_string()
                .contains("xdp-loader unload wan0 --all")
        );
    }
}
