# SPDX-License-Identifier: GPL-2.0-only
"""Property tests of the shares in a tree of groups, compared with the definition in exact fractions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

ONE = 1 << 16
NODES = 16
weights = st.integers(1, 10000)


@pytest.fixture(scope="session")
def tree(user_space: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    lib = user_space("share")
    lib.shim_top_sum.restype = lib.shim_node_sum.restype = ctypes.c_uint64
    lib.shim_share.restype = lib.shim_generation.restype = ctypes.c_uint32
    return lib


class Model:
    """The definition of shares, computed from scratch each time."""

    def __init__(self, parents: list[int], weights: list[int]) -> None:
        self.parent: list[int | None] = [None, *parents]
        self.weight = [100, *weights]
        self.own = [False] * len(self.weight)

    def children(self, n: int) -> list[int]:
        return [c for c, p in enumerate(self.parent) if p == n]

    def used(self, n: int) -> bool:
        return self.own[n] or any(self.used(c) for c in self.children(n))

    def level(self, n: int) -> int:
        """The sum of the weights in use directly below n, plus the weight of n if it has work of its own."""
        below = sum(self.weight[c] for c in self.children(n) if self.used(c))
        return below + (self.weight[n] if self.own[n] else 0)

    def share(self, n: int) -> Fraction:
        share = Fraction(self.weight[n])
        while (up := self.parent[n]) is not None:
            share *= Fraction(self.weight[n], self.level(n))
            n = up
        return share

    def top(self) -> int:
        return self.level(0)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    size = draw(st.integers(1, NODES - 1))
    parents = [draw(st.integers(0, i)) for i in range(size)]
    return parents, [draw(weights) for _ in range(size)]


steps = st.lists(
    st.tuples(st.sampled_from(["work", "weight"]), st.integers(0, NODES - 1), weights), max_size=40
)


@given(shape=trees(), todo=steps)
@example(  # nodes 9 and 15 get 5/6 and 1/6 of weight 33: the fractions are not exact in binary
    shape=([0, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 4], [33, *[1] * 7, 5, *[1] * 6]),
    todo=[("work", 9, 1), ("work", 15, 1)],
)
def test_shares_match_the_definition_after_any_change(
    tree: ctypes.CDLL, shape: tuple[list[int], list[int]], todo: list[tuple[str, int, int]]
) -> None:
    parents, start = shape
    model = Model(parents, start)
    tree.shim_reset()
    for i, (parent, weight) in enumerate(zip(parents, start, strict=True), 1):
        tree.shim_node(i, parent, weight)
    known: dict[int, tuple[int, int]] = {}
    for what, pick, weight in todo:
        n = pick % len(model.weight)
        if what == "weight":
            model.weight[n] = weight
            tree.shim_set_weight(n, weight)
        elif model.own[n]:
            model.own[n] = False
            tree.shim_leave(n)
        else:
            model.own[n] = True
            tree.shim_join(n)
            # a join of a node below the top level always changes the generation
            if model.parent[n] not in (None, 0):
                known.pop(n, None)
        assert tree.shim_top_sum() == model.top()
        total = 0.0
        for i in range(len(model.weight)):
            if not model.own[i]:
                continue
            exact = model.share(i) * ONE
            got = tree.shim_share(i)
            # correct except for the last bit, whatever the weights of the nodes above
            assert abs(got - exact) <= Fraction(101, 100), f"node {i}"
            total += got
            # the core keeps a share while the generation is the same, so the share must not change
            if i in known and known[i][0] == tree.shim_generation():
                assert known[i][1] == got, f"node {i}: the share changed, the generation did not"
            known[i] = (tree.shim_generation(), got)
        if any(model.own):
            assert total == pytest.approx(model.top() * ONE, rel=1e-3)
    for n, own in enumerate(model.own):
        if own:
            tree.shim_leave(n)
    assert tree.shim_top_sum() == 0
    assert all(tree.shim_node_sum(n) == 0 for n in range(NODES)), (
        "a join or leave was counted in one direction only"
    )


def test_a_child_divides_its_parents_share(tree: ctypes.CDLL) -> None:
    tree.shim_reset()
    tree.shim_node(1, 0, 200)
    tree.shim_node(2, 1, 100)
    tree.shim_node(3, 1, 300)
    tree.shim_node(4, 0, 100)
    for n in (2, 3, 4):
        tree.shim_join(n)
    assert [tree.shim_share(n) / ONE for n in (2, 3, 4)] == [50, 150, 100]
    tree.shim_leave(3)
    assert [tree.shim_share(n) / ONE for n in (2, 4)] == [200, 100]


def test_in_a_flat_hierarchy_shares_equal_weights_whichever_groups_are_in_use(tree: ctypes.CDLL) -> None:
    tree.shim_reset()
    tree.shim_node(1, 0, 200)
    tree.shim_node(2, 0, 1)
    tree.shim_join(1)
    before = tree.shim_generation()
    tree.shim_join(2)
    tree.shim_join(0)
    assert [tree.shim_share(n) / ONE for n in (0, 1, 2)] == [100, 200, 1]
    assert tree.shim_generation() == before, "no group has to compute its share again"
