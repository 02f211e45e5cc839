//! Which kernel features there are, and what a missing one costs. Every one is looked for, whatever the version:
//! distributions add and leave out. What the verifier makes of the programs is another question
//! ([`crate::verifier`]).

use rxlane_system::features::{KernelTypes, has_af_xdp, kernel_version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether connection tracking is a module of this kernel, and loaded: then its functions are not in the type
/// information of the kernel proper.
pub fn conntrack_is_a_module() -> bool {
    std::path::Path::new("/sys/kernel/btf/nf_conntrack").exists()
}

/// A kernel feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Feature {
    /// Name as `status` prints it.
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
    /// Whether routes can be looked up without their neighbours (`BPF_FIB_LOOKUP_SKIP_NEIGH`, Linux 6.3): nothing is
    /// missing without it.
    #[serde(default)]
    pub fib_skips_neighbours: bool,
    /// Whether what a CPUMAP takes is merged (GRO) before the stack has it, as in NAPI (Linux 6.15): otherwise TCP of a
    /// core that is overloaded is better shed.
    #[serde(default)]
    pub cpumaps_merge: bool,
    /// Whether programs of traffic control can be attached by links (Linux 6.6): without it veths are served in XDP.
    #[serde(default)]
    pub tcx: bool,
}

/// Name of the feature that every program needs.
pub const TYPES: &str = "type-information";
/// Name of the feature that `trust = "established"` needs.
pub const CONNTRACK: &str = "conntrack-lookup";
/// Name of the feature that the controller needs.
pub const NAPI_TRACE: &str = "napi-poll-trace";
/// Name of the feature that ring counters need.
pub const CPUMAP_TRACE: &str = "cpumap-trace";
/// Name of the feature that the engine's shares and counters of refused frames need.
pub const REDIRECT_TRACE: &str = "xdp-redirect-trace";
/// Name of the feature that egress counters need.
pub const DEVMAP_TRACE: &str = "devmap-trace";
/// Name of the feature that the engine needs.
pub const AF_XDP: &str = "af-xdp";

impl Features {
    /// Looks at the running kernel.
    pub fn probe() -> Self {
        let types = KernelTypes::read(&["nf_conntrack"]);
        let traces = |names: &[&str]| names.iter().all(|n| types.know(&format!("btf_trace_{n}")));
        let kfuncs = |names: &[&str]| names.iter().all(|n| types.know(n));
        let feature = |name: &str, present, without: &str| Feature {
            name: name.into(),
            present,
            without: without.into(),
        };
        Self {
            kernel: kernel_version().map_or_else(|| "unknown".into(), |(_, release)| release),
            fib_skips_neighbours: types.know("BPF_FIB_LOOKUP_SKIP_NEIGH"),
            // What GRO keeps has been apart from NAPI since CPUMAPs merge.
            cpumaps_merge: types.know("gro_node"),
            tcx: types.know("BPF_TCX_INGRESS"),
            features: vec![
                feature(
                    TYPES,
                    types.are_there(),
                    "no program can be loaded: the kernel is built without CONFIG_DEBUG_INFO_BTF",
                ),
                feature(
                    CONNTRACK,
                    kfuncs(&[
                        "bpf_xdp_ct_lookup",
                        "bpf_ct_release",
                        "bpf_ct_change_timeout",
                    ]),
                    "trust = \"established\" cannot be used (load the nf_conntrack module, or enable CONFIG_NF_CONNTRACK and CONFIG_DEBUG_INFO_BTF_MODULES)",
                ),
                feature(
                    NAPI_TRACE,
                    traces(&["napi_poll"]),
                    "overload cannot be seen: stack classes are always passed straight on",
                ),
                feature(
                    CPUMAP_TRACE,
                    traces(&["xdp_cpumap_enqueue", "xdp_cpumap_kthread"]),
                    "rings cannot be counted: classes with overload = \"queue\" cannot be used, and TCP is shed as other packets are",
                ),
                feature(
                    REDIRECT_TRACE,
                    traces(&["xdp_redirect_err"]),
                    "packets that an engine's ring or an egress device refuses are not counted; the former go on counting towards the ring's share",
                ),
                feature(
                    DEVMAP_TRACE,
                    traces(&["xdp_devmap_xmit"]),
                    "drops by the egress driver are not counted",
                ),
                feature(
                    AF_XDP,
                    has_af_xdp(),
                    "datapath = \"afxdp\" cannot be used: the kernel is built without CONFIG_XDP_SOCKETS",
                ),
            ],
        }
    }

    /// Whether a feature is there.
    pub fn has(&self, name: &str) -> bool {
        self.features.iter().any(|f| f.name == name && f.present)
    }

    /// Those that are not there.
    pub fn missing(&self) -> impl Iterator<Item = &Feature> {
        self.features.iter().filter(|f| !f.present)
    }
}
