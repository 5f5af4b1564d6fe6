/* SPDX-License-Identifier: Apache-2.0 */
/* What the program needs to know of its writers, and other users of libek-recorder do not. */
#ifndef EKR_CLIENT_H
#define EKR_CLIENT_H

#include <stdbool.h>

#include "ek_recorder.h"

/*
 * After -ENOTCONN from a submission: waits at most 10 s for the end of the connection.
 * True: the recorder did not take this record; it no longer counts as lost, submit it again.
 */
bool client_take_back(struct ek_writer *writer);

/*
 * Returns the number of connections that have ended. Of the last of these: *@in_order: the
 * recorder has written everything that was submitted; *@why: a sentence.
 */
unsigned int client_ended(const struct ek_writer *writer, bool *in_order, const char **why);

#endif
