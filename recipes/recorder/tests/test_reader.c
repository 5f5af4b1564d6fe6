// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "reader_state.h"
#include "recording.h"
#include "segment.h"

#define SIZE   (64u << 10)
#define RECORD 1000u
#define MOST   4000

/* Reads that overlap this block fail; 0: none. */
static uint64_t bad_block;

/* Called once, as soon as the head of a segment was read; gets the index of the segment. */
static void (*after_head)(unsigned int index);

static void head_was_read(int fd)
{
	void (*now)(unsigned int index) = after_head;
	char link[64], path[256];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	assert_true(length > 0);
	path[length] = '\0';
	after_head = NULL;
	now((unsigned int)strtoul(strrchr(path, '/') + 1, NULL, 10));
}

/* grow() runs before the first read at or after this offset (0: never), grown() some reads later. */
static uint64_t growing_from;
static int growing_reads;
static void grow(void);
static void grown(void);

ssize_t __real_pread64(int fd, void *to, size_t length, off_t offset);
ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t offset);
ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t offset)
{
	const uint64_t begin = (uint64_t)offset;
	ssize_t n;

	if (bad_block && begin < bad_block + EKR_BLOCK && begin + length > bad_block) {
		errno = EIO;
		return -1;
	}
	if (growing_from && begin >= growing_from) {
		growing_from = 0;
		grow();
	} else if (growing_reads && !--growing_reads) {
		grown();
	}
	n = __real_pread64(fd, to, length, offset);
	if (after_head && !offset)
		head_was_read(fd);
	return n;
}

/* All events of one reading. Payloads are checked at once and not kept. */
struct seen {
	struct reader_event event[MOST];
	size_t count;
	struct reader_counts counts;
};

static struct seen seen;

static void take_event(struct seen *s, const struct reader_event *e)
{
	if (e->kind == READER_RECORD) {
		unsigned char *want = malloc(e->length + 1);

		recording_payload(e->sequence, want, e->length);
		assert_memory_equal(e->payload, want, e->length);
		free(want);
	}
	assert_true(s->count < MOST);
	s->event[s->count++] = *e;
}

static void drain(struct reader *r, struct seen *s)
{
	struct reader_event e;

	for (;;) {
		assert_int_equal(reader_next(r, &e), 0);
		if (e.kind == READER_END)
			break;
		take_event(s, &e);
	}
	s->counts = *reader_counts(r);
}

static void read_with(const struct recording *rec, const struct reader_options *options,
		      struct seen *s)
{
	struct reader *r;

	memset(s, 0, sizeof(*s));
	assert_int_equal(reader_open(&r, rec->directory, options), 0);
	drain(r, s);
	reader_close(r);
}

static void read_all(const struct recording *rec, struct seen *s)
{
	const struct reader_options options = { .range = READER_ALL };

	read_with(rec, &options, s);
}

/* the events are the records first..last in order, and nothing else */
static void assert_records(const struct seen *s, uint64_t first, uint64_t last)
{
	assert_int_equal(s->count, last - first + 1);
	for (size_t i = 0; i < s->count; i++) {
		assert_int_equal(s->event[i].kind, READER_RECORD);
		assert_int_equal(s->event[i].sequence, first + i);
	}
}

static const struct reader_event *only(const struct seen *s, enum reader_kind kind)
{
	const struct reader_event *found = NULL;

	for (size_t i = 0; i < s->count; i++) {
		if (s->event[i].kind == READER_RECORD)
			continue;
		if (s->event[i].kind != kind || found)
			print_error("%s at %lu in %s: %s\n", reader_kind_name(s->event[i].kind),
				    (unsigned long)s->event[i].offset, s->event[i].file,
				    s->event[i].reason);
		assert_int_equal(s->event[i].kind, kind);
		assert_null(found);
		found = &s->event[i];
	}
	assert_non_null(found);
	return found;
}

static void batches(struct recording *rec, unsigned int count, unsigned int each, uint32_t length)
{
	while (count--) {
		for (unsigned int i = 0; i < each; i++)
			recording_add(rec, length);
		recording_flush(rec);
	}
}

static void assert_intact_up_to(uint64_t sequence)
{
	assert_int_equal(seen.counts.of[READER_DAMAGE] + seen.counts.of[READER_TORN] +
				 seen.counts.of[READER_MISSING],
			 0);
	assert_int_equal(seen.counts.last_sequence, sequence);
}

/* four segments are used six times, with seven batches of two blocks each: two uses were overwritten */
static void six_uses(struct recording *rec)
{
	recording_begin(rec, 4, SIZE, RECORD);
	for (int i = 0; i < 6; i++) {
		recording_use(rec);
		batches(rec, 7, 5, RECORD);
	}
}

static void records_are_read_in_order(void **state)
{
	struct recording rec;

	(void)state;
	six_uses(&rec);
	read_all(&rec, &seen);
	assert_records(&seen, 2 * 35, 6 * 35 - 1);
	assert_int_equal(seen.counts.payload, 4 * 35 * RECORD);
	assert_int_equal(seen.counts.first_sequence, 70);
	assert_int_equal(seen.counts.last_ns, RECORDING_START + 209 * (int64_t)RECORDING_STEP);
	recording_end(&rec);
}

static void records_of_every_length(void **state)
{
	struct recording rec;

	(void)state;
	recording_begin(&rec, 2, SIZE, 4200);
	recording_use(&rec);
	/* also records with which a batch ends exactly at the end of its block */
	batches(&rec, 1, 1, EKR_BLOCK - sizeof(struct ekr_record_head));
	batches(&rec, 1, 3, 0);
	batches(&rec, 1, 1, 4200);
	batches(&rec, 2, 2, EKR_BLOCK / 2 - sizeof(struct ekr_record_head));
	for (uint32_t i = 0; i < 20; i++)
		recording_add(&rec, i);
	recording_flush(&rec);
	read_all(&rec, &seen);
	assert_records(&seen, 0, 28);
	recording_end(&rec);
}

/* also if the rest of the block is shorter than a record's header */
static void a_batch_may_end_anywhere_in_a_block(void **state)
{
	struct recording rec;

	(void)state;
	recording_begin(&rec, 2, SIZE, EKR_BLOCK);
	recording_use(&rec);
	for (uint32_t left = 0; left <= 72; left += 8)
		batches(&rec, 1, 1, EKR_BLOCK - sizeof(struct ekr_record_head) - left);
	read_all(&rec, &seen);
	assert_records(&seen, 0, 9);
	recording_end(&rec);
}

static void the_largest_record_fills_a_segment(void **state)
{
	const uint64_t size = 2 * EKR_BLOCK + EKR_RECORD_MAX;
	struct recording rec;

	(void)state;
	recording_begin(&rec, 2, size, EKR_RECORD_MAX);
	for (int i = 0; i < 3; i++) {
		recording_use(&rec);
		batches(&rec, 1, 1, EKR_RECORD_MAX);
	}
	read_all(&rec, &seen);
	assert_records(&seen, 1, 2);
	recording_end(&rec);
}

