/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that writers connect to: systemd's, or one of our own. */
#ifndef EKR_LISTEN_H
#define EKR_LISTEN_H

#include <stdbool.h>

#include "config.h"
#include "error.h"

/*
 * A listening SEQPACKET socket that does not block. *@own: it was made here, with
 * mode 0660 and the group of the configuration. -EADDRINUSE: a recorder listens.
 */
int listen_open(const struct recorder_config *config, bool *own, struct error *e);

#endif
