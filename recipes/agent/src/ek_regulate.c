// SPDX-License-Identifier: Apache-2.0
/*
 * ek-regulate: writes io.evenkeel.perf for the agent, and nothing else.
 *
 * The kernel asks for CAP_SYS_ADMIN there, which the agent must not have: it
 * talks to many and parses much. Standard input is a connection of the socket
 * evenkeel-regulate.socket that only root may open. A message is an order,
 *
 *	MAJ:MIN PERCENT /CGROUP
 *
 * with the path below the cgroup root, and is answered by one with the decimal
 * errno of what went wrong, 0 if nothing did. What the numbers mean, and whether
 * they are in range, is the kernel's to say.
 *
 * Invariant: no file is written whose name is not io.evenkeel.perf, nor one that
 * is not below the cgroup root, whatever the message says.
 *
 * Ends with the connection, or when nothing came for IDLE_SECONDS. Exit status:
 * 0, 1 (standard input is no such connection, no cgroup root), 2 (wrong usage).
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

#define FILE_NAME "io.evenkeel.perf"
#define DIGITS	  "0123456789"
/* a path of systemd's is shorter, and the kernel takes none that is longer */
#define MESSAGE_BYTES 4096
/* the agent sends its orders at once */
#define IDLE_SECONDS 30

/*
 * Take MESSAGE apart in place: *LINE is what the kernel is told, *PATH the file,
 * relative to the cgroup root; PATH has room for FILE_NAME. Only the form is checked.
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
	if (cgroup[0] != '/' || !cgroup[1])
		return false;
	message[device + 1 + percent] = '\0';
	*line = message;
	strcpy(path, cgroup + 1);
	strcat(path, "/" FILE_NAME);
	return true;
}

/* Write LINE to PATH below the directory ROOT; returns 0 or an errno. */
static int set(int root, const char *path, const char *line)
{
	/* no way out of the tree, neither by ".." nor by a link or a mount */
	struct open_how how = {
		.flags = O_WRONLY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	size_t length = strlen(line);
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	ssize_t written;
	int result = 0;

	if (fd < 0)
		return errno;
	written = write(fd, line, length);
	if (written < 0)
		result = errno;
	else if ((size_t)written != length)
		result = EIO;
	close(fd);
	return result;
}

static int serve(int root)
{
	/* one byte more than a message may have tells that it is too long */
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
			fprintf(stderr, "ek-regulate: cannot receive on standard input: %s\n",
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
					 set(root, path, line) :
					 EBADMSG;
		}
		snprintf(answer, sizeof(answer), "%d", result);
		/* who has gone does not want it */
		send(STDIN_FILENO, answer, strlen(answer), MSG_NOSIGNAL);
	}
}

int main(int argc, char **argv)
{
	const char *directory = argc > 1 ? argv[1] : "/sys/fs/cgroup";
	struct timeval idle = { .tv_sec = IDLE_SECONDS };
	int root;

	if (argc > 2 || directory[0] != '/') {
		fprintf(stderr, "Usage: ek-regulate [CGROUP_ROOT] < CONNECTION\n");
		return 2;
	}
	if (setsockopt(STDIN_FILENO, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle))) {
		fprintf(stderr, "ek-regulate: standard input is no connection: %s\n",
			strerror(errno));
		return 1;
	}
	root = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		fprintf(stderr, "ek-regulate: cannot open %s: %s\n", directory, strerror(errno));
		return 1;
	}
	return serve(root);
}
