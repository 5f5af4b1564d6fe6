// SPDX-License-Identifier: Apache-2.0
/*
 * Which changes of the board in /etc outlast a start.
 *
 * /etc is an overlay: the slot's files below, the board's changes in the folder UPPER. Before preinit mounts it, this
 * program moves away each change that no list names. So a unit that somebody planted, or an old copy of a list of users,
 * does not hide what an update brings.
 *
 * A list is a file of /usr/lib/evenkeel/keep.d (the image's) or /etc/evenkeel/keep.d (the owner's). Each line names
 * a file, or a folder with all that is in it, by its path below /etc. It may have the wildcards of glob(7); "*" does not
 * match "/". "#" at the beginning of a line, or after a space, begins a comment. A line that begins with "!" names what
 * a power cut may leave of a write, such as a temporary file. It is moved away as well, but the board reports no problem.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define USAGE                                                                                                      \
	"usage: ek-etc                              print the board's changes in /etc, and what becomes of them\n" \
	"       ek-etc list UPPER LISTS...          the same for the folder UPPER and these folders of lists\n"    \
	"       ek-etc clean UPPER REMOVED LOWER LISTS...\n"                                                       \
	"                                           move what no list names from UPPER to REMOVED. LOWER: the slot's /etc\n"

#define IMAGE_LISTS "/usr/lib/evenkeel/keep.d"
#define OWNER_LISTS "/etc/evenkeel/keep.d"
#define UPPER	    "/run/evenkeel/etc/upper" /* preinit links /run/evenkeel/etc */

/* what becomes of a path */
enum fate {
	LOST,	  /* no list names it */
	ABOVE,	  /* a list names something below it */
	LEFTOVER, /* a line with "!" names it */
	KEPT,	  /* a list names it, or a folder that it is in */
};

struct line {
	char *pattern; /* below /etc, without a slash at either end */
	char *file;    /* where it stands */
	bool leftover; /* it begins with "!" */
};

static struct line *lines;
static size_t count;
static bool failed;
static unsigned int ignored;	     /* files in a folder of lists that are none */
static bool unread;		     /* a list, or a folder of lists, could not be read */
static int removed = -1, lower = -1; /* folders; -1: only print */

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("ek-etc: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static void fail(const char *what, const char *path)
{
	complain("cannot %s %s: %s", what, path, strerror(errno));
	failed = true;
}

static void *checked(void *memory)
{
	if (memory)
		return memory;
	complain("no memory");
	exit(1);
}

static char *join(const char *folder, const char *name)
{
	char *path;

	if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", name) < 0)
		path = NULL;
	return checked(path);
}

/* ---- the lists ---- */

/* What is wrong with PATTERN, a line without its slash at the end; NULL if nothing is. */
static const char *problem(const char *pattern)
{
	if (strncmp(pattern, "/etc/", 5) || !pattern[5])
		return "a path begins with /etc/, and names something in it";
	if (strstr(pattern, "//") || strstr(pattern, "/./") || strstr(pattern, "/../"))
		return "a path has neither //, . nor ..";
	if (!strcmp(strrchr(pattern, '/'), "/.") || !strcmp(strrchr(pattern, '/'), "/.."))
		return "a path has neither //, . nor ..";
	return NULL;
}

static void add_line(char *text, const char *file, unsigned int number)
{
	bool leftover = false;
	const char *wrong;
	size_t length;

	text[strcspn(text, "\r\n")] = 0;
	for (char *at = strchr(text, '#'); at; at = strchr(at + 1, '#')) {
		if (at > text && !strchr(" \t", at[-1]))
			continue;
		*at = 0;
		break;
	}
	text += strspn(text, " \t");
	if (*text == '!') {
		leftover = true;
		text += 1 + strspn(text + 1, " \t");
	}
	length = strlen(text);
	while (length && strchr(" \t", text[length - 1]))
		text[--length] = 0;
	if (length > 1 && text[length - 1] == '/')
		text[--length] = 0;
	if (!length && !leftover)
		return;
	wrong = problem(text);
	if (wrong) {
		complain("%s, line %u is ignored: %s", file, number, wrong);
		return;
	}
	lines = checked(reallocarray(lines, count + 1, sizeof(*lines)));
	lines[count].leftover = leftover;
	lines[count].pattern = checked(strdup(text + 5));
	lines[count++].file = checked(strdup(file));
}

static void read_list(int folder, const char *name, const char *path)
{
	unsigned int number = 0;
	char *text = NULL;
	struct stat st;
	size_t size = 0;
	FILE *file;
	int fd;

	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno != ELOOP)
		unread = true;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		ignored++;
		complain("%s is ignored: it is no file that can be read", path);
		if (fd >= 0)
			close(fd);
		return;
	}
	file = checked(fdopen(fd, "r"));
	while (getline(&text, &size, file) >= 0)
		add_line(text, path, ++number);
	if (ferror(file)) {
		unread = true;
		fail("read", path);
	}
	free(text);
	fclose(file);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in the folder FD, sorted. The caller frees each name, and the array. */
