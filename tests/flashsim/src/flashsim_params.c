// SPDX-License-Identifier: GPL-2.0-only
/* Parameters by name: parsing, limits, and error messages that list the valid names. */
#include "flashsim_timing.h"

#define EK_FS_PARAM(name, least, most, dfl, words, about) \
	{ #name, least, most, dfl, words, about, offsetof(struct ek_flash_params, name) }

/* name, minimum, maximum, default, names of the values from 0 on (or NULL), meaning */
const struct ek_fs_param ek_fs_params[] = {
	EK_FS_PARAM(kind, 0, 2, 0, "flash disk link",
		    "what is behind the host link; link: nothing"),
	EK_FS_PARAM(capacity_mb, 16, 16777216, 8192, NULL, "size of the device"),
	EK_FS_PARAM(logical_block, 512, 4096, 512, NULL, "bytes per sector, 512 or 4096"),
	EK_FS_PARAM(depth, 1, 256, 32, NULL,
		    "requests that the host may have in the device (tags), per hardware queue"),
	EK_FS_PARAM(active, 1, 256, 1, NULL,
		    "commands that the device executes at once; 1: serial, as eMMC without CQE"),
	EK_FS_PARAM(hw_queues, 1, 8, 1, NULL, "hardware queues"),
	EK_FS_PARAM(blocking, 0, 1, 0, NULL,
		    "1: queue_rq sleeps as in the mmc driver, see flashsim_queue.c"),
	EK_FS_PARAM(max_kb, 4, 4096, 512, NULL, "largest request"),
	EK_FS_PARAM(link_read_mbps, 1, 20000, 250, NULL, "host bus, device to host"),
	EK_FS_PARAM(link_write_mbps, 1, 20000, 250, NULL, "host bus, host to device"),
	EK_FS_PARAM(link_duplex, 0, 1, 0, NULL, "1: both directions at once (UFS, NVMe)"),
	EK_FS_PARAM(cmd_us, 0, 100000, 20, NULL,
		    "work per command other than a write, one command at a time"),
	EK_FS_PARAM(cmd_write_us, 0, 100000, 20, NULL,
		    "the same per write; disk: cmd_us for all"),
	EK_FS_PARAM(channels, 1, EK_FS_CHANNELS, 1, NULL, "flash channels"),
	EK_FS_PARAM(dies, 1, EK_FS_DIES, 1, NULL, "dies per channel"),
	EK_FS_PARAM(planes, 1, 8, 1, NULL, "planes of a die, read and programmed together"),
	EK_FS_PARAM(page_kb, 4, 64, 16, NULL, "flash page"),
	EK_FS_PARAM(t_r_us, 0, 10000, 50, NULL, "page read, cells to register"),
	EK_FS_PARAM(t_prog_us, 0, 100000, 1000, NULL, "page program"),
	EK_FS_PARAM(t_erase_us, 0, 1000000, 5000, NULL, "block erase"),
	EK_FS_PARAM(block_pages, 1, 8192, 256, NULL, "pages per block"),
	EK_FS_PARAM(channel_mbps, 1, 20000, 400, NULL, "bus between controller and dies"),
	EK_FS_PARAM(chunk_kb, 4, 65536, 16, NULL, "run of addresses on one channel (map=stripe)"),
	EK_FS_PARAM(map, 0, 1, 0, "stripe ranges",
		    "channel of an address: chunks in turn, or equal ranges"),
	EK_FS_PARAM(map_miss_us, 0, 100000, 0, NULL,
		    "additional time if the needed part of the mapping table is not cached"),
	EK_FS_PARAM(map_cache, 0, 4096, 64, NULL,
		    "cached parts of the mapping table; 0: all of it"),
	EK_FS_PARAM(map_region_mb, 1, 65536, 4, NULL,
		    "addresses that one part of the mapping table covers"),
	EK_FS_PARAM(buffer_kb, 0, 65536, 0, NULL, "volatile write buffer; 0: write-through"),
	EK_FS_PARAM(fua, 0, 1, 1, NULL, "0: no FUA; durable writes need a flush"),
	EK_FS_PARAM(suspend_us, 0, 10000, 0, NULL,
		    "cost of suspending a program for a read; 0: the read waits"),
	EK_FS_PARAM(slc_kb, 0, 1073741824, 0, NULL, "fast cache for writes; 0: none"),
	EK_FS_PARAM(t_prog_slc_us, 0, 100000, 200, NULL, "page program while the fast cache lasts"),
	EK_FS_PARAM(slc_refill_kbps, 0, 10000000, 0, NULL,
		    "rate at which the fast cache recovers while the device is idle, kB/s"),
	EK_FS_PARAM(gc_after_kb, 0, 1073741824, 0, NULL,
		    "writes until garbage collection pauses begin; 0: never"),
	EK_FS_PARAM(gc_valid_pct, 0, 99, 25, NULL, "valid pages in a block that is collected"),
	EK_FS_PARAM(spare_pct, 1, 100, 7, NULL,
		    "flash beyond the capacity, in percent of the capacity (full_pct)"),
	EK_FS_PARAM(wear_pct, 0, 100, 0, NULL,
		    "used part of the rated erase cycles, see ek_flash_age()"),
	EK_FS_PARAM(full_pct, 0, 100, 0, NULL,
		    "valid part of the capacity, sets gc_valid_pct; 0: as given"),
	EK_FS_PARAM(retry_in, 0, 100000000, 0, NULL,
		    "one page read in so many needs retries; 0: none"),
	EK_FS_PARAM(retry_most, 1, 50, 3, NULL,
		    "most retries of a read, all numbers from 1 on are equally likely"),
	EK_FS_PARAM(flush_us, 0, 1000000, 100, NULL,
		    "time of a flush in addition to emptying the buffer"),
	EK_FS_PARAM(discard_us, 0, 1000000, 0, NULL, "work per discard"),
	EK_FS_PARAM(discard_group_kb, 4, 1048576, 512, NULL, "erase group"),
	EK_FS_PARAM(discard_group_us, 0, 1000000, 0, NULL,
		    "work of a discard per erase group that it touches"),
	EK_FS_PARAM(discard_exclusive, 0, 1, 0, NULL,
		    "1: no other command is in progress during a discard (eMMC, SD)"),
	EK_FS_PARAM(bg_after_kb, 0, 1073741824, 0, NULL,
		    "writes until housekeeping of bg_ms is due; 0: none"),
	EK_FS_PARAM(bg_ms, 1, 100000, 20, NULL, "duration of that housekeeping"),
	EK_FS_PARAM(bg_idle_ms, 0, 100000, 10, NULL, "idle time before it begins"),
	EK_FS_PARAM(bg_stop_us, 0, 1000000, 0, NULL,
		    "time in which a command stops it; 0: the command waits for its end"),
	EK_FS_PARAM(bg_most, 0, 1000000, 0, NULL,
		    "rounds due at which it waits no more for idle time; 0: it waits"),
	EK_FS_PARAM(heat_mb, 0, 16777216, 0, NULL,
		    "transfers that make the device hot, beyond those that cool off; 0: never"),
	EK_FS_PARAM(heat_cool_mbps, 1, 20000, 100, NULL,
		    "transfer rate that the device bears for ever"),
	EK_FS_PARAM(heat_pct, 1, 100, 50, NULL,
		    "rate of commands and transfers while it is hot"),
	EK_FS_PARAM(jitter_pct, 0, 90, 0, NULL,
		    "variation of times of commands and cells, plus or minus"),
	EK_FS_PARAM(jitter_tail_in, 0, 100000000, 0, NULL,
		    "one time in so many is in the tail; 0: none"),
	EK_FS_PARAM(jitter_tail_x, 1, 100, 4, NULL,
		    "the tail begins at so many times the mean, see ek_fs_vary()"),
	EK_FS_PARAM(rpm, 60, 60000, 5400, NULL, "disk: revolutions per minute"),
	EK_FS_PARAM(seek_min_us, 0, 100000, 1000, NULL, "disk: seek to the next track"),
	EK_FS_PARAM(seek_max_us, 0, 1000000, 20000, NULL, "disk: seek over all tracks"),
	EK_FS_PARAM(track_mbps, 1, 10000, 100, NULL, "disk: transfer rate of the medium"),
	EK_FS_PARAM(regions, 1, EK_FS_REGIONS, 8, NULL,
		    "equal slices of the addresses in the statistics"),
	EK_FS_PARAM(memory_backed, 0, 1, 0, NULL, "1: keep the data in memory"),
	EK_FS_PARAM(timeout_ms, 10, 600000, 30000, NULL, "the block layer's limit for a request"),
	EK_FS_PARAM(seed, 0, U32_MAX, 1, NULL,
		    "seed of all variation, and of torn writes at a power cut"),
};

const u32 ek_fs_nr_params = ARRAY_SIZE(ek_fs_params);

static u32 *ek_fs_field(struct ek_flash_params *p, const struct ek_fs_param *param)
{
	return (u32 *)((char *)p + param->offset);
}

/* The parameter @name, or NULL. */
const struct ek_fs_param *ek_flash_param(const char *name)
{
	u32 i;

	for (i = 0; i < ek_fs_nr_params; i++)
		if (!strcmp(ek_fs_params[i].name, name))
			return &ek_fs_params[i];
	return NULL;
}

/* the length of the word at @s, up to a space or the end */
static size_t ek_fs_word(const char *s)
{
	size_t n = 0;

	while (s[n] && s[n] != ' ')
		n++;
	return n;
}

/* the number of the word @value in @words, or -1 */
static int ek_fs_word_index(const char *words, const char *value, size_t len)
{
	int i = 0;

	for (; *words; i++) {
		size_t n = ek_fs_word(words);

		if (n == len && !memcmp(words, value, n))
			return i;
		words += n;
		while (*words == ' ')
			words++;
	}
	return -1;
}

/* Parse an unsigned decimal number. Returns false if @s is not one, or if it is too large. */
static bool ek_fs_number(const char *s, size_t len, u32 *value)
{
	u64 v = 0;
	size_t i;

	if (!len || len > 10)
		return false;
	for (i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (s[i] - '0');
	}
	*value = v;
	return v <= U32_MAX;
}

static int ek_fs_set_value(struct ek_flash_params *p, const struct ek_fs_param *param,
			   const char *value, size_t len, char *why, size_t size)
{
	u32 v = 0;
	int i = param->words ? ek_fs_word_index(param->words, value, len) : -1;

	if (i >= 0) {
		v = i;
	} else if (param->words) {
		scnprintf(why, size, "%s is \"%.*s\", must be one of: %s", param->name,
			  (int)min_t(size_t, len, 40), value, param->words);
		return -EINVAL;
	} else if (!ek_fs_number(value, len, &v) || v < param->least || v > param->most) {
		scnprintf(why, size, "%s is \"%.*s\", must be a number from %u to %u", param->name,
			  (int)min_t(size_t, len, 40), value, param->least, param->most);
		return -EINVAL;
	}
	*ek_fs_field(p, param) = v;
	return 0;
}

/* Set one parameter. @value may end in a newline, because users write it to a file. */
int ek_flash_set_one(struct ek_flash_params *p, const struct ek_fs_param *param, const char *value,
		     char *why, size_t size)
{
	size_t len = strlen(value);

	if (len && value[len - 1] == '\n')
		len--;
	return ek_fs_set_value(p, param, value, len, why, size);
}

/* Append all parameter names to the @n characters in @why. */
static void ek_fs_list_params(char *why, size_t size, size_t n)
{
	u32 i;

	for (i = 0; i < ek_fs_nr_params; i++)
		n += scnprintf(why + n, size - n, " %s", ek_fs_params[i].name);
}

/* Set parameters from "name=value,name=value"; an empty string or NULL sets nothing. */
int ek_flash_set(struct ek_flash_params *p, const char *pairs, char *why, size_t size)
{
	while (pairs && *pairs && *pairs != '\n') {
		size_t len = 0, name = 0;
		u32 i;
		int n;

		while (pairs[len] && pairs[len] != ',' && pairs[len] != '\n')
			len++;
		while (name < len && pairs[name] != '=')
			name++;
		for (i = 0; i < ek_fs_nr_params; i++)
			if (strlen(ek_fs_params[i].name) == name &&
			    !memcmp(ek_fs_params[i].name, pairs, name))
				break;
		if (name == len || i == ek_fs_nr_params) {
			n = scnprintf(why, size, "\"%.*s\" is not PARAMETER=VALUE; there are:",
				      (int)min_t(size_t, len, 40), pairs);
			ek_fs_list_params(why, size, n);
			return -EINVAL;
		}
		n = ek_fs_set_value(p, &ek_fs_params[i], pairs + name + 1, len - name - 1, why,
				    size);
		if (n)
			return n;
		pairs += len;
		if (*pairs == ',')
			pairs++;
	}
	return 0;
}

/* Set all parameters to those of preset @name; "" or NULL: to their defaults. */
int ek_flash_preset(struct ek_flash_params *p, const char *name, char *why, size_t size)
{
	size_t len = name ? strlen(name) : 0;
	u32 i;
	int n;

	if (len && name[len - 1] == '\n')
		len--;
	for (i = 0; i < ek_fs_nr_params; i++)
		*ek_fs_field(p, &ek_fs_params[i]) = ek_fs_params[i].dfl;
	if (!len)
		return 0;
	for (i = 0; i < ek_fs_nr_presets; i++) {
		const struct ek_fs_preset *preset = &ek_fs_presets[i];

		if (strlen(preset->name) != len || memcmp(preset->name, name, len))
			continue;
		for (n = 0; preset->pairs[n]; n++)
			if (ek_flash_set(p, preset->pairs[n], why, size))
				return -EINVAL;
		return 0;
	}
	n = scnprintf(why, size, "no preset \"%.*s\"; there are:", (int)min_t(size_t, len, 40),
		      name);
	for (i = 0; i < ek_fs_nr_presets; i++)
		n += scnprintf(why + n, size - n, " %s", ek_fs_presets[i].name);
	return -EINVAL;
}

/* Check that the parameters fit together, and that each is within its limits (for presets). */
int ek_flash_check(const struct ek_flash_params *p, char *why, size_t size)
{
	u32 i;

	for (i = 0; i < ek_fs_nr_params; i++) {
		const struct ek_fs_param *param = &ek_fs_params[i];
		u32 v = *(const u32 *)((const char *)p + param->offset);

		if (v < param->least || v > param->most) {
			scnprintf(why, size, "%s is %u, must be from %u to %u", param->name, v,
				  param->least, param->most);
			return -EINVAL;
		}
	}
	if (p->logical_block != 512 && p->logical_block != 4096) {
		scnprintf(why, size, "logical_block is %u, must be 512 or 4096", p->logical_block);
		return -EINVAL;
	}
	if (p->active > p->depth * p->hw_queues) {
		scnprintf(why, size, "active=%u is more than depth=%u times hw_queues=%u can fill",
			  p->active, p->depth, p->hw_queues);
		return -EINVAL;
	}
	if (p->kind == EK_FS_FLASH && p->buffer_kb &&
	    p->buffer_kb < max(p->max_kb, p->planes * p->page_kb)) {
		scnprintf(why, size, "buffer_kb=%u is less than max_kb=%u or planes*page_kb=%u",
			  p->buffer_kb, p->max_kb, p->planes * p->page_kb);
		return -EINVAL;
	}
	if (p->chunk_kb % 4 || p->page_kb % 4 || p->max_kb % 4) {
		scnprintf(why, size, "chunk_kb=%u, page_kb=%u and max_kb=%u must be multiples of 4",
			  p->chunk_kb, p->page_kb, p->max_kb);
		return -EINVAL;
	}
	/* the factor of times outside the tail must be positive, see ek_fs_init_jitter() */
	if (p->jitter_tail_in && p->jitter_tail_in < 4 * p->jitter_tail_x) {
		scnprintf(why, size, "jitter_tail_in=%u is less than four times jitter_tail_x=%u",
			  p->jitter_tail_in, p->jitter_tail_x);
		return -EINVAL;
	}
	if (p->seek_min_us > p->seek_max_us) {
		scnprintf(why, size, "seek_min_us=%u is more than seek_max_us=%u", p->seek_min_us,
			  p->seek_max_us);
		return -EINVAL;
	}
	return 0;
}

/* Print the value in the form in which it can be set, with a newline; returns the length. */
size_t ek_flash_show(const struct ek_flash_params *p, const struct ek_fs_param *param, char *buf,
		     size_t size)
{
	u32 v = *(const u32 *)((const char *)p + param->offset);
	const char *words = param->words;

	if (!words)
		return scnprintf(buf, size, "%u\n", v);
	while (v-- && *words) {
		words += ek_fs_word(words);
		while (*words == ' ')
			words++;
	}
	return scnprintf(buf, size, "%.*s\n", (int)ek_fs_word(words), words);
}
