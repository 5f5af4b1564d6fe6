// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which of a group's reads is next: one whose flash channel has little to do.
 *
 * A device takes only as many commands as its queue is deep. If the queue is full of reads for
 * one busy die, reads for idle dies cannot enter. So the next read is one for the channel with
 * the fewest requests in the device.
 *
 * The choice is only among the reads of one group, which the core chose. So it does not change
 * how the device is divided by weight. It has these limits:
 *  - Writes keep their order. They go into the device's buffer first, so another order gains
 *    nothing. Sequential writes would lose bandwidth, as in the paper (Okumura et al.).
 *  - A read that spans channels goes when it is the oldest.
 *  - No read is passed over for longer than EK_CHANNEL_LATE.
 *
 * The choice is off unless the tunable `channels` has the number of channels, which ekctl
 * probe finds. It is also off if the device takes fewer than EK_CHANNEL_DEPTH commands.
 */
#include "ek.h"

/* The longest time (ns) for which a read is passed over: the paper's deadline for reads. */
#define EK_CHANNEL_LATE	(500 * NSEC_PER_MSEC)

/* The least queue depth with which a busy channel can keep reads for others out. */
#define EK_CHANNEL_DEPTH	3

bool ek_channel_on(struct ek_data *ek)
{
	return ek->channels > 1 && ek->q->tag_set &&
	       ek->q->tag_set->queue_depth >= EK_CHANNEL_DEPTH;
}

u32 ek_rq_channel(struct ek_data *ek, struct request *rq)
{
	return ek_channel_of(blk_rq_pos(rq), blk_rq_bytes(rq), ek->channels,
			     ek->chunk_kb, get_capacity(ek->q->disk));
}

/* The tunables changed: note the channels of all queued reads again. */
void ek_channels_changed(struct ek_data *ek)
{
	struct ek_group *g;
	struct request *rq;

	lockdep_assert_held(&ek->lock);
	list_for_each_entry(g, &ek->groups, node)
		list_for_each_entry(rq, &g->fifo[EK_READ], queuelist)
			ek_channel_note(ek, rq);
}

/*
 * The read of @g to serve next: the oldest, or a later one, allocated no later than @latest
 * (ns), whose channel has less to do. @g must have a read queued.
 */
struct request *ek_channel_first(struct ek_data *ek, struct ek_group *g,
				 u64 latest)
{
	struct list_head *fifo = &g->fifo[EK_READ];
	struct request *oldest = list_first_entry(fifo, struct request,
						  queuelist);
	unsigned char channel[EK_CHANNEL_LOOK];
	u32 load[EK_CHANNELS_MAX];
	struct request *rq;
	u32 nr = 0, best, i;

	lockdep_assert_held(&ek->lock);
	if (list_is_singular(fifo) ||
	    ktime_get_ns() > oldest->start_time_ns + EK_CHANNEL_LATE)
		return oldest;
	for (i = 0; i < ek->channels; i++)
		load[i] = max(atomic_read(&ek->channel_flight[i]), 0);
	list_for_each_entry(rq, fifo, queuelist) {
		if (nr && rq->start_time_ns > latest)
			break;
		channel[nr++] = ek_rq_state(rq)->channel;
		/* stop at the look-ahead limit, or when no later read can be a better choice */
		if (nr == EK_CHANNEL_LOOK || channel[0] == EK_CHANNEL_NONE ||
		    (channel[nr - 1] != EK_CHANNEL_NONE &&
		     !load[channel[nr - 1]]))
			break;
	}
	best = ek_channel_pick(channel, nr, load);
	if (!best)
		return oldest;
	list_for_each_entry(rq, fifo, queuelist)
		if (!best--)
			break;
	return rq;
}
