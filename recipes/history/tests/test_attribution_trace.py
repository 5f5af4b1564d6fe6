# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311  (random figures need no cryptography)
"""Who slows whom agrees with a trace of each request, for simulated mixes of two to six apps.

The simulator serves requests by weighted fair queuing, up to DEPTH at a time. Its trace has the arrival, start and end of
each request. The truth is computed from the trace: at each instant, the waiting time of a request is divided equally among
the requests in the device. The estimate gets what the sampler gets: histograms of the requests that ended in each second.

The measure of disagreement is the misattributed part of the waiting time. For a mix, it is over the waiting time of all
apps; for an app, over its own.
"""

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import count

import pytest
from evenkeel_common.iostat import bucket, time_of
from evenkeel_history.attribution import attribute

SECOND = 1_000_000
AGREES = 0.1  # the target for a mix in which the apps together wait for at least CONTENDED s per second
APP_AGREES = 0.25  # for each app in such a mix that has at least 1 % of the waiting time
CONTENDED = 2
LIGHT_AGREES = 0.4  # with less waiting, the own part of an app can be far too small
Matrix = dict[tuple[str, str], float]
Trace = list[tuple[str, int, int, int]]  # app, arrival, start, end


@dataclass(frozen=True)
class App:
    """A load with REQUESTS requests at a time. After the end of a request, it pauses and sends the next one."""

    requests: int
    service_us: int  # mean
    pause_us: int = 0  # mean
    weight: int = 100
    period_us: int = 0  # if not 0, all requests are sent together at multiples of this time


