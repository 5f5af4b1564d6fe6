// SPDX-License-Identifier: GPL-2.0-only
/* The timing model. flashsim_timing.h describes it. */
#include "flashsim_timing.h"

/* Most suspensions of a program. Then reads wait for it: otherwise it might never end. */
#define EK_FS_SUSPENDS	8
/* Once its oldest request has waited for this time, a disk serves it before nearer ones. */
#define EK_FS_AGE_NS	(500 * 1000000ULL)
/* How far a disk reads ahead of a sequential stream, into its own memory, in bytes. */
#define EK_FS_AHEAD	(8ULL << 20)
/* number of fraction bits of the factors of jitter */
#define EK_FS_FRACTION	20
/* the most doublings of a time in the tail of jitter */
#define EK_FS_DOUBLINGS	6

const char * const ek_fs_part_names[] = {
	[EK_FS_QUEUE] = "queue", [EK_FS_LINK_WAIT] = "link_wait", [EK_FS_CMD] = "cmd",
	[EK_FS_LINK] = "link", [EK_FS_DIE_WAIT] = "die_wait", [EK_FS_CELL] = "cell",
	[EK_FS_CHANNEL] = "channel", [EK_FS_BUFFER_WAIT] = "buffer_wait", [EK_FS_GC] = "gc",
	[EK_FS_SEEK] = "seek", [EK_FS_ROTATE] = "rotate", [EK_FS_MAP] = "map",
	[EK_FS_RETRY] = "retry", [EK_FS_ERASE] = "erase", [EK_FS_BACKGROUND] = "background",
	[EK_FS_THROTTLE] = "throttle",
};

/* time in ns to transfer @bytes at @mbps (10^6 B/s) */
static u64 ek_fs_xfer(u64 bytes, u32 mbps)
{
	return div_u64(bytes * 1000, mbps);
}

static u64 ek_fs_us(u32 us)
{
	return (u64)us * 1000;
}

static u64 ek_fs_rem(u64 a, u64 b)
{
	u64 rem;

	div64_u64_rem(a, b, &rem);
	return rem;
}

/* length of the part of [from, to) that lies in [a, b) */
static u64 ek_fs_overlap(u64 from, u64 to, u64 a, u64 b)
{
	from = max(from, a);
	to = min(to, b);
	return to > from ? to - from : 0;
}

/* --- variation ------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
static u64 ek_fs_draw(struct ek_flash *dev, enum ek_fs_draw sequence)
{
	u64 z = dev->random[sequence] += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/*
 * A random time with the mean @ns.
 *
 * Most times are uniform within @jitter_pct of their mean. One in @jitter_tail_in is in
 * the tail: @jitter_tail_x * @ns, doubled up to six times, each time with a probability
 * of 1/4. So the share of times beyond t falls as 1/t^2, and the mean of the tail is
 * 191/128 of its least time. The other times are scaled down, so that the mean of all is @ns.
 */
static u64 ek_fs_vary(struct ek_flash *dev, u64 ns)
{
	u64 r;

	if (!dev->p.jitter_pct && !dev->tail_below)
		return ns;
	r = ek_fs_draw(dev, EK_FS_DRAW_TIME);
	if ((u32)r < dev->tail_below) {
		u32 doublings = 0;

		for (r >>= 32; doublings < EK_FS_DOUBLINGS && !(r & 3); r >>= 2)
			doublings++;
		return (ns * dev->p.jitter_tail_x) << doublings;
	}
	r >>= 32;
	return (ns * (dev->jitter_low + ((dev->jitter_span * r) >> 32))) >> EK_FS_FRACTION;
}

static void ek_fs_init_jitter(struct ek_flash *dev)
{
	u64 body = 1 << EK_FS_FRACTION, in = dev->p.jitter_tail_in;
	u64 state = dev->p.seed;
	u32 i;

	if (in) {
		/* the mean of all factors is 1: body * (in - 1) + tail = in */
		body = div64_u64((in * 128 - dev->p.jitter_tail_x * 191ULL) << EK_FS_FRACTION,
				 128 * (in - 1));
		dev->tail_below = div_u64(1ULL << 32, in);
	}
	dev->jitter_low = div_u64(body * (100 - dev->p.jitter_pct), 100);
	dev->jitter_span = 2 * (body - dev->jitter_low);
	for (i = 0; i < EK_FS_DRAWS; i++) {
		dev->random[i] = state;
		state = ek_fs_draw(dev, i);
		dev->random[i] = state;
	}
}

/* --- lists ---------------------------------------------------------------- */

static void ek_fs_insert_after(struct ek_fs_list *list, struct ek_flash_req *at,
			       struct ek_flash_req *req)
{
	req->prev = at;
	req->next = at ? at->next : list->head;
	if (at)
		at->next = req;
	else
		list->head = req;
	if (req->next)
		req->next->prev = req;
	else
		list->tail = req;
}

static void ek_fs_unlink(struct ek_fs_list *list, struct ek_flash_req *req)
{
	if (req->prev)
		req->prev->next = req->next;
	else
		list->head = req->next;
	if (req->next)
		req->next->prev = req->prev;
	else
		list->tail = req->prev;
	req->prev = NULL;
	req->next = NULL;
}

/* Set that @req will be done at @done. The list of running requests is in that order. */
static void ek_fs_run_until(struct ek_flash *dev, struct ek_flash_req *req, u64 done)
{
	struct ek_flash_req *at = dev->running.tail;

	req->done = done;
	req->state = EK_FS_RUNNING;
	while (at && at->done > done)
		at = at->prev;
	ek_fs_insert_after(&dev->running, at, req);
}

/* --- links and channels --------------------------------------------------- */

/*
 * Reserve @len in the first gap after @ready that is long enough. Returns where
 * the reservation begins. No later call asks for a time before @now.
 */
static u64 ek_fs_reserve(struct ek_fs_cal *cal, u64 now, u64 ready, u64 len)
{
	u64 at = ready;
	u32 i;

	if (!len)
		return ready;
	while (cal->head < cal->tail && cal->span[cal->head].to <= now)
		cal->head++;
	/* search from the end, because most reservations are at or near the end */
	for (i = cal->tail; i > cal->head && cal->span[i - 1].to > ready; i--)
		;
	for (; i < cal->tail && at + len > cal->span[i].from; i++)
		at = max(at, cal->span[i].to);
	if (i > cal->head && cal->span[i - 1].to == at) {
		cal->span[i - 1].to = at + len;
		if (i < cal->tail && cal->span[i].from == at + len) {
			cal->span[i - 1].to = cal->span[i].to;
			cal->tail--;
			memmove(cal->span + i, cal->span + i + 1,
				(cal->tail - i) * sizeof(cal->span[0]));
		}
		return at;
	}
	if (i < cal->tail && cal->span[i].from == at + len) {
		cal->span[i].from = at;
		return at;
	}
	if (cal->tail - cal->head == EK_FS_SPANS) {
		/* Drop the earliest gap: join the first two reservations. */
		cal->span[cal->head + 1].from = min(cal->span[cal->head].from, at);
		cal->head++;
		if (i <= cal->head) {
			cal->span[cal->head].from = min(cal->span[cal->head].from, at);
			return at;
		}
	}
	if (cal->tail == 2 * EK_FS_SPANS) {
		memmove(cal->span, cal->span + cal->head,
			(cal->tail - cal->head) * sizeof(cal->span[0]));
		i -= cal->head;
		cal->tail -= cal->head;
		cal->head = 0;
	}
	if (i < cal->tail)
		memmove(cal->span + i + 1, cal->span + i,
			(cal->tail - i) * sizeof(cal->span[0]));
	cal->span[i].from = at;
	cal->span[i].to = at + len;
	cal->tail++;
	return at;
}

