/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hash of an object that consists of words of 64 bits, without holes. Its high bits are the best.
 */
#ifndef RXLANE_HASH_H
#define RXLANE_HASH_H

static __always_inline __u64 hash_of_words(const __u64 *words, const __u32 count)
{
	__u64 h = 0;

	UNROLLED
	for (__u32 i = 0; i < count; i++)
		h = (h ^ h >> 32 ^ words[i]) * 0x9e3779b97f4a7c15ULL;
	return h;
}

#define hash_of(object) hash_of_words((const __u64 *)(object), sizeof(*(object)) / sizeof(__u64))

#endif
