/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most requests that any order can complete until load->until. Each bound drops
 * some of the device's rules, so that no order can beat it:
 *
 * - Work. Each completed request has occupied the link, the command path, its channels
 *   and its dies for a known time, and none of these can be busy for longer than until
 *   the end. When n requests are completed, the first n + outstanding of the list have
 *   arrived. The bound assumes the most favourable case for the requests that are not
 *   completed, and for the written data that are still in the buffer.
 * - Queues, for reads of one page each: a die serves all its reads one after the other
 *   and the link sends what the dies have read, without tags, without conflicts on a
 *   channel, and with command work for all at once. An earlier completion lets the
 *   next request of the list arrive earlier, and an earlier arrival delays no other
 *   request. So it is best to serve each request as soon as it arrives.
 *
 * The host takes no time. The result is the least of both.
 */
#ifndef EK_ORACLE_BOUND_H
#define EK_ORACLE_BOUND_H

#include "sim.h"

u64 bound_work(const struct sim_load *load);
/* Returns U64_MAX unless the load consists of reads of at most one page each. */
u64 bound_queues(const struct sim_load *load);
u64 bound_ios(const struct sim_load *load);

#endif /* EK_ORACLE_BOUND_H */
