//! What kernel and surroundings must be for a configuration.

use rxlane_bpf::features::{AF_XDP, CONNTRACK, CPUMAP_TRACE, Features, TYPES};
use rxlane_bpf::layout::MAX_PORTS;
use rxlane_bpf::possible_cores;
use rxlane_config::{Datapath, RouterConfig};
use rxlane_policy::class::{Lane, Overload};
use rxlane_system::links::Links;
use rxlane_topology::attachment;

use crate::DataplaneError;
use crate::options::Options;
use crate::surroundings::{self, Surroundings};

/// What the kernel must have for this configuration.
pub(crate) fn check(
    config: &RouterConfig,
    options: Options,
    features: &Features,
    devices: &Links,
) -> Result<(), DataplaneError> {
    if config.ports.len() > MAX_PORTS {
        return Err(DataplaneError::TooManyPorts(config.ports.len()));
    }
    let engine = matches!(config.datapath, Datapath::Afxdp(_));
    attachment::check(config, devices)?;
    if engine && options.observe {
        return Err(DataplaneError::EngineObserves);
    }
    let needed = |name: &str| name == TYPES || (engine && name == AF_XDP);
    if let Some(feature) = features.missing().find(|f| needed(&f.name)) {
        return Err(DataplaneError::Kernel {
            kernel: features.kernel.clone(),
            without: feature.without.clone(),
        });
    }
    let cores = possible_cores()?;
    for class in &config.classes {
        let unsupported = |needs: String| DataplaneError::Unsupported {
            class: class.name.clone(),
            needs,
        };
        match &class.lane {
            Lane::Express { trust, .. } if trust.asks_linux() && !features.has(CONNTRACK) => {
                return Err(unsupported(format!(
                    "trust = \"{}\" needs conntrack lookups from XDP (nf_conntrack and its BTF); load the module, or trust prefixes",
                    trust.name()
                )));
            }
            Lane::Stack { ring, overload, .. } => {
                if let Some(core) = ring.cores.iter().find(|c| !cores.contains(c)) {
                    return Err(unsupported(format!(
                        "core {core} does not exist; this machine has cores 0 to {}",
                        cores.len() - 1
                    )));
                }
                if *overload == Overload::Queue && !features.has(CPUMAP_TRACE) {
                    return Err(unsupported(
                        "overload = \"queue\" needs the CPUMAP tracepoints; use \"shed\"".into(),
                    ));
                }
            }
            Lane::Express { .. } => {}
        }
    }
    Ok(())
}

/// Refuses what the surroundings of the ports forbid; returns them.
pub(crate) fn refuse(
    config: &RouterConfig,
    accept_bypass: bool,
    devices: &Links,
) -> Result<Surroundings, DataplaneError> {
    let around = Surroundings::read(&config.ports, devices, &[], &[])?.for_classes_of(config);
    surroundings::refuse(config, &around, accept_bypass)?;
    Ok(around)
}