static struct ek_fs_cal *ek_fs_link(struct ek_flash *dev, bool write)
{
	return &dev->link[write && dev->p.link_duplex];
}

static u64 ek_fs_channel(struct ek_flash *dev, struct ek_fs_chan *chan, u64 ready, u64 bytes)
{
	u64 len = ek_fs_xfer(bytes, dev->p.channel_mbps);

	chan->busy += len;
	return ek_fs_reserve(&chan->cal, dev->now, ready, len) + len;
}

/* --- dies ----------------------------------------------------------------- */

/* the die, and the channel, of the address @pos */
static struct ek_fs_die *ek_fs_locate(struct ek_flash *dev, u64 pos, struct ek_fs_chan **chan,
				      u8 *channel)
{
	u32 c, d;
	u64 in, k;

	if (dev->p.map == EK_FS_RANGES) {
		k = div64_u64(pos, dev->range);
		c = min_t(u64, k, dev->p.channels - 1);
		in = pos - c * dev->range;
	} else {
		u64 off;

		k = div64_u64_rem(pos, dev->chunk, &off);
		k = div_u64_rem(k, dev->p.channels, &c);
		in = k * dev->chunk + off;
	}
	div_u64_rem(div64_u64(in, dev->op_bytes), dev->p.dies, &d);
	*chan = &dev->chan[c];
	if (channel)
		*channel = c;
	return &dev->chan[c].die[d];
}

/* time in ns of the garbage collection before @bytes can be programmed on @die; 0: none */
static u64 ek_fs_collect(struct ek_flash *dev, struct ek_fs_die *die, u32 bytes)
{
	if (!dev->p.gc_after_kb)
		return 0;
	if (dev->reserve >= bytes) {
		dev->reserve -= bytes;
		return 0;
	}
	die->debt += bytes;
	if (die->debt < dev->gc_gain)
		return 0;
	die->debt -= dev->gc_gain;
	dev->totals.gc_pauses++;
	dev->totals.gc_ns += dev->gc_pause;
	return dev->gc_pause;
}

/* Program @bytes on @die from @at on. Returns the end, and adds the parts of the time to @chain. */
static u64 ek_fs_program(struct ek_flash *dev, struct ek_fs_chan *chan, struct ek_fs_die *die,
			 u64 at, u32 bytes, struct ek_fs_chain *chain)
{
	u64 gc = ek_fs_collect(dev, die, bytes);
	u64 cell, in;

	if (gc) {
		die->gc_from = at;
		die->gc_to = at + gc;
		at += gc;
	}
	in = ek_fs_channel(dev, chan, at, bytes);
	if (dev->slc >= bytes) {
		dev->slc -= bytes;
		cell = ek_fs_vary(dev, ek_fs_us(dev->p.t_prog_slc_us));
	} else {
		cell = ek_fs_vary(dev, ek_fs_us(dev->p.t_prog_us));
	}
	chain->gc += gc;
	chain->channel += in - at;
	chain->cell += cell;
	die->last_read = false;
	dev->stale = true;
	chan->stale = true;
	return in + cell;
}

/* Begin to program the next page of the buffer that belongs to @chan. */
static void ek_fs_program_buffered(struct ek_flash *dev, struct ek_fs_chan *chan,
				   struct ek_fs_die *die, u64 at)
{
	struct ek_fs_page_op *op = &dev->ops[chan->head - 1];
	struct ek_fs_chain unused = {};
	u32 index = chan->head;

	chan->head = op->next;
	if (!chan->head)
		chan->tail = 0;
	dev->pending--;
	dev->programming++;
	die->releasing = op->bytes;
	dev->releasing += op->bytes;
	die->suspends = 0;
	die->read_free = 0;
	die->owner = 0;
	die->prog_from = at;
	die->free = ek_fs_program(dev, chan, die, at, op->bytes, &unused);
	die->prog_end = die->free;
	op->next = dev->free_op;
	dev->free_op = index;
}

/* Queue a page for programming. It may be only partly filled. */
static void ek_fs_push_page(struct ek_flash *dev, struct ek_fs_chan *chan, u32 bytes, u64 ready)
{
	struct ek_fs_page_op *op;

	dev->stale = true;
	chan->stale = true;
	if (!dev->free_op) {
		/* this happens only after aborted flushes, which leave many partly filled pages */
		dev->ops[chan->tail - 1].bytes += bytes;
		return;
	}
	op = &dev->ops[dev->free_op - 1];
	if (chan->tail)
		dev->ops[chan->tail - 1].next = dev->free_op;
	else
		chan->head = dev->free_op;
	chan->tail = dev->free_op;
	dev->free_op = op->next;
	op->next = 0;
	op->bytes = bytes;
	op->ready = ready;
	dev->pending++;
}

/* Queue all partly filled pages for programming. */
static void ek_fs_close_pages(struct ek_flash *dev, u64 t)
{
	u32 c;

	for (c = 0; c < dev->p.channels; c++) {
		struct ek_fs_chan *chan = &dev->chan[c];

		if (!chan->open)
			continue;
		ek_fs_push_page(dev, chan, chan->open, max(t, chan->open_ready));
		chan->open = 0;
	}
}

/* the time at which the next program of a buffered page on @chan begins or ends */
static u64 ek_fs_channel_event(const struct ek_flash *dev, struct ek_fs_chan *chan)
{
	u64 ready = chan->head ? dev->ops[chan->head - 1].ready : EK_FS_NEVER;
	u32 i;

	if (!chan->stale)
		return chan->event;
	chan->stale = false;
	chan->event = EK_FS_NEVER;
	for (i = 0; i < dev->p.dies; i++) {
		const struct ek_fs_die *die = &chan->die[i];

		if (die->releasing)
			chan->event = min(chan->event, die->prog_end);
		else if (chan->head)
			chan->event = min(chan->event, max(ready, die->free));
	}
	return chan->event;
}

static u64 ek_fs_program_event(struct ek_flash *dev)
{
	u32 c;

	if (!dev->pending && !dev->programming)
		return EK_FS_NEVER;
	if (!dev->stale)
		return dev->event;
	dev->stale = false;
	dev->event = EK_FS_NEVER;
	for (c = 0; c < dev->p.channels; c++)
		dev->event = min(dev->event, ek_fs_channel_event(dev, &dev->chan[c]));
	return dev->event;
}

