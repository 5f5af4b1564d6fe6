// SPDX-License-Identifier: Apache-2.0
/* Bounds on the number of completions. bound.h describes them. */
#include "bound.h"

#include <stdlib.h>

/* The work of all requests of the list, by part of the device. The parts work at the same time. */
struct work {
	u64 link[2], command;
	u64 channel[EK_FS_CHANNELS];		/* transfers */
	u64 dies[EK_FS_CHANNELS];		/* reads and programs */
	u64 reads[EK_FS_CHANNELS * EK_FS_DIES]; /* by die; any die of a channel programs */
	u64 written;				/* bytes */
};

/*
 * The most work that one request of the load causes, by part of the device. At the end
 * of the run, up to this work may be undone for each outstanding request.
 */
struct most {
	u64 link[2], command, channel, dies, read;
};

static u64 transfer(u64 bytes, u32 mbps)
{
	return bytes * 1000 / mbps;
}

static u64 program_time(const struct ek_flash_params *p)
{
	return 1000ULL * (p->slc_kb ? min(p->t_prog_us, p->t_prog_slc_us) : p->t_prog_us);
}

/* time in ns for which programs of full pages with @bytes of data occupy a die */
static u64 program(const struct ek_flash *dev, u64 bytes)
{
	u64 page = program_time(&dev->p) + transfer(dev->unit, dev->p.channel_mbps);

	return page * bytes / dev->unit;
}

/* Add the work of a request to @work. */
static void add(struct work *work, const struct ek_flash *dev, const struct sim_io *io, u32 bytes)
{
	const struct ek_flash_params *p = &dev->p;
	u64 pos = io->pos, end = io->pos + bytes;
	bool write = io->op == EK_FS_WRITE;

	work->written += write ? bytes : 0;
	work->command += 1000ULL * (write ? p->cmd_write_us : p->cmd_us);
	work->link[write && p->link_duplex] +=
		transfer(bytes, write ? p->link_write_mbps : p->link_read_mbps);
	while (pos < end) {
		u64 n = min(end - pos, dev->op_bytes - pos % dev->op_bytes);
		struct sim_place place = sim_place(dev, pos);
		u64 out = transfer(n, p->channel_mbps);

		work->channel[place.channel] += out;
		if (write) {
			work->dies[place.channel] += program(dev, n);
		} else {
			work->dies[place.channel] += p->t_r_us * 1000ULL + out;
			work->reads[place.die] += p->t_r_us * 1000ULL + out;
		}
		pos += n;
	}
}

/* Sum, over @n parts of the device, of the work that exceeds @time. */
static u64 beyond(const u64 *work, u32 n, u64 time)
{
	u64 sum = 0;

	while (n--)
		sum += work[n] > time ? work[n] - time : 0;
	return sum;
}

static bool feasible(const struct work *work, const struct most *most, const struct sim_load *load,
		     const struct ek_flash *dev)
{
	const struct ek_flash_params *p = &load->params;
	u64 buffer = min((u64)p->buffer_kb << 10, work->written);
	u64 left = load->outstanding, t = load->until;

	return beyond(work->link, 1, t) <= left * most->link[0] &&
	       beyond(work->link + 1, 1, t) <= left * most->link[1] &&
	       beyond(&work->command, 1, t) <= left * most->command &&
	       beyond(work->channel, p->channels, t) <=
		       left * most->channel + transfer(buffer, p->channel_mbps) &&
	       beyond(work->dies, p->channels, p->dies * t) <=
		       left * most->dies + program(dev, buffer) &&
	       beyond(work->reads, p->channels * p->dies, t) <= left * most->read;
}

static struct most most_of(const struct sim_load *load, const struct ek_flash *dev)
{
	struct most most = {};
	u32 op, i;

	for (op = EK_FS_READ; op <= EK_FS_WRITE; op++) {
		struct sim_io io = { .pos = 0, .op = (u8)op };
		struct work one = {};
		u64 channel = 0, dies = 0, read = 0;

		if (load->read_pct == (op == EK_FS_READ ? 0 : 100))
			continue;
		add(&one, dev, &io, load->bytes);
		for (i = 0; i < load->params.channels; i++) {
			channel += one.channel[i];
			dies += one.dies[i];
		}
		for (i = 0; i < load->params.channels * load->params.dies; i++)
			read += one.reads[i];
		most.link[0] = max(most.link[0], one.link[0]);
		most.link[1] = max(most.link[1], one.link[1]);
		most.command = max(most.command, one.command);
		most.channel = max(most.channel, channel);
		most.dies = max(most.dies, dies);
		most.read = max(most.read, read);
	}
	return most;
}

u64 bound_work(const struct sim_load *load)
{
	struct sim *sim = sim_new(load);
	struct work work = {};
	struct most most;
	u64 n = 0;
	u32 i;

	if (!sim)
		return 0;
	most = most_of(load, &sim->dev);
	for (i = 0; i < load->outstanding; i++) {
		struct sim_io io = sim_io(load, i);

		add(&work, &sim->dev, &io, load->bytes);
	}
	for (;;) {
		struct sim_io io = sim_io(load, (u32)n + load->outstanding);

		add(&work, &sim->dev, &io, load->bytes);
		if (!feasible(&work, &most, load, &sim->dev))
			break;
		n++;
	}
	free(sim);
	return n;
}

/* --- queues ---------------------------------------------------------------- */

/* the times at which reads are complete on their dies: a heap, the earliest first */
struct heap {
	u64 at[SIM_SLOTS];
	u32 n;
};

static void push(struct heap *heap, u64 at)
{
	u32 i = heap->n++;

	for (; i && heap->at[(i - 1) / 2] > at; i = (i - 1) / 2)
		heap->at[i] = heap->at[(i - 1) / 2];
	heap->at[i] = at;
}

static u64 pop(struct heap *heap)
{
	u64 first = heap->at[0], last = heap->at[--heap->n];
	u32 i = 0, child;

	while ((child = 2 * i + 1) < heap->n) {
		if (child + 1 < heap->n && heap->at[child + 1] < heap->at[child])
			child++;
		if (heap->at[child] >= last)
			break;
		heap->at[i] = heap->at[child];
		i = child;
	}
	heap->at[i] = last;
	return first;
}

u64 bound_queues(const struct sim_load *load)
{
	const struct ek_flash_params *p = &load->params;
	u64 die[EK_FS_CHANNELS * EK_FS_DIES] = {}, link = 0, n = 0, now = 0;
	u64 service = p->t_r_us * 1000ULL + transfer(load->bytes, p->channel_mbps);
	struct sim *sim = sim_new(load);
	struct heap heap = {};
	u32 next;

	if (!sim)
		return 0;
	if (load->read_pct < 100 || sim->dev.op_bytes % load->bytes) {
		free(sim);
		return U64_MAX;
	}
	for (next = 0;; next++) {
		struct sim_io io;
		u32 d;

		if (next >= load->outstanding) {
			u64 ready = pop(&heap);

			now = max(ready, link) + transfer(load->bytes, p->link_read_mbps);
			if (now > load->until)
				break;
			link = now;
			n++;
		}
		io = sim_io(load, next);
		d = sim_place(&sim->dev, io.pos).die;
		die[d] = max(now + p->cmd_us * 1000ULL, die[d]) + service;
		push(&heap, die[d]);
	}
	free(sim);
	return n;
}

u64 bound_ios(const struct sim_load *load)
{
	u64 work = bound_work(load), queues = bound_queues(load);

	return min(work, queues);
}
