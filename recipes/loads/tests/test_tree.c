// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tree.h"
#include "util.h"

static void same(const struct tree *a, const struct tree *b)
{
	assert_int_equal(a->files, b->files);
	assert_int_equal(a->total, b->total);
	assert_memory_equal(a->first, b->first, sizeof(a->first));
	for (unsigned int i = 0; i < a->files; i++) {
		assert_int_equal(a->file[i].number, b->file[i].number);
		assert_int_equal(a->file[i].kind, b->file[i].kind);
		assert_int_equal(a->file[i].size, b->file[i].size);
	}
}

/* plans a random number of files, sometimes with a random total that is possible */
static void one_random_plan(uint64_t seed)
{
	uint64_t noise = noise_seed(seed), total = 0, sum = 0, last = 0;
	unsigned int files = 1 + (unsigned int)(noise_next(&noise) % 700);
	struct tree t, again;
	unsigned char *seen;
	char text[128];

	if (noise_next(&noise) % 3)
		total = files * TREE_MIN_FILE +
			noise_next(&noise) % (files * (TREE_MAX_FILE - TREE_MIN_FILE) + 1);
	assert_null(tree_plan(&t, files, seed, total));
	seen = calloc(files, 1);
	assert_non_null(seen);
	for (unsigned int kind = 0; kind < TREE_KINDS; kind++) {
		assert_true(t.first[kind] >= last);
		last = t.first[kind];
		for (unsigned int i = t.first[kind]; i < t.first[kind + 1]; i++) {
			const struct tree_file *f = &t.file[i];

			assert_int_equal(f->kind, kind);
			assert_true(f->size >= TREE_MIN_FILE && f->size <= TREE_MAX_FILE);
			assert_true(f->number < files);
			assert_int_equal(seen[f->number]++, 0);
			sum += f->size;
		}
	}
	assert_int_equal(t.first[0], 0);
	assert_int_equal(t.first[TREE_KINDS], files);
	assert_int_equal(sum, t.total);
	if (total)
		assert_int_equal(sum, total);
	/* the manifest gives the same plan again */
	tree_print(&t, text, sizeof(text));
	assert_null(tree_parse(&again, text));
	same(&t, &again);
	tree_free(&again);
	tree_free(&t);
	free(seen);
}

static void random_plans(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++)
		one_random_plan(seed);
}

static void sizes_have_the_documented_distribution(void **state)
{
	unsigned int below_24k = 0, below_8k = 0, above_128k = 0;
	struct tree t;

	(void)state;
	assert_null(tree_plan(&t, 20000, 1, 0));
	for (unsigned int i = 0; i < t.files; i++) {
		below_8k += t.file[i].size < 8 << 10;
		below_24k += t.file[i].size < 24 << 10;
		above_128k += t.file[i].size >= 128 << 10;
	}
	/* the median, and the tails on both sides */
	assert_in_range(below_24k, 9000, 11000);
	assert_in_range(below_8k, 200, 2000);
	assert_in_range(above_128k, 200, 2000);
	tree_free(&t);
}

static void files_are_not_read_in_the_order_of_their_names(void **state)
{
	unsigned int ascending = 0;
	struct tree t;

	(void)state;
	assert_null(tree_plan(&t, 1000, 1, 0));
	for (unsigned int i = t.first[TREE_ASSET] + 1; i < t.files; i++)
		ascending += t.file[i].number > t.file[i - 1].number;
	assert_in_range(ascending, 250, 350);
	tree_free(&t);
}

/* tree_parse() must accept or refuse any damaged manifest, and never crash */
static void random_manifests(void **state)
{
	static const char good[] = "ek-appstart 1 files 40 seed 7 total 1000000\n";
	uint64_t noise = noise_seed(1);
	struct tree t;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		char text[sizeof(good)];

		memcpy(text, good, sizeof(text));
		for (uint64_t n = 1 + noise_next(&noise) % 3; n; n--)
			text[noise_next(&noise) % (sizeof(text) - 1)] =
				noise_next(&noise) % 2 ? (char)('0' + noise_next(&noise) % 10) :
							 (char)(noise_next(&noise) % 256);
		if (!tree_parse(&t, text))
			tree_free(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_plans),
		cmocka_unit_test(sizes_have_the_documented_distribution),
		cmocka_unit_test(files_are_not_read_in_the_order_of_their_names),
		cmocka_unit_test(random_manifests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