static void ek_fs_end_program(struct ek_flash *dev, struct ek_fs_die *die)
{
	dev->buffered -= die->releasing;
	dev->releasing -= die->releasing;
	dev->programming--;
	die->releasing = 0;
	dev->freed_gc_from = die->gc_from;
	dev->freed_gc_to = die->gc_to;
	dev->idle_since = die->prog_end;
}

/* End and begin the programs that are due at time @t. */
static void ek_fs_program_step(struct ek_flash *dev, u64 t)
{
	u32 c, d, i;

	dev->stale = true;
	for (c = 0; c < dev->p.channels; c++) {
		struct ek_fs_chan *chan = &dev->chan[c];

		if (ek_fs_channel_event(dev, chan) > t)
			continue;
		chan->stale = true;
		/* Start at another die each time, so that all dies share the work. */
		d = chan->next_die;
		for (i = 0; i < dev->p.dies; i++) {
			struct ek_fs_die *die = &chan->die[d];

			if (++d == dev->p.dies)
				d = 0;
			if (die->releasing) {
				if (die->prog_end > t)
					continue;
				ek_fs_end_program(dev, die);
			}
			if (chan->head && die->free <= t && dev->ops[chan->head - 1].ready <= t) {
				ek_fs_program_buffered(dev, chan, die, t);
				chan->next_die = d;
			}
		}
	}
}

/* --- flash ---------------------------------------------------------------- */

/* Add a wait for @die from @from to @to to @chain. A part of it may be garbage collection. */
static void ek_fs_die_wait(struct ek_fs_chain *chain, const struct ek_fs_die *die, u64 from, u64 to)
{
	u64 gc = ek_fs_overlap(from, to, die->gc_from, die->gc_to);

	chain->gc += gc;
	chain->wait += to - from - gc;
}

/* time in ns of the further reads that a page read needs */
static u64 ek_fs_retry(struct ek_flash *dev)
{
	u64 r;
	u32 n;

	if (!dev->p.retry_in)
		return 0;
	r = ek_fs_draw(dev, EK_FS_DRAW_RETRY);
	/* both halves of r are random fractions of 2^32 */
	if (((r & U32_MAX) * dev->p.retry_in) >> 32)
		return 0;
	n = 1 + (((r >> 32) * dev->p.retry_most) >> 32);
	dev->totals.retries += n;
	return n * ek_fs_us(dev->p.t_r_us);
}

/*
 * Read @bytes of one page from @t0 on. Returns when they are in the controller.
 *
 * Reads go before the pages that wait in the buffer. They do not go before a
 * program in progress, unless it can be suspended. While a write or a flush is
 * stalled, one program is planned after the planned reads, so that the stalled
 * request makes progress.
 */
static u64 ek_fs_read_op(struct ek_flash *dev, struct ek_fs_chan *chan, struct ek_fs_die *die,
			 u64 t0, u32 bytes, struct ek_fs_chain *chain)
{
	bool alone = die->releasing && die->free == die->prog_end;
	bool inside = alone && die->read_free > t0;
	u64 busy_to, begin, end, out, retry;

	if (!inside && dev->stalled && chan->head && !die->releasing && die->free > t0 &&
	    die->last_read && dev->ops[chan->head - 1].ready <= die->free) {
		ek_fs_program_buffered(dev, chan, die, die->free);
		alone = true;
	}
	busy_to = inside ? die->read_free : max(t0, die->free);
	if (die->owner == dev->serial && busy_to > t0) {
		/* the die's previous operation is of the same request: continue its parts */
		*chain = die->chain;
		begin = busy_to;
	} else {
		memset(chain, 0, sizeof(*chain));
		begin = busy_to;
		if (!inside && alone && die->prog_from <= t0 && dev->p.suspend_us &&
		    die->suspends < EK_FS_SUSPENDS &&
		    t0 + ek_fs_us(dev->p.suspend_us) < begin) {
			inside = true;
			begin = t0 + ek_fs_us(dev->p.suspend_us);
			busy_to = t0;
			die->suspends++;
			dev->totals.suspends++;
		}
		ek_fs_die_wait(chain, die, t0, begin);
	}
	retry = ek_fs_retry(dev);
	end = begin + ek_fs_vary(dev, ek_fs_us(dev->p.t_r_us)) + retry;
	out = ek_fs_channel(dev, chan, end, bytes);
	chain->cell += end - begin - retry;
	chain->retry += retry;
	chain->channel += out - end;
	if (inside) {
		/* the suspended program ends later by the time of the read */
		die->read_free = out;
		die->prog_end += out - busy_to;
		die->free = die->prog_end;
		if (die->gc_to > t0)
			die->gc_to += out - busy_to;
	} else {
		die->free = out;
		die->last_read = true;
	}
	die->owner = dev->serial;
	die->chain = *chain;
	dev->stale = true;
	chan->stale = true;
	return out;
}

/* Add a transfer that takes @ns, of which THROTTLE is what a hot device, at heat_pct, loses. */
static void ek_fs_add_link(const struct ek_flash *dev, struct ek_flash_req *req, u64 ns)
{
	u64 cool = dev->hot ? div_u64(ns * dev->p.heat_pct, 100) : ns;

	req->part[EK_FS_LINK] += cool;
	req->part[EK_FS_THROTTLE] += ns - cool;
}

static void ek_fs_take_chain(const struct ek_flash *dev, struct ek_flash_req *req,
			     const struct ek_fs_chain *chain)
{
	ek_fs_add_link(dev, req, chain->link);
	req->part[EK_FS_RETRY] += chain->retry;
	req->part[EK_FS_DIE_WAIT] += chain->wait;
	req->part[EK_FS_GC] += chain->gc;
	req->part[EK_FS_CHANNEL] += chain->channel;
	req->part[EK_FS_CELL] += chain->cell;
}

/*
 * The link sends without a break once it has begun. So it begins at the earliest
 * time at which no page will be late. The page that determines this time is the
 * critical one.
 */
static u64 ek_fs_flash_read(struct ek_flash *dev, struct ek_flash_req *req, u64 t0)
{
	u64 pos = req->sector << 9, before = 0, first = 0, all, at;
	u32 mbps = dev->mbps[0], left = req->bytes;
	struct ek_fs_chain critical = {};
	u64 critical_sent = 0;

	while (left) {
		u32 n = min_t(u64, left, dev->op_bytes - ek_fs_rem(pos, dev->op_bytes));
		u64 sent = ek_fs_xfer(before, mbps);
		struct ek_fs_chain chain;
		struct ek_fs_chan *chan;
		struct ek_fs_die *die;
		u64 ready;

		die = ek_fs_locate(dev, pos, &chan, NULL);
		ready = ek_fs_read_op(dev, chan, die, t0, n, &chain);
		ready = ready > sent ? ready - sent : 0;
		if (ready >= first) {
			first = ready;
			critical = chain;
			critical_sent = sent;
		}
		before += n;
		pos += n;
		left -= n;
	}
	all = ek_fs_xfer(before, mbps);
	at = ek_fs_reserve(ek_fs_link(dev, false), dev->now, first, all);
	ek_fs_take_chain(dev, req, &critical);
	req->part[EK_FS_LINK_WAIT] += at - first;
	ek_fs_add_link(dev, req, all - critical_sent);
	return at + all;
}

