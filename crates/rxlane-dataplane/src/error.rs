use rxlane_bpf::BpfError;
use rxlane_engine::EngineError;
use rxlane_policy::PolicyError;
use rxlane_system::SystemError;
use thiserror::Error;

/// Why a router could not be started, changed or read. Messages name the thing, the cause and the cure.
#[derive(Debug, Error)]
pub enum DataplaneError {
    /// The classes or rules are wrong.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A BPF call failed, or a file of the instance could not be used.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The engine cannot start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The kernel refused something around the lanes.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Nobody can be told of flows.
    #[error("cannot reach the collector {collector}: {source}")]
    Collector {
        /// Where it should be.
        collector: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A port of the engine that is not there.
    #[error(
        "port `{0}`: no such interface in this network namespace, and the engine makes its rings for the ports that it finds: start it when they are there (`ip link` lists them), leave the port out, or use datapath = \"express\", which waits for ports"
    )]
    NoPort(String),
    /// A device that is named twice.
    #[error("ports `{0}` and `{1}` are names of one interface: remove one")]
    SamePort(String, String),
    /// A VLAN device that cannot be named.
    #[error(transparent)]
    VlanPort(#[from] rxlane_topology::attachment::UnfitVlan),
    /// The engine on a port without native XDP.
    #[error(
        "port `{port}`: the driver has no native XDP, and the engine's way into the kernel would lead back to the engine: leave the port out, or use datapath = \"express\""
    )]
    EngineOnGeneric {
        /// Name of the port.
        port: String,
    },
    /// A driver takes VLAN tags out of frames.
    #[error(
        "port `{port}`: its driver takes VLAN tags out of received frames ({feature}) and cannot be told not to, so that packets of a VLAN look like the port's own: leave the port out, or use another driver"
    )]
    TagsTaken {
        /// Name of the port.
        port: String,
        /// The feature, as `ethtool --show-features` names it.
        feature: String,
    },
    /// Packets of a class would pass by what Linux does with them.
    #[error("class `{class}` cannot be express: {why}; {cure}")]
    Objections {
        /// Name of the class.
        class: String,
        /// What speaks against it.
        why: String,
        /// What to do.
        cure: &'static str,
    },
    /// The interface has an XDP program that is not ours.
    #[error(
        "port `{port}`: another XDP program is already attached: {program}. A port has one, and that of rxlane forwards: remove the other, leave the port out, or let the other work at tc, which sees all that the express lane does not take"
    )]
    Occupied {
        /// Name of the port.
        port: String,
        /// The other program.
        program: Box<crate::foreign::Foreign>,
    },
    /// Neither native nor generic XDP works.
    #[error(
        "port `{port}`: the interface takes no XDP program ({source}): lower its MTU of {mtu} below the page size, which some drivers want, have it as many Rx queues as its peer has Tx queues, if it is a veth (ethtool -L), or leave the port out"
    )]
    NoXdp {
        /// Name of the port.
        port: String,
        /// MTU of the port, bytes.
        mtu: u32,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// Too many ports.
    #[error("{0} ports, but a router has at most 64")]
    TooManyPorts(usize),
    /// Ports whose indices collide in the port table.
    #[error(
        "port `{0}`: its ifindex collides with four others; recreate the interface to give it another"
    )]
    PortTable(String),
    /// The kernel lacks something that every program of this configuration needs.
    #[error("Linux {kernel}: {without}")]
    Kernel {
        /// Release of the kernel.
        kernel: String,
        /// What is missing, and what cannot be done without.
        without: String,
    },
    /// The kernel lacks something that a class needs.
    #[error("class `{class}`: {needs}")]
    Unsupported {
        /// Name of the class.
        class: String,
        /// What is needed and what to do instead.
        needs: String,
    },
    /// The engine takes packets away from the kernel, whatever becomes of them.
    #[error(
        "the engine cannot observe, because it takes packets away from the kernel: use datapath = \"express\" to observe, or leave mode = \"observe\" and --observe out"
    )]
    EngineObserves,
    /// A daemon is running in this namespace.
    #[error(
        "rxlane is already running in this network namespace (pid {0}); use `rxlane reload`, or stop it first"
    )]
    AlreadyRunning(u32),
    /// Somebody traces the router already.
    #[error(
        "another rxlane trace (pid {0}) is at work in this network namespace: end it first, or let it write a file (-w FILE)"
    )]
    Traced(u32),
    /// No reload waits to be confirmed.
    #[error(
        "nothing waits to be confirmed: it was confirmed or undone before, or reloaded without --timeout-undo"
    )]
    NothingUnconfirmed,
    /// No router in this namespace.
    #[error("no router in this network namespace; start one with `rxlane run -c FILE`")]
    NotRunning,
}
