//! What the kernel's verifier makes of the programs: what it took to accept one, and why it refused one.
//!
//! Source: `struct bpf_prog_info` (include/uapi/linux/bpf.h), Documentation/bpf/verifier.rst.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BpfError;

/// Instructions that the verifier looks at before it gives up (`BPF_COMPLEXITY_LIMIT_INSNS`, include/linux/bpf.h).
pub const LIMIT: u32 = 1_000_000;
/// Where a refused program is to be reported.
const ISSUES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/issues");

/// A program that the kernel has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Name of the program.
    pub name: String,
    /// Instructions that the verifier followed, of [`LIMIT`]; 0 where the kernel does not tell.
    pub verified_instructions: u32,
}

impl Accepted {
    /// Asks the kernel what accepting a loaded program took.
    #[allow(unsafe_code)]
    pub fn ask(name: &str, program: BorrowedFd<'_>) -> Self {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut len = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        // SAFETY: `info` and `len` outlive the call, and `len` is the size of `info`, whose pointers are null.
        let ret = unsafe {
            libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut len)
        };
        if ret < 0 {
            tracing::debug!(name, errno = -ret, "cannot ask about a program");
        }
        Self {
            name: name.into(),
            verified_instructions: info.verified_insns,
        }
    }
}

/// What libbpf has warned of since the last load began. The verifier's log comes this way too.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sends libbpf's messages to the log, and keeps its warnings, which a refused program is reported with.
pub fn log_libbpf() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |level, text| {
        if level == libbpf_rs::PrintLevel::Warn {
            warnings().push(text.clone());
        }
        let text = text.trim_end();
        match level {
            libbpf_rs::PrintLevel::Debug => tracing::trace!("{text}"),
            _ => tracing::debug!("{text}"),
        }
    })));
}

fn warnings() -> std::sync::MutexGuard<'static, Vec<String>> {
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads programs. A refusal names the program, the kernel, and what the verifier said last.
///
/// `what` names what is loaded where it was no program that failed.
pub fn load<T>(what: &str, load: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, BpfError> {
    log_libbpf();
    warnings().clear();
    load().map_err(|source| {
        let said = std::mem::take(&mut *warnings()).concat();
        // Maps come first: what fails there (memory, a capability) is nothing that the verifier has said.
        let Some(program) = refused(&said) else {
            return BpfError::Bpf {
                what: format!("load `{what}` ({})", last_words(&said)),
                source,
            };
        };
        BpfError::Refused {
            program: program.into(),
            kernel: rxlane_system::features::kernel_version()
                .map_or_else(|| "unknown".into(), |(_, release)| release),
            why: last_words(&said),
            report_to: ISSUES,
            source,
        }
    })
}

/// The program of libbpf's "prog 'NAME': BPF program load failed".
fn refused(said: &str) -> Option<&str> {
    said.lines()
        .find(|line| line.contains("load failed"))?
        .split('\'')
        .nth(1)
}

/// The end of the verifier's log: the line of source, the instruction, and the complaint. Where there is no log,
/// what libbpf said itself.
fn last_words(said: &str) -> String {
    let log = said
        .split_once("-- BEGIN PROG LOAD LOG --")
        .and_then(|(_, rest)| rest.split_once("-- END PROG LOAD LOG --"))
        .map(|(log, _)| log);
    let Some(log) = log else {
        let lines = said.lines().map(|l| l.trim_start_matches("libbpf: "));
        return join(lines.take(3));
    };
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !is_statistic(line))
        .collect();
    let source = lines.iter().rposition(|line| line.starts_with("; "));
    let instruction = lines.iter().rposition(|line| is_instruction(line));
    let complaint = instruction.map_or(lines.len().saturating_sub(2), |i| i + 1);
    join(
        source
            .into_iter()
            .chain(instruction)
            .map(|i| lines[i])
            .chain(lines[complaint..].iter().copied().take(3)),
    )
}

fn join<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let text = lines.collect::<Vec<_>>().join(" | ");
    if text.is_empty() {
        "it gave no reason".into()
    } else {
        text
    }
}

/// "processed 99 insns (limit 1000000) …", "verification time 17 usec" and "stack depth 8".
fn is_statistic(line: &str) -> bool {
    ["processed ", "verification time ", "stack depth "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// "97: (0f) r3 += r2   ; R2_w=…".
fn is_instruction(line: &str) -> bool {
    line.split_once(": (")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "libbpf: prog 'rxlane_full': BPF program load failed: -EINVAL
libbpf: prog 'rxlane_full': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; int rxlane_full(struct xdp_md *ctx) @ lane.bpf.c:203
0: (bf) r6 = r1                       ; R1=ctx() R6_w=ctx()
; if (l3 + total_len > p->data_end) @ parse.h:95
97: (0f) r3 += r2
math between pkt pointer and register with unbounded min value is not allowed
processed 99 insns (limit 1000000) max_states_per_insn 0 total_states 8 peak_states 8 mark_read 4
-- END PROG LOAD LOG --
libbpf: prog 'rxlane_full': failed to load: -EINVAL
";

    #[test]
    fn a_refusal_is_the_source_line_the_instruction_and_the_complaint() {
        assert_eq!(refused(SAID), Some("rxlane_full"));
        assert_eq!(
            last_words(SAID),
            "; if (l3 + total_len > p->data_end) @ parse.h:95 | 97: (0f) r3 += r2 | math between pkt pointer and register with unbounded min value is not allowed"
        );
    }

    #[test]
    fn a_program_that_is_too_complex_says_so() {
        let said = "libbpf: prog 'x': BPF program load failed: -E2BIG\n-- BEGIN PROG LOAD LOG --\nBPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";
        assert_eq!(
            last_words(said),
            "BPF program is too large. Processed 1000001 insn"
        );
    }

    #[test]
    fn without_a_log_libbpfs_own_words_are_told() {
        let said = "libbpf: failed to find kernel BTF type ID of 'x': -3\n";
        assert_eq!(
            last_words(said),
            "failed to find kernel BTF type ID of 'x': -3"
        );
        assert_eq!(last_words(""), "it gave no reason");
    }
}