static void a_recording_without_records_is_empty(void **state)
{
	struct recording rec;

	(void)state;
	recording_begin(&rec, 3, SIZE, RECORD);
	read_all(&rec, &seen);
	assert_int_equal(seen.count, 0);
	recording_use(&rec);
	read_all(&rec, &seen);
	assert_int_equal(seen.count, 0);
	recording_end(&rec);
}

/* --- damage -------------------------------------------------------------------- */

static void a_flipped_bit_loses_the_rest_of_its_batch_only(void **state)
{
	struct recording rec;
	const struct reader_event *e;
	unsigned char byte;

	(void)state;
	six_uses(&rec);
	/* generation 4 is in segment 3; a payload in the second record of its third batch */
	recording_peek(&rec, 3, 5 * EKR_BLOCK + 1064 + 100, &byte, 1);
	byte ^= 4;
	recording_poke(&rec, 3, 5 * EKR_BLOCK + 1064 + 100, &byte, 1);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 140 - 4);
	assert_int_equal(seen.counts.of[READER_DAMAGE], 1);
	assert_int_equal(seen.counts.of[READER_MISSING], 1);
	assert_int_equal(seen.counts.missing, 4);
	for (size_t i = 0; i < seen.count; i++) {
		e = &seen.event[i];
		if (e->kind == READER_DAMAGE) {
			assert_string_equal(e->file, "00000003.seg");
			assert_int_equal(e->offset, 5 * EKR_BLOCK + 1064);
			assert_int_equal(e->extent, 7 * EKR_BLOCK - e->offset);
			assert_string_equal(e->reason, "bad CRC");
		} else if (e->kind == READER_MISSING) {
			assert_int_equal(e->first, 3 * 35 + 2 * 5 + 1);
			assert_int_equal(e->sequence, 3 * 35 + 2 * 5 + 4);
		}
	}
	recording_end(&rec);
}

static void kinds_of_damage_are_distinguished(void **state)
{
	static const struct {
		uint64_t at;
		uint32_t value;
		const char *reason;
	} cases[] = {
		{ 0, 0xdeadbeef, "bad magic deadbeef" },
		{ 8, 0x7fffffff, "length 2147483647 exceeds the largest record of the channel" },
		{ 8, 999, "bad CRC" },
		{ 16, 2, "generation 2 in a segment of generation 4" },
	};
	struct recording rec;

	(void)state;
	six_uses(&rec);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const uint64_t at = 5 * EKR_BLOCK + cases[i].at;
		bool reported = false;
		uint32_t old;

		recording_peek(&rec, 3, at, &old, sizeof(old));
		recording_poke(&rec, 3, at, &cases[i].value, sizeof(old));
		read_all(&rec, &seen);
		for (size_t k = 0; k < seen.count; k++)
			if (seen.event[k].kind == READER_DAMAGE) {
				assert_string_equal(seen.event[k].reason, cases[i].reason);
				assert_int_equal(seen.event[k].offset, 5 * EKR_BLOCK);
				reported = true;
			}
		assert_true(reported);
		assert_int_equal(seen.counts.of[READER_RECORD], 135);
		recording_poke(&rec, 3, at, &old, sizeof(old));
	}
	recording_end(&rec);
}

static void a_block_of_zeros_in_the_middle_is_damage(void **state)
{
	static const unsigned char zeros[2 * EKR_BLOCK];
	struct recording rec;
	size_t i;

	(void)state;
	six_uses(&rec);
	recording_poke(&rec, 3, 5 * EKR_BLOCK, zeros, sizeof(zeros));
	read_all(&rec, &seen);
	for (i = 0; seen.event[i].kind == READER_RECORD; i++)
		;
	assert_int_equal(seen.event[i].kind, READER_DAMAGE);
	assert_string_equal(seen.event[i].reason, "zeros where a record should be");
	assert_int_equal(seen.event[i].extent, sizeof(zeros));
	assert_int_equal(seen.counts.missing, 5);
	recording_end(&rec);
}

static void a_torn_last_batch_is_not_reported_as_damage(void **state)
{
	struct recording rec;
	const struct reader_event *e;
	unsigned char old[EKR_BLOCK];

	(void)state;
	six_uses(&rec);
	/* the second block of the last batch was not written: it still has data of an earlier use */
	recording_peek(&rec, 1, 2 * EKR_BLOCK, old, sizeof(old));
	recording_poke(&rec, 1, rec.offset - EKR_BLOCK, old, sizeof(old));
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 140 - 2);
	e = only(&seen, READER_TORN);
	assert_string_equal(e->file, "00000001.seg");
	assert_int_equal(e->offset, rec.offset - 2 * EKR_BLOCK + 3 * 1064);
	assert_true(e == &seen.event[seen.count - 1]);
	recording_end(&rec);
}

static void a_torn_batch_in_an_older_segment_after_a_crash(void **state)
{
	static const unsigned char zeros[EKR_BLOCK];
	struct recording rec;

	(void)state;
	recording_begin(&rec, 4, SIZE, RECORD);
	recording_use(&rec);
	batches(&rec, 3, 5, RECORD);
	recording_poke(&rec, 0, rec.offset - EKR_BLOCK, zeros, sizeof(zeros));
	/* three records of the batch are valid; the recorder continues after them */
	rec.sequence = 13;
	recording_use(&rec);
	recording_gap(&rec, EKR_GAP_RESTART, 0, 1);
	batches(&rec, 2, 5, RECORD);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_TORN], 1);
	assert_int_equal(seen.counts.of[READER_GAP], 1);
	assert_int_equal(seen.counts.of[READER_DAMAGE], 0);
	assert_int_equal(seen.counts.of[READER_MISSING], 0);
	assert_int_equal(seen.counts.of[READER_RECORD], 13 + 10);
	recording_end(&rec);
}

static void records_repeated_in_a_later_use_are_returned_once(void **state)
{
	struct recording rec;

	(void)state;
	recording_begin(&rec, 4, SIZE, RECORD);
	recording_use(&rec);
	batches(&rec, 4, 5, RECORD);
	/* writing the last batch failed, so the recorder writes it again */
	rec.sequence = 15;
	recording_use(&rec);
	batches(&rec, 4, 5, RECORD);
	read_all(&rec, &seen);
	assert_records(&seen, 0, 34);
	assert_int_equal(seen.counts.not_given, 5);
	for (size_t i = 0; i < seen.count; i++)
		assert_int_equal(seen.event[i].generation, i < 15 ? 1 : 2);
	recording_end(&rec);
}

