/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bounds that every verifier sees. A compiler may test one copy of a number and use another, or leave a mask out
 * where it knows the range itself (the result of a 16-bit byte swap); the verifiers of Linux 6.12 to 6.18.15 do not
 * know that range, and older ones forget what was tested on the copy. So what is used as an offset or an index is
 * masked here, in an instruction that no compiler moves or removes. It costs one cycle at most.
 */
#ifndef RXLANE_BOUNDS_H
#define RXLANE_BOUNDS_H

/* `value` limited to the bits of `mask`, a constant of one less than a power of two (or with holes). */
#define masked(value, mask)                                                \
	({                                                                 \
		__u64 masked_value = (value);                              \
		asm volatile("%0 &= %1" : "+r"(masked_value) : "i"(mask)); \
		masked_value;                                              \
	})

/*
 * A constant that the verifier knows and the compiler does not. Where a branch leaves one behind, what was proved in
 * the branch (that a header is all there) stays tied to it; the compiler would rather test the branch's condition
 * again, and the verifier of Linux 6.1 would follow the way that cannot be.
 */
#define told(constant)                               \
	({                                           \
		__u64 told_value = (constant);       \
		asm volatile("" : "+r"(told_value)); \
		told_value;                          \
	})

/*
 * ctx->data or ctx->data_end as the pointer that it is. The context declares them as 32-bit numbers, and a compiler
 * that knows so copies, spills and subtracts 32 bits, after which the verifier knows no pointer.
 */
#define packet_pointer(field) ((void *)told(field))

/* A class that can be used as an index. */
#define class_index(class) masked(class, MAX_CLASSES - 1)

/*
 * Loops are unrolled: Linux 6.1 refuses one whose way back is not a jump ("back-edge"), and where a compiler puts
 * the jump is its own choice.
 */
#define UNROLLED _Pragma("clang loop unroll(full)")

#endif
