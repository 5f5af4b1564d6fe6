# SPDX-License-Identifier: GPL-2.0-only
"""The policy core: each policy alone in user space, and all of them on simulated devices."""

from __future__ import annotations

import ctypes
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SIM = Path(__file__).resolve().parents[1] / "src/sim"
CORE = Path(__file__).resolve().parents[1] / "src/core"
READ, WRITE, FLUSH, ERASE = range(4)
US, MS, SECOND = 1000, 1_000_000, 1_000_000_000
GROUPS = 8


@pytest.fixture(scope="session")
def core(user_space: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    lib = user_space("core")
    c32, c64, flag = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_bool
    for name, result, args in (
        ("core", None, (c32, c32, c32)),
        ("arrive", None, (c32, c64)),
        ("admit", ctypes.c_int, (c32, c64)),
        ("insert", None, (c32, c32, c32, flag, c64)),
        ("remove", None, (c32, c32, c32)),
        ("serve", ctypes.c_int, (c32, c32, flag, c64)),
        ("complete", flag, (c32, flag, c64)),
        ("set_rate", None, (c32, c64)),
        ("pick", ctypes.c_int, (c64, ctypes.POINTER(c64))),
        ("dispatch", None, (c32, c32, c32, flag, c64)),
        ("quick", flag, (c32, c32, c32, c64)),
        ("depart", None, (c32,)),
        ("promote", None, (c32,)),
        ("set_weight", None, (c32, c32)),
        ("pass_left", ctypes.c_int64, (c32,)),
        ("pass_most", ctypes.c_int64, ()),
        ("pass_refill", c32, ()),
        ("light", flag, (c32,)),
        ("apart", flag, (c32,)),
        ("misplaced", ctypes.c_int, (c32,)),
        ("exit", None, (c32,)),
        ("ungrant", None, (c32,)),
        ("rate", c64, (c32,)),
        ("vtime", c64, (c32,)),
        ("cost", c64, (c32, c32, c32)),
        ("hidden_saw", None, (c64,)),
        ("hidden_cost", c64, (c32,)),
        ("charge", None, (c32, c64, c64)),
        ("debt", ctypes.c_int64, (c32,)),
        ("left", c64, (c32,)),
        ("pool", None, (c32, flag, c64)),
        ("starving", ctypes.c_int, (c64,)),
        ("epoch_idle", c64, ()),
        ("tree", ctypes.c_int, (ctypes.POINTER(ctypes.c_int), c32)),
    ):
        function = lib[f"shim_{name}"]
        function.restype, function.argtypes = result, args
        setattr(lib, name, function)
    return lib


@pytest.fixture(scope="session")
def ek_sim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ek-sim under the sanitizers."""
    out = tmp_path_factory.mktemp("sim") / "ek-sim"
    subprocess.run(
        [SIM / "build", out, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"], check=True
    )
    return out


def run(
    ek_sim: Path,
    device: str,
    *jobs: str,
    light: bool = False,
    settle: float = 5,
    seconds: float = 5,
    seed: int = 1,
) -> dict[str, Any]:
    args = [
        ek_sim,
        "--json",
        "--settle",
        str(settle),
        "--window",
        str(seconds),
        "--seed",
        str(seed),
        *(["--light"] if light else []),
    ]
    args += [device, *jobs]
    result: dict[str, Any] = json.loads(subprocess.run(args, check=True, capture_output=True).stdout)
    return result


def means(ek_sim: Path, device: str, *jobs: str, settle: float = 5, seconds: float = 5) -> list[float]:
    """The ratio of each job, as the mean of eight seeds."""
    ratios = [
        run(ek_sim, device, *jobs, settle=settle, seconds=seconds, seed=seed)["core"]["ratio"]
        for seed in range(1, 9)
    ]
    return [fmean(job) for job in zip(*ratios, strict=True)]


LINK = "pipe:link_read_mbps=50,link_write_mbps=50,cmd_us=100,cmd_write_us=100"
# a device that serves 64 commands at a time, each in 5 ms
PARALLEL = "station:depth=256,servers=64,max_kb=128,cmd_r_ns=5000000,cmd_w_ns=5000000"


@given(values=st.lists(st.integers(0, 255), max_size=200))
def test_the_tree_of_user_space_keeps_its_order(core: ctypes.CDLL, values: list[int]) -> None:
    assert core.tree((ctypes.c_int * len(values))(*values), len(values)) == 0


@given(todo=st.lists(st.tuples(st.sampled_from("iswcqrm"), st.integers(0, GROUPS - 1)), max_size=200))
def test_no_request_is_lost_or_counted_twice(core: ctypes.CDLL, todo: list[tuple[str, int]]) -> None:
    """After any sequence of steps, once all requests are served, all counts are 0 and all lists are empty.

    A step is a letter: i insert, w wait for a tag, r admit, m merge, s serve, c complete, q requeue.
    """
    core.core(64, GROUPS, 300)
    queued, inside, waiting, now = [0] * GROUPS, [0] * GROUPS, [0] * GROUPS, 0
    for what, g in todo:
        now += 3 * MS
        if what == "i":
            core.insert(g, g % 2, 4096 << g, False, now)
            queued[g] += 1
        elif what == "w":
            core.arrive(g, now)
            waiting[g] += 1
        elif what == "r" and (admitted := core.admit(64, now)) >= 0:
            core.insert(admitted, admitted % 2, 4096 << admitted, False, now)
            waiting[admitted] -= 1
            queued[admitted] += 1
        elif what == "m" and queued[g]:
            core.remove(g, g % 2, 4096 << g)
            queued[g] -= 1
        elif what == "s" and (served := core.serve(g % 2, 4096 << g, False, now)) >= 0:
            assert queued[served], "a group without requests was picked"
            queued[served] -= 1
            inside[served] += 1
        elif what in "cq" and inside[g]:
            core.complete(g, what == "q", now)
            inside[g] -= 1
            if what == "q":
                core.insert(g, g % 2, 4096 << g, False, now)
                queued[g] += 1
    while any(queued) or any(inside) or any(waiting):
        now += 3 * MS
        if (admitted := core.admit(64, now)) >= 0:
            core.insert(admitted, 0, 4096, False, now)
            waiting[admitted] -= 1
            queued[admitted] += 1
        if (served := core.serve(0, 4096, False, now)) >= 0:
            queued[served] -= 1
            inside[served] += 1
        for g in range(GROUPS):
            while inside[g]:
                core.complete(g, False, now)
                inside[g] -= 1
        assert now < 1000 * SECOND, "requests wait and are never served"
    for g in range(GROUPS):
        core.exit(g)
    assert core.left(GROUPS) == 0


class Queue:
    """The caller of the core, as src/blk is: it keeps the requests and tells the core of each step.

    The methods assert that the core picks only groups that have a request, admits only groups that have a
    submitter, and sends no request at once while a request is queued or a submitter waits or was admitted.
    check() asserts that each group is in the trees and lists where its state says it must be (shim_misplaced()),
    and that the allowance of a light group is within its limit.
    """

    def __init__(self, core: ctypes.CDLL, groups: int, tags: int) -> None:
        core.core(tags, groups, 300)
        self.core, self.groups, self.tags, self.now = core, range(groups), tags, 0
        self.queued: list[list[Request]] = [[] for _ in self.groups]
        self.waiting, self.admitted = [0] * groups, [0] * groups
        self.inside: list[tuple[int, Request]] = []

    def check(self) -> None:
        for g in self.groups:
            assert not (rule := self.core.misplaced(g)), f"group {g} breaks rule {rule} of shim_misplaced()"
            if self.core.light(g):
                assert self.core.pass_left(g) <= self.core.pass_most(), "at most a quarter of a turn"

    def held(self) -> int:
        return sum(map(len, self.queued)) + sum(self.admitted) + len(self.inside)

    def insert(self, g: int, op: int, size: int, urgent: bool = False) -> None:
        self.core.insert(g, op, size, urgent, self.now)
        self.admitted[g] -= self.admitted[g] > 0
        self.queued[g].append((op, size, urgent))

    def submit(self, g: int, op: int, size: int, urgent: bool = False) -> None:
        """Submit a request without admission. It goes at once if the core allows it, otherwise it is queued."""
        busy = any(self.queued) or any(self.waiting) or any(self.admitted)
        if self.has_room(g) and not urgent and self.core.quick(g, op, size, self.now):
            assert not busy, "a request overtook a queued request or a waiting submitter"
            self.inside.append((g, (op, size, False)))
        else:
            self.insert(g, op, size, urgent)

    def has_room(self, g: int) -> bool:
        """Whether the shim can hold one more request of group g: it has room for 64 in the device."""
        return sum(owner == g for owner, _ in self.inside) < 60

    def arrive(self, g: int) -> None:
        self.core.arrive(g, self.now)
        self.waiting[g] += 1

    def admit(self) -> int:
        g: int = self.core.admit(max(self.tags - self.held(), 0), self.now)
        if g >= 0:
            assert self.waiting[g], "a group without a submitter was admitted"
            self.waiting[g] -= 1
            self.admitted[g] += 1
        return g

    def serve(self) -> int:
        """Dispatch a request and return -1; or, if none may go, return the time at which to ask again."""
        wake = ctypes.c_uint64()
        g = self.core.pick(self.now, ctypes.byref(wake))
        if g < 0:
            return wake.value
        assert self.queued[g], "a group without requests was picked"
        if not self.has_room(g):
            return self.now
        urgent = [request for request in self.queued[g] if request[2]]
        request = (urgent or self.queued[g])[0]
        self.queued[g].remove(request)
        self.core.dispatch(g, *request, self.now)
        self.inside.append((g, request))
        return -1

    def complete(self, requeued: bool = False) -> None:
        g, request = self.inside.pop(0)
        self.core.complete(g, requeued, self.now)
        if requeued:
            self.insert(g, *request)

    def drain(self) -> None:
        """Without further submissions, all requests must be served, however long the core holds dispatch."""
        end = self.now + 1000 * SECOND
        while any(self.queued) or any(self.waiting) or any(self.admitted) or self.inside:
            for g in self.groups:
                if self.admitted[g]:
                    self.insert(g, READ, 4096)
            while self.admit() >= 0:
                pass
            while (wake := self.serve()) < 0:
                self.check()
            if self.inside:
                self.now += MS
                self.complete()
            else:
                # advance to the next event; blk/queue.c asks again after 100 ms in any case
                self.now = min(max(wake, self.now + 1), self.now + 100 * MS)
            self.check()
            assert self.now < end, f"never served: requests {self.queued}, submitters {self.waiting}"


Request = tuple[int, int, bool]
# the event; the number of the group; the size of the request in bytes; the ns that pass before it
Step = tuple[str, int, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "insert", "urgent", "arrive", "admit", "come", "depart", "ungrant",
                         "merge", "promote", "serve", "serve", "complete", "complete", "requeue", "weight", "exit"]),
        st.integers(0, 19),
        st.sampled_from([512, 4096, 65536, 1 << 20]),
        st.sampled_from([0, 0, 10 * US, 200 * US, 3 * MS, 30 * MS, 300 * MS, 1500 * MS]),
    ),
    max_size=300,
)  # fmt: skip


def take(queue: Queue, what: str, g: int, size: int) -> None:
    """Take one step of a random sequence. A step that is impossible now does nothing."""
    core, idle = queue.core, not any(g == owner for owner, _ in queue.inside)
    if what in ("submit", "urgent"):
        queue.submit(g, g % 2, size, what == "urgent")
    elif what == "insert":
        queue.insert(g, g % 3, size)
    elif what == "arrive":
        queue.arrive(g)
    elif what == "admit":
        queue.admit()
    elif what == "come" and queue.admitted[g]:
        queue.insert(g, g % 2, size)
    elif what == "depart" and queue.waiting[g]:
        core.depart(g)
        queue.waiting[g] -= 1
    elif what == "ungrant":
        core.ungrant(g)
        queue.admitted[g] = 0
    elif what == "merge" and queue.queued[g] and not queue.queued[g][-1][2]:
        core.remove(g, *queue.queued[g].pop()[:2])
    elif what == "promote" and queue.queued[g] and not queue.queued[g][0][2]:
        queue.queued[g][0] = (*queue.queued[g][0][:2], True)
        core.promote(g)
    elif what == "serve":
        queue.serve()
    elif what in ("complete", "requeue") and queue.inside:
        queue.complete(what == "requeue")
    elif what == "weight":
        core.set_weight(g, min(size // 512, 10_000))
    elif what == "exit" and idle and not (queue.queued[g] or queue.waiting[g]):
        core.exit(g)
        queue.admitted[g] = 0


@given(groups=st.integers(1, 20), tags=st.sampled_from([2, 8, 64, 256]), rested=st.booleans(), todo=steps)
def test_every_sequence_of_events_drains(
    core: ctypes.CDLL, groups: int, tags: int, rested: bool, todo: list[Step]
) -> None:
    """After any sequence of events, all requests can be served, and nothing is left in the core.

    `rested`: before the sequence, the costs of all groups are known and all groups paused. So they are light.
    """
    queue = Queue(core, groups, tags)
    if rested:
        for g in range(groups):
            core.set_rate(g, 10)
            queue.insert(g, READ, 4096)
        queue.drain()
        queue.now += SECOND
    for what, g, size, later in todo:
        queue.now += later
        take(queue, what, g % groups, size)
        queue.check()
    queue.drain()
    for g in range(groups):
        core.exit(g)
    assert core.left(groups) == 0


def test_completions_between_two_picks_release_a_group_once(core: ctypes.CDLL) -> None:
    """Urgent requests may exceed a group's limit. So after a completion the group may still be at its limit.

    Then a second completion must not add the group to the list of released groups again.
    """
    queue = Queue(core, 1, 64)
    for _ in range(4):
        queue.insert(0, READ, 4096, True)
    for _ in range(4):
        assert queue.serve() < 0
    queue.complete()
    queue.insert(0, READ, 4096)
    queue.complete()
    queue.check()
    queue.drain()


def test_nothing_goes_at_once_while_anything_waits(core: ctypes.CDLL) -> None:
    queue = Queue(core, 2, 64)
    queue.insert(0, READ, 4096)
    assert queue.serve() < 0
    queue.now = MS
    queue.complete()
    assert core.quick(0, READ, 4096, queue.now), "the device is idle and nothing waits"
    queue.inside.append((0, (READ, 4096, False)))
    queue.now += MS
    queue.complete()
    assert not core.quick(0, READ, 65536, queue.now), "the size differs from that of the last request"
    assert not core.quick(1, READ, 4096, queue.now), "the group is not active"
    queue.insert(1, READ, 4096)
    assert not core.quick(0, READ, 4096, queue.now), "a request is queued"
    assert queue.serve() < 0
    queue.complete()
    queue.arrive(1)
    assert not core.quick(0, READ, 4096, queue.now), "a submitter waits for a tag"
    assert queue.admit() == 1
    assert not core.quick(0, READ, 4096, queue.now), "a submitter has a grant"


@given(
    weight=st.sampled_from([1, 10, 100, 1000, 10_000]),
    pauses=st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=40),
    cost=st.integers(1, 2000),
)
def test_tokens_to_pass_are_a_quarter_of_a_turn_and_a_part_of_the_share(
    core: ctypes.CDLL, weight: int, pauses: list[int], cost: int
) -> None:
    """Group 0 pauses again and again. Its allowance grows by a part of its share of the time, up to a quarter turn."""
    queue = Queue(core, 2, 64)
    core.set_weight(0, weight)
    for g in (0, 1):
        core.set_rate(g, cost)
        queue.insert(g, READ, 4096)
    queue.drain()
    refilled = 0
    for pause in pauses:
        queue.insert(1, READ, 4096)
        queue.now += pause
        before = core.pass_left(0)
        queue.insert(0, READ, 4096)
        after = core.pass_left(0)
        assert after <= core.pass_most()
        gained = core.pass_refill() * weight * (queue.now - refilled) // (100 * (weight + 100))
        # the allowance is never below minus two turns, which are 8 times its largest value
        assert after <= max(before, -8 * core.pass_most()) + gained + US
        refilled = queue.now
        queue.drain()


def test_a_light_group_that_pauses_regularly_stays_apart(core: ctypes.CDLL) -> None:
    """Others slow it down, so its pauses are short beside the time it is busy. They are pauses all the same."""
    queue = Queue(core, 2, 64)
    for g in (0, 1):
        core.set_rate(g, 10)
        queue.insert(g, READ, 4096)
    queue.drain()
    for _ in range(12):
        queue.now += 4 * MS
        queue.insert(0, READ, 4096)
        assert core.apart(0)
        queue.now += 20 * MS
        while queue.serve() >= 0:
            pass
        queue.complete()


def test_cost_is_alone_time_per_byte_and_other_operations_cost_what_they_took(core: ctypes.CDLL) -> None:
    core.core(64, 2, 100)
    core.set_rate(0, 50)
    assert core.cost(0, READ, 4096) == 50 * 4096
    core.insert(0, ERASE, 1 << 20, False, 0)
    assert core.serve(ERASE, 1 << 20, False, 0) == 0
    core.complete(0, False, 30 * MS)
    assert core.cost(0, ERASE, 4096) == 30 * MS, "the next discard is expected to take as long"
    # a flush bypasses the queue; it is charged the time since the last completion (30 to 45 ms)
    debt = core.debt(0)
    core.charge(0, 10 * MS, 45 * MS)
    assert core.debt(0) - debt == 15 * MS


def test_a_requeued_request_is_not_charged_twice(core: ctypes.CDLL) -> None:
    core.core(64, 2, 100)
    core.set_rate(0, 50)
    core.insert(0, READ, 4096, False, 0)
    assert core.serve(READ, 4096, False, 0) == 0
    core.complete(0, True, MS)
    assert core.debt(0) == -50 * 4096


@pytest.mark.parametrize("alone", [1010, 1030, 1050, 1070])
def test_a_new_group_does_not_wait_for_the_end_of_a_turn(core: ctypes.CDLL, alone: int) -> None:
    """Group 0 writes alone. Group 1 sends its first request, and is served after what is in the device."""
    queue = Queue(core, 2, 64)
    for _ in range(alone):
        while len(queue.queued[0]) < 8:
            queue.insert(0, WRITE, 1 << 17)
        while queue.serve() < 0:
            pass
        queue.now += MS
        queue.complete()
    inside = len(queue.inside)
    queue.insert(1, READ, 4096)
    for waited in range(100):
        while queue.serve() < 0:
            if queue.inside[-1][0] == 1:
                assert waited <= inside + 1, f"{waited} ms, with {inside} requests of 1 ms in the device"
                return
        queue.now += MS
        queue.complete()
        queue.insert(0, WRITE, 1 << 17)
    pytest.fail("it waits for 100 ms")


def test_a_refund_that_exceeds_a_charge_is_left_for_the_next_one(core: ctypes.CDLL) -> None:
    core.core(64, 2, 100)
    core.set_rate(0, 50)
    core.insert(0, READ, 65536, False, 0)
    assert core.serve(READ, 65536, False, 0) == 0
    refund = core.cost(0, READ, 65536)
    core.complete(0, True, MS)
    core.insert(0, READ, 4096, False, 2 * MS)
    before = core.vtime(0)
    assert core.serve(READ, 4096, False, 2 * MS) == 0
    assert core.vtime(0) == before, "nothing is charged while the refund lasts"
    assert core.debt(0) == core.cost(0, READ, 4096) - refund


def test_a_group_that_joins_or_leaves_a_pool_is_charged_accordingly_at_once(core: ctypes.CDLL) -> None:
    core.core(64, 2, 100)
    core.insert(0, READ, 4096, False, 0)
    core.set_rate(0, 50)
    assert core.cost(0, READ, 4096) == 50 * 4096
    core.pool(0, True, 60)
    assert core.cost(0, READ, 4096) == 60 * 4096
    core.pool(0, False, 60)
    assert core.cost(0, READ, 4096) == 50 * 4096


def test_a_group_that_passes_by_the_guess_of_its_cost_does_not_have_to_be_measured(core: ctypes.CDLL) -> None:
    """Urgent requests go before the first turn of their group, so its cost is guessed. Then the group is light."""
    queue = Queue(core, 2, 64)
    for _ in range(8):
        queue.insert(0, READ, 1 << 19)
    for _ in range(4):
        queue.now += 300 * MS
        queue.insert(1, READ, 4096, urgent=True)
        queue.check()
        while queue.serve() < 0:
            queue.check()
        queue.now += MS
        while queue.inside:
            queue.complete()
    queue.insert(1, READ, 4096)
    assert core.light(1)
    queue.check()


def test_light_weights_that_wait_first_hide_no_group_that_starves(core: ctypes.CDLL) -> None:
    """Groups 0 to 5 have a weight of 1 and wait for longer than group 6, as their weights imply. Group 6 starves."""
    core.core(64, 8, 10_000)
    for g in range(8):
        core.set_weight(g, 10_000 if g > 5 else 1)
        core.set_rate(g, 50)
        core.insert(g, READ, 1 << 20 if g <= 5 else 4096, False, g)
    assert core.starving(SECOND) == -1, "no group waits for long"
    assert 6 in {core.starving(3 * SECOND) for _ in range(2)}


def test_time_in_which_nobody_has_a_request_is_no_part_of_an_epoch(core: ctypes.CDLL) -> None:
    queue = Queue(core, 2, 64)
    queue.insert(0, READ, 4096)
    assert queue.serve() < 0
    queue.now = 10 * MS
    queue.complete()
    idle = core.epoch_idle()
    queue.now = 15 * MS
    queue.insert(0, READ, 65536)
    queue.insert(0, READ, 65536)
    assert core.epoch_idle() - idle == 5 * MS
    assert queue.serve() < 0
    idle = core.epoch_idle()
    queue.now = 20 * MS
    queue.insert(1, READ, 65536)
    assert core.epoch_idle() == idle, "the device was busy"


@given(
    loads=st.lists(st.integers(1, 30), min_size=2, max_size=GROUPS), tags=st.sampled_from([8, 16, 64, 256])
)
def test_the_gate_bounds_what_a_group_queues_and_leaves_half_to_the_owner(
    core: ctypes.CDLL, loads: list[int], tags: int
) -> None:
    core.core(tags, GROUPS, 100)
    for g, submitters in enumerate(loads):
        for _ in range(submitters):
            core.arrive(g, 0)
    held, free = [0] * GROUPS, tags
    while (g := core.admit(free, 0)) >= 0:
        core.insert(g, READ, 4096, False, 0)
        held[g] += 1
        free -= 1
    if len(loads) <= tags // 2:
        assert all(held[g] for g in range(len(loads))), "each group that waits gets a tag"
    else:
        assert max(held) == 1, "no group gets a second tag while another has none"
    assert free >= tags - tags // 2, "half of the tags is left for the owner of the turn"
    for g in range(len(loads)):
        assert held[g] <= 1 + -(-tags // (2 * len(loads))), "at most its share of half of the tags"


@pytest.mark.parametrize("tags", [4, 8, 64])
def test_a_group_that_holds_nothing_is_admitted_before_one_that_does(core: ctypes.CDLL, tags: int) -> None:
    core.core(tags, GROUPS, 10_000)
    for _ in range(tags):
        core.arrive(0, 0)
    core.arrive(1, 0)
    first = core.admit(tags, 0)
    core.insert(first, READ, 4096, False, 0)
    assert {first, core.admit(tags - 1, 0)} == {0, 1}, "the weight of group 0 gives it no second tag yet"


def test_a_grant_that_is_void_leaves_nothing(core: ctypes.CDLL) -> None:
    core.core(64, 2, 100)
    core.arrive(0, 0)
    assert core.admit(64, 0) == 0
    core.ungrant(0)
    core.exit(0)
    assert core.left(2) == 0


class Device:
    """A device that serves one request at a time. Each group always has eight requests queued or in the device.

    `takes` is the time of a request in ns, and `sizes` its size in bytes, by group.
    """

    def __init__(self, core: ctypes.CDLL, takes: list[int], sizes: list[int]) -> None:
        self.core, self.takes, self.sizes = core, takes, sizes
        self.now, self.busy, self.inside = 0, [0] * len(takes), list[int]()
        for g in range(len(takes)):
            for _ in range(8):
                core.insert(g, READ, sizes[g], False, 0)

    def run(self, seconds: float) -> list[float]:
        """Run the device for `seconds`. Returns the part of the device's time that each group had."""
        end, self.busy = self.now + int(seconds * SECOND), [0] * len(self.takes)
        while self.now < end:
            while (g := self.core.serve(READ, self.sizes[0], False, self.now)) >= 0:
                self.inside.append(g)
            if not self.inside:
                self.now += MS
                continue
            g = self.inside.pop(0)
            self.now += self.takes[g]
            self.busy[g] += self.takes[g]
            self.core.complete(g, False, self.now)
            self.core.insert(g, READ, self.sizes[g], False, self.now)
        return [busy / sum(self.busy) for busy in self.busy]


def test_turns_share_time_before_any_cost_is_known_and_learn_it(core: ctypes.CDLL) -> None:
    core.core(64, 2, 300)
    device = Device(core, [5 * MS, MS // 5], [65536, 65536])
    device.run(1)
    first, _ = device.run(4)
    assert 0.72 <= first <= 0.78
    for g in (0, 1):
        assert core.rate(g) / 65536 == pytest.approx(device.takes[g] / 65536, rel=0.02), "ns per byte"


@pytest.mark.parametrize("factor", [0.4, 3])
def test_costs_follow_a_device_that_changes_within_two_seconds(core: ctypes.CDLL, factor: float) -> None:
    core.core(64, 2, 100)
    device = Device(core, [MS, MS], [65536, 65536])
    device.run(3)
    device.takes = [int(takes * factor) for takes in device.takes]
    device.run(2)
    for g in (0, 1):
        assert core.rate(g) / 65536 == pytest.approx(device.takes[g] / 65536, rel=0.05), "ns per byte"


def test_urgent_requests_go_at_once_until_their_group_is_in_debt(core: ctypes.CDLL) -> None:
    core.core(256, 2, 1)
    for g in (0, 1):
        core.set_rate(g, 2440)  # 10 ms for 4 KiB
    core.insert(1, READ, 4096, False, 0)
    core.insert(1, READ, 4096, False, 0)
    out_of_turn = 0
    for i in range(300):
        now = i * 10 * MS
        core.insert(0, READ, 4096, True, now)
        core.insert(1, READ, 4096, False, now)
        served = core.serve(READ, 4096, True, now)
        if i == 0:
            assert served == 0, "the first urgent request goes at once"
        if served >= 0:
            out_of_turn += served == 0
            core.complete(served, False, now + 10 * MS)
    # In 3 s, the device serves 300 requests. Group 0 gets at most 3 by its share of 1/101, 15 by the guard's 5 %,
    # 20 by the lead of 200 ms that urgent requests may have, and 5 by the tokens kept for a second. 3 are slack.
    assert out_of_turn <= 3 + 15 + 20 + 5 + 3


def test_two_groups_share_a_link_by_weight_whatever_their_requests(ek_sim: Path) -> None:
    # A shorter window would be too coarse: one turn of the writer is 5 % of what the writer gets in 5 s.
    seen = run(ek_sim, LINK, "weight=300,r,bs=4k,qd=8", "weight=100,w,bs=8m,qd=4", seconds=20)
    assert seen["core"]["least"] >= 0.985
    assert seen["none"]["least"] < 0.5, "without a scheduler, weights fail in this case"


@pytest.mark.parametrize(
    ("device", "job"),
    [
        ("emmc50-slow", "w,seq,bs=8m,qd=1,think=1100"),
        ("emmc50-slow", "w,bs=512k,qd=4"),
        ("sd-uhs3", "w,seq,bs=8m,qd=1,think=1100"),
        ("emmc51:gc_after_kb=1", "w,seq,bs=2m,qd=1"),
    ],
)
def test_equal_writers_have_their_shares_soon_on_flash_that_collects_garbage(
    ek_sim: Path, device: str, job: str
) -> None:
    """From 2 s after the start on. Writers with the weights 2:1 had 1.4 to 3.1 on the slow eMMC: it stands still for 0.1 s now
    and then, so the first turns cost one writer far more than the other.
    """
    seen = []
    for seed in range(1, 25):
        varied = f"{device}{',' if ':' in device else ':'}seed={seed}"
        found = run(ek_sim, varied, f"weight=200,{job}", f"weight=100,{job}", settle=2, seconds=18)
        a, b = found["core"]["ratio"]
        seen.append(2 * a / b)
    assert min(seen) >= 1.86, seen
    assert max(seen) <= 2.14, seen
    assert fmean(seen) == pytest.approx(2, rel=0.02), seen


def test_a_device_that_becomes_slow_is_not_taken_for_one_that_stands_still(ek_sim: Path) -> None:
    """Its buffer takes the first writes in 3 ms. Then each takes 32 ms, which is far longer, but no standstill.

    If it counted as one, the writer would be charged next to nothing: the reader had 5 % of its share.
    """
    device = "emmc50-slow:t_prog_us=4000,gc_after_kb=0"
    seen = run(ek_sim, device, "w,bs=512k,qd=4", "r,bs=16k,qd=4", settle=3, seconds=15)
    assert seen["core"]["least"] >= 0.3


@pytest.mark.parametrize("device", ["emmc51", "emmc51:gc_after_kb=1"], ids=["in-use", "worn"])
def test_a_writer_goes_on_while_reads_wait_for_garbage_collection(ek_sim: Path, device: str) -> None:
    """The dies collect at different times, so reads often wait for one of them. The writer lost a fifth of its share."""
    jobs = ["weight=300,r,bs=16k,qd=8", "weight=200,r,seq,bs=4m,qd=2", "weight=100,w,seq,bs=1m,qd=4"]
    seen = [run(ek_sim, device, *jobs, settle=8, seconds=20, seed=seed)["core"] for seed in range(1, 7)]
    assert fmean(one["least"] for one in seen) >= 0.86, seen
    assert fmean(one["sum"] for one in seen) >= 0.97, seen
    assert max(one["wait"] for one in seen) <= 1, seen


def test_groups_are_not_served_together_by_a_rate_that_is_still_wrong(ek_sim: Path) -> None:
    """In the first turns of the reader, the device mostly collects garbage, so its rate seems to be half of the true one. The
    groups were then served together by this rate for half a minute, and the reader had 0.38 to 0.47 of its share in half of
    the runs.
    """
    jobs = ("r,bs=16k,qd=4", "w,seq,bs=512k,qd=8")
    seen = [
        run(ek_sim, f"emmc50-slow:gc_after_kb=1,seed={seed}", *jobs, settle=6, seconds=10, seed=seed)["core"][
            "least"
        ]
        for seed in range(1, 9)
    ]
    assert fmean(seen) >= 0.85, seen
    assert min(seen) >= 0.7, seen


@pytest.mark.parametrize(
    ("device", "jobs"),
    [
        ("emmc51:gc_after_kb=1,gc_valid_pct=83", ("r,bs=16k,qd=4", "w,seq,bs=512k,qd=8")),
        ("emmc51:gc_after_kb=1,gc_valid_pct=83", ("r,bs=64k,qd=4", "weight=300,w,seq,bs=1m,qd=4")),
        ("emmc51:gc_after_kb=1,gc_valid_pct=83", ("weight=300,r,seq,bs=1m,qd=2", "w,seq,bs=1m,qd=4")),
        ("sd-uhs3:gc_after_kb=1,gc_valid_pct=40", ("weight=300,r,seq,bs=1m,qd=2", "w,seq,bs=1m,qd=4")),
    ],
    ids=["alike", "more-writes", "more-reads", "card"],
)
def test_writes_pay_for_the_garbage_collection_that_they_cause(
    ek_sim: Path, device: str, jobs: tuple[str, ...]
) -> None:
    """On the eMMC, a write costs five times as much later as it takes at once. If writers pay only a part of that, readers have
    0.44 to 0.78 of their share. On the card, writers paid too much, and had 0.74 to 0.82.
    """
    seen = [
        run(ek_sim, f"{device},seed={seed}", *jobs, settle=10, seconds=20, seed=seed)["core"]["least"]
        for seed in range(1, 5)
    ]
    assert fmean(seen) >= 0.87, seen
    assert min(seen) >= 0.8, seen


@pytest.mark.parametrize(("size", "hidden"), [(4096, 10 * MS), (1 << 20, 40 * MS)], ids=["few", "many"])
def test_hidden_time_of_few_writes_is_forgotten(core: ctypes.CDLL, size: int, hidden: int) -> None:
    """Four writes in a second, for seven minutes. Reads are never known exactly, so some hidden time always shows.

    Without this, a large write cost 0.1 s more after a few minutes of small writes, and more with every minute.
    """
    queue = Queue(core, 2, 64)
    for second in range(400):
        core.hidden_saw(hidden)
        for quarter in range(4):
            queue.now = second * SECOND + quarter * SECOND // 4
            queue.insert(0, WRITE, size)
            while queue.serve() < 0:
                pass
            queue.now += 10 * MS
            while queue.inside:
                queue.complete()
    mean = core.hidden_cost(1 << 20)
    if size == 1 << 20:
        assert mean == pytest.approx(hidden / 4, rel=0.1)
    else:
        # 16 s with 10 ms each, over the 15 MB with which the mean begins
        assert mean < 12 * MS


class Stalled:
    """Group 0 reads and group 1 writes, each with eight requests. While `still`, the device completes nothing of group 0."""

    def __init__(self, core: ctypes.CDLL) -> None:
        self.queue, self.still = Queue(core, 2, 64), False
        self.sent = [0, 0]

    def run(self, ms: int, *, write: int = WRITE) -> list[int]:
        """The number of requests of each group that were sent. A read takes 1 ms, a write 2 ms, one at a time."""
        queue, end = self.queue, self.queue.now + ms * MS
        self.sent = [0, 0]
        while queue.now < end:
            for g, op in enumerate((READ, write)):
                while len(queue.queued[g]) < 8:
                    queue.insert(g, op, 1 << 18)
            before = len(queue.inside)
            while queue.serve() < 0:
                pass
            for g, _ in queue.inside[before:]:
                self.sent[g] += 1
            waits = [i for i, (g, _) in enumerate(queue.inside) if g or not self.still]
            if not waits:
                queue.now += MS
                continue
            queue.inside.insert(0, queue.inside.pop(waits[0]))
            queue.now += MS * (1 + queue.inside[0][0])
            queue.complete()
        return self.sent

    def stop_in_a_turn_of_reads(self) -> None:
        while {g for g, _ in self.queue.inside} != {0}:
            self.run(1)
        self.run(20)
        self.still = {g for g, _ in self.queue.inside} == {0}
        if not self.still:
            self.stop_in_a_turn_of_reads()


def test_while_reads_wait_for_the_device_a_writer_is_served(core: ctypes.CDLL) -> None:
    device = Stalled(core)
    device.run(4_000)
    device.stop_in_a_turn_of_reads()
    reads, writes = device.run(100)
    assert reads <= 8
    assert writes >= 40, "all of the device, but for some ms"
    # The weights are 300 and 100. The writer pays for these requests, and a little more.
    device.still = False
    reads, writes = device.run(4_000)
    assert 0.75 <= reads / (reads + 2 * writes) <= 0.81


def test_a_writer_does_not_run_far_ahead_while_reads_wait(core: ctypes.CDLL) -> None:
    device = Stalled(core)
    device.run(4_000)
    device.stop_in_a_turn_of_reads()
    device.run(3_000)
    assert device.run(100)[1] <= 10, "otherwise it would have to wait for seconds"


def test_while_reads_wait_beside_reads_nothing_else_is_served(core: ctypes.CDLL) -> None:
    """Without writes, the device has no work of its own."""
    device = Stalled(core)
    device.run(4_000, write=READ)
    while {g for g, _ in device.queue.inside} != {0}:
        device.run(1, write=READ)
    device.still = True
    assert device.run(60, write=READ)[1] <= 4


def test_the_budget_grows_to_fill_a_parallel_device_and_does_not_flood_a_deep_queue(ek_sim: Path) -> None:
    parallel = run(ek_sim, PARALLEL, "r,bs=128k,qd=64", "r,bs=128k,qd=64")
    assert parallel["core"]["sum"] >= 0.97 * parallel["none"]["sum"], "a small budget must grow"
    flooded = run(ek_sim, LINK + ",depth=128", "r,bs=4k,qd=1", "w,bs=1m,qd=32")
    assert flooded["core"]["least"] >= 0.95
    # a read waits at most for a turn of the writers, not for 64 queued requests of 512 KiB (10 ms each)
    assert flooded["core"]["p99"][0] < flooded["none"]["p99"][0] / 2


def test_nested_groups_divide_their_parents_share(ek_sim: Path) -> None:
    seen = run(
        ek_sim, LINK, "weight=300,r,bs=64k,qd=8,in=1/100", "weight=100,r,bs=64k,qd=8,in=1/100", "r,bs=1m,qd=4"
    )
    assert seen["core"]["least"] >= 0.95


def test_a_light_reader_waits_for_two_requests_at_most(ek_sim: Path) -> None:
    seen = run(ek_sim, LINK, "w,bs=8m,qd=4", "r,bs=1m,qd=8", light=True)
    assert seen["light"]["p99"] <= seen["light"]["bound"] < seen["light"]["none"]


def test_urgent_requests_by_the_thousand_do_not_take_more_than_their_share(ek_sim: Path) -> None:
    seen = run(ek_sim, LINK, "weight=10,r,bs=4k,qd=32,urgent", "weight=1000,r,bs=64k,qd=8")
    # group 1 loses at most the 5 % of the device that the guard may take, and 2 % of tolerance
    assert seen["core"]["ratio"][1] >= 0.93


def test_few_tags_and_many_groups_do_not_stop_the_device(ek_sim: Path) -> None:
    for device in (
        "pipe:depth=1,link_read_mbps=50,link_write_mbps=50",
        "pipe:depth=2,link_read_mbps=50,link_write_mbps=50",
    ):
        seen = run(ek_sim, device, "5*r,bs=64k,qd=8", "3*w,bs=1m,qd=2")
        assert seen["core"]["sum"] >= 0.95 * seen["none"]["sum"]
        assert seen["core"]["least"] >= 0.85


SLOW_LINK = "pipe:link_read_mbps=10"


@pytest.mark.parametrize(("heavy", "light", "many"), [(120, 10, 12), (600, 10, 60)])
def test_a_heavy_group_is_served_between_many_light_ones(
    ek_sim: Path, heavy: int, light: int, many: int
) -> None:
    """By virtual time alone, the heavy group would wait until all light groups were served: 3 s for 60 of them."""
    seen = run(
        ek_sim, SLOW_LINK, f"weight={heavy},r,seq,bs=512k,qd=1", f"{many}*weight={light},r,seq,bs=512k,qd=1"
    )["core"]
    assert seen["least"] >= 0.95
    assert seen["longest"][0] < 2e9, "ns"
    assert seen["wait"] <= 1


def test_many_groups_learn_from_each_other(ek_sim: Path) -> None:
    """A first turn for each of 60 groups would take 15 s, and shares would be equal until then."""
    seen = run(
        ek_sim, SLOW_LINK, "weight=600,r,seq,bs=512k,qd=1", "60*weight=10,r,seq,bs=512k,qd=1", settle=2,
        seconds=2,
    )["core"]  # fmt: skip
    assert seen["ratio"][0] >= 0.9


@pytest.mark.parametrize("pause", [0, 500, 3000, 10000])
@pytest.mark.parametrize(
    ("device", "op"), [("emmc51:gc_after_kb=1", "w"), ("pipe", "r")], ids=["collects-garbage", "link"]
)
def test_a_short_pause_costs_no_share(ek_sim: Path, device: str, op: str, pause: int) -> None:
    """A group that pauses between two I/Os of 100 MB keeps its share, even if it becomes inactive (pause in us)."""
    jobs = [f"weight={w},{op},seq,bs=100m,qd=1,think={pause}" for w in (200, 100)]
    got = run(ek_sim, device, *jobs, settle=10, seconds=40)["core"]["ratio"]
    assert 1.9 <= 2 * got[0] / got[1] <= 2.1


PAUSES = {
    # device, direction, size, pause in us: 2 to 20 % of the time that the I/O takes alone
    "a-small-write": ("emmc51:gc_after_kb=1", "w", "4m", 4000),
    "a-write": ("emmc51", "w", "8m", 5000),
    "a-write-beside-collection": ("emmc51:gc_after_kb=1", "w", "8m", 3000),
    "a-read-from-a-card": ("sd-uhs3", "r", "4m", 5000),
    "a-long-pause": ("emmc51", "r", "100m", 40000),
    "a-slow-link": (SLOW_LINK, "r", "4m", 20000),
}


@pytest.mark.parametrize("case", PAUSES)
def test_the_device_waits_for_a_group_that_pauses_regularly(ek_sim: Path, case: str) -> None:
    """Otherwise the groups would take turns, one I/O each, and shares would be equal."""
    device, op, size, pause = PAUSES[case]
    jobs = [f"weight={w},{op},seq,bs={size},qd=1,think={pause}" for w in (200, 100)]
    got = run(ek_sim, device, *jobs, settle=10, seconds=40)["core"]["ratio"]
    assert min(got) >= 0.97
    assert 1.85 <= 2 * got[0] / got[1] <= 2.1


@pytest.mark.parametrize(
    ("device", "pausing", "steady"),
    [
        ("pipe:link_read_mbps=200,link_write_mbps=100,cmd_us=500", "r,seq,bs=8m,qd=1,think=2496", "w,bs=1m,qd=16"),
        ("emmc51:gc_after_kb=1", "r,seq,bs=100m,qd=1,think=10000", "w,bs=1m,qd=16"),
        ("sata-mlc-8ch", "r,seq,bs=32m,qd=1,think=3000", "r,bs=128k,qd=16"),
    ],
)  # fmt: skip
def test_a_group_pays_for_the_time_that_the_device_waits_for_it(
    ek_sim: Path, device: str, pausing: str, steady: str
) -> None:
    # Garbage collection makes the figures of one seed a matter of chance.
    without = means(
        ek_sim, device, f"weight=200,{pausing.partition(',think')[0]}", steady, settle=10, seconds=40
    )
    got = means(ek_sim, device, f"weight=200,{pausing}", steady, settle=10, seconds=40)
    assert got[0] >= 0.97, "the device waits"
    assert got[1] >= min(0.95, 0.95 * without[1]), "the other group does not pay for it"


def test_the_owner_of_a_turn_finds_tags(ek_sim: Path) -> None:
    """With 8 tags and 30 groups: requests that other groups have queued leave half of the tags to the owner."""
    device = "station:depth=4,servers=4,max_kb=128,cmd_r_ns=17000,kb_r_ns=2650,link_r_ns=1077"
    seen = run(ek_sim, device, "15*r,bs=1m,qd=4", "8*weight=50,r,bs=8k,qd=16", "7*weight=300,r,bs=64k,qd=4")
    assert seen["core"]["sum"] >= 0.95
    assert seen["core"]["least"] >= 0.85


def test_a_group_that_only_discards_is_served(core: ctypes.CDLL) -> None:
    """Discards have no size from which the core could compute a cost or a limit."""
    erase = 3  # EK_OP_ERASE
    core.core(64, 2, 100)
    served = [0, 0]
    for i in range(3000):
        now = i * 10 * MS
        core.insert(0, erase, 1 << 20, False, now)
        core.insert(1, erase, 1 << 20, False, now)
        for _ in range(1):
            g = core.serve(erase, 1 << 20, False, now)
            if g >= 0:
                served[g] += 1
                core.complete(g, False, now + 5 * MS)
    assert min(served) > 50


def test_what_urgent_requests_hold_of_the_tags_is_served_as_debt(core: ctypes.CDLL) -> None:
    """Urgent requests bypass the gate, so they may hold most tags. Serving them costs no more than the guard allows."""
    core.core(32, 2, 1)
    for g in (0, 1):
        core.set_rate(g, 2440)  # 10 ms for 4 KiB
    out_of_turn = 0
    for i in range(300):
        now = i * 10 * MS
        if i < 31:
            core.insert(0, READ, 4096, True, now)
        core.insert(1, READ, 4096, False, now)
        core.arrive(1, now)
        served = core.serve(READ, 4096, i < 31, now)
        if served >= 0:
            out_of_turn += served == 0
            core.complete(served, False, now + 10 * MS)
    assert out_of_turn <= 3 + 15 + 20 + 5 + 3


def test_the_simulator_sends_a_request_at_once_to_an_idle_device_as_the_module_does(ek_sim: Path) -> None:
    seen = run(ek_sim, LINK, "r,bs=4k,qd=1,think=1000")["core"]
    assert seen["quick"] > 1000, seen


def test_the_device_does_not_run_empty_when_the_owner_of_a_turn_ends_an_io(core: ctypes.CDLL) -> None:
    """Group 0 reads 35 MB, for one turn and a half. Before its last request completes, group 1 sends one."""
    queue = Queue(core, 2, 64)
    for g, requests in ((0, 70), (1, 200)):
        core.set_rate(g, 4)
        for _ in range(requests):
            queue.insert(g, READ, 1 << 19)
    served = []
    while served.count(0) < 70 or any(g == 0 for g, _ in queue.inside):
        while queue.serve() < 0:
            served.append(queue.inside[-1][0])
        assert len(queue.inside) >= 2, f"after {served}"
        queue.now += 2 * MS
        queue.complete()
    assert served.count(1) >= 30, "group 1 had a turn meanwhile"


def test_urgent_writes_do_not_fill_the_device(core: ctypes.CDLL) -> None:
    """All writes of a buffered writer become urgent once they are old. A read that arrives then waits for a few only.

    Those are 3 out of turn (10 ms, and one more), and 20 ms of the writer's own turn; a write takes 4 ms.
    """
    queue = Queue(core, 2, 64)
    inside = 0
    for i in range(400):
        queue.now += MS
        while len(queue.queued[0]) < 30:
            queue.insert(0, WRITE, 1 << 19, urgent=True)
        while queue.serve() < 0:
            pass
        if i > 200:
            inside = max(inside, len(queue.inside))
        if i % 4 == 3 and queue.inside:
            queue.complete()
        if i % 50 == 0:
            queue.insert(1, READ, 4096)
    assert 1 <= inside <= 9


def test_a_group_whose_cost_was_guessed_too_high_gets_a_turn_that_measures_it(core: ctypes.CDLL) -> None:
    """Group 0 writes in bursts of urgent requests. Its first request takes ten times as long as the others.

    So its cost is guessed as ten times too high. If it had no turn, it would be charged by this guess for ever, and
    get a tenth of its share.
    """
    queue = Queue(core, 2, 64)
    busy, sleeps, first = [0, 0], 0, True
    for i in range(10_000):
        if not queue.queued[0] and all(g for g, _ in queue.inside):
            sleeps = sleeps or queue.now + 5 * MS
            if queue.now >= sleeps:
                sleeps = 0
                for _ in range(1 if i < 20 else 16):
                    queue.insert(0, WRITE, 1 << 19, urgent=True)
        while len(queue.queued[1]) < 8:
            queue.insert(1, READ, 1 << 16)
        while queue.serve() < 0:
            pass
        if queue.inside:
            g = queue.inside[0][0]
            took = MS // 2 if g else 41 * MS if first else 4 * MS
            first &= g == 1
            queue.now += took
            busy[g] += took if i > 3000 else 0
            queue.complete()
        else:
            queue.now += MS
    assert 0.3 <= busy[0] / sum(busy) <= 0.7
    assert core.rate(0) / 65536 == pytest.approx(4 * MS / (1 << 19), rel=0.2), "ns per byte"


@pytest.mark.parametrize(
    ("device", "weight", "size", "least"),
    [("emmc51", 100, 512, 0.93), ("sd-uhs3", 100, 512, 0.88), (LINK, 100, 512, 0.95), (LINK, 300, 64, 0.95)],
)
def test_a_writer_whose_requests_are_all_urgent_gets_its_share(
    ek_sim: Path, device: str, weight: int, size: int, least: float
) -> None:
    """Writeback of old pages is urgent. A reader next to it must not change what is known of either one's cost."""
    jobs = (f"weight={weight},w,bs={size}k,qd=16,urgent", "weight=100,r,rand,bs=64k,qd=8")
    assert min(means(ek_sim, device, *jobs)) >= least


def test_a_sample_of_the_search_loses_nothing(ek_sim: Path) -> None:
    """On random draws, no request is lost and no sanitizer complains. Whether the promise holds does not matter."""
    seed = random.SystemRandom().randrange(10**6)
    done = subprocess.run(
        [sys.executable, SIM / "search.py", ek_sim, "--draws", "6", "--seed", str(seed), "--shrink", "0",
         "--no-light", "--no-cases"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("seed"), done.stderr
    for kind in ("'lost'", "'error'"):
        assert kind not in done.stdout.splitlines()[-1], done.stdout


def test_no_function_of_the_core_is_longer_than_60_lines() -> None:
    for path in sorted(CORE.glob("*.c")):
        began = 0
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line == "{":
                began = number
            if line == "}":
                assert number - began < 60, f"{path.name}:{began}"


def test_the_core_uses_no_floating_point_lock_or_allocation() -> None:
    for path in CORE.glob("*.[ch]"):
        text = path.read_text()
        for word in ("double", "float ", "spin_", "mutex", "alloc(", "__int128", "sleep"):
            assert word not in text, f"{path.name}: {word}"
