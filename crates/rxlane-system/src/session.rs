//! A process that the scheduler weighs against the whole machine instead of within a group.
//!
//! A nice level counts among the threads of a group only. Groups are sessions (`autogroup`, sched(7)) and cgroups that share
//! processors (cgroup-v2, "CPU"); kernel threads are in none. So beside a kernel thread of nice -20 a daemon of nice -20 gets
//! a hundredth of a core: what a group of nice 0 has.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::{SystemError, Tried};

/// Members of the cgroup that all others are in.
const ROOT_OF_CGROUPS: &str = "/sys/fs/cgroup/cgroup.procs";

/// Makes the process that `command` starts lead a session, which is a group of its own. A terminal's Ctrl-C does not reach it.
#[allow(unsafe_code)]
pub fn lead(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe (signal-safety(7)).
    unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) }
}

/// Gives the session that process `pid` leads, and the process itself, the weight of a nice level against the whole machine.
///
/// What a kernel without such groups does not have is left out.
///
/// # Errors
/// Without CAP_SYS_ADMIN, or when the process is gone.
pub fn weigh(pid: u32, nice: i32) -> Result<(), SystemError> {
    crate::threads::schedule(pid as i32, crate::threads::Scheduling::Nice(nice))?;
    let session = format!("/proc/{pid}/autogroup");
    for (file, value) in [
        (session.as_str(), nice.to_string()),
        (ROOT_OF_CGROUPS, pid.to_string()),
    ] {
        match std::fs::OpenOptions::new().write(true).open(file) {
            Ok(mut to) => {
                std::io::Write::write_all(&mut to, value.as_bytes())
                    .tried(|| format!("write {value} to {file}"))?;
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e).tried(|| format!("open {file}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root: make test"]
    fn the_session_of_a_process_gets_its_nice_level() {
        let mut command = Command::new("sleep");
        let mut child = lead(command.arg("60")).spawn().unwrap();
        let weighed = weigh(child.id(), -5);
        let group = std::fs::read_to_string(format!("/proc/{}/autogroup", child.id()));
        let own = std::fs::read_to_string("/proc/self/autogroup");
        child.kill().unwrap();
        child.wait().unwrap();
        weighed.unwrap();
        // A kernel without sessions as groups has none of these files.
        if let (Ok(group), Ok(own)) = (group, own) {
            assert!(group.trim().ends_with("nice -5"), "{group}");
            assert_ne!(group, own);
        }
    }
}