def simulate(apps: dict[str, App], depth: int, seconds: int, seed: int) -> Trace:
    draw, number = random.Random(seed), count()
    events: list[
        tuple[int, int, str, tuple[int, int] | None]
    ] = []  # time, number, app, arrival and start if it ends
    waiting: dict[str, list[int]] = {name: [] for name in apps}
    served = dict.fromkeys(apps, 0.0)  # virtual time
    trace: Trace = []
    for name, app in apps.items():
        for _ in range(app.requests):
            heapq.heappush(events, (draw.randint(0, 20_000), next(number), name, None))
    inside = 0
    while events and events[0][0] < seconds * SECOND:
        now, _, name, ended = heapq.heappop(events)
        app = apps[name]
        if ended is None:
            busy = [served[each] for each in waiting if waiting[each]]
            if busy and not waiting[name]:
                served[name] = max(served[name], min(busy))
            waiting[name].append(now)
        else:
            inside -= 1
            trace.append((name, *ended, now))
            pause = int(draw.expovariate(1 / app.pause_us)) if app.pause_us else 0
            again = (now // app.period_us + 1) * app.period_us if app.period_us else now + pause
            heapq.heappush(events, (again, next(number), name, None))
        while inside < depth and any(waiting.values()):
            name = min((each for each in waiting if waiting[each]), key=lambda each: (served[each], each))
            took = max(1, int(draw.gammavariate(4, apps[name].service_us / 4)))
            served[name] += took / apps[name].weight
            heapq.heappush(events, (now + took, next(number), name, (waiting[name].pop(0), now)))
            inside += 1
    return trace


def truth(trace: Trace) -> Matrix:
    """The waiting time in µs that the service of each app really caused."""
    steps = sorted(
        step
        for app, arrival, start, end in trace
        for step in ((arrival, app, 1, 0), (start, app, -1, 1), (end, app, 0, -1))
    )
    waits: dict[str, int] = defaultdict(int)
    inside: dict[str, int] = defaultdict(int)
    result: Matrix = defaultdict(float)
    last = 0
    for at, app, wait, serve in steps:
        total = sum(inside.values())
        if at > last and total:
            for victim, waiting in waits.items():
                for cause, serving in inside.items():
                    if waiting and serving:
                        result[victim, cause] += (at - last) * waiting * serving / total
        last = at
        waits[app] += wait
        inside[app] += serve
    return result


def estimate(trace: Trace) -> Matrix:
    """The same from the histograms of each second, as the sampler computes it."""
    histograms: dict[int, dict[str, tuple[dict[int, int], dict[int, int]]]] = defaultdict(dict)
    for app, arrival, start, end in trace:
        both = histograms[end // SECOND].setdefault(app, ({}, {}))
        for histogram, us in zip(both, (start - arrival, end - start), strict=True):
            histogram[bucket(us)] = histogram.get(bucket(us), 0) + 1
    result: Matrix = defaultdict(float)
    for second in histograms.values():
        waited = {app: time_of(both[0]) for app, both in second.items()}
        served = {app: time_of(both[1]) for app, both in second.items()}
        for pair, us in attribute(waited, served, SECOND).items():
            result[pair] += us
    return result


def disagreement(true: Matrix, found: Matrix, victims: set[str]) -> float:
    """The part of the waiting time of VICTIMS that FOUND attributes to another app than TRUE."""
    wrong = total = 0.0
    for victim in victims:
        mine = {cause: us for (who, cause), us in true.items() if who == victim}
        theirs = {cause: us for (who, cause), us in found.items() if who == victim}
        amount, other = sum(mine.values()), sum(theirs.values())
        if amount <= 0 or other <= 0:
            continue
        total += amount
        # both as parts of the whole: the histograms' rounding of the whole is not a question of attribution
        causes = mine.keys() | theirs.keys()
        wrong += (
            sum(abs(mine.get(cause, 0) / amount - theirs.get(cause, 0) / other) for cause in causes)
            / 2
            * amount
        )
    return wrong / total if total else 0.0


def mix(seed: int) -> tuple[dict[str, App], int]:
    """Two to six random apps that are active all the time, and a depth of the device."""
    draw = random.Random(seed)
    apps = {
        f"app-{n}": App(
            requests=draw.choice((1, 1, 2, 4, 8, 16, 32)),
            service_us=draw.randint(300, 4000),
            pause_us=draw.choice((0, 0, 0, 2000, 10_000)),
            weight=draw.choice((50, 100, 100, 400)),
        )
        for n in range(2 + seed % 5)
    }
    return apps, draw.choice((1, 1, 2, 4, 8))


@pytest.mark.parametrize("seed", range(30))
def test_a_mix_agrees_with_its_trace(seed: int) -> None:
    apps, depth = mix(seed)
    trace = simulate(apps, depth, 5, seed)
    true, found = truth(trace), estimate(trace)
    waited = {app: sum(us for (victim, _), us in true.items() if victim == app) for app in apps}
    if sum(waited.values()) < CONTENDED * 5 * SECOND:
        assert disagreement(true, found, set(apps)) <= LIGHT_AGREES
        return
    assert disagreement(true, found, set(apps)) <= AGREES
    for app in apps:
        if waited[app] >= 0.01 * sum(waited.values()):
            assert disagreement(true, found, {app}) <= APP_AGREES, (app, apps[app], depth)


def test_the_mixes_are_contended_and_of_all_sizes() -> None:
    """Otherwise the test above would test little."""
    sizes = set()
    for seed in range(30):
        apps, depth = mix(seed)
        true = truth(simulate(apps, depth, 1, seed))
        if sum(true.values()) >= CONTENDED * SECOND:
            sizes.add(len(apps))
    assert sizes == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_a_player_does_not_slow_down_itself(depth: int) -> None:
    """It reads one block at a time, so it waits for the loader only."""
    trace = simulate({"player": App(1, 2000), "loader": App(32, 1000)}, depth, 5, depth)
    true, found = truth(trace), estimate(trace)
    assert true["player", "loader"] > 0
    assert true["player", "player"] == 0
    assert disagreement(true, found, {"player"}) <= 0.02
    assert found["player", "loader"] == pytest.approx(true["player", "loader"], rel=0.1)


def test_bursts_within_a_second_are_the_known_deviation() -> None:
    """The counters of a second do not say when in this second an app was active.

    A writer sends 64 requests at the start of each second and is idle for the rest. Its requests wait mostly for each other,
    but the reader has most of the device time of this second. The README documents this.
    """
    trace = simulate({"reader": App(1, 1000, 200), "writer": App(64, 2000, period_us=SECOND)}, 1, 5, 1)
    true, found = truth(trace), estimate(trace)
    assert disagreement(true, found, {"reader"}) <= AGREES
    assert disagreement(true, found, {"writer"}) > AGREES
