// SPDX-License-Identifier: GPL-2.0-only
/*
 * The stored data of a device: pages of 4 KiB that were written and are not all
 * zero.
 *
 * A page has a stable and a fresh copy. A write goes to the fresh copy, which
 * stands for the device's volatile cache. A write with FUA goes to the stable
 * copy. Fresh data become stable when a flush completes that began after the
 * write. A power cut drops the fresh sectors, keeps them, or keeps some of them
 * (torn): a real device may do any of these.
 *
 * A flush does not copy data. Each write belongs to an epoch, and a flush ends
 * the epoch. The flush's completion, which may run in interrupt context, declares
 * the epoch durable. A page of a durable epoch is merged when it is next used. A
 * page that is written again while the flush of its epoch is in progress keeps
 * that epoch. So the new data become durable early, as in a real device.
 */
#include <linux/slab.h>

#include "flashsim.h"

#define EK_FS_SECTORS	(SZ_4K >> SECTOR_SHIFT)
#define EK_FS_DIRTY	XA_MARK_0

struct ek_fs_page {
	void *stable;		/* NULL: all zero */
	void *fresh;		/* NULL: there is none */
	unsigned long epoch;	/* of the first write to fresh */
	u8 dirty;		/* bitmap of the sectors in fresh */
};

static u64 ek_fs_random(struct ek_fs_store *store)
{
	/* xorshift64 (Marsaglia, 2003) */
	store->random ^= store->random << 13;
	store->random ^= store->random >> 7;
	store->random ^= store->random << 17;
	return store->random;
}

static void ek_fs_page_free(struct ek_fs_page *page)
{
	kfree(page->stable);
	kfree(page->fresh);
	kfree(page);
}

/* Free the copies that are no longer needed. Returns false if the page itself was freed. */
static bool ek_fs_page_tidy(struct ek_fs_store *store, unsigned long index,
			    struct ek_fs_page *page)
{
	if (!page->dirty) {
		kfree(page->fresh);
		page->fresh = NULL;
		xa_clear_mark(&store->pages, index, EK_FS_DIRTY);
	}
	if (page->stable && !memchr_inv(page->stable, 0, SZ_4K)) {
		kfree(page->stable);
		page->stable = NULL;
	}
	if (page->stable || page->fresh)
		return true;
	xa_erase(&store->pages, index);
	ek_fs_page_free(page);
	return false;
}

/* Make the fresh sectors in @mask stable and drop the others. Returns false without memory. */
static bool ek_fs_page_merge(struct ek_fs_page *page, u8 mask)
{
	u32 i;

	mask &= page->dirty;
	if (mask && !page->stable) {
		if (mask == page->dirty) {
			/* fresh was allocated as zeros, so its other sectors are zero */
			page->stable = page->fresh;
			page->fresh = NULL;
			page->dirty = 0;
			return true;
		}
		page->stable = kzalloc(SZ_4K, GFP_NOIO);
		if (!page->stable)
			return false;
	}
	for (i = 0; i < EK_FS_SECTORS; i++)
		if (mask & BIT(i))
			memcpy(page->stable + i * SECTOR_SIZE, page->fresh + i * SECTOR_SIZE,
			       SECTOR_SIZE);
	page->dirty = 0;
	return true;
}

static bool ek_fs_page_is_durable(struct ek_fs_store *store, const struct ek_fs_page *page)
{
	return page->epoch <= READ_ONCE(store->durable);
}

static blk_status_t ek_fs_store_write(struct ek_fs_store *store, unsigned long index,
				      u32 offset, u32 len, const void *data, bool stable)
{
	struct ek_fs_page *page = xa_load(&store->pages, index);
	u8 mask = GENMASK((offset + len - 1) >> SECTOR_SHIFT, offset >> SECTOR_SHIFT);
	void **copy;

	if (!page) {
		if (!memchr_inv(data, 0, len))
			return BLK_STS_OK;
		page = kzalloc(sizeof(*page), GFP_NOIO);
		if (!page)
			return BLK_STS_RESOURCE;
		if (xa_err(xa_store(&store->pages, index, page, GFP_NOIO))) {
			kfree(page);
			return BLK_STS_RESOURCE;
		}
	}
	if (page->dirty && ek_fs_page_is_durable(store, page) && !ek_fs_page_merge(page, 0xff))
		return BLK_STS_RESOURCE;
	copy = stable ? &page->stable : &page->fresh;
	/* after a partial merge, sectors that are not dirty may not be zero: allocate again */
	if (!*copy || (!stable && !page->dirty)) {
		kfree(*copy);
		*copy = kzalloc(SZ_4K, GFP_NOIO);
		if (!*copy) {
			ek_fs_page_tidy(store, index, page);
			return BLK_STS_RESOURCE;
		}
	}
	memcpy(*copy + offset, data, len);
	if (stable) {
		page->dirty &= ~mask;
	} else {
		if (!page->dirty) {
			page->epoch = store->epoch;
			xa_set_mark(&store->pages, index, EK_FS_DIRTY);
		}
		page->dirty |= mask;
	}
	ek_fs_page_tidy(store, index, page);
	return BLK_STS_OK;
}

