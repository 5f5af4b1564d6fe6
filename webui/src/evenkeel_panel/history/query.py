# SPDX-License-Identifier: Apache-2.0
"""The queries in the URLs of the history pages. A time is in seconds since 1970, or in UTC as a form sends it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any
from urllib.parse import quote_plus

from evenkeel_api.schema import Struct
from evenkeel_history.tiers import DAY
from flask import abort, url_for
from msgspec import Meta

from .. import texts
from . import model

SHORTEST = 60  # the shortest span that a user can zoom to, in seconds
LONGEST = 731 * DAY
_TIME = r"[0-9]{1,11}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_MEANING = "seconds since 1970, or UTC such as `2026-05-04T13:30`"
_REFUSAL = {"refusal": "history-bad-time"}
Time = Annotated[str, Meta(pattern=rf"^({_TIME})$(?!\n)", extra=_REFUSAL)]
MaybeTime = Annotated[str, Meta(pattern=rf"^({_TIME})?$(?!\n)", extra=_REFUSAL)]
App = Annotated[
    Annotated[str, Meta(max_length=64)] | None,
    Meta(
        description="only the app with this name; empty: the rest of the board",
        extra={"refusal": "history-app-long"},
    ),
]


class Asked(Struct, frozen=True):
    """The query of the history, as the URL has it. With `start`, it is the span from `start` to `end`."""

    span: Annotated[model.Span, Meta(description="length of the span; ignored if there is a `start`")] = (
        model.SPAN
    )
    start: Annotated[
        MaybeTime,
        Meta(
            description=f"start of the span, which then needs an `end`: {_MEANING}",
            examples=["2026-05-04T13:00"],
        ),
    ] = ""
    end: Annotated[
        MaybeTime,
        Meta(description=f"end of the span: {_MEANING}; without it: now", examples=["2026-05-04T13:30"]),
    ] = ""
    app: App = None

    def query(self) -> Query:
        """Aborts with 422 and the reason if there is no such span."""
        start = _time("start", self.start) if self.start else None
        end = _time("end", self.end) if self.end else None
        if start is not None:
            if end is None:
                abort(422, texts.text("history-no-end"))
            _check(start, end, texts.phrase("history-span"))
        elif end is not None and end < SHORTEST:
            abort(422, texts.text("history-early-end", seconds=SHORTEST))
        return Query(self.span, start, end, self.app)


class AskedTable(Asked, frozen=True, kw_only=True):
    """The query of a table of the history."""

    table: Annotated[model.Table, Meta(description="the table", extra={"refusal": "history-no-table"})]


class AskedPair(Struct, frozen=True):
    """The query of a comparison, as the URL has it."""

    start: Annotated[
        Time, Meta(description=f"start of the first span: {_MEANING}", examples=["2026-05-04T13:00"])
    ]
    end: Annotated[Time, Meta(description="end of the first span", examples=["2026-05-04T13:30"])]
    start2: Annotated[Time, Meta(description="start of the second span", examples=["1777975200"])]
    end2: Annotated[Time, Meta(description="end of the second span", examples=["2026-05-05T11:00:00"])]
    app: App = None

    def pair(self) -> Pair:
        """Aborts with 422 and the reason if there is no such span."""
        spans = []
        for names, code in ((("start", "end"), "history-span-1"), (("start2", "end2"), "history-span-2")):
            start, end = (_time(name, getattr(self, name)) for name in names)
            spans.append(_check(start, end, texts.phrase(code)))
        return Pair(spans[0], spans[1], self.app)


@dataclass(frozen=True)
class Query:
    """What Asked means. Times are in seconds since 1970.

    With START, the span is from START to END, and SPAN has no meaning. Without it, the span is SPAN before END. END is
    None for now. APP is None for all apps.
    """

    span: model.Span
    start: int | None
    end: int | None
    app: str | None

    @property
    def seconds(self) -> int:
        if self.start is not None and self.end is not None:
            return self.end - self.start
        return model.SPANS[self.span][0]

    def window(self) -> tuple[int, int]:
        """The start and the end of the span."""
        end = int(time.time()) + 1 if self.end is None else self.end
        return max(end - self.seconds, 0), end

    def url(self, endpoint: str = "history.page", **changes: Any) -> str:
        values = {"span": self.span, "start": self.start, "end": self.end, "app": self.app, **changes}
        if values["start"] is not None:
            values["span"] = None
        return _address(endpoint, values)


@dataclass(frozen=True)
class Pair:
    """The query of a comparison: two spans, each from a start to an end in seconds since 1970. APP: None for all apps."""

    first: tuple[int, int]
    second: tuple[int, int]
    app: str | None

    def url(self, endpoint: str = "history.comparison", **changes: Any) -> str:
        values = {
            "start": self.first[0],
            "end": self.first[1],
            "start2": self.second[0],
            "end2": self.second[1],
            "app": self.app,
            **changes,
        }
        return _address(endpoint, values)


@cache
def _path(endpoint: str, **parts: Any) -> str:
    return url_for(endpoint, **parts)


def _address(endpoint: str, values: dict[str, Any]) -> str:
    """As url_for(). That takes 30 µs, and a page has more than 40 links."""
    parts = {"table": values.pop("table")} if "table" in values else {}
    # urlencode() would also quote the digits of a number
    given = [
        f"{name}={value if isinstance(value, int) else quote_plus(value)}"
        for name, value in values.items()
        if value is not None
    ]
    return f"{_path(endpoint, **parts)}?{'&'.join(given)}"


def parse_time(text: str) -> int | None:
    """The time that TEXT names, in seconds since 1970; None if it names none."""
    if not re.fullmatch(_TIME, text):
        return None
    if text.isdigit():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(found.replace(tzinfo=UTC).timestamp()) if found.year >= 1970 else None


def form_time(at: int) -> str:
    """The time AT as the value of a form's field."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _time(name: str, text: str) -> int:
    """The time TEXT of the parameter NAME."""
    found = parse_time(text)
    if found is None:
        abort(422, texts.text("history-bad-time", what=name))
    return found


def _check(start: int, end: int, span: str) -> tuple[int, int]:
    """The span from START to END, if it can be shown. SPAN: what a message calls it."""
    if end <= start:
        abort(422, texts.text("history-backwards", span=span))
    if end - start < SHORTEST:
        abort(422, texts.text("history-short", span=span, seconds=SHORTEST))
    if end - start > LONGEST:
        abort(422, texts.text("history-long", span=span))
    return start, end