static char **names_in(int fd, size_t *n)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;
	char **names = NULL;

	*n = 0;
	errno = 0;
	while (folder && (errno = 0, entry = readdir(folder))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		names = checked(reallocarray(names, *n + 1, sizeof(*names)));
		names[(*n)++] = checked(strdup(entry->d_name));
	}
	if (!folder || errno)
		unread = true;
	if (folder)
		closedir(folder);
	if (*n)
		qsort(names, *n, sizeof(*names), by_name);
	return names;
}

static void read_lists(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char **names;
	size_t n;

	if (fd < 0) {
		if (errno != ENOENT) {
			unread = errno != ENOTDIR && errno != ELOOP;
			complain("%s is ignored: it is no folder that can be read", path);
		}
		return;
	}
	names = names_in(fd, &n);
	for (size_t i = 0; i < n; i++) {
		char *file = join(path, names[i]);

		read_list(fd, names[i], file);
		free(file);
		free(names[i]);
	}
	free(names);
	close(fd);
}

/* Whether the first components of PATTERN match PATH, as many as PATH has. */
static bool begins_with(const char *pattern, const char *path)
{
	const char *end = pattern;
	bool found;
	char *head;

	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		end += strcspn(end, "/");
		if (!*end)
			return false; /* it has no more components than PATH */
		end++;
	}
	head = checked(strndup(pattern, (size_t)(end - pattern) - 1));
	found = !fnmatch(head, path, FNM_PATHNAME);
	free(head);
	return found;
}

/* What becomes of PATH, if no list names a folder that it is in. *FILE: the list that names it. */
static enum fate fate_of(const char *path, const char **file)
{
	enum fate fate = LOST;

	*file = NULL;
	for (size_t i = 0; i < count; i++) {
		if (!fnmatch(lines[i].pattern, path, FNM_PATHNAME)) {
			*file = lines[i].file;
			if (!lines[i].leftover)
				return KEPT;
			if (fate == LOST)
				fate = LEFTOVER;
		} else if (begins_with(lines[i].pattern, path)) {
			fate = ABOVE;
		}
	}
	return fate;
}

/* ---- the changes ---- */

static bool is_folder(int folder, const char *name)
{
	struct stat st;

	return !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode);
}

/* An overlay marks a file as deleted by a character device with the number 0. */
static bool is_deletion(int folder, const char *name)
{
	struct stat st;

	return !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(0, 0);
}