/* the medium has the third batch, but not the second: the recorder continued after the first */
static void valid_records_after_a_torn_batch_are_void(void **state)
{
	static const unsigned char zeros[2 * EKR_BLOCK];
	struct recording rec;

	(void)state;
	recording_begin(&rec, 4, SIZE, RECORD);
	recording_use(&rec);
	batches(&rec, 3, 5, RECORD);
	recording_poke(&rec, 0, 3 * EKR_BLOCK, zeros, sizeof(zeros));
	rec.sequence = 5;
	recording_use(&rec);
	recording_gap(&rec, EKR_GAP_RESTART, 0, 1);
	batches(&rec, 2, 5, RECORD);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 5 + 10);
	assert_int_equal(only(&seen, READER_GAP)->sequence, 5);
	for (size_t i = 0; i < seen.count; i++)
		assert_int_equal(seen.event[i].sequence, i);
	recording_end(&rec);
}

/* three batches of eight records and one block; of the second only the first six sectors were written */
static void lose_the_end_of_a_batch(struct recording *rec)
{
	static const unsigned char zeros[1024];

	recording_begin(rec, 4, SIZE, RECORD);
	recording_use(rec);
	batches(rec, 3, 8, 512 - sizeof(struct ekr_record_head));
	recording_poke(rec, 0, 3 * EKR_BLOCK - sizeof(zeros), zeros, sizeof(zeros));
}

/* the rest looks like a batch of six records: only sequences show that some are missing */
static void the_lost_end_of_a_batch_is_reported_as_missing(void **state)
{
	struct recording rec;

	(void)state;
	lose_the_end_of_a_batch(&rec);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 22);
	assert_int_equal(only(&seen, READER_MISSING)->first, 14);
	assert_int_equal(only(&seen, READER_MISSING)->sequence, 15);
	assert_string_equal(only(&seen, READER_MISSING)->reason,
			    "the batch before it is incomplete");
	recording_end(&rec);
}

static void records_missing_without_a_gap_are_reported(void **state)
{
	struct recording rec;
	const struct reader_event *e;

	(void)state;
	recording_begin(&rec, 4, SIZE, 4);
	recording_use(&rec);
	batches(&rec, 1, 5, 4);
	/* a gap may be larger than the records of a channel */
	recording_gap(&rec, EKR_GAP_OVERRUN, 12, 12);
	batches(&rec, 1, 5, 4);
	read_all(&rec, &seen);
	e = only(&seen, READER_GAP);
	assert_int_equal(e->first, 5);
	assert_int_equal(e->sequence, 16);
	assert_int_equal(seen.counts.lost, 12);
	/* the gap reports one record too few: sequence 22 is missing */
	recording_gap(&rec, EKR_GAP_FAILED, 3, 4);
	batches(&rec, 1, 1, 4);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_MISSING], 1);
	assert_int_equal(seen.counts.missing, 1);
	assert_int_equal(seen.counts.lost, 15);
	recording_end(&rec);
}

static void a_segment_without_a_valid_head_is_read(void **state)
{
	static const unsigned char noise[EKR_BLOCK] = "not a head";
	struct recording rec;
	const struct reader_event *e;

	(void)state;
	six_uses(&rec);
	recording_poke(&rec, 3, 0, noise, sizeof(noise));
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 140);
	e = only(&seen, READER_DAMAGE);
	assert_string_equal(e->file, "00000003.seg");
	assert_int_equal(e->offset, 0);
	assert_non_null(strstr(e->reason, "head: bad magic"));
	recording_end(&rec);
}

static void a_head_with_an_invalid_crc_is_ignored(void **state)
{
	const uint64_t wrong = 77;
	struct recording rec;

	(void)state;
	six_uses(&rec);
	recording_poke(&rec, 3, offsetof(struct ekr_segment_head, generation), &wrong,
		       sizeof(wrong));
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 140);
	assert_non_null(strstr(only(&seen, READER_DAMAGE)->reason, "head: bad CRC"));
	recording_end(&rec);
}

/* a length that the channel allows, but that exceeds the segment */
static void a_length_beyond_the_end_of_the_segment(void **state)
{
	const uint32_t length = 4500;
	struct recording rec;

	(void)state;
	recording_begin(&rec, 2, 4 * EKR_BLOCK, 5000);
	recording_use(&rec);
	batches(&rec, 3, 1, RECORD);
	recording_poke(&rec, 0, 3 * EKR_BLOCK + offsetof(struct ekr_record_head, length), &length,
		       sizeof(length));
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 2);
	assert_string_equal(only(&seen, READER_TORN)->reason,
			    "length 4500 exceeds the end of the segment");
	recording_end(&rec);
}

static void an_unreadable_block_loses_only_its_batch(void **state)
{
	struct recording rec;
	const struct reader_event *e = NULL;

	(void)state;
	recording_begin(&rec, 2, SIZE, RECORD);
	recording_use(&rec);
	batches(&rec, 7, 5, RECORD);
	/* the second block of the third batch: three of its records are before it */
	bad_block = 6 * EKR_BLOCK;
	read_all(&rec, &seen);
	bad_block = 0;
	assert_int_equal(seen.counts.of[READER_RECORD], 33);
	assert_int_equal(seen.counts.of[READER_DAMAGE], 1);
	assert_int_equal(seen.counts.missing, 2);
	for (size_t i = 0; i < seen.count; i++)
		if (seen.event[i].kind == READER_DAMAGE)
			e = &seen.event[i];
	assert_string_equal(e->reason, "cannot be read: Input/output error");
	assert_int_equal(e->offset + e->extent, 7 * EKR_BLOCK);
	recording_end(&rec);
}

static void a_truncated_segment_is_read_up_to_its_end(void **state)
{
	struct recording rec;
	char path[64];

	(void)state;
	six_uses(&rec);
	snprintf(path, sizeof(path), "%s/00000003.seg", rec.directory);
	assert_int_equal(truncate(path, 5 * EKR_BLOCK + 100), 0);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 140 - 25);
	assert_int_equal(seen.counts.of[READER_MISSING], 1);
	assert_int_equal(seen.counts.missing, 25);
	assert_int_equal(seen.counts.of[READER_DAMAGE], 1);
	assert_int_equal(truncate(path, 10), 0);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 105);
	assert_int_equal(truncate(path, 0), 0);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 105);
	recording_end(&rec);
}

