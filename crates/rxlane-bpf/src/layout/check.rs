//! Each field of a mirror lies where the programs have theirs: compared when this crate is compiled, with the programs' own type information.

use std::mem::offset_of;

use super::{
    ClassCounters, DeviceOver, EngineRing, Gates, KeptFlows, LinkQueue, NextHop, NextHops, Port,
    PortCounters, PortTable, RingCounters, Timeouts, Unmarked, Witness, Witnessed,
};
use crate::skeletons::{lane, overload, witness};

macro_rules! mirrors {
    ($($ours:ty = $theirs:ty: $($field:ident)* $(, $our_field:ident = $their_field:ident)*;)*) => {
        $(
            const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());
            $(const _: () = assert!(offset_of!($ours, $field) == offset_of!($theirs, $field));)*
            $(const _: () = assert!(offset_of!($ours, $our_field) == offset_of!($theirs, $their_field));)*
        )*
    };
}

mirrors! {
    Port = lane::types::port: ifindex device master seen_as mac slot flags lacks_checksums teaches may_wait has_bands at_tc hands_over;
    PortTable = lane::types::port_table: at;
    ClassCounters = lane::types::class_counters: packets bytes express fast passed queued early_drops policed untrusted looked_up;
    LinkQueue = overload::types::link_queue: cost limit, next = bucket;
    RingCounters = overload::types::ring: enqueued dequeued drops;
    EngineRing = lane::types::engine_ring: consumed worker redirected failed early_drops;
    Gates = lane::types::gates: watched_ns closed route_mtu untracked idle tunnels timeouts tcp by_sender seen_at_egress follows_untracked;
    Timeouts = lane::types::timeouts: , udp_ms = udp, udp_stream_ms = udp_stream, tcp_established_ms = tcp_established,
        tcp_unacknowledged_ms = tcp_unacknowledged, tcp_retransmitted_ms = tcp_retransmitted, tcp_close_ms = tcp_close;
    DeviceOver = lane::types::device_over: ifindex seen_as flags priorities unfollowed;
    NextHop = lane::types::next_hop: used_ticks ifindex v6 address;
    NextHops = lane::types::next_hops: at;
    Witness = lane::types::witness: asked_ticks generation routes open kept by_sender follows_untracked looked_ticks called_ticks;
    KeptFlows = witness::types::kept_flows: protocol from_port to_port tracked ingress egress source source_mask destination destination_mask, version = v6;
    Unmarked = lane::types::unmarked: source destination from_port to_port v6;
    Witnessed = lane::types::witnessed: asked_ns seen_ns flow generation ingress egress tos ttl next_hop tag through over port kept sender;
    PortCounters = overload::types::port_counters: tx_packets tx_drops refusals link_full unsent_bytes by_qdisc batch refused refused_of_no_class;
}
