//! Which kernel features there are, and what a missing one costs.

use rxlane_system::features::{btf_knows, kernel_version};
use serde::{Deserialize, Serialize};

/// Oldest kernel that rxlane is meant for (Debian 12).
pub const OLDEST: (u32, u32) = (6, 1);

/// A kernel feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// Short name.
    pub name: String,
    /// Whether this kernel has it.
    pub present: bool,
    /// What does not work without it.
    pub without: String,
}

/// What was found on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// Release of the kernel.
    pub kernel: String,
    /// One entry per feature.
    pub features: Vec<Feature>,
}

/// Name of the feature that `trust = "established"` needs.
pub const CONNTRACK: &str = "conntrack-lookup";
/// Name of the feature that the controller needs.
pub const NAPI_TRACE: &str = "napi-poll-trace";
/// Name of the feature that ring counters need.
pub const CPUMAP_TRACE: &str = "cpumap-trace";
/// Name of the feature that the engine's shares need.
pub const REDIRECT_TRACE: &str = "xdp-redirect-trace";
/// Name of the feature that egress counters need.
pub const DEVMAP_TRACE: &str = "devmap-trace";

impl Features {
    /// Looks at the running kernel.
    pub fn probe() -> Self {
        let (version, kernel) = kernel_version().unwrap_or(((0, 0), "unknown".into()));
        let feature = |name: &str, present, without: &str| Feature {
            name: name.into(),
            present,
            without: without.into(),
        };
        let traces = |name: &str| btf_knows("vmlinux", &format!("btf_trace_{name}"));
        Self {
            kernel,
            features: vec![
                feature(
                    "linux-6.1",
                    version >= OLDEST,
                    "untested kernel: older than Linux 6.1",
                ),
                feature(
                    CONNTRACK,
                    btf_knows("nf_conntrack", "bpf_xdp_ct_lookup"),
                    "trust = \"established\" cannot be used (load the nf_conntrack module, or enable CONFIG_NF_CONNTRACK and CONFIG_DEBUG_INFO_BTF)",
                ),
                feature(
                    NAPI_TRACE,
                    traces("napi_poll"),
                    "overload cannot be seen: stack classes are always passed straight on",
                ),
                feature(
                    CPUMAP_TRACE,
                    traces("xdp_cpumap_enqueue") && traces("xdp_cpumap_kthread"),
                    "rings cannot be counted: classes with overload = \"queue\" cannot be used",
                ),
                feature(
                    REDIRECT_TRACE,
                    traces("xdp_redirect_err"),
                    "packets that an engine's ring refuses are not counted, and go on counting towards its share",
                ),
                feature(
                    DEVMAP_TRACE,
                    traces("xdp_devmap_xmit"),
                    "drops by the egress driver are not counted",
                ),
            ],
        }
    }

    /// Whether a feature is there.
    pub fn has(&self, name: &str) -> bool {
        self.features.iter().any(|f| f.name == name && f.present)
    }
}
