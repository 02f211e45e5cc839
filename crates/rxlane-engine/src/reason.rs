//! Why the engine gives packets to the kernel.

/// Why a packet is given to the kernel. In the order of `enum reason` in bpf/lib/shared.h, as far as they
/// are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Its class is served by the stack.
    Stack,
    /// Neither IPv4 nor IPv6, or its length is wrong.
    Malformed,
    /// The TTL would become 0.
    Ttl,
    /// Local, unreachable, blackhole or without a route.
    NotRouted,
    /// The next hop's address is not known yet.
    NoNeighbour,
    /// Longer than the egress link takes.
    Mtu,
    /// The route leaves through no port of the router, or through the port that the packet came from.
    Egress,
    /// Policy rules or VRFs route it, forwarding is off, routes are being read anew, or several next hops share it: only
    /// the kernel knows its hash.
    ByKernel,
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = 8;
    /// Names for `status`, in order.
    pub const NAMES: [&str; Self::COUNT] = [
        "stack",
        "malformed",
        "ttl",
        "not_routed",
        "no_neighbour",
        "mtu",
        "egress",
        "by_kernel",
    ];
}