static void files_that_are_no_segments_of_the_channel_are_not_read(void **state)
{
	struct recording rec, other;
	char path[64];

	(void)state;
	six_uses(&rec);
	/* a copy of segment 0 of another channel, a copy of one of its own segments, a FIFO, a link */
	recording_begin(&other, 1, SIZE, RECORD);
	other.head.channel_id[0] = 77;
	recording_use(&other);
	batches(&other, 1, 3, RECORD);
	recording_peek(&other, 0, 0, other.image, SIZE);
	recording_poke(&rec, 4, 0, other.image, SIZE);
	recording_end(&other);
	recording_peek(&rec, 1, 0, rec.image, SIZE);
	recording_poke(&rec, 5, 0, rec.image, SIZE);
	snprintf(path, sizeof(path), "%s/00000006.seg", rec.directory);
	assert_int_equal(mkfifo(path, 0600), 0);
	snprintf(path, sizeof(path), "%s/00000007.seg", rec.directory);
	assert_int_equal(symlink("00000001.seg", path), 0);
	rec.segments = 8;
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 140);
	assert_int_equal(seen.counts.of[READER_DAMAGE], 4);
	assert_int_equal(seen.counts.of[READER_MISSING], 0);
	/* a symbolic link with the name of a segment is not followed */
	snprintf(path, sizeof(path), "%s/00000003.seg", rec.directory);
	assert_int_equal(rename(path, "moved"), 0);
	assert_int_equal(symlink("../moved", path), 0);
	read_all(&rec, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 105);
	assert_int_equal(unlink("moved"), 0);
	recording_end(&rec);
}

/* --- while the recorder is recording ------------------------------------------------ */

static void reuse_of_a_segment_while_reading_is_reported(void **state)
{
	const struct reader_options options = { .range = READER_ALL };
	struct recording rec;
	struct reader_event e;
	struct reader *r;
	bool reported = false;

	(void)state;
	six_uses(&rec);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, rec.directory, &options), 0);
	/* stop in the middle of the oldest use */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(reader_next(r, &e), 0);
		take_event(&seen, &e);
	}
	recording_use(&rec);
	batches(&rec, 7, 5, RECORD);
	recording_use(&rec);
	batches(&rec, 7, 5, RECORD);
	drain(r, &seen);
	for (size_t i = 0; i < seen.count; i++)
		reported |= seen.event[i].kind == READER_OVERWRITTEN;
	assert_true(reported);
	/* the reader returns everything up to the newest use that it knew */
	assert_intact_up_to(209);
	reader_close(r);
	recording_end(&rec);
}

/* the recorder was restarted with a lower retain */
static void deletion_of_a_segment_while_reading_is_reported(void **state)
{
	const struct reader_options options = { .range = READER_ALL };
	struct recording rec;
	struct reader_event e;
	char path[256];
	struct reader *r;

	(void)state;
	six_uses(&rec);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, rec.directory, &options), 0);
	/* in the middle of the oldest use, the next two are deleted */
	assert_int_equal(reader_next(r, &e), 0);
	take_event(&seen, &e);
	for (size_t i = 1; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", rec.directory, reader_uses(r)->use[i].file);
		assert_int_equal(unlink(path), 0);
	}
	drain(r, &seen);
	assert_int_equal(seen.counts.of[READER_OVERWRITTEN], 2);
	assert_int_equal(seen.counts.of[READER_RECORD], 70);
	assert_intact_up_to(209);
	reader_close(r);
	recording_end(&rec);
}

static struct {
	struct recording rec;
	bool torn; /* the first block of the batch is written last */
	uint64_t at;
	unsigned char block[EKR_BLOCK];
} growing;

/* every 128th record begins at a block, where the reader looks for one */
#define GROWN (RECORD - 8)

/* write a batch larger than one read, and a second batch */
static void grow(void)
{
	const unsigned char zeros[EKR_BLOCK] = { 0 };
	struct recording *rec = &growing.rec;

	growing.at = rec->offset;
	for (int i = 0; i < 300; i++)
		recording_add(rec, GROWN);
	recording_flush(rec);
	if (growing.torn) {
		recording_peek(rec, 0, growing.at, growing.block, EKR_BLOCK);
		recording_poke(rec, 0, growing.at, zeros, EKR_BLOCK);
		growing_reads = 3;
	} else {
		recording_add(rec, GROWN);
		recording_flush(rec);
	}
}

/* complete the torn batch after the reader saw it */
static void grown(void)
{
	recording_poke(&growing.rec, 0, growing.at, growing.block, EKR_BLOCK);
}

/* the rest of the newest segment is read in pieces, and batches are written in between */
static void batches_written_while_reading_are_not_reported_as_damage(void **state)
{
	const struct reader_options options = { .range = READER_ALL, .again_ns = 1000000 };
	struct recording *rec = &growing.rec;

	(void)state;
	for (int i = 0; i < 2; i++) {
		recording_begin(rec, 3, 1 << 20, RECORD);
		growing.torn = i;
		recording_use(rec);
		for (int n = 0; n < 10; n++)
			recording_add(rec, GROWN);
		recording_flush(rec);
		growing_from = READER_AHEAD;
		read_with(rec, &options, &seen);
		assert_int_equal(growing_from + (uint64_t)growing_reads, 0);
		assert_records(&seen, 0, growing.torn ? 309 : 310);
		recording_end(rec);
	}
}

static void following_returns_each_record_once(void **state)
{
	const struct reader_options options = { .range = READER_ALL, .follow = true };
	struct recording rec;
	struct reader *r;

	(void)state;
	recording_begin(&rec, 3, SIZE, RECORD);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, rec.directory, &options), 0);
	drain(r, &seen);
	for (int use = 0; use < 8; use++) {
		recording_use(&rec);
		drain(r, &seen);
		/* a use may end before the end of its segment */
		for (int batch = 0; batch < 7 - use % 2; batch++) {
			batches(&rec, 1, 5, RECORD);
			drain(r, &seen);
			drain(r, &seen);
			assert_int_equal(seen.counts.last_sequence, rec.sequence - 1);
		}
	}
	assert_records(&seen, 0, rec.sequence - 1);
	reader_close(r);
	recording_end(&rec);
}

/* segments are created in the background: the next one did not exist at first */
static void following_finds_segments_created_later(void **state)
{
	const struct reader_options options = { .range = READER_ALL, .follow = true };
	struct recording rec;
	struct reader *r;
	char hidden[64], name[64];

	(void)state;
	recording_begin(&rec, 3, SIZE, RECORD);
	snprintf(name, sizeof(name), "%s/00000001.seg", rec.directory);
	snprintf(hidden, sizeof(hidden), "%s/00000001.seg.new", rec.directory);
	assert_int_equal(rename(name, hidden), 0);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, rec.directory, &options), 0);
	recording_use(&rec);
	batches(&rec, 2, 5, RECORD);
	drain(r, &seen);
	assert_int_equal(rename(hidden, name), 0);
	recording_use(&rec);
	batches(&rec, 2, 5, RECORD);
	drain(r, &seen);
	assert_records(&seen, 0, 19);
	reader_close(r);
	recording_end(&rec);
}

