# SPDX-License-Identifier: Apache-2.0
"""Each page links its data as JSON and, if it has a list or a chart, as CSV. A page without them has a reason here."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenkeel_panel.testing import Browser

QUESTION = "It asks before a change, and shows nothing but the question."
# endpoint of a page → why it has no data of its own
NO_DATA = {
    "account.password": "A form.",
    "apps.ask": QUESTION,
    "apps.form": "A form.",
    "system.ask_restart": QUESTION,
    "users.ask_remove": QUESTION,
    "users.ask_reset": QUESTION,
}
# endpoint of a page → why it has no CSV
NO_LIST = {
    "alerts.page": "Its data are settings, not a list.",
    "system.page": "Its data are settings, not a list.",
}


def linked(text: str, kind: str) -> list[str]:
    """The addresses of files of KIND that a page links."""
    found = (html.unescape(link) for link in re.findall(r'href="(/[^"]*)"', text))
    return [
        link for link in found if link.partition("?")[0].endswith(f".{kind}") and not link.startswith("/api/")
    ]


def test_each_page_links_its_data(admin: Browser, pages: Iterator[tuple[str, str]]) -> None:
    seen = set()
    for endpoint, text in pages:
        seen.add(endpoint)
        as_json, as_csv = linked(text, "json"), linked(text, "csv")
        assert bool(as_json) != (endpoint in NO_DATA), (endpoint, as_json)
        assert bool(as_csv) != (endpoint in NO_DATA or endpoint in NO_LIST), (endpoint, as_csv)
        for link in as_json:
            answer = admin.get(link)
            assert (answer.status_code, answer.mimetype) == (200, "application/json"), (endpoint, link)
        for link in as_csv:
            answer = admin.get(link)
            assert (answer.status_code, answer.mimetype) == (200, "text/csv"), (endpoint, link)
            assert answer.headers["Content-Disposition"].startswith('attachment; filename="'), link
            assert re.match(r"[a-z0-9_]+(,[a-z0-9_]+)*\r?\n", answer.text), link
    assert len(seen) > 20
    assert seen > NO_DATA.keys() | NO_LIST.keys()
