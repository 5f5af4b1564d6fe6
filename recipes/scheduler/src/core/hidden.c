// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hidden time: what writes take of the device later, to collect garbage or to empty a buffer.
 *
 * Policy: turns show hidden time, but not whose writes caused it. So every byte written pays the
 * mean hidden time per byte, on top of the cost of its request. The mean is over what writes
 * were charged in the last EK_HIDDEN_NS of device time: several collections of garbage, because
 * how many of them fall into a second is chance. A few small writes tell nothing about the hidden
 * time of many bytes, so what they showed is forgotten: see EK_HIDDEN_FEW.
 * Invariant: but for the first writes (EK_HIDDEN_FIRST_NS) and for few writes, writes are charged
 * in the mean what was seen.
 */
#include "hidden.h"
#include "cost.h"

/*
 * When writes have been charged so much (ns), hidden time included, the sums are halved. With
 * half of it, the charge follows single collections; with twice as much, it is late when
 * collections begin.
 */
#define EK_HIDDEN_NS		(16 * EK_SEC)
/* Presume that writes of so much device time (ns) had no hidden time before the first write. */
#define EK_HIDDEN_FIRST_NS	(300 * EK_MS)

/*
 * There are few writes if they take less than 1 / EK_HIDDEN_FEW of the time. The time of reads is
 * known to about half a percent only, and the rest looks like hidden time. If such writes were
 * remembered, an app that begins to write would pay for it, for all of its bytes.
 */
#define EK_HIDDEN_FEW		64

static void ek_hidden_update(struct ek_hidden *h)
{
	WRITE_ONCE(h->rate, h->bytes ? ek_ratio(h->took, h->bytes) : 0);
}

/* A turn shows @ns ns of hidden time. Writes that were sent meanwhile have paid @paid ns of it. */
void ek_hidden_saw(struct ek_core *c, u64 ns, u64 paid)
{
	struct ek_hidden *h = &c->hidden;

	ns += h->took;
	h->took = ns - min_t(u64, ns, paid);
	ek_hidden_update(h);
}

/* @g sends @r, which costs @cost ns. Returns what it is charged for hidden time (ns). */
u64 ek_hidden_sent(struct ek_core *c, struct ek_core_group *g, struct ek_req *r, u32 cost,
		   u64 now)
{
	struct ek_hidden *h = &c->hidden;
	u64 ns;

	if (r->op != EK_OP_WRITE)
		return 0;
	if (now - h->since >= EK_HIDDEN_NS) {
		if (h->recent < (now - h->since) / EK_HIDDEN_FEW)
			*h = (struct ek_hidden){};
		h->since = now;
		h->recent = 0;
	}
	ns = ek_hidden_cost(c, r->op, r->bytes);
	/* while the groups are served together, no hidden time shows */
	if (c->mode.kind != EK_TURNS)
		return ns;
	if (!h->bytes) {
		h->charged = EK_HIDDEN_FIRST_NS;
		h->bytes = ek_ratio(EK_HIDDEN_FIRST_NS, max_t(u64, g->rate, 1));
	}
	h->charged += cost + ns;
	h->recent += cost + ns;
	h->bytes += r->bytes;
	if (h->charged >= EK_HIDDEN_NS) {
		h->charged /= 2;
		h->bytes /= 2;
		h->took /= 2;
	}
	return ns;
}

/* What a request of @op and @bytes is charged for hidden time, on top of its cost (ns). */
u64 ek_hidden_cost(struct ek_core *c, u8 op, u32 bytes)
{
	return op == EK_OP_WRITE ? ek_mul(READ_ONCE(c->hidden.rate), bytes) : 0;
}

/* What the next request of @g will be charged (ns). */
u64 ek_hidden_price(struct ek_core *c, struct ek_core_group *g)
{
	return ek_cost(c, g, g->op, g->bytes) + ek_hidden_cost(c, g->op, g->bytes);
}