/* the recorder may use any segment that was never used */
static void following_finds_the_next_segment_within_a_second(void **state)
{
	const struct reader_options options = { .range = READER_ALL, .follow = true };
	const struct timespec pause = { .tv_nsec = 10000000 };
	struct recording rec;
	struct reader *r;

	(void)state;
	recording_begin(&rec, 5, SIZE, RECORD);
	recording_use(&rec);
	batches(&rec, 2, 5, RECORD);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, rec.directory, &options), 0);
	drain(r, &seen);
	for (unsigned int next = 4; next > 2; next--) {
		rec.head.index = next - 1;
		recording_use(&rec);
		batches(&rec, 2, 5, RECORD);
		/* fewer polls than after which all heads are read anyway */
		for (int i = 0; i < 200 && seen.counts.last_sequence < rec.sequence - 1; i++) {
			nanosleep(&pause, NULL);
			drain(r, &seen);
		}
		assert_records(&seen, 0, rec.sequence - 1);
	}
	reader_close(r);
	recording_end(&rec);
}

/* six segments that are used in the order in which readdir() returns them */
static struct {
	struct recording rec;
	unsigned int order[6];
	unsigned int next; /* index into order */
} shuffled;

static void use_next(void)
{
	struct recording *rec = &shuffled.rec;

	rec->head.index = (shuffled.order[shuffled.next++ % 6] + 5) % 6;
	recording_use(rec);
	batches(rec, 2, 5, RECORD);
}

static void begin_shuffled(int uses)
{
	struct recording *rec = &shuffled.rec;
	struct dirent *entry;
	unsigned int n = 0;
	uint32_t index;
	DIR *d;

	recording_begin(rec, 6, SIZE, RECORD);
	d = opendir(rec->directory);
	assert_non_null(d);
	while ((entry = readdir(d)) != NULL)
		if (segment_index(entry->d_name, &index) && n < 6)
			shuffled.order[n++] = (unsigned int)strtoul(entry->d_name, NULL, 10);
	closedir(d);
	assert_int_equal(n, 6);
	shuffled.next = 0;
	while (uses--)
		use_next();
}

/* start two uses, after the head of the first was read and before that of the second */
static void start_two_uses(unsigned int index)
{
	if (index != shuffled.order[shuffled.next % 6]) {
		after_head = start_two_uses;
		return;
	}
	use_next();
	use_next();
}

static void uses_that_start_while_heads_are_read_are_not_skipped(void **state)
{
	const struct reader_options options = { .range = READER_ALL };
	struct reader *r;

	(void)state;
	begin_shuffled(7);
	after_head = start_two_uses;
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, shuffled.rec.directory, &options), 0);
	assert_null(after_head);
	drain(r, &seen);
	assert_records(&seen, 30, 89);
	reader_close(r);
	recording_end(&shuffled.rec);
}

static void following_skips_no_use_that_starts_while_heads_are_read(void **state)
{
	const struct reader_options options = { .range = READER_ALL, .follow = true };
	struct reader *r;
	char made[64];

	(void)state;
	begin_shuffled(7);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, shuffled.rec.directory, &options), 0);
	drain(r, &seen);
	/* a change of the directory makes it read all heads */
	snprintf(made, sizeof(made), "%s/made", shuffled.rec.directory);
	assert_int_equal(mkdir(made, 0700), 0);
	after_head = start_two_uses;
	drain(r, &seen);
	assert_null(after_head);
	assert_records(&seen, 10, 89);
	/* again, with the newest use last in that order */
	assert_int_equal(rmdir(made), 0);
	after_head = start_two_uses;
	drain(r, &seen);
	assert_null(after_head);
	assert_records(&seen, 10, 109);
	reader_close(r);
	recording_end(&shuffled.rec);
}

static void the_first_uses_are_not_skipped(void **state)
{
	const struct timespec second = { .tv_sec = 1 };
	const struct reader_options options = { .range = READER_ALL, .follow = true };
	struct reader *r;

	(void)state;
	begin_shuffled(0);
	memset(&seen, 0, sizeof(seen));
	after_head = start_two_uses;
	assert_int_equal(reader_open(&r, shuffled.rec.directory, &options), 0);
	assert_null(after_head);
	drain(r, &seen);
	assert_records(&seen, 0, 19);
	reader_close(r);
	recording_end(&shuffled.rec);

	begin_shuffled(0);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, shuffled.rec.directory, &options), 0);
	drain(r, &seen);
	nanosleep(&second, NULL);
	after_head = start_two_uses;
	drain(r, &seen);
	assert_null(after_head);
	drain(r, &seen);
	assert_records(&seen, 0, 19);
	reader_close(r);
	recording_end(&shuffled.rec);
}

/* sequences start again; the last records of the old directory are returned too */
static void following_continues_in_a_replaced_directory(void **state)
{
	const struct reader_options options = { .range = READER_ALL, .follow = true };
	struct recording was, is;
	struct reader *r;
	char away[64];

	(void)state;
	recording_begin(&was, 3, SIZE, RECORD);
	recording_begin(&is, 3, SIZE, RECORD);
	for (int i = 0; i < 3; i++) {
		recording_use(&was);
		batches(&was, 2, 5, RECORD);
	}
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, was.directory, &options), 0);
	drain(r, &seen);
	assert_records(&seen, 0, 29);
	recording_add(&was, 100);
	recording_flush(&was);
	snprintf(away, sizeof(away), "%s-away", was.directory);
	assert_int_equal(rename(was.directory, away), 0);
	memset(&seen, 0, sizeof(seen));
	drain(r, &seen);
	assert_records(&seen, 30, 30);
	memset(&seen, 0, sizeof(seen));
	drain(r, &seen);
	assert_int_equal(seen.count, 0);
	/* an event reports that the directory was moved, and none reports the new one */
	assert_int_equal(reader_wait(r, -1, -1), 1);
	recording_use(&is);
	batches(&is, 1, 5, RECORD);
	assert_int_equal(rename(is.directory, was.directory), 0);
	assert_int_equal(reader_wait(r, -1, -1), 1);
	drain(r, &seen);
	assert_int_equal(seen.count, 6);
	assert_int_equal(only(&seen, READER_OVERWRITTEN), &seen.event[0]);
	assert_int_equal(seen.event[1].sequence, 0);
	assert_int_equal(seen.event[5].sequence, 4);
	memset(&seen, 0, sizeof(seen));
	drain(r, &seen);
	assert_int_equal(seen.count, 0);
	reader_close(r);
	assert_int_equal(rename(was.directory, is.directory), 0);
	assert_int_equal(rename(away, was.directory), 0);
	recording_end(&was);
	recording_end(&is);
}

