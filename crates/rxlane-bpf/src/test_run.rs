//! A program on one frame, without a wire (BPF_PROG_TEST_RUN, Documentation/bpf/bpf_prog_run.rst).

use std::os::fd::{AsRawFd, BorrowedFd};

/// What a program made of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// XDP action: 1 drop, 2 pass, 4 redirect.
    pub action: u32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
}

/// Runs an XDP program `times` times in a row on a frame received on `ifindex`, each time on what the time before left of
/// the frame, and says what it made of the last one, and the mean time of a run in ns, by the kernel's clock. The
/// interface is one of the calling thread's network namespace; 0 stands for loopback.
///
/// # Errors
/// When the kernel refuses the test run, for instance because the frame is shorter than 14 bytes.
#[allow(unsafe_code)]
pub fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    ifindex: u32,
    times: u32,
) -> Result<(TestRun, u32), std::io::Error> {
    let mut out = vec![0u8; frame.len() + 256];
    let opts = libbpf_sys::bpf_test_run_opts {
        data_out: out.as_mut_ptr().cast(),
        data_size_out: out.len() as u32,
        repeat: times as i32,
        ..Default::default()
    };
    // SAFETY: the output buffer outlives the call, with its own size.
    let opts = unsafe { run_with(program, frame, ifindex, opts) }?;
    out.truncate(opts.data_size_out as usize);
    let outcome = TestRun {
        action: opts.retval,
        frame: out,
    };
    Ok((outcome, opts.duration))
}

/// Runs an XDP program on a frame received on `ifindex`, if that is not 0, in the way that the options say.
///
/// # Errors
/// When the kernel refuses the test run.
///
/// # Safety
/// What else the options point to outlives the call, with the sizes that they say.
#[allow(unsafe_code)]
pub unsafe fn run_with(
    program: BorrowedFd<'_>,
    frame: &[u8],
    ifindex: u32,
    mut opts: libbpf_sys::bpf_test_run_opts,
) -> Result<libbpf_sys::bpf_test_run_opts, std::io::Error> {
    let ctx = libbpf_sys::xdp_md {
        data_end: frame.len() as u32,
        ingress_ifindex: ifindex,
        ..Default::default()
    };
    opts.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as _;
    opts.data_in = frame.as_ptr().cast();
    opts.data_size_in = frame.len() as u32;
    if ifindex != 0 {
        opts.ctx_in = (&raw const ctx).cast();
        opts.ctx_size_in = size_of::<libbpf_sys::xdp_md>() as u32;
    }
    // SAFETY: frame and context outlive the call, with their own sizes, and so does the rest as the caller says.
    let ret = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut opts) };
    match ret {
        0.. => Ok(opts),
        _ => Err(std::io::Error::from_raw_os_error(-ret)),
    }
}
