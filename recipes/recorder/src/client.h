/* SPDX-License-Identifier: Apache-2.0 */
/* What the program knows of its writers and other users of libek-recorder do not need. */
#ifndef EKR_CLIENT_H
#define EKR_CLIENT_H

#include <stdbool.h>

#include "ek_recorder.h"

/*
 * After -EPIPE: the recorder was stopped in order, and has taken all that was submitted.
 * Waits for it to say so, at most 10 s.
 */
bool client_in_order(struct ek_writer *writer);

#endif
