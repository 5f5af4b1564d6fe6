# SPDX-License-Identifier: Apache-2.0
"""What the page's own scripts do, in a browser, with a make-believe agent behind the panel."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel import board
from evenkeel_panel.auth.limits import limiter
from evenkeel_panel.dev import FIRST_PASSWORD, dev_app
from evenkeel_panel.testing import ROOM
from playwright.sync_api import Locator, Page, expect, sync_playwright
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evenkeel_panel.fake_agent import FakeAgent

PASSWORD = "sailing on an even keel"  # noqa: S105
VENDOR = ROOM.parent / "build/webui/vendor"
GONE_MS = 10_000  # good news goes by itself


@pytest.fixture
def page(tmp_path: Path, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The apps page, whose clock stands still: tests run it on. So low that it scrolls."""
    # the panel's own clock is the host's
    monkeypatch.setattr(board, "FRESH_S", 0)
    server = make_server("127.0.0.1", 0, dev_app(tmp_path, VENDOR, agent), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(
            base_url=f"http://127.0.0.1:{server.server_port}", viewport={"width": 1280, "height": 500}
        )
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto("/login")
        page.fill("[name=password]", FIRST_PASSWORD)
        page.click("[type=submit]")
        page.fill("[name=current]", FIRST_PASSWORD)
        for name in ("new", "confirm"):
            page.fill(f"[name={name}]", PASSWORD)
        page.click(".sheet [type=submit]")
        page.wait_for_url("**/apps?changed=1")
        page.clock.install()
        page.goto("/apps")
        page.clock.pause_at(page.evaluate("Date.now()") + 1000)
        yield page
        browser.close()
    server.shutdown()
    limiter.reset()
    assert errors == [], "the page's own scripts failed"


def loader(page: Page, part: str) -> Locator:
    return page.locator('[data-app="loader"]').locator(part)


def answered(page: Page, seconds: int = 1) -> None:
    """That many times the page asks for figures and has its answer."""
    for _ in range(seconds):
        with page.expect_event("requestfinished", lambda request: request.url.endswith("/apps/rows")):
            page.clock.run_for(1000)
        page.clock.run_for(1)


def press(page: Page, button: Locator) -> dict[str, float]:
    button.hover()
    page.mouse.down()
    return place(button)


def place(button: Locator) -> dict[str, float]:
    box = button.bounding_box()
    assert box is not None
    return {**box}


def pressed_until_60_is_set(page: Page, agent: FakeAgent, before: dict[str, float]) -> None:
    """The release does what the button says, and what waited for it comes."""
    assert place(loader(page, "[data-action=apply]")) == before
    page.mouse.up()
    page.clock.run_for(1)
    expect(loader(page, ".weigh .message")).to_be_visible()
    assert "SetWeight loader 60" in agent.calls


@pytest.fixture
def edited(page: Page) -> Locator:
    loader(page, "[name=weight]").fill("60")
    return loader(page, "[data-action=apply]")


def test_a_finger_presses_what_it_touched(page: Page, agent: FakeAgent, edited: Locator) -> None:
    """After a touch the click comes later than the release, and until then nothing moves, either."""
    edited.scroll_into_view_if_needed()
    before = place(edited)
    touch = page.context.new_cdp_session(page)
    point = {"x": before["x"] + before["width"] / 2, "y": before["y"] + before["height"] / 2}
    page.evaluate(
        """() => { window.seen = [];
        for (const name of ["pointerdown", "pointerup", "click"])
            document.addEventListener(name, (event) => seen.push(`${event.type} ${event.pointerType}`)); }"""
    )
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    agent.dead = "The agent does not answer: it is not running."
    answered(page)
    assert place(edited) == before
    agent.dead = ""
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function("seen.includes('click touch')")
    assert page.evaluate("seen[0]") == "pointerdown touch"
    page.clock.run_for(1)
    expect(loader(page, ".weigh .message")).to_be_visible()
    assert "SetWeight loader 60" in agent.calls


def test_a_finger_that_slides_off_holds_nothing_up(page: Page, agent: FakeAgent, edited: Locator) -> None:
    edited.scroll_into_view_if_needed()
    at = place(edited)
    touch = page.context.new_cdp_session(page)
    point = {"x": at["x"] + at["width"] / 2, "y": at["y"] + at["height"] / 2}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    far = {"x": 10.0, "y": 10.0}
    touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [far]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.clock.run_for(400)
    agent.dead = "The agent does not answer: it is not running."
    answered(page)
    expect(page.locator("[data-banner=agent]")).to_be_visible()
    assert "SetWeight loader 60" not in agent.calls


def test_a_banner_waits_until_a_pressed_button_is_released(
    page: Page, agent: FakeAgent, edited: Locator
) -> None:
    before = press(page, edited)
    agent.dead = "The agent does not answer: it is not running."
    answered(page, 3)
    expect(page.locator("[data-banner=agent]")).to_have_count(0)
    agent.dead = ""
    pressed_until_60_is_set(page, agent, before)
    agent.dead = "The agent does not answer: it is not running."
    answered(page)
    expect(page.locator("[data-banner=agent]")).to_be_visible()


def test_a_panel_that_does_not_answer_is_said_after_the_release(
    page: Page, agent: FakeAgent, edited: Locator
) -> None:
    before = press(page, edited)
    page.route("**/apps/rows", lambda route: route.abort())
    page.clock.run_for(3000)
    expect(page.locator("#offline")).to_be_hidden()
    pressed_until_60_is_set(page, agent, before)
    page.clock.run_for(1000)
    expect(page.locator("#offline")).to_be_visible()


def test_good_news_stays_under_a_pressed_button_and_goes_after_the_release(
    page: Page, agent: FakeAgent, edited: Locator
) -> None:
    """At the end of a page that scrolls, what goes below moves all that is above."""
    loader(page, "[name=performance]").fill("10")
    loader(page, "[data-action=regulate]").click()
    news = loader(page, ".regulate .message.ok")
    expect(news).to_be_visible()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    before = press(page, edited)
    page.clock.run_for(GONE_MS + 1)
    expect(news).to_be_visible()
    pressed_until_60_is_set(page, agent, before)
    page.clock.run_for(1)
    expect(news).to_have_count(0)


def test_the_answer_to_another_button_waits_for_the_release(
    page: Page, agent: FakeAgent, edited: Locator
) -> None:
    """It would stand above the pressed one. When it comes it is what was answered, once."""
    go_on = threading.Event()
    stop_app = agent.stop_app

    def slowly(name: str) -> None:
        go_on.wait(20)
        stop_app(name)

    agent.stop_app = slowly  # type: ignore[method-assign]
    loader(page, "[data-action=stop]").click()
    before = press(page, edited)
    with page.expect_event("requestfinished", lambda request: request.url.endswith("/loader/stop")):
        go_on.set()
    page.clock.run_for(100)
    expect(loader(page, ".weigh .message")).to_have_count(0)
    assert place(edited) == before
    # away from the button, and so no press
    page.mouse.move(5, 5)
    page.mouse.up()
    page.clock.run_for(1)
    expect(loader(page, ".weigh .message")).to_have_text(re.compile("stop", re.IGNORECASE))
    answered(page)
    expect(loader(page, "[data-action=start]")).to_be_visible()
    assert "SetWeight loader 60" not in agent.calls
    expect(loader(page, "[name=weight]")).to_have_value("60")
