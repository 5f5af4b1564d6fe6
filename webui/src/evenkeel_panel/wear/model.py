# SPDX-License-Identifier: Apache-2.0
"""The data of the page of wear, /wear.json and /wear.csv. All three have the same query and the same struct."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Literal

from evenkeel_api.schema import Struct
from evenkeel_history.tiers import DAY, HOUR, slot
from msgspec import Meta

from .. import problems, texts
from ..history.model import amount, order
from ..problems import Problem
from ..times import day
from . import projection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from evenkeel_api.features.board import Status
    from evenkeel_common.wear import Wear
    from evenkeel_history.period import Sum
    from evenkeel_history.reader import Found

Days = Literal[14, 90]
SPANS: dict[Days, str] = {
    14: "14 days",
    90: "90 days",
}  # that a user can choose: days → words after "the last"
RATE_DAYS: Days = 14  # today's rate is the mean over this many days
LEAST_S = HOUR  # a rate needs at least this much sampled time
FAR_DAYS = 36525.0  # an end that is further away is not worth a date


class Query(Struct, frozen=True):
    days: Annotated[Days, Meta(description="days, today included")] = RATE_DAYS


class Written(Struct, frozen=True):
    """What an app has written to a device on a day (UTC)."""

    day: Annotated[str, Meta(description="YYYY-MM-DD")]
    app: Annotated[str, Meta(description="empty: the rest of the board")]
    device: str
    bytes: int
    sampled_s: Annotated[float, Meta(description="the sampled part of the day")]


class Writer(Struct, frozen=True):
    """What an app writes to a device at today's rate."""

    app: Annotated[str, Meta(description="empty: the rest of the board")]
    bytes_per_day: int
    part: Annotated[float, Meta(description="0..1 of what all write to the device")]


class FlashDevice(Struct, frozen=True):
    """A flash device. null: the device does not report the value, or it is not known yet."""

    name: str
    reported_at: Annotated[int | None, Meta(description="seconds since 1970")]
    life_a_percent: Annotated[
        int | None,
        Meta(description="used part of the life of memory of type A: upper end of a range of 10 %"),
    ]
    life_b_percent: int | None
    life_used_percent: Annotated[int | None, Meta(description="the larger one of both")]
    spare_blocks: Annotated[str | None, Meta(description="normal, warning or urgent")]
    bytes_per_day: Annotated[
        int | None, Meta(description="today's rate: mean over the last 14 days, while the board was on")
    ]
    writers: Annotated[list[Writer], Meta(description="largest first")]
    least_bytes: Annotated[
        int | None, Meta(description="the device can take at least this much until its life ends")
    ]
    most_bytes: int | None
    ends_after: Annotated[
        int | None,
        Meta(description="at today's rate, the life ends not before this time, seconds since 1970"),
    ]
    ends_before: int | None
    watched_since: Annotated[
        int | None, Meta(description="time of the oldest report on which the bounds rely")
    ]
    write_amplification: Annotated[
        float | None, Meta(description="bytes that the device writes to its cells for each written byte")
    ]
    outlook: Annotated[str, Meta(description="how long it lasts: a sentence")]
    basis: Annotated[str, Meta(description="what the outlook relies on, and what is unknown: sentences")]


class WearPage(Struct, frozen=True):
    """The answer of /wear.json."""

    start: int
    end: int
    days: int
    problem: Annotated[
        str,
        Meta(description="why a part of the history may be missing: a sentence; empty if nothing is missing"),
    ]
    limit_percent: Annotated[
        int | None,
        Meta(
            description="the board warns if a device reports at least this much of its life as used; 0: it does not;"
            " null: not known"
        ),
    ]
    problems: list[Problem]
    devices: list[FlashDevice]
    rows: list[Written]


def _rates(found: Found, now: int) -> tuple[float, dict[str, dict[str, float]]]:
    """The sampled seconds of the last RATE_DAYS. By device and app: bytes per day; empty if too little was sampled."""
    first = slot(now, DAY) - (RATE_DAYS - 1) * DAY
    points = [point for at, point in found.points.items() if at >= first]
    seconds = sum(point.ms for point in points) / 1000
    result: dict[str, dict[str, float]] = {}
    if seconds < LEAST_S:
        return seconds, result
    for point in points:
        for (app, device, _), flow in point.flows.items():
            by_app = result.setdefault(device, {})
            by_app[app] = by_app.get(app, 0.0) + flow.bytes / seconds * DAY
    return seconds, result


def devices(
    found: Found, states: Mapping[str, list[tuple[int, Wear]]], names: Collection[str], now: int
) -> list[FlashDevice]:
    """The flash devices NAMES, with what they have reported (STATES) and what was written to them (FOUND)."""
    sampled_s, rates = _rates(found, now)
    return [_device(name, states.get(name, []), rates.get(name, {}), sampled_s) for name in sorted(names)]