static int open_folder(int folder, const char *name)
{
	return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void print_path(const char *word, const char *path, const char *file)
{
	printf("%s%s/etc/", word, *word ? " " : "");
	for (; *path; path++)
		putchar((unsigned char)*path < ' ' || *path == 127 ? '?' : *path);
	if (file)
		printf("  (%s)", file);
	putchar('\n');
}

/* Print NAME in the folder, and what is in it. */
static void print_all(int folder, const char *name, const char *path, const char *file,
		      const char *fate)
{
	int fd = open_folder(folder, name);
	char **names;
	size_t n;

	if (fd < 0) {
		char *word;

		if (asprintf(&word, "%s%s", fate, is_deletion(folder, name) ? ", deleted" : "") < 0)
			word = NULL;
		print_path(checked(word), path, file);
		free(word);
		return;
	}
	names = names_in(fd, &n);
	for (size_t i = 0; i < n; i++) {
		char *below = join(path, names[i]);

		print_all(fd, names[i], below, file, fate);
		free(below);
		free(names[i]);
	}
	free(names);
	close(fd);
}

static bool remove_all(int folder, const char *name)
{
	int fd = open_folder(folder, name);
	char **names;
	size_t n;

	if (fd < 0)
		return !unlinkat(folder, name, 0) || errno == ENOENT;
	names = names_in(fd, &n);
	for (size_t i = 0; i < n; i++) {
		remove_all(fd, names[i]);
		free(names[i]);
	}
	free(names);
	close(fd);
	return !unlinkat(folder, name, AT_REMOVEDIR);
}

/* Open the folder of REMOVED that PATH belongs in, and make it if necessary. Returns -1 after an error. */
static int removed_folder(const char *path)
{
	int fd = dup(removed), next;
	const char *end;

	for (; fd >= 0 && (end = strchr(path, '/')); path = end + 1, fd = next) {
		char *name = checked(strndup(path, (size_t)(end - path)));

		if (!is_folder(fd, name) && remove_all(fd, name))
			(void)mkdirat(fd, name, 0700);
		next = open_folder(fd, name);
		free(name);
		close(fd);
	}
	return fd;
}

static void remove_one(int folder, const char *name, const char *path, bool quiet)
{
	int to;

	if (is_deletion(folder, name)) {
		if (unlinkat(folder, name, 0))
			fail("remove the deletion of", path);
		else if (!quiet)
			print_path("", path, NULL);
		return;
	}
	to = removed_folder(path);
	if (to < 0 || !remove_all(to, name) || renameat(folder, name, to, name))
		fail("move", path);
	else if (!quiet)
		print_path("", path, NULL);
	if (to >= 0)
		close(to);
}

/*
 * A folder of UPPER that stays only for what is in it must not change the slot's folder: neither hide its
 * files, nor have another owner or mode.
 */
static void make_plain(int fd, const char *path)
{
	static const char *const marks[] = { "trusted.overlay.opaque", "trusted.overlay.redirect" };
	struct stat st = { .st_mode = 0755 }, other;

	if (!fstatat(lower, *path ? path : ".", &other, AT_SYMLINK_NOFOLLOW) &&
	    S_ISDIR(other.st_mode))
		st = other;
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
		if (fgetxattr(fd, marks[i], NULL, 0) >= 0 && fremovexattr(fd, marks[i]))
			fail("change", path);
	if (!fstat(fd, &other) && other.st_uid == st.st_uid && other.st_gid == st.st_gid &&
	    (other.st_mode & 07777) == (st.st_mode & 07777))
		return;
	if (fchown(fd, st.st_uid, st.st_gid) || fchmod(fd, st.st_mode & 07777))
		fail("change", path);
}

static void look_at(int folder, const char *path);

static void look_at_one(int folder, const char *name, const char *path)
{
	static const char *const words[] = {
		[LOST] = "lost", [ABOVE] = "lost", [LEFTOVER] = "left over", [KEPT] = "kept"
	};
	const char *file;
	enum fate fate = fate_of(path, &file);
	int fd = fate == ABOVE ? open_folder(folder, name) : -1;

	if (fd >= 0) {
		look_at(fd, path);
		close(fd);
		if (removed >= 0)
			(void)unlinkat(folder, name, AT_REMOVEDIR); /* only an empty one goes */
	} else if (removed < 0) {
		print_all(folder, name, path, file, words[fate]);
	} else if (fate != KEPT) {
		remove_one(folder, name, path, fate == LEFTOVER);
	}
}

/* Decide about all that is in the folder PATH of UPPER. */
static void look_at(int folder, const char *path)
{
	size_t n;
	char **names = names_in(folder, &n);

	if (removed >= 0)
		make_plain(folder, path);
	for (size_t i = 0; i < n; i++) {
		char *below = join(path, names[i]);

		look_at_one(folder, names[i], below);
		free(below);
		free(names[i]);
	}
	free(names);
}

static int folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		complain("%s: %s", path, strerror(errno));
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	static char *usual[] = { "ek-etc", "list", UPPER, IMAGE_LISTS, OWNER_LISTS, NULL };
	bool clean;
	int upper, first;

	if (argc == 1) {
		argv = usual;
		argc = 5;
	}
	clean = argc > 5 && !strcmp(argv[1], "clean");
	if (!clean && !(argc > 3 && !strcmp(argv[1], "list"))) {
		fputs(USAGE, stderr);
		return 2;
	}
	first = clean ? 5 : 3;
	for (int i = first; i < argc; i++) {
		ignored = 0;
		read_lists(argv[i]);
		/* Without a list of the image, the board would lose its name and its machine-id. */
		if (unread || (i == first && (!count || ignored))) {
			complain(
				"%s has no list, or one that cannot be read, so nothing is changed",
				argv[i]);
			return 1;
		}
	}
	upper = folder(argv[2]);
	if (clean) {
		/* Whatever is there in place of the folder must not keep the changes in force. */
		if (!is_folder(AT_FDCWD, argv[3]))
			(void)unlink(argv[3]);
		if (mkdir(argv[3], 0700) && errno != EEXIST) {
			complain("%s: %s", argv[3], strerror(errno));
			return 1;
		}
		removed = folder(argv[3]);
		lower = folder(argv[4]);
	}
	look_at(upper, "");
	return failed || fflush(stdout) ? 1 : 0;
}
