# SPDX-License-Identifier: Apache-2.0
"""Every answer has the security headers, and every page complies with its own Content-Security-Policy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.testing import BASE, COMPONENT, Browser

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel
    from evenkeel_panel.fake_agent import FakeAgent

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.mark.parametrize(
    "path",
    [
        "/login",
        "/password",
        "/apps",
        "/apps/rows",
        "/apps.json",
        "/account",
        "/users",
        "/audit",
        "/healthz",
        "/nowhere",
        "/",
        "/overview/rows",
        "/overview/chart",
        "/overview.json",
        "/wear",
    ],
)
def test_headers(admin: Browser, path: str) -> None:
    headers = admin.get(path).headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    # Browsers may cache an answer that is the same for all users, but must ask each time whether it is still valid.
    live = path.endswith(("/rows", "/chart")) or path in ("/apps.json", "/overview.json")
    assert headers["Cache-Control"] == ("private, no-cache" if live else "no-store")


@pytest.mark.parametrize(
    "path", ["/", "/password", "/apps", "/apps/rows", "/wear", "/account", "/users", "/audit", "/nowhere"]
)
def test_pages_have_no_inline_script_or_style(admin: Browser, path: str) -> None:
    page = admin.get(path).text
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|hx-on|javascript:", page)
    assert not re.search(r'(src|href|action)="(https?:)?//', page)


def test_scripts_need_no_inline_style_or_eval() -> None:
    scripts = [path for path in (COMPONENT / "src").rglob("*.js") if "vendor" not in path.parts]
    assert len(scripts) >= 2
    for script in scripts:
        assert "style=" not in script.read_text()
        assert "eval" not in script.read_text()


def test_unknown_page(admin: Browser) -> None:
    answer = admin.get("/nowhere")
    assert answer.status_code == 404
    assert "This panel has no page /nowhere." in answer.text


def test_wrong_method(admin: Browser) -> None:
    answer = admin.get("/logout")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("path", "heading", "to_do"),
    [
        ("/nowhere", "There is nothing here", "Check the address."),
        ("/logout", "This address does not take the request", "Go to the overview"),
        ("/history?span=3h", "A value cannot be used", "must be one of"),
    ],
)
def test_an_error_page_has_words_for_everybody(admin: Browser, path: str, heading: str, to_do: str) -> None:
    page = admin.get(path).text
    assert f"<h1>{heading}</h1>" in page
    assert to_do in page


def test_a_form_that_is_too_large_says_what_to_do(admin: Browser) -> None:
    answer = admin.client.post("/apps/player/weight", base_url=BASE, data={"weight": "9" * 70_000})
    assert answer.status_code == 413
    assert "Enter less, or choose a smaller file." in answer.text


def test_internal_error_shows_no_traceback(
    admin: Browser, agent: FakeAgent, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(agent, "get_status", broken)
    panel.board.expire()
    answer = admin.get("/apps")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert "internal error" in answer.text
