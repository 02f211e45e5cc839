/* SPDX-License-Identifier: GPL-2.0 */
/* enum tcx_action_base of the kernel since 6.6, the same as TC_ACT_*. */
#ifndef RXLANE_TCX_H
#define RXLANE_TCX_H

#define TCX_NEXT -1
#define TCX_DROP 2
#define TCX_REDIRECT 7

#endif
