// SPDX-License-Identifier: Apache-2.0
/* Who may write to a channel, and who may read it. */
#include "access.h"

#include <endian.h>
#include <errno.h>
#include <grp.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int resolve(const struct channel_config *c, const char *key, char name[CONFIG_GROUP],
		   const char *otherwise, gid_t *gid, struct error *e)
{
	const struct group *group;

	if (*otherwise && !strcmp(name, CONFIG_UNSET))
		memcpy(name, otherwise, CONFIG_GROUP);
	else if (!strcmp(name, CONFIG_UNSET))
		*name = '\0';
	*gid = CONFIG_NO_GROUP;
	if (!*name)
		return 0;
	errno = 0;
	group = getgrnam(name);
	if (!group)
		return set_error(e, errno ? errno : EINVAL,
				 "%s.conf: %s = %s: there is no such group", c->name, key, name);
	*gid = group->gr_gid;
	return 0;
}

int access_resolve(struct channel_config *c, const struct recorder_config *recorder,
		   struct error *e)
{
	int ret = resolve(c, "write_group", c->write_group, recorder->group, &c->write_gid, e);

	return ret ? ret :
		     resolve(c, "read_group", c->read_group, recorder->group, &c->read_gid, e);
}

void access_of(int socket, struct access *a)
{
	struct ucred peer = { .uid = (uid_t)-1, .gid = (gid_t)-1 };
	socklen_t length = sizeof(peer), bytes = sizeof(a->groups) - sizeof(gid_t);

	a->count = 0;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) ||
	    getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, a->groups, &bytes))
		bytes = 0;
	a->uid = peer.uid;
	a->count = (unsigned int)(bytes / sizeof(gid_t));
	a->groups[a->count++] = peer.gid;
}

bool access_may_write(const struct access *a, const struct channel_config *c)
{
	if (!a->uid || a->uid == geteuid() || c->write_all)
		return true;
	for (unsigned int i = 0; i < a->count && c->write_gid != CONFIG_NO_GROUP; i++)
		if (a->groups[i] == c->write_gid)
			return true;
	return false;
}

/* for a group of which the owner is no member, it needs an access control list */
static int apply_list(int directory, const struct channel_config *c)
{
	struct {
		struct posix_acl_xattr_header head;
		struct posix_acl_xattr_entry entries[5];
	} list = {
		.head.a_version = htole32(POSIX_ACL_XATTR_VERSION),
		.entries = {
			{ htole16(ACL_USER_OBJ), htole16(7), htole32(ACL_UNDEFINED_ID) },
			{ htole16(ACL_GROUP_OBJ), 0, htole32(ACL_UNDEFINED_ID) },
			{ htole16(ACL_GROUP), htole16(5), htole32(c->read_gid) },
			{ htole16(ACL_MASK), htole16(5), htole32(ACL_UNDEFINED_ID) },
			{ htole16(ACL_OTHER), c->read_all ? htole16(5) : 0,
			  htole32(ACL_UNDEFINED_ID) },
		},
	};

	return fsetxattr(directory, "system.posix_acl_access", &list, sizeof(list), 0) ? -errno : 0;
}

int access_apply(int directory, const struct channel_config *c, struct error *e)
{
	const mode_t mode = 0700 | (c->read_gid != CONFIG_NO_GROUP ? 0050 : 0) |
			    (c->read_all ? 0005 : 0);
	struct stat st;
	int ret = 0;

	if (fstat(directory, &st))
		return set_errno(e, errno, "examining its directory");
	/* first, because removing the list turns its mask into the permissions of the group */
	if (fchmod(directory, 0700))
		return set_errno(e, errno, "restricting the access to its directory");
	fremovexattr(directory, "system.posix_acl_access");
	if (c->read_gid != CONFIG_NO_GROUP && st.st_gid != c->read_gid &&
	    fchown(directory, (uid_t)-1, c->read_gid))
		ret = errno == EPERM ? apply_list(directory, c) : -errno;
	else if (fchmod(directory, mode))
		ret = -errno;
	if (!ret)
		return 0;
	/* after a failure, only the owner may read */
	fchmod(directory, 0700);
	return set_errno(e, -ret, "giving the group %s access to the recording",
			 *c->read_group ? c->read_group : "(none)");
}
