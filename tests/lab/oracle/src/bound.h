/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests any order can complete at most, until load->until. Each bound
 * drops some of the device's rules, so that no order can beat it:
 *
 * - Work. Each completed request has occupied the link, the command path, its channels
 *   and its dies for a known time, and none of these can be busy for longer than until
 *   the end. When n requests are completed, the first n + outstanding of the list have
 *   been sent. Which of these are not completed, and which written data are still in
 *   the buffer, is what suits the bound best.
 * - Queues, for reads of one page each: a die serves all its reads one after the other
 *   and the link sends what the dies have read, without tags, without conflicts on a
 *   channel, and with command work for all at once. An earlier completion sends the
 *   next request of the list earlier, and no request is later because another came
 *   earlier. So to serve at once whatever has arrived is best.
 *
 * The host takes no time. The result is the least of both.
 */
#ifndef EK_ORACLE_BOUND_H
#define EK_ORACLE_BOUND_H

#include "sim.h"

u64 bound_work(const struct sim_load *load);
/* U64_MAX if the load is not of this kind */
u64 bound_queues(const struct sim_load *load);
u64 bound_ios(const struct sim_load *load);

#endif /* EK_ORACLE_BOUND_H */