def _device(
    name: str, states: list[tuple[int, Wear]], rates: Mapping[str, float], sampled_s: float
) -> FlashDevice:
    at, state = states[-1] if states else (None, None)
    lives = (state.life_a, state.life_b) if state else (None, None)
    used = state.life_used if state else None
    left = projection.project_device(states)
    # If time was sampled, a device without I/O has the rate 0.
    per_day = sum(rates.values()) if rates or sampled_s >= LEAST_S else None
    least_days = projection.days(left.least, per_day) if left else None
    most_days = projection.days(left.most, per_day) if left else None
    outlook, basis = _outlook(name, bool(states), used, left, per_day, least_days, most_days)
    return FlashDevice(
        name=name,
        reported_at=at,
        life_a_percent=lives[0],
        life_b_percent=lives[1],
        life_used_percent=used,
        spare_blocks=state.pre_eol if state else None,
        bytes_per_day=None if per_day is None else round(per_day),
        writers=[
            Writer(app, round(rate), round(rate / per_day, 4))
            for app, rate in sorted(rates.items(), key=lambda item: (-item[1], item[0]))
            if per_day and rate
        ],
        least_bytes=left.least if left else None,
        most_bytes=left.most if left else None,
        ends_after=_end(left, least_days),
        ends_before=_end(left, most_days),
        watched_since=left.since if left else None,
        write_amplification=None,  # no register of an eMMC has it
        outlook=outlook,
        basis=basis,
    )


def _end(left: projection.Left | None, days: float | None) -> int | None:
    return round(left.last + days * DAY) if left and days is not None and days <= FAR_DAYS else None


def _outlook(
    name: str,
    known: bool,
    used: int | None,
    left: projection.Left | None,
    per_day: float | None,
    least_days: float | None,
    most_days: float | None,
) -> tuple[str, str]:
    """How long the device lasts, and what this relies on."""
    if left is None or used is None:
        return texts.text("wear-no-life" if known else "wear-no-report", device=name), ""
    if left.used_up:
        return texts.text("wear-over", device=name), texts.text("wear-over-basis")
    watched = texts.text("wear-watched", date=_words(left.since))
    if not left.least and used < projection.END:
        return texts.text("wear-hardly-written", device=name), watched
    if not left.least:
        return texts.text("wear-any-day", device=name, least=used - projection.STEP), watched
    if per_day is None:
        return texts.text("wear-no-rate", device=name, amount=amount(left.least)), watched
    if least_days is None:
        return texts.text("wear-no-writes", device=name, amount=amount(left.least)), watched
    rate = texts.text("wear-rate", amount=amount(per_day), days=RATE_DAYS)
    if most_days is None or most_days > FAR_DAYS:
        bound = texts.text("wear-lower-bound") if most_days is None else ""
        outlook = texts.text("wear-at-least", device=name, time=_duration(least_days))
        return outlook, f"{rate} {bound} {watched}".replace("  ", " ")
    first, last = (_words(round(left.last + found * DAY)) for found in (least_days, most_days))
    code = "wear-between" if first != last else "wear-on"
    outlook = texts.text(code, device=name, first=first, last=last)
    return outlook, f"{rate} {texts.text('wear-assumption')} {watched}"


def _duration(days: float) -> str:
    """A time rounded down, so that a lower bound stays one."""
    if days < 1:
        return "a few hours"
    for limit, size, unit in ((60.0, 1.0, "day"), (730.5, 30.4375, "month"), (FAR_DAYS, 365.25, "year")):
        if days < limit:
            number = int(days / size)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "100 years"


def _words(at: int) -> str:
    """A date in a sentence, for example 5 Dec 2031. A line does not break in it."""
    return time.strftime("%d\u00a0%b\u00a0%Y", time.gmtime(at)).removeprefix("0")


def page_data(
    found: Found, days: int, problem: str, flash: list[FlashDevice], status: Status | None
) -> WearPage:
    """STATUS: of the board; None: the agent does not answer."""
    notes = status.problems if status else []
    return WearPage(
        start=found.start,
        end=found.end,
        days=days,
        problem=problem,
        limit_percent=status.wear_limit if status else None,
        problems=[problems.of_agent(note) for note in notes if note.code.startswith("wear-")],
        devices=flash,
        rows=[
            Written(date, app, device, flow.bytes, sampled_s)
            for at, point in sorted(found.points.items())
            for date, sampled_s in [(day(at), round(point.ms / 1000, 3))]
            for (app, device, _), flow in sorted(point.flows.items(), key=lambda item: order(*item[0][:1]))
        ],
    )


# ---- the chart and the table ----


def by_app(point: Sum) -> dict[str, int]:
    """The bytes in POINT by app, all devices together."""
    result: dict[str, int] = {}
    for (app, _, _), flow in point.flows.items():
        result[app] = result.get(app, 0) + flow.bytes
    return result


def texts_of(apps: Iterable[str], amounts: Mapping[str, int]) -> list[str]:
    """The bytes of each of APPS, and the sum of all AMOUNTS, as the page shows them."""
    texts = [amount(amounts[app]) if app in amounts else "—" for app in apps]
    return [*texts, amount(sum(amounts.values()))]


def unit(most: float) -> tuple[float, str]:
    """The unit of a scale up to MOST bytes: its size and its name."""
    for size, name in ((1e12, "TB"), (1e9, "GB")):
        if most >= size:
            return size, name
    return 1e6, "MB"
