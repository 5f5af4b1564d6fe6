// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hidden time: what writes take of the device later, to collect garbage or to empty a buffer.
 *
 * Policy: turns show hidden time, but not whose writes caused it. So every byte written pays the
 * mean hidden time per byte, on top of the cost of its request. The mean is over EK_HIDDEN_NS in
 * which there were writes: several collections of garbage, because how many of them fall into a
 * second is chance.
 * Invariant: over that time, writes are charged as much as the hidden time that was seen. Only
 * a device that had no writes before is presumed to have less: see EK_HIDDEN_FIRST_NS.
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
u64 ek_hidden_sent(struct ek_core *c, struct ek_core_group *g, struct ek_req *r, u32 cost)
{
	struct ek_hidden *h = &c->hidden;
	u64 ns;

	if (r->op != EK_OP_WRITE)
		return 0;
	ns = ek_hidden_cost(c, r->op, r->bytes);
	/* while the groups are served together, no hidden time shows */
	if (c->mode.kind != EK_TURNS)
		return ns;
	if (!h->bytes) {
		h->charged = EK_HIDDEN_FIRST_NS;
		h->bytes = ek_ratio(EK_HIDDEN_FIRST_NS, max_t(u64, g->rate, 1));
	}
	h->charged += cost + ns;
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
