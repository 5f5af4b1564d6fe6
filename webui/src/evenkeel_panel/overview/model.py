# SPDX-License-Identifier: Apache-2.0
"""The data of the overview and of /overview.json: one struct for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from evenkeel_api.schema import Struct
from msgspec import Meta

from .. import problems, texts
from ..apps.model import AgentState, BoardState
from ..apps.model import page_data as apps_data
from ..history.model import Stalls, order
from ..problems import Problem
from ..wear.model import FlashDevice

if TYPE_CHECKING:
    from evenkeel_history.reader import Found

    from ..board import View
    from .recent import Recent


class Latency(Struct, frozen=True):
    app: str
    title: str
    p99_us: Annotated[float, Meta(description="99 of 100 requests took less time")]


class Rate(Struct, frozen=True):
    """The throughput of an app in a point of the chart."""

    at: Annotated[int, Meta(description="start, seconds since 1970")]
    app: Annotated[str, Meta(description="empty: the rest of the board")]
    mbps: Annotated[float, Meta(description="10^6 bytes/s while sampled")]


class Throughput(Struct, frozen=True):
    start: int
    end: int
    step_s: int
    problem: Annotated[str, Meta(description="why it is not known: a sentence; empty if it is known")]
    rates: list[Rate]


class LastHour(Struct, frozen=True):
    """The stalls that apps have reported in the last hour."""

    recorded_s: Annotated[float, Meta(description="the recorded part of the hour")]
    problem: Annotated[
        str, Meta(description="why a part may be missing: a sentence; empty if nothing is missing")
    ]
    stalls: Annotated[list[Stalls], Meta(description="longest first")]


class OverviewPage(Struct, frozen=True):
    """The answer of /overview.json."""

    fine: Annotated[
        bool | None, Meta(description="whether no problem is known; null: the agent does not answer")
    ]
    problems: list[Problem]
    agent: AgentState
    board: BoardState
    total_mbps: Annotated[float | None, Meta(description="of all apps, now")]
    worst: Annotated[
        Latency | None,
        Meta(
            description="the app with the highest latency now; null: no app uses the flash, or it is not known"
        ),
    ]
    last_hour: LastHour
    recorder: Annotated[
        list[Problem] | None,
        Meta(description="problems of the recorder, which `problems` has, too; null: not known"),
    ]
    limit_percent: Annotated[int | None, Meta(description="the wear limit; 0: none; null: not known")]
    devices: list[FlashDevice]
    throughput: Throughput


def _of_recorder(code: str) -> bool:
    return code.startswith(("recorder-", "channel-", "channels-"))


def page_data(
    view: View,
    recent: Recent,
    hour: Found,
    hour_problem: str,
    devices: list[FlashDevice],
    step_s: int,
    own: list[Problem],
) -> OverviewPage:
    """OWN: problems of the panel itself."""
    shown = apps_data(view)
    reported = [problems.of_agent(note) for note in view.status.problems] if view.status else []
    found = reported + own
    busy = [app for app in view.apps if app.p99_us >= 0] if view.live else []
    worst = max(busy, key=lambda app: app.p99_us, default=None)
    return OverviewPage(
        fine=not found if view.live else None,
        problems=found,
        agent=shown.agent,
        board=shown.board,
        total_mbps=shown.total_mbps,
        worst=Latency(worst.name, worst.title, round(worst.p99_us, 1)) if worst else None,
        last_hour=LastHour(
            recorded_s=round(hour.total.ms / 1000, 3),
            problem=hour_problem,
            stalls=sorted(
                (Stalls(name, count, ms / 1000) for name, (count, ms) in hour.total.stalls.items() if count),
                key=lambda row: (-row.stall_s, row.app),
            ),
        ),
        recorder=[problem for problem in reported if _of_recorder(problem.code)] if view.live else None,
        limit_percent=view.status.wear_limit if view.status else None,
        devices=devices,
        throughput=Throughput(
            start=recent.start,
            end=recent.end,
            step_s=step_s,
            problem=texts.text("overview-no-throughput", reason=recent.problem) if recent.problem else "",
            rates=[
                Rate(at, app, round(amount / point.ms / 1000, 3))
                for at, point in recent.points.items()
                if point.ms
                for app, amount in sorted(point.bytes.items(), key=lambda item: order(item[0]))
            ],
        ),
    )
