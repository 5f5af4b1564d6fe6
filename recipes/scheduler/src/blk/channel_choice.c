// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which of a group's reads is next: one whose flash channel has little to do.
 *
 * A device takes as many commands as its queue is deep, and those that wait
 * there for one busy die keep others from coming that an idle one could serve.
 * So reads are chosen for the channel with the fewest requests in the device.
 *
 * Only reads, and only among those of the group whose turn it is: weights are
 * not touched. Writes go into a buffer first; to reorder them gains nothing and
 * costs a sequential one its order, which is what the fourth paper lost on (S4).
 * What spans channels is taken in order. Nothing is passed over for longer than
 * EK_CHANNEL_LATE.
 *
 * Off unless the tunable `channels` says how many there are (ekctl probe finds
 * out), and where the device takes too few commands for a choice to matter.
 */
#include "ek.h"

/* a read is passed over for so long: the paper's deadline for synchronous ones */
#define EK_CHANNEL_LATE	(500 * NSEC_PER_MSEC)

/* with fewer commands than this in the device no channel waits for another */
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

/* All reads that wait are on other channels than was noted. */
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
 * The read of @g, which has some, to serve: the oldest, or one that came at
 * @latest (ns) at the latest.
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
		/* as good as can be */
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