/* Write without the buffer: the request is done when all its data are programmed. */
static u64 ek_fs_write_through(struct ek_flash *dev, struct ek_flash_req *req, u64 t0)
{
	u64 pos = req->sector << 9, before = 0, done = 0, at;
	u32 mbps = dev->mbps[1], left = req->bytes;
	struct ek_fs_chain critical = {};

	at = ek_fs_reserve(ek_fs_link(dev, true), dev->now, t0, ek_fs_xfer(left, mbps));
	while (left) {
		u32 n = min_t(u64, left, dev->op_bytes - ek_fs_rem(pos, dev->op_bytes));
		u64 got = at + ek_fs_xfer(before + n, mbps), begin, end;
		struct ek_fs_chain chain = {};
		struct ek_fs_chan *chan;
		struct ek_fs_die *die;

		die = ek_fs_locate(dev, pos, &chan, NULL);
		begin = max(got, die->free);
		if (die->owner == dev->serial && die->free >= got) {
			chain = die->chain;
		} else {
			chain.link = got - at;
			ek_fs_die_wait(&chain, die, got, begin);
		}
		end = ek_fs_program(dev, chan, die, begin, n, &chain);
		die->free = end;
		die->owner = dev->serial;
		die->chain = chain;
		if (end >= done) {
			done = end;
			critical = chain;
		}
		before += n;
		pos += n;
		left -= n;
	}
	ek_fs_take_chain(dev, req, &critical);
	req->part[EK_FS_LINK_WAIT] += at - t0;
	return done;
}

static bool ek_fs_room(const struct ek_flash *dev, u32 bytes)
{
	return dev->buffered + bytes <= (u64)dev->p.buffer_kb << 10;
}

/* Transfer the data of @req into the buffer, from @t0 on. Returns the end. */
static u64 ek_fs_write_buffer(struct ek_flash *dev, struct ek_flash_req *req, u64 t0)
{
	u64 len = ek_fs_xfer(req->bytes, dev->mbps[1]), pos = req->sector << 9;
	u64 at = ek_fs_reserve(ek_fs_link(dev, true), dev->now, t0, len);
	u32 left = req->bytes;

	req->part[EK_FS_LINK_WAIT] += at - t0;
	ek_fs_add_link(dev, req, len);
	dev->buffered += left;
	while (left) {
		u32 n = min_t(u64, left, dev->op_bytes - ek_fs_rem(pos, dev->op_bytes));
		struct ek_fs_chan *chan;

		ek_fs_locate(dev, pos, &chan, NULL);
		chan->open += n;
		chan->open_ready = at + len;
		while (chan->open >= dev->unit) {
			chan->open -= dev->unit;
			ek_fs_push_page(dev, chan, dev->unit, at + len);
		}
		pos += n;
		left -= n;
	}
	return at + len;
}

/* Let the stalled write or flush continue at @t if the buffer allows it. */
static void ek_fs_unstall(struct ek_flash *dev, u64 t)
{
	struct ek_flash_req *req = dev->stalled;
	u64 at, gc, flush;

	if (!req)
		return;
	if (req->op == EK_FS_FLUSH ? dev->pending || dev->programming :
				     !ek_fs_room(dev, req->bytes)) {
		/* No page is being programmed or queued: only partly filled pages can make room. */
		if (!dev->pending && !dev->programming)
			ek_fs_close_pages(dev, t);
		return;
	}
	dev->stalled = NULL;
	at = max(t, req->stalled);
	gc = ek_fs_overlap(req->stalled, at, dev->freed_gc_from, dev->freed_gc_to);
	req->part[EK_FS_GC] += gc;
	req->part[EK_FS_BUFFER_WAIT] += at - req->stalled - gc;
	dev->totals.buffer_stall_ns += at - req->stalled;
	if (req->op == EK_FS_FLUSH) {
		flush = ek_fs_vary(dev, ek_fs_us(dev->p.flush_us));
		req->part[EK_FS_CMD] += flush;
		ek_fs_run_until(dev, req, at + flush);
	} else {
		ek_fs_run_until(dev, req, ek_fs_write_buffer(dev, req, at));
	}
}

static void ek_fs_stall(struct ek_flash *dev, struct ek_flash_req *req, u64 t0)
{
	dev->stalled = req;
	req->state = EK_FS_STALLED;
	req->stalled = t0;
}

static void ek_fs_begin_flash(struct ek_flash *dev, struct ek_flash_req *req, u64 t, u64 t0)
{
	switch (req->op) {
	case EK_FS_READ:
		ek_fs_run_until(dev, req, ek_fs_flash_read(dev, req, t0));
		break;
	case EK_FS_WRITE:
		if (!dev->p.buffer_kb || req->fua) {
			ek_fs_run_until(dev, req, ek_fs_write_through(dev, req, t0));
			break;
		}
		ek_fs_stall(dev, req, t0);
		if (!ek_fs_room(dev, req->bytes))
			dev->totals.buffer_stalls++;
		ek_fs_unstall(dev, t);
		break;
	case EK_FS_FLUSH:
		ek_fs_close_pages(dev, t);
		ek_fs_stall(dev, req, t0);
		ek_fs_unstall(dev, t);
		break;
	}
}

/* Cache the part of the mapping table for @sector. Returns true if it was not cached before. */
static bool ek_fs_map_miss(struct ek_flash *dev, u64 sector)
{
	u32 region, line;

	if (!dev->p.map_cache)
		return false;
	region = div64_u64(sector, (u64)dev->p.map_region_mb << 11);
	div_u64_rem(region, dev->p.map_cache, &line);
	if (dev->map_tag[line] == region + 1)
		return false;
	dev->map_tag[line] = region + 1;
	dev->totals.map_misses++;
	return true;
}

/* --- disk ----------------------------------------------------------------- */

