/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may write to a channel, and who may read it.
 *
 * Writing: any process may connect to the socket. The kernel reports the user and the groups that
 * it had then, and the recorder compares them with the channel's write_group. Root and the
 * recorder's own user may always write.
 *
 * Reading: the permissions of the channel's directory. Every process that
 * may enter it can read all files in it, so a change of read_group takes effect at once.
 */
#ifndef EKR_ACCESS_H
#define EKR_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "config.h"
#include "error.h"

#define ACCESS_GROUPS 256	/* groups of a peer that are considered */

struct access {
	uid_t uid;
	gid_t groups[ACCESS_GROUPS];
	unsigned int count;
};

/* The groups that the channel's configuration names; empty names are those of @recorder. -EINVAL. */
int access_resolve(struct channel_config *c, const struct recorder_config *recorder,
		   struct error *e);

/* The rights of the process at the other end of @socket. After an error, it has none. */
void access_of(int socket, struct access *a);
bool access_may_write(const struct access *a, const struct channel_config *c);

/* Gives a channel's directory the permissions that its configuration demands. */
int access_apply(int directory, const struct channel_config *c, struct error *e);

#endif
