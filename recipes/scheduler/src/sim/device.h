/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A device for ek-sim: flashsim's timing model, or a station.
 *
 * NAME[:KEY=VALUE,...]  a preset of flashsim with changed parameters
 * station:KEY=VALUE,... SERVERS commands at a time, each of which takes a time by
 *                       direction and size, behind a link that they share
 */
#ifndef EK_SIM_DEVICE_H
#define EK_SIM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX

enum sim_op { SIM_READ, SIM_WRITE, SIM_FLUSH, SIM_DISCARD };

/* A request in the device. The caller sets the first line. */
struct sim_cmd {
	uint64_t sector; uint32_t bytes; uint8_t op;
	uint64_t done;
	struct sim_cmd *next;
	_Alignas(8) unsigned char model[256];	/* of flashsim */
};

struct sim_device;

struct sim_device *sim_device_new(const char *spec, char *why, size_t size);
void sim_device_free(struct sim_device *d);
uint32_t sim_device_depth(const struct sim_device *d);
uint32_t sim_device_max_bytes(const struct sim_device *d);
uint64_t sim_device_bytes(const struct sim_device *d);
void sim_device_submit(struct sim_device *d, struct sim_cmd *cmd, uint64_t now);
struct sim_cmd *sim_device_reap(struct sim_device *d, uint64_t now);
uint64_t sim_device_next(struct sim_device *d);
/* Write until a fast cache or a reserve is used up, as the lab does; returns when that is done. */
uint64_t sim_device_fill(struct sim_device *d);

#endif
