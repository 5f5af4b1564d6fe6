/* SPDX-License-Identifier: Apache-2.0 */
/* What a prepare thread does (keeper.c), and its turns on a medium (prepare.c). */
#ifndef EKR_KEEPER_H
#define EKR_KEEPER_H

#include <stdint.h>

#include "prepare.h"

/* The thread; @arg: its struct keeper. */
void *keeper_run(void *arg);

/* Waits for the turn of the channel on its medium. False: the thread is to stop. */
bool keeper_take_turn(struct keeper *k);
void keeper_end_turn(struct keeper *k);
/* Waits until then (monotonic), or until prepare_wake() or a stop. */
void keeper_pause_until(struct keeper *k, uint64_t until_ns);

#endif
