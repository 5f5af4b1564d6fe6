// SPDX-License-Identifier: Apache-2.0
/* The socket that writers connect to. */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "scope.h"
#include "wire.h"

static int take_inherited(int count, struct error *e)
{
	int fd = SD_LISTEN_FDS_START;

	if (count != 1 || sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0)
		return set_error(
			e, EINVAL,
			"systemd passed %d sockets instead of one that listens for SEQPACKET",
			count);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return fd;
}

/* removes a socket that a killed recorder left, but not one on which a process listens */
static int clear_path(const struct sockaddr_un *address, struct error *e)
{
	CLOSED int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	int ret;

	/* connect() fails with the same error for any other file: it must not be removed */
	if (!lstat(address->sun_path, &st) && !S_ISSOCK(st.st_mode))
		return set_error(e, EEXIST, "%s exists and is not a socket; set another socket",
				 address->sun_path);
	ret = connect(fd, (const struct sockaddr *)address, sizeof(*address)) ? errno : 0;
	/* EAGAIN: the queue of its clients is full: perhaps it hangs, but it exists */
	if (!ret || ret == EAGAIN)
		return set_error(e, EADDRINUSE, "another recorder already listens at %s",
				 address->sun_path);
	if (ret == ECONNREFUSED && unlink(address->sun_path))
		return set_errno(e, errno, "removing the old socket %s", address->sun_path);
	return 0;
}

int listen_open(const struct recorder_config *config, bool *own, struct error *e)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int inherited = sd_listen_fds(1), fd, ret;
	mode_t before;

	*own = false;
	if (inherited)
		return take_inherited(inherited, e);
	memcpy(address.sun_path, config->socket, strlen(config->socket));
	ret = clear_path(&address, e);
	if (ret)
		return ret;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return set_errno(e, errno, "creating a socket");
	/* every user may connect: the recorder checks the access to each channel */
	before = umask(0111);
	ret = bind(fd, (struct sockaddr *)&address, sizeof(address)) ? errno : 0;
	umask(before);
	if (ret) {
		close(fd);
		return set_errno(e, ret, "binding %s", config->socket);
	}
	*own = true;
	if (listen(fd, SOMAXCONN))
		ret = set_errno(e, errno, "listening at %s", config->socket);
	if (!ret)
		return fd;
	close(fd);
	unlink(config->socket);
	return ret;
}

void listen_refuse(const char *why)
{
	struct ekr_refused refused = { .type = EKR_REFUSED, .error = EINVAL };

	if (sd_listen_fds(0) != 1)
		return;
	fcntl(SD_LISTEN_FDS_START, F_SETFL, fcntl(SD_LISTEN_FDS_START, F_GETFL) | O_NONBLOCK);
	snprintf(refused.why, sizeof(refused.why), "the recorder is not running: %s", why);
	/* bounded, because clients may connect again at once */
	for (int i = 0; i < SOMAXCONN; i++) {
		CLOSED int fd = accept4(SD_LISTEN_FDS_START, NULL, NULL, SOCK_CLOEXEC);
		char byte;

		if (fd < 0)
			return;
		/* with unread messages the connection would be reset, and this message lost */
		shutdown(fd, SHUT_RD);
		while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0)
			;
		send(fd, &refused, sizeof(refused), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}
