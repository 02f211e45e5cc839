/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who may use a class: from the class that the rules name downwards, the first that trusts the packet and whose rate
 * it does not exceed.
 */
#ifndef RXLANE_ADMIT_H
#define RXLANE_ADMIT_H

const volatile __u32 n_classes = 1;
const volatile __u32 express_below = 0; /* the lowest express class and 1; 0: there is none */
const volatile __u32 first_express = 0; /* the highest class that is not the stack's */
const volatile __u32 any_police = 0;
const volatile __u32 any_prefix = 0;
const volatile __u8 stack_below[MAX_CLASSES] = {}; /* the next stack class; n_classes: there is none */

/* The packet in hand, from here on in numbers. */
static __always_inline void to_core(const struct packet *p, struct core *core)
{
	to_numbers(p, &core->packet);
	core->packet.control = (engine || is_guarded(core)) && may_be_control(p);
}

/* A rate of its own function, which the verifier follows once instead of once a class. */
__noinline int conforms(__u32 class, __u32 bytes)
{
	return within_rate(&classes[class_index(class)].police, class, bytes);
}

/* Something speaks against the class, or the daemon has not looked yet. */
static __always_inline int is_closed(const struct gates *g, __u32 class)
{
	return !g || g->closed & (1 << (class & 7));
}

static __always_inline int is_open(__u32 class)
{
	const struct gates *g = find_gates();

	return !is_closed(g, class) && is_watched(g);
}

static __always_inline int is_idle(void)
{
	const struct gates *g = find_gates();

	return g && g->idle;
}

/* What rp_filter asks of the way back; `unfiltered` where it is 0. */
static __always_inline __u8 source_check(const struct packet *p, __u8 unfiltered)
{
	if (p->v6)
		return SOURCE_ANY;
	if (p->port_flags & PORT_STRICT)
		return SOURCE_STRICT;
	return p->port_flags & PORT_LOOSE ? SOURCE_ROUTED : unfiltered;
}

static __always_inline int trust(struct xdp_md *ctx, const struct packet *p, struct core *core, __u32 class,
				 struct departure *t, const int full)
{
	__u8 how = classes[class_index(class)].trust;

	if (full && any_conntrack && (how == TRUST_ESTABLISHED || how == TRUST_FIREWALL)) {
		t->source = source_check(p, SOURCE_ANY);
		return is_closed(find_gates(), class) ? TO_STACK_OBJECTION : trusted_flow(ctx, p, core);
	}
	if (full && any_prefix && how == TRUST_PREFIXES) {
		if (trusted_prefix(p, class) != TRUSTED)
			return distrust(t, DISTRUST_PREFIX);
		/* Whoever may be trusted by address must at least come from where that address is. */
		t->source = SOURCE_STRICT;
		return is_open(class) ? TRUSTED : TO_STACK_OBJECTION;
	}
	if (how != TRUST_ALL)
		return UNTRUSTED;
	t->source = source_check(p, SOURCE_ROUTED);
	return is_open(class) ? TRUSTED : TO_STACK_OBJECTION;
}

/*
 * The class that serves the packet, counted there, or REFUSED with the reason for leaving it to the kernel.
 *
 * Trust comes before the rate, so that strangers cannot use up the rate of those who are trusted. What exceeds the
 * rate is the next class; what is not trusted is the next class that the firewall sees.
 */
static __always_inline int admit(struct xdp_md *ctx, const struct packet *p, struct core *core, __u32 class,
				 struct departure *t, const int full)
{
	__u32 bytes = core->packet.length;
	int untrusted = 0, i, ret;

	/*
	 * Looked for once, and kept where the verifier forgets it: else it would follow all classes with each obstacle
	 * that there can be, and each class with what is known of the packet after it.
	 */
	if (class < express_below) {
		core->obstacle = core->master ? REASON_MASTER : obstacle(p);
		object_to_checksum(ctx, core);
	}
	for (i = 0; i < MAX_CLASSES; i++, class ++) {
		const volatile struct class *c;
		struct class_counters *count;

		if (class >= n_classes)
			break;
		class = class_index(class);
		core->asked = class;
		/* What conntrack said for a class whose rate the packet exceeds is not said for the next. */
		t->flow = t->egress = t->nat.translated = 0;
		c = &classes[class];
		count = &core->classes[class];
		if (c->lane != LANE_STACK) {
			if (untrusted)
				continue;
			/* Merged packets are one to any rate. */
			if (ON_SKB && c->lane != LANE_FAST && p->protocol != IPPROTO_TCP && core->packet.merged)
				return REFUSED(REASON_MTU);
			ret = core->obstacle;
			if (ret >= 0) {
				count->packets++;
				count->bytes += bytes;
				return REFUSED(masked(ret, 31));
			}
			ret = trust(ctx, p, core, class, t, full);
			if (ret == TO_STACK_TCP)
				return REFUSED(REASON_TCP_CONTROL);
			if (ret == TO_STACK_NAT)
				return REFUSED(REASON_NAT);
			if (ret == TO_STACK_UNSEEN)
				return REFUSED(REASON_UNSEEN);
			if (ret == TO_STACK_OBJECTION)
				return REFUSED(REASON_OBJECTION);
			if (ret != TRUSTED) {
				count->untrusted++;
				untrusted = 1;
				continue;
			}
		}
		if (any_police && c->polices && !conforms(class, bytes)) {
			count->policed++;
			t->above_rate = 1;
			continue;
		}
		count->packets++;
		count->bytes += bytes;
		return class;
	}
	return REFUSED(REASON_UNTRUSTED);
}

#endif
