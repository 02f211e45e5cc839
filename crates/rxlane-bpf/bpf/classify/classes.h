/* SPDX-License-Identifier: GPL-2.0 */
/* The classes as the configuration has them. */
#ifndef RXLANE_CLASSES_H
#define RXLANE_CLASSES_H

struct class
{
	__u8 lane;
	__u8 trust;
	__u8 polices;
	__u8 overload;
	__u32 ring_cores; /* how many; 0: the polling core */
	__u32 ring_core[MAX_CORES];
	struct police police;
};

const volatile struct class classes[MAX_CLASSES] = {};

#endif
