# SPDX-License-Identifier: Apache-2.0
"""The queries in the URLs of the history pages. A time is in seconds since 1970, or in UTC as a form sends it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote_plus

from evenkeel_history.tiers import DAY
from flask import abort, request, url_for

from .. import texts
from . import model

SHORTEST = 60  # the shortest span that a user can zoom to, in seconds
LONGEST = 731 * DAY
NAME_LENGTH = 64  # the maximum length of an app's name


@dataclass(frozen=True)
class Query:
    """The query of the page. Times are in seconds since 1970.

    With START, the span is from START to END, and SPAN has no meaning. Without it, the span is SPAN before END. END is
    None for now. APP is None for all apps.
    """

    span: str
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
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= 11 else None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is not None or "T" not in text or found.year < 1970:
        return None
    return int(found.replace(tzinfo=UTC).timestamp())


def form_time(at: int) -> str:
    """The time AT as the value of a form's field."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _time(name: str, what: str) -> int | None:
    """The time of the parameter NAME; None without it. WHAT: what a message calls it."""
    text = request.args.get(name, "").strip()
    if not text:
        return None
    found = parse_time(text)
    if found is None:
        abort(422, texts.text("history-bad-time", what=what))
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


def _app() -> str | None:
    app = request.args.get("app")
    if app is not None and len(app) > NAME_LENGTH:
        abort(422, texts.text("history-app-long"))
    return app


def query() -> Query:
    """The query in the URL. If a parameter is bad, the answer is 422 with the reason."""
    span = request.args.get("span", model.SPAN)
    if span not in model.SPANS:
        abort(422, texts.text("history-bad-span", spans=list(model.SPANS)))
    start, end = _time("start", texts.phrase("history-start")), _time("end", texts.phrase("history-end"))
    if start is not None:
        if end is None:
            abort(422, texts.text("history-no-end"))
        _check(start, end, texts.phrase("history-span"))
    elif end is not None and end < SHORTEST:
        abort(422, texts.text("history-early-end", seconds=SHORTEST))
    return Query(span, start, end, _app())


def pair() -> Pair:
    """The query of a comparison in the URL. If a parameter is bad or missing, the answer is 422 with the reason."""
    spans = []
    for number, code in (("", "history-span-1"), ("2", "history-span-2")):
        span = texts.phrase(code)
        start, end = (
            _time(f"start{number}", texts.phrase("history-start-of", span=span)),
            _time(f"end{number}", texts.phrase("history-end-of", span=span)),
        )
        if start is None or end is None:
            abort(422, texts.text("history-half", span=span))
        spans.append(_check(start, end, span))
    return Pair(spans[0], spans[1], _app())
