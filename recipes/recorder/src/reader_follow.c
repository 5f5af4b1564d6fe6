// SPDX-License-Identifier: Apache-2.0
/* What the recorder does while a recording is read: new uses, other segments, another directory. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "reader_state.h"

/*
 * Polls at the end between two looks at all heads of a channel that is full. In
 * between, only that of the next segment in turn is read, unless the directory
 * has changed.
 */
#define POLLS_PER_LIST 600
/*
 * Between two looks at all heads while there are segments that were never used:
 * the recorder may take any of them. Of many, fewer per second.
 */
#define LIST_NS	       NSEC_PER_SEC
#define HEADS_PER_LIST 64
/* ms between two looks where there is no notification */
#define POLL_MS 100
/*
 * ms, longest wait where there is a notification. inotify reports neither changes by another host nor a new directory
 * at the path.
 */
#define LOOK_MS 1000
/* A record that was submitted so long before, and the window, is on the medium unless that makes a long pause. */
#define LATE_NS ((__int128)(10 * NSEC_PER_SEC))

/* where inotify does not work (some network file systems), following only polls */
void follow_watch(struct reader *r)
{
	if (!r->options.follow)
		return;
	if (r->notify >= 0)
		close(r->notify);
	r->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (r->notify >= 0 && inotify_add_watch(r->notify, r->path,
						IN_MODIFY | IN_CREATE | IN_MOVED_TO |
							IN_DELETE_SELF | IN_MOVE_SELF) < 0) {
		close(r->notify);
		r->notify = -1;
	}
}

void follow_find_boot(struct reader *r)
{
	const struct ekr_segment_head *h = reader_channel(r);

	if (h)
		memcpy(r->boot, h->boot_id, sizeof(r->boot));
}

static bool directory_changed(const struct reader *r)
{
	struct stat st;

	return fstat(r->dir, &st) || st.st_mtim.tv_sec != r->changed.tv_sec ||
	       st.st_mtim.tv_nsec != r->changed.tv_nsec;
}

/* Time for another look at all heads, because any unused segment may have been taken. */
static bool list_due(const struct reader *r)
{
	const uint64_t lists = 1 + r->uses.count / HEADS_PER_LIST;
	bool unused = false;

	for (size_t i = 0; i < r->uses.count && !unused; i++)
		unused = !r->uses.use[i].used && !r->uses.use[i].damage;
	return unused && monotonic_ns() - r->listed_ns >= lists * LIST_NS;
}

int follow_list(struct reader *r, struct reader_uses *uses, uint64_t seen)
{
	struct stat st;
	int err;

	/* before the heads are read */
	if (fstat(r->dir, &st))
		return -errno;
	err = reader_uses_read(uses, r->dir, &r->heads, seen);
	if (!err)
		r->changed = st.st_mtim;
	r->listed_ns = monotonic_ns();
	return err;
}

/* All heads once more. 1: there are newer uses than the last one that was read or passed over. */
static int list_again(struct reader *r)
{
	struct reader_uses uses = { 0 };
	int err = follow_list(r, &uses, r->seen);

	r->polls = 0;
	if (err) {
		reader_uses_free(&uses);
		return set_errno(&r->error, -err, "reading the heads of the segments");
	}
	reader_uses_free(&r->uses);
	r->uses = uses;
	r->next = uses.count;
	while (r->next && uses.use[r->next - 1].used &&
	       uses.use[r->next - 1].head.generation > r->seen)
		r->next--;
	r->told_head = false;
	follow_find_boot(r);
	return r->next < uses.count;
}

/* Reads the head of a segment again; false: it cannot be read. */
static bool head_now(struct reader *r, const char *file, struct medium_use *now)
{
	r->heads.bytes.ahead = EKR_BLOCK;
	return !reader_head_read(&r->heads, r->dir, file, now);
}

bool follow_recycled(struct reader *r)
{
	struct medium_use now;

	return r->use.valid && head_now(r, r->use.file, &now) && now.valid &&
	       now.head.generation != r->use.head.generation;
}

/*
 * The recorder takes segments in turn. So the segment with the oldest use, or the first one that was never
 * used, is the next: one block tells.
 */
int follow_newer_use(struct reader *r)
{
	const struct medium_use *turn = NULL;
	struct medium_use now;

	if (r->next < r->uses.count)
		return 1;
	for (size_t i = 0; i < r->uses.count && !turn; i++)
		if (!r->uses.use[i].damage && !strchr(r->uses.use[i].file, '/'))
			turn = &r->uses.use[i];
	if (++r->polls < POLLS_PER_LIST && turn && !directory_changed(r) && !list_due(r)) {
		if (!head_now(r, turn->file, &now) || now.damage || now.head.generation <= r->seen)
			return 0;
	}
	return list_again(r);
}

int follow_directory(struct reader *r)
{
	struct stat was, is;
	int dir, err;

	/* the one that is open keeps its number */
	if (fstat(r->dir, &was) || stat(r->path, &is) ||
	    (is.st_dev == was.st_dev && is.st_ino == was.st_ino))
		return 0;
	dir = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return 0;
	close(r->dir);
	r->dir = dir;
	follow_watch(r);
	r->seen = 0;
	err = list_again(r);
	return err < 0 ? err : 1;
}

/* the monotonic clock that the range means is that of this machine, now */
static bool of_this_boot(const struct reader *r)
{
	char text[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned int byte;
	const char *c = text;

	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		*text = '\0';
	fclose(f);
	for (size_t i = 0; i < sizeof(r->boot); i++, c += 2) {
		c += *c == '-';
		if (sscanf(c, "%2x", &byte) != 1 || byte != r->boot[i])
			return false;
	}
	return true;
}

int reader_wait(struct reader *r, int timeout_ms, int output)
{
	struct pollfd fds[2] = { { .fd = r->notify, .events = POLLIN }, { .fd = output } };
	const int most = r->notify < 0 ? POLL_MS : LOOK_MS;
	const bool looks = timeout_ms < 0 || timeout_ms > most;
	int ret = poll(fds, 2, looks ? most : timeout_ms);
	char events[4096];

	if (ret < 0)
		return -errno;
	if (fds[1].revents)
		return -EPIPE;
	if (!ret)
		return looks || r->notify < 0;
	while (read(r->notify, events, sizeof(events)) > 0)
		;
	return 1;
}

bool reader_over(const struct reader *r)
{
	const struct reader_time *to = &r->options.range.to;
	const struct ekr_segment_head *head = reader_channel(r);
	const __int128 late = LATE_NS + (head ? head->window_ns : 0);

	if (r->past || !to->set)
		return r->past;
	if (to->monotonic)
		return monotonic_ns() > to->ns + late && of_this_boot(r);
	return realtime_ns() > to->ns + late;
}