static void following_from_the_end_returns_only_new_records(void **state)
{
	const struct reader_options options = { .range = READER_ALL,
						.follow = true,
						.from_end = true };
	struct recording rec;
	struct reader *r;

	(void)state;
	recording_begin(&rec, 3, SIZE, RECORD);
	recording_use(&rec);
	batches(&rec, 3, 5, RECORD);
	recording_gap(&rec, EKR_GAP_OVERRUN, 1, 3);
	batches(&rec, 1, 1, RECORD);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(reader_open(&r, rec.directory, &options), 0);
	drain(r, &seen);
	assert_int_equal(seen.count, 0);
	batches(&rec, 1, 5, RECORD);
	drain(r, &seen);
	assert_records(&seen, 19, 23);
	reader_close(r);
	recording_end(&rec);
}

static void following_waits_for_a_batch_to_be_complete(void **state)
{
	const struct reader_options options = { .range = READER_ALL, .follow = true };
	unsigned char block[EKR_BLOCK];
	struct recording rec;
	struct reader *r;

	(void)state;
	six_uses(&rec);
	recording_peek(&rec, 1, rec.offset - EKR_BLOCK, block, sizeof(block));
	memset(&seen, 0, sizeof(seen));
	{
		static const unsigned char zeros[EKR_BLOCK];

		recording_poke(&rec, 1, rec.offset - EKR_BLOCK, zeros, sizeof(zeros));
	}
	assert_int_equal(reader_open(&r, rec.directory, &options), 0);
	drain(r, &seen);
	assert_records(&seen, 70, 207);
	recording_poke(&rec, 1, rec.offset - EKR_BLOCK, block, sizeof(block));
	drain(r, &seen);
	assert_records(&seen, 70, 209);
	reader_close(r);
	recording_end(&rec);
}

/* --- ranges ----------------------------------------------------------------------- */

static void a_range_selects_records_by_sequence_and_time(void **state)
{
	struct reader_options options = { .range = READER_ALL };
	struct recording rec;

	(void)state;
	six_uses(&rec);
	options.range.first = 100;
	options.range.last = 150;
	read_with(&rec, &options, &seen);
	assert_records(&seen, 100, 150);

	options.range = READER_ALL;
	options.range.from =
		(struct reader_time){ .set = true, .ns = RECORDING_START + 100 * RECORDING_STEP };
	options.range.to =
		(struct reader_time){ .set = true, .ns = RECORDING_START + 150 * RECORDING_STEP };
	read_with(&rec, &options, &seen);
	assert_records(&seen, 100, 150);

	options.range.from = (struct reader_time){
		.set = true,
		.monotonic = true,
		.ns = 1000000000 + 100 * RECORDING_STEP,
	};
	options.range.to = (struct reader_time){ .set = true,
						 .monotonic = true,
						 .ns = 1000000000 + 150 * RECORDING_STEP };
	read_with(&rec, &options, &seen);
	assert_records(&seen, 100, 150);

	options.range.to.ns = options.range.from.ns - 1;
	read_with(&rec, &options, &seen);
	assert_int_equal(seen.count, 0);
	recording_end(&rec);
}

static uint64_t bytes_read(const struct recording *rec, const struct reader_options *options)
{
	char line[64];
	uint64_t before = 0, after = 0;

	for (int i = 0; i < 2; i++) {
		FILE *f = fopen("/proc/self/io", "r");

		assert_non_null(f);
		assert_non_null(fgets(line, sizeof(line), f));
		*(i ? &after : &before) = strtoull(line + strlen("rchar: "), NULL, 10);
		fclose(f);
		if (!i)
			read_with(rec, options, &seen);
	}
	return after - before;
}

/* with hours between the segments, only those near the range are read */
static void segments_outside_the_range_are_not_read(void **state)
{
	struct reader_options options = { .range = READER_ALL };
	struct recording rec;
	uint64_t all, part;

	(void)state;
	recording_begin(&rec, 20, SIZE, RECORD);
	for (int i = 0; i < 20; i++) {
		recording_use(&rec);
		batches(&rec, 7, 5, RECORD);
		rec.realtime_ns += INT64_C(3600000000000);
		rec.monotonic_ns += UINT64_C(3600000000000);
	}
	all = bytes_read(&rec, &options);
	options.range.first = options.range.last = 365;
	part = bytes_read(&rec, &options);
	assert_records(&seen, 365, 365);
	assert_true(part < all / 4);
	options.range = READER_ALL;
	options.range.from =
		(struct reader_time){ .set = true,
				      .ns = RECORDING_START + 10 * INT64_C(3600000000000) };
	options.range.to = options.range.from;
	options.range.to.ns += INT64_C(3600000000000);
	part = bytes_read(&rec, &options);
	assert_records(&seen, 350, 384);
	assert_true(part < all / 3);
	recording_end(&rec);
}

/* the clock was set back by a day in the middle of a segment: no record is skipped */
static void a_clock_that_jumps_hides_nothing(void **state)
{
	struct reader_options options = { .range = READER_ALL };
	struct recording rec;

	(void)state;
	recording_begin(&rec, 8, SIZE, RECORD);
	for (int i = 0; i < 6; i++) {
		recording_use(&rec);
		batches(&rec, 3, 5, RECORD);
		if (i == 2)
			rec.realtime_ns -= INT64_C(86400000000000);
		batches(&rec, 4, 5, RECORD);
	}
	options.range.to = (struct reader_time){ .set = true, .ns = RECORDING_START - 1 };
	read_with(&rec, &options, &seen);
	assert_records(&seen, 85, 209);
	options.range = READER_ALL;
	options.range.from = (struct reader_time){ .set = true, .ns = RECORDING_START };
	read_with(&rec, &options, &seen);
	assert_records(&seen, 0, 84);
	recording_end(&rec);
}

static void delete_segment(const struct recording *rec, unsigned int index)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%08u.seg", rec->directory, index);
	assert_int_equal(unlink(path), 0);
}

/* uses of ten records, a minute apart; records 20..29 are absent */
static void without_the_third(struct recording *rec)
{
	recording_begin(rec, 8, SIZE, RECORD);
	for (int i = 0; i < 6; i++) {
		recording_use(rec);
		batches(rec, 2, 5, RECORD);
		rec->realtime_ns += INT64_C(60000000000);
		rec->monotonic_ns += UINT64_C(60000000000);
	}
	delete_segment(rec, 2);
}

