// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "clock.h"
#include "stats.h"

static sem_t state_read, continue_printing;

/* stats.c reads the state before it reads the counters: printing stops here until the test lets it continue */
enum store_state __real_store_state(struct store *s, struct error *reason);
enum store_state __wrap_store_state(struct store *s, struct error *reason);
enum store_state __wrap_store_state(struct store *s, struct error *reason)
{
	enum store_state state = __real_store_state(s, reason);

	sem_post(&state_read);
	sem_wait(&continue_printing);
	return state;
}

static void begin(struct channel *c)
{
	*c = (struct channel){ .file = "arm", .use = CHANNEL_USED };
	pthread_mutex_init(&c->store.lock, NULL);
	pthread_mutex_init(&c->buffer.lock, NULL);
	sem_init(&state_read, 0, 0);
	sem_init(&continue_printing, 0, 0);
}

static void end(struct channel *c)
{
	pthread_mutex_destroy(&c->store.lock);
	pthread_mutex_destroy(&c->buffer.lock);
}

static char *text;
static size_t length;

static void *print(void *arg)
{
	FILE *to = open_memstream(&text, &length);

	assert_non_null(to);
	stats_print(to, arg, 1, "");
	fclose(to);
	return NULL;
}

static void a_sync_during_printing_gives_no_negative_age(void **state)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	struct channel c;
	pthread_t printer;
	const char *at;

	(void)state;
	begin(&c);
	assert_int_equal(pthread_create(&printer, NULL, print, &c), 0);
	sem_wait(&state_read);
	pthread_mutex_lock(&c.store.lock);
	sem_post(&continue_printing);
	/* give it time to wait for the lock */
	nanosleep(&pause, NULL);
	c.store.counts.synced_ns = monotonic_ns();
	pthread_mutex_unlock(&c.store.lock);
	assert_int_equal(pthread_join(printer, NULL), 0);
	at = strstr(text, "\"synced_ms_ago\":");
	assert_non_null(at);
	/* a negative age would be printed as a huge number */
	assert_true(strtoull(strchr(at, ':') + 1, NULL, 10) < 60000);
	free(text);
	end(&c);
}

/* Each bucket of a histogram lies in one bucket of the statistics: sums of them lose nothing. */
static void buckets_of_a_histogram_lie_in_one_bucket_of_the_statistics(void **state)
{
	uint64_t lower = 0;

	(void)state;
	for (unsigned int i = 0; i < HIST_BUCKETS; i++) {
		uint64_t upper = hist_upper(i);

		assert_int_equal(stats_bucket(lower), stats_bucket(upper));
		lower = upper + 1;
	}
	assert_int_equal(stats_bucket(7), 7);
	assert_int_equal(stats_bucket(8), 8);
	assert_int_equal(stats_bucket(1000), 63);
	assert_int_equal(stats_bucket(UINT64_MAX), STATS_BUCKETS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_of_a_histogram_lie_in_one_bucket_of_the_statistics),
		cmocka_unit_test(a_sync_during_printing_gives_no_negative_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
