# SPDX-License-Identifier: Apache-2.0
"""What every answer carries, and that pages keep to their own policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.testing import ROOM, Browser

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel
    from evenkeel_panel.fake_agent import FakeAgent

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.mark.parametrize(
    "path", ["/login", "/password", "/apps", "/apps/rows", "/apps.json", "/healthz", "/nowhere", "/"]
)
def test_headers(admin: Browser, path: str) -> None:
    headers = admin.get(path).headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/password", "/apps", "/apps/rows", "/nowhere"])
def test_pages_have_nothing_inline(admin: Browser, path: str) -> None:
    page = admin.get(path).text
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|hx-on|javascript:", page)
    assert not re.search(r'(src|href|action)="(https?:)?//', page)


def test_own_static_files_need_nothing_inline() -> None:
    assert "style=" not in (ROOM / "static/panel.js").read_text()
    assert "eval" not in (ROOM / "static/panel.js").read_text()


def test_unknown_page_says_so(admin: Browser) -> None:
    answer = admin.get("/nowhere")
    assert answer.status_code == 404
    assert "There is no page /nowhere here." in answer.text


def test_wrong_method(admin: Browser) -> None:
    answer = admin.get("/logout")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_an_error_shows_no_traceback(
    admin: Browser, agent: FakeAgent, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(agent, "status", broken)
    panel.board._expire()
    answer = admin.get("/apps")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert "error of its own" in answer.text
