/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that writers connect to: systemd's, or one of our own. */
#ifndef EKR_LISTEN_H
#define EKR_LISTEN_H

#include <stdbool.h>

#include "config.h"
#include "error.h"

/*
 * A listening SEQPACKET socket that does not block. *@own: it was created here. -EADDRINUSE: a recorder listens.
 */
int listen_open(const struct recorder_config *config, bool *own, struct error *e);

/*
 * Tells those who wait at systemd's socket why there is no recorder: for one that waits
 * systemd would start it again, at once and for ever.
 */
void listen_refuse(const char *why);

#endif
