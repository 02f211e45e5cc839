/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The outer header of packets in tunnels over IPv4: IP in IP (RFC 2003), IPv6 in IPv4 (RFC 4213), GRE (RFC 2784 and
 * 2890, with a key or without), VXLAN (RFC 7348). The daemon knows the tunnels (rxlane-dataplane/src/tunnels); what is
 * not in these tables is Linux's.
 */
#ifndef RXLANE_OUTER_H
#define RXLANE_OUTER_H

#define MAX_TUNNELS 1024
#define GRE_KEY 0x2000
#define ECN_MASK 3
#define ECN_ECT_0 2
#define ECN_CE 3
#define IP_DF 0x4000
/* The shortest MTU of IPv6, below which Linux lets what is around it be fragmented (ipip6_tunnel_xmit in
 * net/ipv6/sit.c). */
#define IPV6_MIN_MTU 1280

/*
 * As Linux finds a tunnel (ip_tunnel_lookup in net/ipv4/ip_tunnel.c), of which both ends are known; or a VXLAN
 * (vxlan_vs_find_vni in drivers/net/vxlan), of whose other ends there may be many.
 */
struct tunnel_key {
	__be32 local, remote; /* remote: 0 of a VXLAN */
	__be32 key; /* of GRE; or the word with the number of a VXLAN */
	__u8 protocol;
	__u8 keyed; /* whether there is a key */
	__be16 port; /* of UDP, that a VXLAN sends to */
};

/* Of a VXLAN, behind the outer IPv4 header. */
struct vxlan_headers {
	struct udphdr udp;
	__be32 flags;
	__be32 number; /* in the upper 24 bits */
	struct ethhdr eth;
} __attribute__((packed, aligned(2)));
#define VXLAN_NUMBERED 0x08000000

/* That of RFC 7348, and that of Linux before it. */
static __always_inline int is_port_of_vxlan(__u32 port)
{
	return port == 4789 || port == 8472;
}

/* The devices of tunnels, which the witness knows, too, and which stay when the configuration changes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_TUNNELS);
	__type(key, struct tunnel_key);
	__type(value, struct device_over);
} tunnels SEC(".maps");

/* As tunnel_of(), of a packet of UDP. */
static __always_inline __u32 vxlan_of(const struct iphdr *ip, const void *end, struct tunnel_key *key, __u64 *v6)
{
	const struct vxlan_headers *h = (const struct vxlan_headers *)(ip + 1);

	if ((const void *)(h + 1) > end || !is_port_of_vxlan(bpf_ntohs(h->udp.dest)) ||
	    bpf_ntohs(h->udp.len) + sizeof(*ip) != bpf_ntohs(ip->tot_len) || h->flags != bpf_htonl(VXLAN_NUMBERED) ||
	    h->number & bpf_htonl(0xff))
		return 0;
	key->remote = 0;
	key->key = h->number;
	key->keyed = 1;
	key->port = h->udp.dest;
	*v6 = h->eth.h_proto == bpf_htons(ETH_P_IPV6);
	return *v6 || h->eth.h_proto == bpf_htons(ETH_P_IP) ? sizeof(*ip) + sizeof(*h) : 0;
}

/* Whether such a packet has a checksum. */
static __always_inline int has_sum(const struct iphdr *ip, const void *end)
{
	const struct vxlan_headers *h = (const struct vxlan_headers *)(ip + 1);

	return (const void *)(h + 1) <= end && h->udp.check;
}

/* The key of a packet, whose headers begin at `ip` and of which `end` is the end. Returns the bytes before the inner
 * one; 0: there is none. */
static __always_inline __u32 tunnel_of(const struct iphdr *ip, const void *end, struct tunnel_key *key, __u64 *v6)
{
	const __be16 *gre = (const __be16 *)(ip + 1);
	__u32 length = sizeof(*ip);

	key->local = ip->daddr;
	key->remote = ip->saddr;
	key->protocol = ip->protocol;
	*v6 = ip->protocol == IPPROTO_IPV6;
	if (ip->protocol == IPPROTO_UDP)
		return vxlan_of(ip, end, key, v6);
	if (ip->protocol != IPPROTO_GRE)
		return length;
	if ((const void *)(gre + 2) > end)
		return 0;
	length += 4;
	if (gre[0] == bpf_htons(GRE_KEY)) {
		if ((const void *)(gre + 4) > end)
			return 0;
		key->key = *(const __be32 *)(gre + 2);
		key->keyed = 1;
		length += 4;
	} else if (gre[0]) {
		return 0;
	}
	*v6 = gre[1] == bpf_htons(ETH_P_IPV6);
	return *v6 || gre[1] == bpf_htons(ETH_P_IP) ? length : 0;
}

static __always_inline int is_tunneled(__u8 protocol)
{
	return protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6 || protocol == IPPROTO_GRE;
}

#endif