/* missing sequences within the range are reported, wherever the range starts and ends */
static void missing_sequences_in_a_range_are_reported(void **state)
{
	static const struct {
		uint64_t first, last, records, missing_first, missing_last;
	} cases[] = {
		{ 22, 25, 0, 22, 25 },	{ 20, 29, 0, 20, 29 },	       { 20, 20, 0, 20, 20 },
		{ 29, 29, 0, 29, 29 },	{ 15, 25, 5, 20, 25 },	       { 25, 35, 6, 25, 29 },
		{ 15, 35, 11, 20, 29 }, { 0, UINT64_MAX, 50, 20, 29 },
	};
	struct reader_options options = { .range = READER_ALL };
	const struct reader_event *e;
	struct recording rec;

	(void)state;
	without_the_third(&rec);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		options.range.first = cases[i].first;
		options.range.last = cases[i].last;
		read_with(&rec, &options, &seen);
		e = only(&seen, READER_MISSING);
		assert_int_equal(e->first, cases[i].missing_first);
		assert_int_equal(e->sequence, cases[i].missing_last);
		assert_int_equal(seen.counts.of[READER_RECORD], cases[i].records);
	}
	/* in the ranges before and after nothing is missing */
	options.range.first = 10;
	options.range.last = 19;
	read_with(&rec, &options, &seen);
	assert_records(&seen, 10, 19);
	options.range.first = 30;
	options.range.last = 59;
	read_with(&rec, &options, &seen);
	assert_records(&seen, 30, 59);
	recording_end(&rec);
}

/* absent records have no time: all that may be in the range are reported */
static void missing_records_that_may_be_in_a_time_range_are_reported(void **state)
{
	const int64_t second = INT64_C(1000000000);
	static const struct {
		int64_t from, to;
		uint64_t records, missing;
	} cases[] = {
		{ 65, 150, 0, 10 }, { 50, 130, 10, 10 }, { 130, 190, 10, 10 },
		{ 10, 50, 0, 0 },   { 50, 60, 10, 10 },	 { 185, 400, 20, 0 },
	};
	struct reader_options options = { .range = READER_ALL };
	struct recording rec;

	(void)state;
	without_the_third(&rec);
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		const int64_t begin = i % 2 ? second : RECORDING_START;

		options.range.from = (struct reader_time){ .set = true, .monotonic = i % 2 };
		options.range.to = options.range.from;
		options.range.from.ns = begin + cases[i / 2].from * second;
		options.range.to.ns = begin + cases[i / 2].to * second + second / 2;
		read_with(&rec, &options, &seen);
		assert_int_equal(seen.counts.of[READER_RECORD], cases[i / 2].records);
		assert_int_equal(seen.counts.missing, cases[i / 2].missing);
	}
	recording_end(&rec);
}

static struct reader_time since_boot(uint64_t ns)
{
	return (struct reader_time){ .set = true, .monotonic = true, .ns = (int64_t)ns };
}

static struct reader_time real_time(int64_t ns)
{
	return (struct reader_time){ .set = true, .ns = ns };
}

/*
 * The medium stalled for a minute. Records of that minute are then written into three
 * segments at once, whose heads are younger than all their records.
 */
static void records_older_than_the_heads_before_them_are_found(void **state)
{
	const uint64_t minute = 60 * UINT64_C(1000000000);
	struct reader_options options = { .range = READER_ALL };
	struct recording rec;

	(void)state;
	recording_begin(&rec, 8, SIZE, RECORD);
	recording_use(&rec);
	batches(&rec, 7, 5, RECORD);
	for (int i = 0; i < 3; i++) {
		rec.monotonic_ns += minute;
		rec.realtime_ns += (int64_t)minute;
		recording_use(&rec);
		rec.monotonic_ns -= minute;
		rec.realtime_ns -= (int64_t)minute;
		/* a gap has the time at which it was recorded, later than the records after it */
		if (i == 1) {
			rec.monotonic_ns += minute;
			rec.realtime_ns += (int64_t)minute;
			recording_gap(&rec, EKR_GAP_FAILED, 0, 1);
			recording_flush(&rec);
			rec.monotonic_ns -= minute + RECORDING_STEP;
			rec.realtime_ns -= (int64_t)minute + RECORDING_STEP;
		}
		batches(&rec, 6, 5, RECORD);
	}
	rec.monotonic_ns += 2 * minute;
	rec.realtime_ns += 2 * (int64_t)minute;
	for (int i = 0; i < 2; i++) {
		recording_use(&rec);
		batches(&rec, 7, 5, RECORD);
	}
	/* 125 records; the gap takes one sequence */
	options.range.to = since_boot(1000000000 + minute / 2);
	read_with(&rec, &options, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 125);
	assert_int_equal(seen.counts.last_sequence, 125);
	options.range.to = real_time(RECORDING_START + (int64_t)minute / 2);
	read_with(&rec, &options, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 125);
	/* a time within the records that were written late */
	options.range.to = since_boot(1000000000 + 99 * RECORDING_STEP);
	read_with(&rec, &options, &seen);
	assert_int_equal(seen.counts.of[READER_RECORD], 100);
	recording_end(&rec);
}

/* the clock is set back by a day after the head of the segment was written */
static void a_clock_that_is_set_back_far_hides_nothing(void **state)
{
	const int64_t hour = INT64_C(3600000000000);
	struct reader_options options = { .range = READER_ALL };
	struct recording rec;

	(void)state;
	recording_begin(&rec, 8, SIZE, RECORD);
	for (int i = 0; i < 6; i++) {
		recording_use(&rec);
		batches(&rec, 3, 5, RECORD);
		if (i == 2)
			rec.realtime_ns -= 24 * hour;
		batches(&rec, 4, 5, RECORD);
		rec.monotonic_ns += (uint64_t)hour;
		rec.realtime_ns += hour;
	}
	options.range.to = real_time(RECORDING_START - 1);
	read_with(&rec, &options, &seen);
	assert_records(&seen, 85, 209);
	recording_end(&rec);
}

/* the clock was an hour ahead when the first records were submitted, and correct when their head was written */
static void a_clock_that_is_set_back_before_the_head_hides_nothing(void **state)
{
	const int64_t hour = INT64_C(3600000000000);
	struct reader_options options = { .range = READER_ALL };
	struct recording rec;

	(void)state;
	recording_begin(&rec, 4, SIZE, RECORD);
	rec.monotonic_ns += 400000000;
	rec.realtime_ns += 400000000;
	recording_use(&rec);
	rec.monotonic_ns -= 400000000;
	rec.realtime_ns += hour - 400000000;
	batches(&rec, 1, 10, RECORD);
	rec.realtime_ns -= hour;
	batches(&rec, 1, 10, RECORD);
	rec.monotonic_ns += 10000000000;
	rec.realtime_ns += 10000000000;
	recording_use(&rec);
	batches(&rec, 1, 10, RECORD);
	options.range.from = real_time(RECORDING_START + hour);
	read_with(&rec, &options, &seen);
	assert_records(&seen, 0, 9);
	recording_end(&rec);
}

/* --- hostile input ------------------------------------------------------------------ */

