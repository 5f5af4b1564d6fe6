# SPDX-License-Identifier: Apache-2.0
"""The data of the apps page and of /apps.json: one struct for both."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from evenkeel_api import schema
from evenkeel_api.features.apps import FIXED_SHARE_MAX, FIXED_SHARE_MIN, WEIGHT_MAX, WEIGHT_MIN
from evenkeel_api.schema import Struct
from msgspec import Meta

from .. import __version__, texts
from . import what_if

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenkeel_api.features.apps import App

    from ..board import View

# the maximum number of counters that an app reports about itself and that the page shows
MAX_STATS = 8
# the maximum length of such a counter if it is a text, in characters
MAX_STAT_TEXT = 40
# the sub-state of a unit that is not installed
NOT_FOUND = "not-found"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?")


class BadNumber(ValueError):
    """str() names the value, the reason and the valid range."""


class AgentState(Struct, frozen=True):
    reachable: bool
    reason: Annotated[
        str, Meta(description="why the agent is not reachable: a sentence; empty if it is reachable")
    ]


class BoardState(Struct, frozen=True):
    scheduler: str | None
    kernel: str | None
    slot: str | None
    health: Annotated[
        str,
        Meta(
            description="`ok` or `degraded`, as the agent reports it; `agent-unreachable` if it does not answer"
        ),
    ]
    problems: Annotated[list[str], Meta(description="sentences")]
    version: str


class AppFigures(Struct, frozen=True):
    """An app as the page shows it. Units are in the names: mbps is 10^6 bytes/s, share 0..1, p99_us µs."""

    name: str
    title: str
    description: str
    unit: str
    weight: int
    state: str
    active_state: str | None
    sub_state: str | None
    applied: bool | None
    mbps: float | None
    read_mbps: float | None
    write_mbps: float | None
    share: float | None
    share_by_weight: Annotated[
        float | None, Meta(description="the share of the bytes that the weight promises now")
    ]
    share_all_busy: Annotated[
        float | None, Meta(description="what it gets when all apps are busy, 0..1; null: not installed")
    ]
    p99_us: float | None
    fixed_share: int
    fixed_share_applied: bool | None
    fixed_share_problem: str
    fixed_share_used: float | None
    fixed_share_late: float | None
    fixed_share_behind: bool | None
    stats: dict[str, Any]
    window_s: float | None
    added: Annotated[
        bool, Meta(description="whether it was added with the panel or ekctl, so that these can remove it")
    ]


class AppsPage(Struct, frozen=True):
    """The answer of /apps.json."""

    agent: AgentState
    board: BoardState
    total_mbps: float | None
    apps: list[AppFigures]


def parse_weight(text: str) -> int:
    """The weight 1..10000 that a user typed, with or without spaces around it; raises BadNumber."""
    return _whole(text.strip(), "weight", WEIGHT_MIN, WEIGHT_MAX, "")


def parse_fixed_share(text: str) -> int:
    """The percentage 1..100 that a user typed, with or without a percent sign; 0 for "off". Raises BadNumber."""
    typed = text.strip()
    if typed.lower() == "off":
        return 0
    return _whole(typed, "fixed-share", FIXED_SHARE_MIN, FIXED_SHARE_MAX, " %")


def _whole(typed: str, name: str, least: int, most: int, unit: str) -> int:
    """A whole number with or without its unit. The message ends with the rule of NAME."""
    # LEAST and MOST are the limits of the number. NAME is the first part of the codes of the messages.
    shown = typed if len(typed) <= 20 else typed[:20] + "…"
    number = typed.removesuffix(unit.strip()).strip()
    values = {
        "typed": shown,
        "least": least,
        "most": most,
        "unit": unit,
        "rule": texts.phrase(f"{name}-rule"),
    }
    if not number:
        raise BadNumber(texts.text(f"{name}-missing", **values))
    if not _INTEGER.fullmatch(number):
        raise BadNumber(texts.text("not-whole" if _NUMBER.fullmatch(number) else "no-number", **values))
    digits = number.lstrip("+-").lstrip("0") or "0"
    negative = number.startswith("-")
    # Compare lengths first: int() of a megabyte of digits is slow, and Python refuses it.
    if not negative and (len(digits) > len(str(most)) or int(digits) > most):
        raise BadNumber(texts.text("too-high", **values))
    if negative or digits == "0":
        raise BadNumber(texts.text("too-low", **values))
    return int(digits)


def page_data(view: View) -> AppsPage:
    """The data of the page.

    While the agent does not answer, every measured figure is None and the apps are the last known ones.
    """
    status = view.status
    by_weight = [app for app in view.apps if app.share > 0 and not _fixed(app)]
    weights = sum(app.weight for app in by_weight) if view.live else 0
    left = sum(app.share for app in by_weight)
    try:
        all_busy = parts(view.apps)
    except what_if.TooMuch:  # only if the last known values are damaged: the agent refuses more than 100 %
        all_busy = {}
    apps = [_app(app, view.live, weights, left, all_busy.get(app.name)) for app in view.apps]
    total = sum(app.read_bps + app.write_bps for app in view.apps) / 1e6
    return AppsPage(
        agent=AgentState(view.live, view.reason),
        board=BoardState(
            scheduler=status.scheduler if status else None,
            kernel=status.kernel if status else None,
            slot=status.slot if status else None,
            health=status.health if status else "agent-unreachable",
            problems=[texts.plain(problem) for problem in status.problems] if status else [],
            version=(status.version if status else "") or __version__,
        ),
        total_mbps=round(total, 3) if view.live else None,
        apps=apps,
    )


def parts(apps: Iterable[App], changed: App | None = None) -> dict[str, float]:
    """What each installed app gets when all are busy, 0..1. CHANGED takes the place of the app with its name.

    Raises TooMuch.
    """
    settings = [
        changed if changed and changed.name == app.name else app for app in apps if app.sub_state != NOT_FOUND
    ]
    return what_if.parts(what_if.Claim(app.name, app.weight, app.fixed_share) for app in settings)


def _fixed(app: App) -> bool:
    """Whether the app has a fixed share in force, so that its weight has no effect."""
    return bool(app.fixed_share) and app.fixed_share_applied


def _app(app: App, live: bool, weights: int, left: float, all_busy: float | None) -> AppFigures:
    """`weights`: sum of the weights of the busy apps without a fixed share; `left`: their share of the bytes."""
    busy = live and app.p99_us >= 0
    measured = live and _fixed(app) and app.fixed_share_used >= 0
    return AppFigures(
        name=app.name,
        title=app.title,
        description=app.description,
        unit=app.unit,
        weight=app.weight,
        state=_state(app) if live else "unknown",
        active_state=app.active_state if live else None,
        sub_state=app.sub_state if live else None,
        applied=app.applied if live else None,
        mbps=round((app.read_bps + app.write_bps) / 1e6, 3) if live else None,
        read_mbps=round(app.read_bps / 1e6, 3) if live else None,
        write_mbps=round(app.write_bps / 1e6, 3) if live else None,
        share=round(app.share, 4) if live else None,
        # fixed shares are served first; the weights of the other busy apps divide the rest
        share_by_weight=(
            round(app.weight / weights * left, 4)
            if live and app.share > 0 and weights and not _fixed(app)
            else None
        ),
        share_all_busy=None if all_busy is None else round(all_busy, 4),
        p99_us=round(app.p99_us, 1) if busy else None,
        fixed_share=app.fixed_share,
        fixed_share_applied=app.fixed_share_applied if live else None,
        fixed_share_problem="".join(texts.plain(note) for note in app.fixed_share_problem) if live else "",
        fixed_share_used=round(app.fixed_share_used, 4) if measured else None,
        fixed_share_late=round(app.fixed_share_late, 4) if measured else None,
        fixed_share_behind=app.fixed_share_behind if measured else None,
        stats=_stats(app.stats) if live else {},
        window_s=app.window_s if live else None,
        added=app.added,
    )


_STATES = {
    "active": "running",
    "reloading": "running",
    "refreshing": "running",
    "inactive": "stopped",
    "maintenance": "stopped",
    "activating": "starting",
    "deactivating": "stopping",
}


def _state(app: App) -> str:
    if app.sub_state == NOT_FOUND:
        return "not installed"
    return _STATES.get(app.active_state, app.active_state or "unknown")


def _stats(text: str) -> dict[str, Any]:
    """The counters that the app reports about itself. They are untrusted: the page omits values that it cannot show.

    Every other text from an app or a device arrives in a format that has only valid UTF-8. This one is JSON in a text.
    """
    try:
        loaded = schema.cleaned(json.loads(text)) if text else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(loaded, dict):
        return {}
    stats: dict[str, Any] = {}
    for key, value in loaded.items():
        if len(stats) == MAX_STATS:
            break
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,31}", key):
            continue
        if isinstance(value, str):
            stats[key] = value[:MAX_STAT_TEXT]
        elif isinstance(value, bool) or (
            isinstance(value, (int, float)) and abs(value) < 1e18
        ):  # no NaN, no inf
            stats[key] = value
    return stats


# ---- template filters: figures as text ----


def megabytes(value: float | None) -> str:
    if value is None:
        return "—"
    return f"{value:.0f}" if value >= 999.5 else f"{value:.1f}"


def percent(value: float | None) -> str:
    return "—" if value is None else f"{value * 100:.1f}"


@lru_cache(1024)  # long tables repeat the bounds of the buckets
def latency(microseconds: float | None) -> str:
    """Three significant digits, which is the precision of the histogram's buckets."""
    if microseconds is None:
        return "—"
    for limit, factor, unit in ((1e3, 1, "µs"), (1e6, 1e3, "ms"), (float("inf"), 1e6, "s")):
        if microseconds < limit:
            value = microseconds / factor
            return f"{value:.{0 if value >= 100 or factor == 1 else 1 if value >= 10 else 2}f} {unit}"
    return "—"


_SUFFIXES = {"ms": "ms", "us": "µs", "s": "s", "mbps": "MB/s", "percent": "%"}


def stat_label(key: str) -> str:
    """`stall_ms` → `Stall time`. stat_value() shows the unit."""
    if key == "mbps":
        return "Reported rate"
    words = key.split("_")
    unit = words.pop() if len(words) > 1 and (words[-1] in _SUFFIXES or words[-1] == "bytes") else ""
    if unit in ("ms", "us", "s") and words[-1] != "time":
        words.append("time")
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def stat_value(value: object, key: str = "") -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    last = key.rsplit("_", 1)[-1] if "_" in key or key == "mbps" else ""
    if last == "bytes":
        for limit, factor, unit in ((1e3, 1, "B"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (1e12, 1e9, "GB")):
            if abs(value) < limit:
                return f"{value / factor:.{0 if factor == 1 else 1}f} {unit}"
        return f"{value / 1e12:.1f} TB"
    number = f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:.4g}"
    return f"{number} {_SUFFIXES[last]}" if last in _SUFFIXES else number
