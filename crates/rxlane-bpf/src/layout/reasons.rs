//! Why the lanes leave a packet to Linux.

/// Why a packet is left to the kernel: names and meanings of `enum reason`, in order.
pub const REASONS: [(&str, &str); 29] = [
    ("not_ip", "ARP, or another protocol than IPv4 and IPv6"),
    (
        "not_to_us",
        "a broadcast, a multicast, or the MAC address of somebody else",
    ),
    ("malformed", "lengths or headers that contradict each other"),
    (
        "vlan",
        "a tagged frame of a VLAN whose device the lane does not serve (`rxlane status` says why), or one of a bridge or macvlan device, whose tags cannot be seen",
    ),
    (
        "options",
        "IPv4 options; IPv6 hop-by-hop or destination options, or a routing header",
    ),
    (
        "icmp_error",
        "an ICMP error, for which Linux chooses the next hop by the packet that it is about",
    ),
    (
        "special_address",
        "a source or destination that is never forwarded: loopback, link-local, multicast",
    ),
    (
        "ttl",
        "the TTL or hop limit would reach 0; the kernel tells the sender",
    ),
    (
        "fragment",
        "a part of a packet, which connection tracking may have to put together first",
    ),
    (
        "forwarding_off",
        "forwarding is off on the interface it came from",
    ),
    (
        "not_routed",
        "to this machine itself, or a route that refuses: blackhole, unreachable, prohibit",
    ),
    ("tunnel", "the route encapsulates"),
    (
        "no_neighbour",
        "the MAC address of the next hop is not known yet; the kernel asks for it",
    ),
    (
        "mtu",
        "longer than the egress interface takes, or in several pieces, which its driver or the engine does not take",
    ),
    (
        "egress",
        "the route leaves through no express port, or through the one it came from",
    ),
    (
        "tcp_control",
        "SYN, FIN or RST, or a connection of TCP whose window the tracker does not ignore yet",
    ),
    ("nat", "a translation that the express lane does not do"),
    (
        "source",
        "the way back to its source does not lead to where it came from",
    ),
    (
        "objection",
        "its class stays with the kernel, because a firewall, NAT, marks or policies would be passed by",
    ),
    (
        "unseen",
        "Linux was not seen to forward this flow this way since firewall, rules or policies changed, or not lately",
    ),
    (
        "untrusted",
        "not trusted for its express class, and there is no stack class below it",
    ),
    (
        "shed",
        "dropped: more packets for the kernel in one overloaded poll than their share",
    ),
    (
        "idle",
        "not even classified: connection tracking knows of no flow, and all express classes trust established ones",
    ),
    (
        "qdisc",
        "it leaves through a port whose queueing discipline is to see it, because that holds the link to a rate, or because the driver has refused frames or the link is full; or of a fast class, and leaves in a VLAN, session or tunnel",
    ),
    (
        "master",
        "its port belongs to a bridge that has not learned its sender there, or to a device that is not served (status names them)",
    ),
    (
        "session",
        "the session of PPPoE that it leaves in may have changed, or is to be seen in use by Linux, as one packet in five seconds is",
    ),
    (
        "checksum",
        "its sender, on this machine, has left its checksum to a device, of which nobody but Linux still knows",
    ),
    (
        "not_named",
        "of a port of which only VLAN devices are named in `ports`: without a tag, or of another VLAN; as if rxlane were not there",
    ),
    (
        "local_tcp",
        "TCP that came in by a port served at tc ingress (a veth), or leaves by one, while no port on its way is full: hosts of this machine share its cores, and the stack paces them",
    ),
];