static uint64_t noise(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

/*
 * Whatever is damaged: reading ends, accesses only its own memory, and returns only records
 * that were written, in order.
 */
static void random_damage(void **state)
{
	static unsigned char image[4][SIZE];
	const struct reader_options options = { .range = READER_ALL };
	uint64_t random = 88172645463325252u;
	struct recording rec;

	(void)state;
	six_uses(&rec);
	for (unsigned int i = 0; i < 4; i++)
		recording_peek(&rec, i, 0, image[i], SIZE);
	for (int round = 0; round < 150; round++) {
		uint64_t last = 0, returned = 0;
		unsigned int changed = 0;
		struct reader_event e;
		struct reader *r;
		int events = 0;

		for (uint64_t n = 1 + noise(&random) % 6; n; n--) {
			unsigned int i = (unsigned int)(noise(&random) % 4);
			uint64_t at = noise(&random) % SIZE, length = 1 + noise(&random) % 16;
			unsigned char junk[2 * EKR_BLOCK];

			/* often in a header, because the reader's decisions depend on these */
			if (noise(&random) % 2)
				at = at / EKR_BLOCK * EKR_BLOCK + noise(&random) % 80;
			if (noise(&random) % 4 == 0) {
				/* blocks from another place, with valid CRCs */
				at = at / EKR_BLOCK * EKR_BLOCK;
				length = at ? sizeof(junk) : EKR_BLOCK;
				memcpy(junk, image[noise(&random) % 4] + at % (SIZE / 2),
				       sizeof(junk));
			} else {
				for (size_t k = 0; k < sizeof(junk); k++)
					junk[k] = (unsigned char)noise(&random);
			}
			if (length > SIZE - at)
				length = SIZE - at;
			changed |= 1u << i;
			recording_poke(&rec, i, at, junk, length);
		}
		assert_int_equal(reader_open(&r, rec.directory, &options), 0);
		for (;;) {
			assert_int_equal(reader_next(r, &e), 0);
			if (e.kind == READER_END)
				break;
			assert_true(++events < 1000);
			if (e.kind != READER_RECORD)
				continue;
			take_event(&(struct seen){ 0 }, &e);
			assert_true(e.sequence < 210);
			assert_true(!returned || e.sequence > last);
			last = e.sequence;
			returned++;
		}
		reader_close(r);
		for (unsigned int i = 0; i < 4; i++)
			if (changed & 1u << i)
				recording_poke(&rec, i, 0, image[i], SIZE);
	}
	recording_end(&rec);
}

static void a_missing_directory_is_an_error_with_a_message(void **state)
{
	const struct reader_options options = { .range = READER_ALL };
	struct reader *r;

	(void)state;
	assert_int_equal(reader_open(&r, "no-such-recording", &options), -ENOENT);
	assert_string_equal(reader_error(r),
			    "opening the recording no-such-recording: No such file or directory");
	reader_close(r);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* otherwise the reader would report a record as torn that is still being written */
static void a_signal_does_not_shorten_the_pause_before_another_look(void **state)
{
	const struct sigaction action = { .sa_handler = on_alarm };
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { 0 };
	volatile sig_atomic_t stop = 0;
	struct reader_pace pace = { .again_ns = 100 * NSEC_PER_MSEC };
	struct reader_file file;
	uint64_t began;

	(void)state;
	assert_int_equal(reader_file_init(&file, &pace, &stop), 0);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	setitimer(ITIMER_REAL, &often, NULL);
	began = monotonic_ns();
	assert_true(reader_file_again(&file));
	assert_true(monotonic_ns() - began >= pace.again_ns);
	/* unless the program is to stop */
	stop = 1;
	began = monotonic_ns();
	assert_false(reader_file_again(&file));
	assert_true(monotonic_ns() - began < pace.again_ns);
	setitimer(ITIMER_REAL, &never, NULL);
	reader_file_free(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_read_in_order),
		cmocka_unit_test(records_of_every_length),
		cmocka_unit_test(a_batch_may_end_anywhere_in_a_block),
		cmocka_unit_test(the_largest_record_fills_a_segment),
		cmocka_unit_test(a_recording_without_records_is_empty),
		cmocka_unit_test(a_flipped_bit_loses_the_rest_of_its_batch_only),
		cmocka_unit_test(kinds_of_damage_are_distinguished),
		cmocka_unit_test(a_block_of_zeros_in_the_middle_is_damage),
		cmocka_unit_test(a_torn_last_batch_is_not_reported_as_damage),
		cmocka_unit_test(a_torn_batch_in_an_older_segment_after_a_crash),
		cmocka_unit_test(records_repeated_in_a_later_use_are_returned_once),
		cmocka_unit_test(valid_records_after_a_torn_batch_are_void),
		cmocka_unit_test(the_lost_end_of_a_batch_is_reported_as_missing),
		cmocka_unit_test(records_missing_without_a_gap_are_reported),
		cmocka_unit_test(a_segment_without_a_valid_head_is_read),
		cmocka_unit_test(a_head_with_an_invalid_crc_is_ignored),
		cmocka_unit_test(a_length_beyond_the_end_of_the_segment),
		cmocka_unit_test(an_unreadable_block_loses_only_its_batch),
		cmocka_unit_test(a_truncated_segment_is_read_up_to_its_end),
		cmocka_unit_test(files_that_are_no_segments_of_the_channel_are_not_read),
		cmocka_unit_test(reuse_of_a_segment_while_reading_is_reported),
		cmocka_unit_test(deletion_of_a_segment_while_reading_is_reported),
		cmocka_unit_test(batches_written_while_reading_are_not_reported_as_damage),
		cmocka_unit_test(following_returns_each_record_once),
		cmocka_unit_test(following_finds_segments_created_later),
		cmocka_unit_test(following_finds_the_next_segment_within_a_second),
		cmocka_unit_test(uses_that_start_while_heads_are_read_are_not_skipped),
		cmocka_unit_test(following_skips_no_use_that_starts_while_heads_are_read),
		cmocka_unit_test(the_first_uses_are_not_skipped),
		cmocka_unit_test(following_continues_in_a_replaced_directory),
		cmocka_unit_test(following_from_the_end_returns_only_new_records),
		cmocka_unit_test(following_waits_for_a_batch_to_be_complete),
		cmocka_unit_test(a_range_selects_records_by_sequence_and_time),
		cmocka_unit_test(segments_outside_the_range_are_not_read),
		cmocka_unit_test(a_clock_that_jumps_hides_nothing),
		cmocka_unit_test(missing_sequences_in_a_range_are_reported),
		cmocka_unit_test(missing_records_that_may_be_in_a_time_range_are_reported),
		cmocka_unit_test(records_older_than_the_heads_before_them_are_found),
		cmocka_unit_test(a_clock_that_is_set_back_far_hides_nothing),
		cmocka_unit_test(a_clock_that_is_set_back_before_the_head_hides_nothing),
		cmocka_unit_test(random_damage),
		cmocka_unit_test(a_missing_directory_is_an_error_with_a_message),
		cmocka_unit_test(a_signal_does_not_shorten_the_pause_before_another_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
