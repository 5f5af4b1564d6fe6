/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's atomics, lists and trees for user space, as far as the policy core uses them.
 * There is one thread, so atomics are plain variables. The tree is a treap: it has the
 * interface of the kernel's red-black tree and takes O(log n) steps on average, in a tenth
 * of the lines.
 */
#ifndef EK_SIM_KERNEL_H
#define EK_SIM_KERNEL_H

#include <stddef.h>
#include <string.h>
#include "../../tests/user_space.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef int8_t s8;
#define U64_MAX UINT64_MAX
#define U32_MAX UINT32_MAX
#define READ_ONCE(x) (x)
#define smp_mb() __sync_synchronize()
#define smp_mb__after_atomic() __sync_synchronize()
#define unlikely(x) __builtin_expect(!!(x), 0)
#define likely(x) __builtin_expect(!!(x), 1)
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))

typedef struct { s32 counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t;
#define atomic_read(v) ((v)->counter)
#define atomic_set(v, i) ((v)->counter = (i))
#define atomic_inc(v) ((void)(v)->counter++)
#define atomic_dec(v) ((void)(v)->counter--)
#define atomic_xchg(v, i) ({ s32 old_ = (v)->counter; (v)->counter = (i); old_; })
#define atomic_cmpxchg(v, o, i) ({ s32 old_ = (v)->counter; if (old_ == (o)) (v)->counter = (i); old_; })
#define atomic64_read(v) ((v)->counter)
#define atomic64_add(i, v) ((void)((v)->counter += (s64)(i)))
#define atomic64_sub(i, v) ((void)((v)->counter -= (s64)(i)))
#define atomic64_xchg(v, i) ({ s64 old_ = (v)->counter; (v)->counter = (s64)(i); old_; })

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }

static inline void INIT_LIST_HEAD(struct list_head *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list_head *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list_head *n, struct list_head *l)
{
	n->prev = l->prev;
	n->next = l;
	l->prev->next = n;
	l->prev = n;
}

static inline void list_del_init(struct list_head *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	INIT_LIST_HEAD(n);
}

static inline void list_move_tail(struct list_head *n, struct list_head *l)
{
	list_del_init(n);
	list_add_tail(n, l);
}

#define list_next_entry(p, member) container_of((p)->member.next, __typeof__(*(p)), member)
#define list_for_each_entry(p, l, member) \
	for ((p) = container_of((l)->next, __typeof__(*(p)), member); &(p)->member != (l); \
	     (p) = container_of((p)->member.next, __typeof__(*(p)), member))
#define list_for_each_entry_safe(p, n, l, member) \
	for ((p) = container_of((l)->next, __typeof__(*(p)), member), (n) = list_next_entry(p, member); \
	     &(p)->member != (l); (p) = (n), (n) = list_next_entry(n, member))
#define list_first_entry_or_null(l, type, member) \
	(list_empty(l) ? NULL : container_of((l)->next, type, member))

static inline bool list_is_last(const struct list_head *n, const struct list_head *l)
{
	return n->next == l;
}

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

static inline void llist_add(struct llist_node *n, struct llist_head *l)
{
	n->next = l->first;
	l->first = n;
}

static inline struct llist_node *llist_del_all(struct llist_head *l)
{
	struct llist_node *n = l->first;

	l->first = NULL;
	return n;
}

static inline bool llist_empty(const struct llist_head *l)
{
	return !l->first;
}

struct rb_node {
	struct rb_node *up, *left, *right;
	u32 prio;
};

struct rb_root_cached {
	struct rb_node *root, *leftmost;
};

#define RB_ROOT_CACHED ((struct rb_root_cached){ NULL, NULL })
#define rb_entry(p, type, member) container_of(p, type, member)
#define rb_first_cached(t) ((t)->leftmost)

static inline void RB_CLEAR_NODE(struct rb_node *n)
{
	n->up = n;
}

static inline bool RB_EMPTY_NODE(const struct rb_node *n)
{
	return n->up == n;
}

/* Rotate @n above its parent. */
static inline void rb_sim_rise(struct rb_root_cached *t, struct rb_node *n)
{
	struct rb_node *p = n->up, *g = p->up, *c;

	if (p->left == n) {
		c = n->right;
		p->left = c;
		n->right = p;
	} else {
		c = n->left;
		p->right = c;
		n->left = p;
	}
	if (c)
		c->up = p;
	p->up = n;
	n->up = g;
	if (!g)
		t->root = n;
	else if (g->left == p)
		g->left = n;
	else
		g->right = n;
}

static inline void rb_add_cached(struct rb_node *n, struct rb_root_cached *t,
				 bool (*less)(struct rb_node *, const struct rb_node *))
{
	static u32 seed = 1;
	struct rb_node **link = &t->root, *p = NULL;
	bool first = true;

	while (*link) {
		p = *link;
		if (less(n, p)) {
			link = &p->left;
		} else {
			link = &p->right;
			first = false;
		}
	}
	seed = seed * 1664525U + 1013904223U;
	*n = (struct rb_node){ .up = p, .prio = seed };
	*link = n;
	if (first)
		t->leftmost = n;
	while (n->up && n->up->prio < n->prio)
		rb_sim_rise(t, n);
}

static inline struct rb_node *rb_next(const struct rb_node *n)
{
	if (n->right) {
		for (n = n->right; n->left; n = n->left)
			;
		return (struct rb_node *)n;
	}
	while (n->up && n->up->right == n)
		n = n->up;
	return n->up;
}

static inline void rb_erase_cached(struct rb_node *n, struct rb_root_cached *t)
{
	if (t->leftmost == n)
		t->leftmost = rb_next(n);
	while (n->left || n->right) {
		struct rb_node *c = n->left;

		if (!c || (n->right && n->right->prio > c->prio))
			c = n->right;
		rb_sim_rise(t, c);
	}
	if (!n->up)
		t->root = NULL;
	else if (n->up->left == n)
		n->up->left = NULL;
	else
		n->up->right = NULL;
}

#endif /* EK_SIM_KERNEL_H */
