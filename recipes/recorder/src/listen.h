/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that writers connect to: systemd's, or one that the recorder creates. */
#ifndef EKR_LISTEN_H
#define EKR_LISTEN_H

#include <stdbool.h>

#include "config.h"
#include "error.h"

/* A listening SEQPACKET socket that does not block. *@own: it was created here. -EADDRINUSE: another recorder listens. */
int listen_open(const struct recorder_config *config, bool *own, struct error *e);

/*
 * Tells the clients that wait at systemd's socket why there is no recorder. Otherwise systemd would start
 * the recorder for them again and again.
 */
void listen_refuse(const char *why);

#endif