static void ek_fs_store_read(struct ek_fs_store *store, unsigned long index, u32 offset, u32 len,
			     void *data)
{
	const struct ek_fs_page *page = xa_load(&store->pages, index);
	u32 done, sector;

	if (page && page->stable)
		memcpy(data, page->stable + offset, len);
	else
		memset(data, 0, len);
	if (!page || !page->dirty)
		return;
	for (done = 0; done < len; done += SECTOR_SIZE) {
		sector = (offset + done) >> SECTOR_SHIFT;
		if (page->dirty & BIT(sector))
			memcpy(data + done, page->fresh + offset + done, SECTOR_SIZE);
	}
}

static blk_status_t ek_fs_store_transfer(struct ek_fs_store *store, struct request *rq)
{
	bool write = op_is_write(req_op(rq));
	bool stable = !store->is_volatile || (rq->cmd_flags & REQ_FUA);
	u64 pos = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	blk_status_t error = BLK_STS_OK;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		void *data = bvec_kmap_local(&bv);
		u32 done, n;

		for (done = 0; done < bv.bv_len && !error; done += n, pos += n) {
			u32 offset = pos % SZ_4K;

			n = min_t(u32, bv.bv_len - done, SZ_4K - offset);
			if (write)
				error = ek_fs_store_write(store, pos / SZ_4K, offset, n,
							  data + done, stable);
			else
				ek_fs_store_read(store, pos / SZ_4K, offset, n, data + done);
		}
		kunmap_local(data);
		if (error)
			break;
	}
	/* Never return BLK_STS_RESOURCE: the block layer would repeat the request for ever. */
	return error ? BLK_STS_IOERR : BLK_STS_OK;
}

/* Delete the pages that lie completely in the range. The deletion is immediate and durable. */
static void ek_fs_store_discard(struct ek_fs_store *store, struct request *rq)
{
	u64 from = (u64)blk_rq_pos(rq) << SECTOR_SHIFT, to = from + blk_rq_bytes(rq);
	unsigned long index, last = to / SZ_4K;
	struct ek_fs_page *page;

	xa_for_each_range(&store->pages, index, page, DIV_ROUND_UP_ULL(from, SZ_4K),
			  last ? last - 1 : 0) {
		if (index >= last)
			break;
		xa_erase(&store->pages, index);
		ek_fs_page_free(page);
	}
}

static void ek_fs_store_flush(struct ek_fs_store *store, unsigned long *epoch)
{
	struct ek_fs_page *page;
	unsigned long index;

	xa_for_each_marked(&store->pages, index, page, EK_FS_DIRTY)
		/* without memory the page stays unmerged, but it is durable nevertheless */
		if (ek_fs_page_is_durable(store, page) && ek_fs_page_merge(page, 0xff))
			ek_fs_page_tidy(store, index, page);
	*epoch = store->epoch++;
}

/* Transfer the data of @rq. @epoch gets the epoch that a flush, once completed, makes durable. */
blk_status_t ek_fs_store_rq(struct ek_fs_store *store, struct request *rq, unsigned long *epoch)
{
	blk_status_t error = BLK_STS_OK;

	mutex_lock(&store->lock);
	if (store->off)
		error = BLK_STS_IOERR;
	else if (req_op(rq) == REQ_OP_FLUSH)
		ek_fs_store_flush(store, epoch);
	else if (req_op(rq) == REQ_OP_DISCARD)
		ek_fs_store_discard(store, rq);
	else
		error = ek_fs_store_transfer(store, rq);
	mutex_unlock(&store->lock);
	return error;
}

/* Cut the power. No request may be in the device. */
void ek_fs_store_cut(struct ek_fs_store *store, enum ek_fs_cut how)
{
	struct ek_fs_page *page;
	unsigned long index;

	mutex_lock(&store->lock);
	store->off = true;
	xa_for_each_marked(&store->pages, index, page, EK_FS_DIRTY) {
		u8 keep = how == EK_FS_KEEP ? 0xff : 0;

		if (how == EK_FS_TEAR)
			keep = ek_fs_random(store) >> 32;
		if (ek_fs_page_is_durable(store, page))
			keep = 0xff;
		if (!ek_fs_page_merge(page, keep))
			pr_err("flashsim: no memory during a power cut, page %lu is lost\n", index);
		page->dirty = 0;
		ek_fs_page_tidy(store, index, page);
	}
	store->epoch++;
	mutex_unlock(&store->lock);
}

void ek_fs_store_restore(struct ek_fs_store *store)
{
	mutex_lock(&store->lock);
	store->off = false;
	mutex_unlock(&store->lock);
}

void ek_fs_store_init(struct ek_fs_store *store, bool is_volatile, u32 seed)
{
	mutex_init(&store->lock);
	xa_init(&store->pages);
	store->is_volatile = is_volatile;
	store->off = false;
	store->epoch = 1;
	store->durable = 0;
	/* The state must not be 0. The factor spreads small seeds over all bits. */
	store->random = (seed + 1ULL) * 0x9e3779b97f4a7c15ULL;
}

void ek_fs_store_destroy(struct ek_fs_store *store)
{
	struct ek_fs_page *page;
	unsigned long index;

	xa_for_each(&store->pages, index, page) {
		ek_fs_page_free(page);
		cond_resched();
	}
	xa_destroy(&store->pages);
}
