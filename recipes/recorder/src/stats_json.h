/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the statistics (stats.h), for the commands that read the file. Needs sd-json. */
#ifndef EKR_STATS_JSON_H
#define EKR_STATS_JSON_H

#include <stdint.h>

#include <systemd/sd-json.h>

/* 0 if there is no such number; @v may be NULL. */
static inline uint64_t stats_number(sd_json_variant *v, const char *key)
{
	sd_json_variant *n = v ? sd_json_variant_by_key(v, key) : NULL;

	return n && sd_json_variant_is_unsigned(n) ? sd_json_variant_unsigned(n) : 0;
}

/* Records that a channel has lost while it ran. */
static inline uint64_t stats_lost(sd_json_variant *channel)
{
	sd_json_variant *lost = sd_json_variant_by_key(channel, "lost");

	return stats_number(lost, "overrun") + stats_number(lost, "absent") +
	       stats_number(lost, "failed") + stats_number(lost, "writer");
}

#endif