static u64 ek_fs_sqrt(u64 v)
{
	u64 root = 0, bit = 1ULL << 30;

	while (bit > v)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		if (v >= root + bit) {
			v -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

/* seek time: a + b * sqrt(distance), from seek_min to seek_max over all tracks */
static u64 ek_fs_seek(const struct ek_flash *dev, u64 from, u64 to)
{
	u64 distance = from > to ? from - to : to - from;
	u64 span = ek_fs_us(dev->p.seek_max_us - dev->p.seek_min_us);

	if (!distance)
		return 0;
	/* the distance as a fraction of all tracks has 28 fraction bits, its root has 14 */
	return ek_fs_us(dev->p.seek_min_us) +
	       ((span * ek_fs_sqrt(div64_u64(distance << 28, dev->tracks))) >> 14);
}

static bool ek_fs_streams(const struct ek_flash *dev, const struct ek_flash_req *req)
{
	return req->sector << 9 == dev->stream_pos && req->op == dev->stream_op;
}

/* Time from @t until the first byte of @req is under the head. @seek gets the part for the seek. */
static u64 ek_fs_access(const struct ek_flash *dev, const struct ek_flash_req *req, u64 t,
			u64 *seek)
{
	u64 in, track, angle;

	track = div64_u64_rem(req->sector << 9, dev->track_bytes, &in);
	angle = ek_fs_xfer(in, dev->p.track_mbps);
	*seek = ek_fs_seek(dev, dev->track, track);
	return *seek + ek_fs_rem(angle + dev->rev - ek_fs_rem(t + *seek, dev->rev), dev->rev);
}

/*
 * The request with the shortest access time, as a disk with NCQ chooses it.
 *
 * The disk chooses its next request cmd_us after it completed the previous one. By
 * then the host has sent a new request in reply to that completion. So with two
 * requests outstanding, the disk already has two to choose from.
 */
static struct ek_flash_req *ek_fs_nearest(const struct ek_flash *dev, u64 t)
{
	struct ek_flash_req *req = dev->queue.head, *best = req;
	u64 least = EK_FS_NEVER;

	if (!req || !req->next || t - req->arrive > EK_FS_AGE_NS)
		return req;
	for (; req; req = req->next) {
		u64 seek, access;

		if (req->op >= EK_FS_FLUSH || ek_fs_streams(dev, req))
			return req;
		access = ek_fs_access(dev, req, t, &seek);
		if (access < least) {
			least = access;
			best = req;
		}
	}
	return best;
}

static u64 ek_fs_disk(struct ek_flash *dev, struct ek_flash_req *req, u64 t0)
{
	u64 link = ek_fs_xfer(req->bytes, req->op == EK_FS_WRITE ? dev->p.link_write_mbps :
								   dev->p.link_read_mbps);
	u64 medium = ek_fs_xfer(req->bytes, dev->p.track_mbps), seek = 0, access, done;

	if (ek_fs_streams(dev, req)) {
		/* since the last request the medium moved on, at most by what the memory holds */
		u64 ahead = ek_fs_xfer(EK_FS_AHEAD, dev->p.track_mbps);

		if (t0 > dev->stream_t + ahead)
			dev->stream_t = t0 - ahead;
		dev->stream_t += medium;
		done = max(t0 + link, dev->stream_t);
		req->part[EK_FS_LINK] += link;
		req->part[EK_FS_CHANNEL] += done - t0 - link;
	} else {
		access = ek_fs_access(dev, req, t0, &seek);
		req->part[EK_FS_SEEK] += seek;
		req->part[EK_FS_ROTATE] += access - seek;
		req->part[EK_FS_CHANNEL] += medium;
		dev->stream_t = t0 + access + medium;
		/* the link sends while the medium is read; if it is slower, it ends later */
		done = dev->stream_t + (link > medium ? link - medium : 0);
		req->part[EK_FS_LINK] += done - dev->stream_t;
		dev->stream_op = req->op;
	}
	dev->stream_pos = (req->sector << 9) + req->bytes;
	dev->track = div64_u64(dev->stream_pos - 1, dev->track_bytes);
	return done;
}

/* --- discards, housekeeping, heat ------------------------------------------ */

/* Begin no command from @from to @to. */
static void ek_fs_hold(struct ek_flash *dev, enum ek_fs_holder holder, u64 from, u64 to)
{
	dev->holder = holder;
	dev->hold_to = to;
	dev->held[holder] += to - from;
}

/*
 * A discard takes a time per command and per erase group that it touches. An
 * exclusive one begins when no command is in progress, see ek_fs_pick(). Until it
 * is done, no command and no program of the buffer begins.
 */
static void ek_fs_discard(struct ek_flash *dev, struct ek_flash_req *req, u64 t, u64 t0)
{
	u64 group = (u64)dev->p.discard_group_kb << 10, from = req->sector << 9, groups = 0, len;
	u32 c, d;

	if (req->bytes)
		groups = div64_u64(from + req->bytes - 1, group) - div64_u64(from, group) + 1;
	len = ek_fs_vary(dev, ek_fs_us(dev->p.discard_us)) +
	      groups * ek_fs_vary(dev, ek_fs_us(dev->p.discard_group_us));
	req->part[EK_FS_ERASE] += len;
	dev->totals.discards++;
	dev->totals.erase_ns += len;
	ek_fs_run_until(dev, req, t0 + len);
	if (!dev->p.discard_exclusive)
		return;
	ek_fs_hold(dev, EK_FS_HELD_ERASE, t, t0 + len);
	dev->stale = true;
	for (c = 0; c < dev->p.channels; c++) {
		dev->chan[c].stale = true;
		for (d = 0; d < dev->p.dies; d++) {
			struct ek_fs_die *die = &dev->chan[c].die[d];

			die->free = max(die->free, t0 + len);
			die->last_read = false;
		}
	}
}

/* A write of @bytes makes housekeeping due. */
static void ek_fs_background_add(struct ek_flash *dev, u32 bytes)
{
	u64 after = (u64)dev->p.bg_after_kb << 10, rounds;

	if (!after)
		return;
	dev->bg_bytes += bytes;
	if (dev->bg_bytes < after)
		return;
	rounds = div64_u64_rem(dev->bg_bytes, after, &dev->bg_bytes);
	dev->bg_work += rounds * dev->p.bg_ms * 1000000;
}

/* A request arrives at @now after idle time. Housekeeping ran in that time, and may still run. */
static void ek_fs_background_idle(struct ek_flash *dev, u64 now)
{
	u64 begin = max(dev->idle_since + dev->p.bg_idle_ms * 1000000ULL, dev->hold_to);
	u64 round = dev->p.bg_ms * 1000000ULL, done, rest;

	if (!dev->bg_work || now <= begin)
		return;
	done = min(now - begin, dev->bg_work);
	dev->bg_work -= done;
	dev->totals.background_ns += done;
	if (!dev->bg_work)
		return;
	rest = ek_fs_rem(dev->bg_work, round);
	if (dev->p.bg_stop_us) {
		/* the rest of the work continues in the next idle time */
		rest = min(rest ? rest : round, ek_fs_us(dev->p.bg_stop_us));
	} else {
		dev->bg_work -= rest;
		dev->totals.background_ns += rest;
	}
	if (rest)
		ek_fs_hold(dev, EK_FS_HELD_BACKGROUND, now, now + rest);
}

/* Returns true if housekeeping cannot wait for idle time any more. It begins at @t. */
static bool ek_fs_background_begin(struct ek_flash *dev, u64 t)
{
	u64 round = dev->p.bg_ms * 1000000ULL;

	if (!dev->p.bg_most || dev->bg_work < dev->p.bg_most * round)
		return false;
	dev->bg_work -= round;
	dev->totals.background_ns += round;
	ek_fs_hold(dev, EK_FS_HELD_BACKGROUND, t, t + round);
	return true;
}

static void ek_fs_set_rates(struct ek_flash *dev)
{
	u32 pct = dev->hot ? dev->p.heat_pct : 100;

	dev->mbps[0] = max(dev->p.link_read_mbps * pct / 100, 1U);
	dev->mbps[1] = max(dev->p.link_write_mbps * pct / 100, 1U);
}

/*
 * The device warms up by the @bytes that it transfers at @t, and cools off at a
 * constant rate. It becomes hot at heat_mb, and stays hot until it is at half of that.
 */
static void ek_fs_warm(struct ek_flash *dev, u32 bytes, u64 t)
{
	u64 most = (u64)dev->p.heat_mb << 20, us, cooled;

	if (!most)
		return;
	/* 10^6 B/s are bytes per us */
	us = div_u64(t - dev->heat_at, 1000);
	dev->heat_at += us * 1000;
	cooled = us < U32_MAX ? us * dev->p.heat_cool_mbps : most;
	dev->heat -= min(dev->heat, cooled);
	/* no hotter than the limit: the device throttles to stay there */
	dev->heat = min(dev->heat + bytes, most);
	if (dev->hot ? dev->heat > most / 2 : dev->heat < most)
		return;
	dev->hot = !dev->hot;
	dev->totals.throttles += dev->hot;
	ek_fs_set_rates(dev);
}

/* --- the device ----------------------------------------------------------- */

/* @req begins at @t. Account its time until then: in the queue, or held by the device. */
static void ek_fs_leave_queue(struct ek_flash *dev, struct ek_flash_req *req, u64 t)
{
	u64 erase = dev->held[EK_FS_HELD_ERASE] - req->held[EK_FS_HELD_ERASE];
	u64 background = dev->held[EK_FS_HELD_BACKGROUND] - req->held[EK_FS_HELD_BACKGROUND];

	req->begin = t;
	req->part[EK_FS_ERASE] = erase;
	req->part[EK_FS_BACKGROUND] = background;
	req->part[EK_FS_QUEUE] = t - req->arrive - erase - background;
}

static void ek_fs_begin(struct ek_flash *dev, struct ek_flash_req *req, u64 t)
{
	u64 t0 = max(t, dev->cmd_free), hang = dev->hang;
	u64 cmd, throttle = 0, len, at;

	if (++dev->serial == 0)
		dev->serial = 1;
	ek_fs_leave_queue(dev, req, t);
	if (dev->p.kind == EK_FS_DISK) {
		/* the command work is over already, see ek_fs_nearest() */
		cmd = ek_fs_us(dev->p.cmd_us);
		req->part[EK_FS_CMD] = min(req->part[EK_FS_QUEUE], cmd);
		req->part[EK_FS_QUEUE] -= req->part[EK_FS_CMD];
		cmd = 0;
	} else {
		cmd = ek_fs_us(req->op == EK_FS_WRITE ? dev->p.cmd_write_us : dev->p.cmd_us);
		cmd = ek_fs_vary(dev, cmd);
		if (req->op < EK_FS_FLUSH)
			ek_fs_warm(dev, req->bytes, t);
		if (dev->hot)
			throttle = div_u64(cmd * 100, dev->p.heat_pct) - cmd;
	}
	req->part[EK_FS_LINK_WAIT] = t0 - t;
	req->part[EK_FS_CMD] += cmd + hang;
	req->part[EK_FS_THROTTLE] = throttle;
	cmd += throttle;
	dev->cmd_free = t0 + cmd;
	dev->hang = 0;
	req->hung = hang;
	t0 += cmd + hang;
	if (hang) {
		/* Reserve nothing for a request that hangs, because it may be aborted. */
		ek_fs_run_until(dev, req, t0);
		return;
	}
	if (req->op == EK_FS_FLUSH) {
		dev->totals.flushes++;
		if (dev->p.kind != EK_FS_FLASH) {
			len = ek_fs_vary(dev, ek_fs_us(dev->p.flush_us));
			req->part[EK_FS_CMD] += len;
			ek_fs_run_until(dev, req, t0 + len);
			return;
		}
	}
	if (req->op == EK_FS_DISCARD) {
		ek_fs_discard(dev, req, t, t0);
		return;
	}
	switch (dev->p.kind) {
	case EK_FS_DISK:
		ek_fs_run_until(dev, req, ek_fs_disk(dev, req, t0));
		break;
	case EK_FS_LINK_ONLY:
		len = ek_fs_xfer(req->bytes, dev->mbps[req->op == EK_FS_WRITE]);
		at = ek_fs_reserve(ek_fs_link(dev, req->op == EK_FS_WRITE), dev->now, t0, len);
		req->part[EK_FS_LINK_WAIT] += at - t0;
		ek_fs_add_link(dev, req, len);
		ek_fs_run_until(dev, req, at + len);
		break;
	default:
		if (req->op < EK_FS_FLUSH && ek_fs_map_miss(dev, req->sector)) {
			req->part[EK_FS_MAP] = ek_fs_vary(dev, ek_fs_us(dev->p.map_miss_us));
			t0 += req->part[EK_FS_MAP];
		}
		if (req->op == EK_FS_WRITE)
			ek_fs_background_add(dev, req->bytes);
		ek_fs_begin_flash(dev, req, t, t0);
	}
}

static bool ek_fs_passes(const struct ek_flash_req *req)
{
	return req->op != EK_FS_WRITE && req->op != EK_FS_FLUSH;
}

static void ek_fs_unqueue(struct ek_flash *dev, struct ek_flash_req *req)
{
	ek_fs_unlink(&dev->queue, req);
	dev->passing -= ek_fs_passes(req);
}

static bool ek_fs_is_exclusive(const struct ek_flash *dev, const struct ek_flash_req *req)
{
	return dev->p.discard_exclusive && req->op == EK_FS_DISCARD;
}

/*
 * The request that begins next: on a disk the nearest, on flash the oldest. But reads
 * and discards may pass a stalled write or flush. An exclusive discard passes nothing
 * and is not passed: it waits until no command is in progress.
 */
static struct ek_flash_req *ek_fs_pick(const struct ek_flash *dev, u64 t)
{
	struct ek_flash_req *req = dev->queue.head;

	if (dev->p.kind == EK_FS_DISK)
		return ek_fs_nearest(dev, t);
	if (!dev->stalled) {
		if (req && dev->running.head && ek_fs_is_exclusive(dev, req))
			return NULL;
		return req;
	}
	if (!dev->passing)
		return NULL;
	for (; req; req = req->next) {
		if (ek_fs_is_exclusive(dev, req))
			return NULL;
		if (ek_fs_passes(req))
			break;
	}
	return req;
}

static void ek_fs_dispatch(struct ek_flash *dev, u64 t)
{
	struct ek_flash_req *req;

	ek_fs_unstall(dev, t);
	dev->wake = EK_FS_NEVER;
	if (dev->queue.head && (t < dev->hold_to || ek_fs_background_begin(dev, t))) {
		dev->wake = dev->hold_to;
		return;
	}
	if (dev->p.kind == EK_FS_DISK && t != dev->pick) {
		if (dev->slots && dev->queue.head && dev->pick == EK_FS_NEVER)
			dev->pick = t + ek_fs_us(dev->p.cmd_us);
		if (t != dev->pick)
			return;
	}
	dev->pick = EK_FS_NEVER;
	/* an exclusive discard that begins ends this loop, because it sets hold_to */
	while (dev->slots && t >= dev->hold_to) {
		req = ek_fs_pick(dev, t);
		if (!req)
			break;
		ek_fs_unqueue(dev, req);
		dev->slots--;
		ek_fs_begin(dev, req, t);
	}
}

/* Process all events up to @now, in order. */
static void ek_fs_advance(struct ek_flash *dev, u64 now)
{
	for (;;) {
		struct ek_flash_req *req = dev->running.head;
		u64 program = ek_fs_program_event(dev);
		u64 t = min(program, min(dev->pick, dev->wake));

		if (req)
			t = min(t, req->done);
		if (t > now)
			break;
		dev->now = t;
		if (program <= t) {
			ek_fs_program_step(dev, t);
			if (!dev->stalled)
				continue;
		} else if (req && req->done <= t) {
			ek_fs_unlink(&dev->running, req);
			req->state = EK_FS_FINISHED;
			ek_fs_insert_after(&dev->finished, dev->finished.tail, req);
			dev->slots++;
			dev->idle_since = t;
		}
		ek_fs_dispatch(dev, t);
	}
	dev->now = max(dev->now, now);
}

/* In @ns of idle time, the device regains fast cache and reserve. */
static void ek_fs_idle(struct ek_flash *dev, u64 ns)
{
	u64 most = (u64)dev->p.slc_kb << 10, us = div_u64(ns, 1000), got;

	if (dev->slc < most) {
		/* kB/s are bytes per ms */
		got = us < (1ULL << 32) ? div_u64(us * dev->p.slc_refill_kbps, 1000) : most;
		dev->slc = min(most, dev->slc + got);
	}
	most = (u64)dev->p.gc_after_kb << 10;
	if (dev->reserve < most) {
		/* all dies collect at the same time */
		u64 gain = dev->gc_gain * dev->p.channels * dev->p.dies;
		u64 rounds = div64_u64(most, gain) + 1;

		if (dev->gc_pause)
			rounds = min(rounds, div64_u64(ns, dev->gc_pause));
		dev->reserve = min(most, dev->reserve + rounds * gain);
	}
}

/* Submit @req, which arrives at @now. */
void ek_flash_submit(struct ek_flash *dev, struct ek_flash_req *req, u64 now)
{
	struct ek_fs_chan *chan;

	ek_fs_advance(dev, now);
	now = dev->now;
	if (!dev->inside && !dev->pending && !dev->programming) {
		ek_fs_background_idle(dev, now);
		ek_fs_idle(dev, now - min(now, dev->idle_since));
		dev->idle_since = now;
	}
	memcpy(req->held, dev->held, sizeof(req->held));
	if (dev->hold_to > now)
		req->held[dev->holder] -= dev->hold_to - now;
	memset(req->part, 0, sizeof(req->part));
	req->hung = false;
	req->begin = 0;
	req->arrive = now;
	req->state = EK_FS_QUEUED;
	req->channel = 0;
	if (dev->p.kind == EK_FS_FLASH)
		ek_fs_locate(dev, req->sector << 9, &chan, &req->channel);
	ek_fs_insert_after(&dev->queue, dev->queue.tail, req);
	dev->passing += ek_fs_passes(req);
	dev->inside++;
	dev->totals.max_queue = max(dev->totals.max_queue, dev->inside);
	ek_fs_dispatch(dev, now);
}

/* The next request that is done by @now, in order of completion, or NULL. */
struct ek_flash_req *ek_flash_reap(struct ek_flash *dev, u64 now)
{
	struct ek_flash_req *req;

	ek_fs_advance(dev, now);
	req = dev->finished.head;
	if (!req)
		return NULL;
	ek_fs_unlink(&dev->finished, req);
	req->state = EK_FS_IDLE;
	dev->inside--;
	return req;
}

/* A lower bound for the time at which the stalled request is done. The caller asks again at it. */
static u64 ek_fs_stalled_until(struct ek_flash *dev)
{
	const struct ek_flash_req *req = dev->stalled;
	u64 event = ek_fs_program_event(dev);
	u32 cell = dev->slc ? min(dev->p.t_prog_us, dev->p.t_prog_slc_us) : dev->p.t_prog_us;
	bool more = dev->pending;

	/* if the programs in progress do not free enough, the write needs one more program */
	if (req->op == EK_FS_WRITE)
		more = !ek_fs_room(dev, req->bytes - min_t(u64, dev->releasing, req->bytes));
	/* add the time of the shortest program: the least factor is jitter_low */
	return more && event != EK_FS_NEVER ?
		event + ((ek_fs_us(cell) * dev->jitter_low) >> EK_FS_FRACTION) : event;
}

/*
 * The time at which to reap or advance next. Programs for which no request waits
 * need no call at their time: the next call processes them.
 */
u64 ek_flash_next(struct ek_flash *dev)
{
	u64 next = dev->running.head ? dev->running.head->done : EK_FS_NEVER;

	if (dev->finished.head)
		return dev->now;
	if (dev->stalled)
		next = min(next, ek_fs_stalled_until(dev));
	return min(next, min(dev->pick, dev->wake));
}

/* @req leaves the device now. Unless it is done, all its time counts as the part of its state. */
static void ek_fs_leave(struct ek_flash *dev, struct ek_flash_req *req)
{
	enum ek_fs_part part = EK_FS_CMD;

	if (req->state == EK_FS_QUEUED)
		part = EK_FS_QUEUE;
	else if (req->state == EK_FS_STALLED)
		part = EK_FS_BUFFER_WAIT;
	if (req->state != EK_FS_QUEUED && req->state != EK_FS_FINISHED)
		dev->slots++;
	if (req->state != EK_FS_FINISHED) {
		memset(req->part, 0, sizeof(req->part));
		req->done = dev->now;
		req->part[part] = req->done - req->arrive;
	}
	req->state = EK_FS_IDLE;
	dev->inside--;
}

/* Remove @req from the device. Returns false if it is not in the device, or is done already. */
bool ek_flash_abort(struct ek_flash *dev, struct ek_flash_req *req, u64 now)
{
	ek_fs_advance(dev, now);
	switch (req->state) {
	case EK_FS_QUEUED:
		ek_fs_unqueue(dev, req);
		break;
	case EK_FS_STALLED:
		dev->stalled = NULL;
		break;
	case EK_FS_RUNNING:
		ek_fs_unlink(&dev->running, req);
		break;
	default:
		return false;
	}
	ek_fs_leave(dev, req);
	ek_fs_dispatch(dev, dev->now);
	return true;
}

/* The request in the device that got the injected hang, or NULL. */
struct ek_flash_req *ek_flash_hung(struct ek_flash *dev)
{
	struct ek_flash_req *req = dev->running.head;

	while (req && !req->hung)
		req = req->next;
	return req;
}

/* Remove and return any request in the device, whatever its state, or NULL. For a power cut. */
struct ek_flash_req *ek_flash_take(struct ek_flash *dev)
{
	struct ek_flash_req *req = dev->stalled;

	if (req) {
		dev->stalled = NULL;
	} else if (dev->finished.head) {
		req = dev->finished.head;
		ek_fs_unlink(&dev->finished, req);
	} else if (dev->running.head) {
		req = dev->running.head;
		ek_fs_unlink(&dev->running, req);
	} else if (dev->queue.head) {
		req = dev->queue.head;
		ek_fs_unqueue(dev, req);
	} else {
		return NULL;
	}
	ek_fs_leave(dev, req);
	return req;
}

/*
 * With blocking=1 the host works like the mmc driver. A device with active=1 stands
 * for an eMMC without CQE: the host sends a command only when the previous one is done,
 * and waits for the end of a flush. With CQE the host does so only for discards.
 */

/* Returns true if the host sends @op only when no command is in the device. */
bool ek_flash_waits_before(const struct ek_flash_params *p, enum ek_fs_op op)
{
	return p->blocking && (p->active == 1 || op == EK_FS_DISCARD);
}

/* Returns true if the host sends nothing until @op is done. */
bool ek_flash_waits_after(const struct ek_flash_params *p, enum ek_fs_op op)
{
	return p->blocking && (op == EK_FS_DISCARD || (op == EK_FS_FLUSH && p->active == 1));
}

/* Returns true if the interrupt only wakes a process that completes the requests. */
bool ek_flash_completes_later(const struct ek_flash_params *p)
{
	return p->blocking && p->active == 1;
}

u32 ek_flash_region(const struct ek_flash_params *p, u64 sector)
{
	return min_t(u64, div64_u64(sector * p->regions, (u64)p->capacity_mb << 11),
		     p->regions - 1);
}

/*
 * The share of valid pages in the oldest block, in 1/1000. @spare: flash divided by
 * valid data, in percent. It solves v = e^(-a (1 - v)) with a = spare / 100: data are
 * overwritten at random, and the block that was written first is collected first
 * (Desnoyers, Analytic Modeling of SSD Write Performance, SYSTOR 2012).
 */
static u32 ek_fs_valid(u32 spare)
{
	static const struct {
		u32 spare, valid;
	} at[] = {
		{ 100, 1000 }, { 101, 980 }, { 103, 942 }, { 105, 906 }, { 107, 872 }, { 110, 824 },
		{ 115, 751 }, { 120, 686 }, { 130, 577 }, { 140, 489 }, { 150, 417 }, { 175, 287 },
		{ 200, 203 }, { 250, 107 }, { 300, 60 }, { 400, 20 }, { 700, 1 },
	};
	u32 i;

	for (i = 1; i < ARRAY_SIZE(at); i++)
		if (spare <= at[i].spare)
			return at[i].valid + (at[i - 1].valid - at[i].valid) *
			       (at[i].spare - spare) / (at[i].spare - at[i - 1].spare);
	return 0;
}

/*
 * The effects of wear_pct (w) and full_pct on a flash device:
 *
 *   full  valid pages of a collected block by ek_fs_valid(); the reserve shrinks to the free part
 *   w     bad blocks take up to 2 points of the spare flash; wear levelling copies a fifth
 *         of the pages that would be free; programs take up to 1.2 times as long, erases
 *         twice; one read in retry_in * (1 - w)^3 needs retries, up to three times as many
 *
 * README.md has the sources.
 */
void ek_flash_age(struct ek_flash_params *p)
{
	u32 w = p->wear_pct, free = 100 - w, spare, valid;

	if (p->kind != EK_FS_FLASH)
		return;
	if (p->full_pct) {
		/* in 1/100 %: bad blocks take up to 2 % of the capacity, at the end of life */
		spare = (100 + p->spare_pct) * 100 - 2 * w;
		valid = ek_fs_valid(max(spare / p->full_pct, 100U));
		p->gc_valid_pct = min(DIV_ROUND_UP(valid, 10), 99U);
		if (p->gc_after_kb)
			p->gc_after_kb = max_t(u32, div_u64((u64)p->gc_after_kb *
							    (100 - p->full_pct), 100), 1);
	}
	if (!w)
		return;
	p->gc_valid_pct += (99 - p->gc_valid_pct) * w / 500;
	p->t_prog_us += p->t_prog_us * w / 500;
	p->t_prog_slc_us += p->t_prog_slc_us * w / 500;
	p->t_erase_us += p->t_erase_us * w / 100;
	p->retry_most += p->retry_most * w / 50;
	if (p->retry_in)
		p->retry_in = max_t(u32, 2, div_u64((u64)p->retry_in * free * free * free,
						    1000000));
}

static u32 ek_fs_nr_ops(const struct ek_flash_params *p)
{
	u32 unit_kb = p->planes * p->page_kb;

	return p->kind == EK_FS_FLASH ? p->buffer_kb / unit_kb + 2 * p->channels + 1 : 1;
}

size_t ek_flash_bytes(const struct ek_flash_params *p)
{
	return sizeof(struct ek_flash) + ek_fs_nr_ops(p) * sizeof(struct ek_fs_page_op);
}

/* Initialise a device. @p must have passed ek_flash_check(). */
void ek_flash_init(struct ek_flash *dev, const struct ek_flash_params *p, u64 now)
{
	u64 valid;
	u32 i;

	memset(dev, 0, ek_flash_bytes(p));
	dev->p = *p;
	ek_flash_age(&dev->p);
	p = &dev->p;
	valid = (u64)p->block_pages * p->gc_valid_pct / 100;
	dev->now = now;
	dev->heat_at = now;
	dev->wake = EK_FS_NEVER;
	ek_fs_init_jitter(dev);
	ek_fs_set_rates(dev);
	dev->idle_since = now;
	dev->slots = p->kind == EK_FS_DISK ? 1 : p->active;
	dev->chunk = (u64)p->chunk_kb << 10;
	dev->unit = (u64)p->planes * p->page_kb << 10;
	dev->op_bytes = p->map == EK_FS_RANGES ? dev->unit : min(dev->unit, dev->chunk);
	/* each range ends at the end of a page */
	dev->range = DIV_ROUND_UP_ULL((u64)p->capacity_mb << 20, p->channels * dev->unit) *
		     dev->unit;
	dev->gc_gain = dev->unit * (p->block_pages - valid);
	dev->gc_pause = ek_fs_us(p->t_erase_us) +
			valid * (ek_fs_us(p->t_r_us) + ek_fs_us(p->t_prog_us));
	dev->reserve = (u64)p->gc_after_kb << 10;
	dev->slc = (u64)p->slc_kb << 10;
	dev->pick = EK_FS_NEVER;
	dev->stale = true;
	for (i = 0; i < p->channels; i++)
		dev->chan[i].stale = true;
	dev->nr_ops = ek_fs_nr_ops(p);
	for (i = 0; i < dev->nr_ops; i++)
		dev->ops[i].next = i + 1 < dev->nr_ops ? i + 2 : 0;
	dev->free_op = 1;
	if (p->kind == EK_FS_DISK) {
		dev->rev = div_u64(60 * 1000000000ULL, p->rpm);
		dev->track_bytes = max_t(u64, div_u64(dev->rev * p->track_mbps, 1000), 1);
		dev->tracks = max_t(u64, div64_u64((u64)p->capacity_mb << 20, dev->track_bytes), 1);
		dev->stream_pos = EK_FS_NEVER;
	}
}
