// SPDX-License-Identifier: Apache-2.0
/*
 * ek-fixed-share: writes io.evenkeel.fixed for the agent, and no other file.
 *
 * The kernel requires CAP_SYS_ADMIN to write this file. The agent must not have
 * that capability, because it parses the input of many other programs. Standard
 * input is a connection of the socket evenkeel-fixed-share.socket, to which only
 * the agent and root may connect. Each message is one order:
 *
 *	MAJ:MIN PERCENT /CGROUP
 *
 * CGROUP is a path relative to the cgroup of evenkeel-apps.slice. The answer is
 * one message with a decimal errno, 0 for success. This program checks only the
 * form of an order; the kernel checks its numbers.
 *
 * Invariant: whatever the message contains, this program writes only files named
 * io.evenkeel.fixed in the cgroups below that of evenkeel-apps.slice. So a
 * compromised agent can change neither the slice itself nor a unit outside it.
 *
 * The program ends when the agent closes the connection, or after IDLE_SECONDS
 * without a message. Exit status: 0, 1 (standard input is not such a connection,
 * or receiving failed), 2 (wrong usage).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define FILE_NAME "io.evenkeel.fixed"
#define DIGITS	  "0123456789"
/* the cgroup of evenkeel-apps.slice */
#define APPS "/sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice"
/* the longest message: the kernel's limit for a path; cgroup paths of systemd are shorter */
#define MESSAGE_BYTES 4096
/* the program ends after this time without a message; the agent sends its orders without pauses */
#define IDLE_SECONDS 30

/*
 * Returns true if PATH has the form "/NAME/NAME..." and no NAME is empty, "." or
 * "..". Without this check, the path "/." would be the cgroup of the slice itself.
 */
static bool below(const char *path)
{
	size_t length;

	while (*path == '/') {
		length = strcspn(++path, "/");
		if (!length || (path[0] == '.' && (length == 1 || (length == 2 && path[1] == '.'))))
			return false;
		path += length;
	}
	return !*path;
}

/*
 * Split MESSAGE in place. *LINE becomes the text to write into the file. PATH receives
 * the path of the file relative to the cgroup of the slice; its buffer must be longer
 * than MESSAGE by sizeof("/" FILE_NAME). Returns false if the message is not an order.
 */
static bool parse(char *message, const char **line, char *path)
{
	size_t major = strspn(message, DIGITS), minor, percent, device;
	const char *cgroup;

	if (!major || message[major] != ':')
		return false;
	minor = strspn(message + major + 1, DIGITS);
	device = major + 1 + minor;
	if (!minor || message[device] != ' ')
		return false;
	percent = strspn(message + device + 1, DIGITS);
	if (!percent || message[device + 1 + percent] != ' ')
		return false;
	cgroup = message + device + 1 + percent + 1;
	if (cgroup[0] != '/' || !below(cgroup))
		return false;
	message[device + 1 + percent] = '\0';
	*line = message;
	strcpy(path, cgroup + 1);
	strcat(path, "/" FILE_NAME);
	return true;
}

/* Write LINE to the file PATH, which is relative to DIRECTORY. Returns 0 or an errno. */
static int set(const char *directory, const char *path, const char *line)
{
	/* the path cannot leave DIRECTORY by "..", by a symbolic link or by a mount point */
	struct open_how how = {
		.flags = O_WRONLY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	size_t length = strlen(line);
	/* opened for each order: systemd removes the cgroup of the slice when the last app ends */
	int root = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;
	ssize_t written;
	int result = 0;

	if (root < 0)
		return errno;
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0) {
		result = errno;
		close(root);
		return result;
	}
	written = write(fd, line, length);
	if (written < 0)
		result = errno;
	else if ((size_t)written != length)
		result = EIO;
	close(fd);
	close(root);
	return result;
}

static int serve(const char *directory)
{
	/* one byte more than the limit, to detect a message that is too long */
	char message[MESSAGE_BYTES + 1], path[MESSAGE_BYTES + sizeof("/" FILE_NAME)], answer[16];
	const char *line;
	ssize_t length;
	int result;

	for (;;) {
		length = recv(STDIN_FILENO, message, sizeof(message), 0);
		if (length < 0 && errno == EINTR)
			continue;
		if (length < 0 && (errno == EAGAIN || errno == ECONNRESET))
			return 0;
		if (length < 0) {
			fprintf(stderr,
				"ek-fixed-share: receiving from standard input failed: %s\n",
				strerror(errno));
			return 1;
		}
		if (!length)
			return 0;
		if (length > MESSAGE_BYTES) {
			result = EMSGSIZE;
		} else {
			message[length] = '\0';
			result = strlen(message) == (size_t)length && parse(message, &line, path) ?
					 set(directory, path, line) :
					 EBADMSG;
		}
		snprintf(answer, sizeof(answer), "%d", result);
		/* a failure is ignored: it means that the agent has closed the connection */
		send(STDIN_FILENO, answer, strlen(answer), MSG_NOSIGNAL);
	}
}

int main(int argc, char **argv)
{
	const char *directory = argc > 1 ? argv[1] : APPS;
	struct timeval idle = { .tv_sec = IDLE_SECONDS };

	if (argc > 2 || directory[0] != '/') {
		fprintf(stderr, "Usage: ek-fixed-share [DIRECTORY] < CONNECTION\n");
		return 2;
	}
	if (setsockopt(STDIN_FILENO, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle))) {
		fprintf(stderr,
			"ek-fixed-share: standard input is not a connection of evenkeel-fixed-share.socket: %s\n",
			strerror(errno));
		return 1;
	}
	return serve(directory);
}
