# SPDX-License-Identifier: Apache-2.0
"""The scripts of the apps page and the overview, and the navigation, in a real browser and with a fake agent."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel import board
from evenkeel_panel.dev import FIRST_PASSWORD, dev_app
from evenkeel_panel.fake_agent import external
from evenkeel_panel.testing import COMPONENT, PASSWORD, time_limit
from msgspec.structs import replace
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evenkeel_panel.fake_agent import FakeAgent

VENDOR = COMPONENT.parent / "build/webui/vendor"
MESSAGE_MS = 10_000  # how long a success message stays
# The time limit of a test. A test takes a few seconds, but much longer on a busy machine.
TEST_SECONDS = 90
WAIT_MS = 20_000  # the time limit of a wait in a test


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is killed after TEST_SECONDS, so that a test cannot hang."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        with time_limit(browser, TEST_SECONDS):
            yield browser
            browser.close()


@pytest.fixture
def address(tmp_path: Path, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a panel without a cache: the tests stop the clock of the page, but not the clock of the panel."""
    if not (VENDOR / "package-lock.json").exists():
        pytest.fail(f"htmx and uPlot are missing: run webui/src/fetch-static {VENDOR}", pytrace=False)
    monkeypatch.setattr(board, "MAX_AGE_S", 0)
    server = make_server("127.0.0.1", 0, dev_app(tmp_path, VENDOR, agent), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    """The apps page with a stopped clock, which the tests advance. The window is low, so that the page can scroll."""
    errors: list[str] = []
    with chromium() as browser:
        context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 500})
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto("/login")
        page.fill("[name=password]", FIRST_PASSWORD)
        page.click("[type=submit]")
        page.fill("[name=current]", FIRST_PASSWORD)
        for name in ("new", "confirm"):
            page.fill(f"[name={name}]", PASSWORD)
        page.click(".card [type=submit]")
        page.wait_for_url("**/setup?changed=1")
        page.clock.install()
        page.goto("/apps")
        page.clock.pause_at(page.evaluate("Date.now()") + 1000)
        yield page
    assert errors == [], "a script of the page failed"


def loader(page: Page, part: str) -> Locator:
    return page.locator('[data-app="loader"]').locator(part)


def run_polls(page: Page, count: int = 1, path: str = "/apps/rows") -> None:
    """Advance the clock until the page has polled `count` times and handled the answers."""
    for _ in range(count):
        with page.expect_event("requestfinished", lambda request: request.url.endswith(path)):
            page.clock.run_for(1000)
        page.clock.run_for(1)


def press(page: Page, button: Locator) -> dict[str, float]:
    """Press the mouse on a button and do not release it. Returns the button's position."""
    button.hover()
    page.mouse.down()
    return position(button)


def position(button: Locator) -> dict[str, float]:
    box = button.bounding_box()
    assert box is not None
    return {**box}


def release_sets_60(page: Page, agent: FakeAgent, before: dict[str, float]) -> None:
    """Assert that the button has not moved, that releasing it sets the weight, and that deferred changes then appear."""
    assert position(loader(page, "[data-action=apply]")) == before
    page.mouse.up()
    page.clock.run_for(1)
    expect(loader(page, ".weight-form .answer .message")).to_be_visible()
    assert "SetWeight loader 60" in agent.calls


@pytest.fixture
def apply(page: Page) -> Locator:
    """The button that sets the loader's weight to 60."""
    loader(page, "[name=weight]").fill("60")
    return loader(page, "[data-action=apply]")


def test_time_limit_ends_a_call_that_hangs() -> None:
    with chromium() as browser:
        page = browser.new_page()
        with pytest.raises(TimeoutError, match="longer than 1 s"), time_limit(browser, 1):
            page.evaluate("() => { for (;;); }")


def test_touch_presses_the_button_under_the_finger(page: Page, agent: FakeAgent, apply: Locator) -> None:
    """After a touch, the click comes later than the release. Nothing moves before the click."""
    apply.scroll_into_view_if_needed()
    before = position(apply)
    touch = page.context.new_cdp_session(page)
    point = {"x": before["x"] + before["width"] / 2, "y": before["y"] + before["height"] / 2}
    page.evaluate(
        """() => { window.events = [];
        for (const name of ["pointerdown", "pointerup", "click"])
            document.addEventListener(name, (event) => events.push(`${event.type} ${event.pointerType}`)); }"""
    )
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    agent.dead = "The agent does not answer: it is not running."
    run_polls(page)
    assert position(apply) == before
    agent.dead = ""
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function("events.includes('click touch')")
    assert page.evaluate("events[0]") == "pointerdown touch"
    page.clock.run_for(1)
    expect(loader(page, ".weight-form .answer .message")).to_be_visible()
    assert "SetWeight loader 60" in agent.calls


def test_touch_that_slides_off_a_button_defers_nothing(page: Page, agent: FakeAgent, apply: Locator) -> None:
    apply.scroll_into_view_if_needed()
    at = position(apply)
    touch = page.context.new_cdp_session(page)
    point = {"x": at["x"] + at["width"] / 2, "y": at["y"] + at["height"] / 2}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    far = {"x": 10.0, "y": 10.0}
    touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [far]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.clock.run_for(400)
    agent.dead = "The agent does not answer: it is not running."
    run_polls(page)
    expect(page.locator("[data-banner=agent]")).to_be_visible()
    assert "SetWeight loader 60" not in agent.calls


def test_banner_appears_after_the_release_of_a_button(page: Page, agent: FakeAgent, apply: Locator) -> None:
    before = press(page, apply)
    agent.dead = "The agent does not answer: it is not running."
    run_polls(page, 3)
    expect(page.locator("[data-banner=agent]")).to_have_count(0)
    agent.dead = ""
    release_sets_60(page, agent, before)
    agent.dead = "The agent does not answer: it is not running."
    run_polls(page)
    expect(page.locator("[data-banner=agent]")).to_be_visible()


def test_unreachable_panel_is_reported_after_the_release(
    page: Page, agent: FakeAgent, apply: Locator
) -> None:
    before = press(page, apply)
    page.route("**/apps/rows", lambda route: route.abort())
    page.clock.run_for(3000)
    expect(page.locator("#offline")).to_be_hidden()
    release_sets_60(page, agent, before)
    page.clock.run_for(1000)
    expect(page.locator("#offline")).to_be_visible()


def test_success_message_disappears_after_the_release(page: Page, agent: FakeAgent, apply: Locator) -> None:
    """If the page is scrolled to its end, a change below the button could move the button."""
    loader(page, "[name=fixed_share]").fill("10")
    loader(page, "[data-action=apply-fixed-share]").click()
    message = loader(page, ".fixed-share-form .answer .message.ok")
    expect(message).to_be_visible()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    before = press(page, apply)
    page.clock.run_for(MESSAGE_MS + 1)
    expect(message).to_be_visible()
    release_sets_60(page, agent, before)
    page.clock.run_for(1)
    expect(message).to_have_count(0)


def test_answer_to_another_button_appears_after_the_release(
    page: Page, agent: FakeAgent, apply: Locator
) -> None:
    """While a button is pressed, no answer to a form appears, because it would move the button. Later it appears once."""
    go_on = threading.Event()
    stop_app = agent.stop_app

    def stop_slowly(name: str) -> None:
        go_on.wait(20)
        stop_app(name)

    agent.stop_app = stop_slowly  # type: ignore[method-assign]
    loader(page, "[data-action=stop]").click()
    before = press(page, apply)
    with page.expect_event("requestfinished", lambda request: request.url.endswith("/loader/stop")):
        go_on.set()
    page.clock.run_for(100)
    expect(loader(page, ".weight-form .answer .message")).to_have_count(0)
    assert position(apply) == before
    # A release outside the button is no click.
    page.mouse.move(5, 5)
    page.mouse.up()
    page.clock.run_for(1)
    expect(loader(page, ".weight-form .answer .message")).to_have_text(re.compile("stop", re.IGNORECASE))
    run_polls(page)
    expect(loader(page, "[data-action=start]")).to_be_visible()
    assert "SetWeight loader 60" not in agent.calls
    expect(loader(page, "[name=weight]")).to_have_value("60")


def test_the_focus_moves_from_a_button_that_disappears(page: Page) -> None:
    percent = loader(page, "[name=fixed_share]")
    percent.fill("10")
    percent.press("Enter")
    off = loader(page, "[data-action=off]")
    expect(off).to_be_visible()
    page.clock.run_for(1)
    off.focus()
    page.keyboard.press("Enter")
    expect(off).to_be_hidden()
    expect(loader(page, "[data-action=apply-fixed-share]")).to_be_focused()


def test_a_stop_is_undone_with_the_keyboard(page: Page, agent: FakeAgent) -> None:
    undo = loader(page, "#running-undo-loader button")
    expect(undo).to_have_count(0)
    loader(page, "[data-action=stop]").click()
    page.clock.run_for(1)
    expect(undo).to_have_text("Undo: start it again")
    expect(loader(page, ".answer .message").first).to_have_text("Loader is stopping.")
    undo.focus()
    page.keyboard.press("Enter")
    expect(undo).to_have_text("Undo: stop it again")
    page.clock.run_for(1)
    expect(undo).to_be_focused()
    expect(loader(page, ".answer .message").first).to_have_text("Loader is starting.")
    agent.stop_app("loader")  # by ekctl
    page.keyboard.press("Enter")
    message = loader(page, ".answer .message").first
    expect(message).to_contain_text("Loader was started or stopped again since. Nothing was undone.")
    assert agent.calls.count("StopApp loader") == 2


def test_a_what_if_line_appears_and_logs_no_error(page: Page) -> None:
    logged: list[str] = []
    page.on("console", lambda message: logged.append(message.text))
    loader(page, "[name=weight]").fill("60")
    page.clock.run_for(300)
    expect(loader(page, "#weight-what-if-loader .message")).to_contain_text("Not applied yet.")
    assert logged == []


def test_no_what_if_line_follows_a_value_that_was_applied_at_once(page: Page) -> None:
    weight, line = loader(page, "[name=weight]"), loader(page, "#weight-what-if-loader")
    weight.fill("60")
    page.clock.run_for(100)  # the request for the line waits for 200 ms
    weight.press("Enter")
    expect(loader(page, ".weight-form .answer .message")).to_have_count(1)
    with pytest.raises(PlaywrightTimeout), page.expect_request("**/what-if**", timeout=1000):
        page.clock.run_for(500)
    expect(line).to_be_empty()
    # A value that is typed back to the present one has no line either.
    weight.fill("61")
    page.clock.run_for(300)
    expect(line).to_contain_text("Not applied yet.")
    weight.fill("60")
    page.clock.run_for(300)
    expect(line).to_be_empty()


def test_a_session_that_has_ended_leads_to_the_log_in(page: Page, agent: FakeAgent, apply: Locator) -> None:
    """Also in the middle of a request by a script, and the change is not made."""
    agent.accounts._sessions.clear()
    apply.click()
    page.wait_for_url("**/login")
    assert "SetWeight loader 60" not in agent.calls


def test_overview_updates_and_announces_but_not_while_a_link_is_pressed(page: Page, agent: FakeAgent) -> None:
    page.goto("/")
    heading, announced = page.locator("h1"), page.locator("#announcements")
    expect(heading).to_have_text("Everything is fine")
    link = page.get_by_role("link", name="All apps")
    before = press(page, link)
    fine = agent.board
    agent.board = replace(fine, health="degraded", problems=[external("it smells")])
    run_polls(page, 2, "/overview/rows")
    expect(heading).to_have_text("Everything is fine")
    assert position(link) == before
    page.mouse.move(5, 5)
    page.mouse.up()  # a release outside the link is no click
    page.clock.run_for(500)
    run_polls(page, 1, "/overview/rows")
    expect(heading).to_have_text("One problem needs attention")
    expect(announced).to_have_text("One problem needs attention")
    agent.board = fine
    run_polls(page, 1, "/overview/rows")
    expect(heading).to_have_text("Everything is fine")
    expect(announced).to_have_text("Everything is fine")
    press(page, link)
    agent.board = replace(fine, health="degraded", problems=[external("it smells")])
    run_polls(page, 1, "/overview/rows")
    page.mouse.up()
    page.wait_for_url("**/apps")


def test_overview_says_that_the_panel_does_not_answer(page: Page) -> None:
    page.goto("/")
    run_polls(page, 1, "/overview/rows")
    expect(page.locator("#offline")).to_be_hidden()
    page.route("**/overview/rows", lambda route: route.abort())
    page.clock.run_for(2000)
    expect(page.locator("#offline")).to_be_visible()


def test_on_a_phone_a_table_breaks_no_word(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/audit", "/account", "/network"):
        page.goto(path)
        broken = page.evaluate(
            """() => [...document.querySelectorAll(".table td:not(.text, :has(*))")].filter((cell) => {
                const range = document.createRange();
                range.selectNodeContents(cell);
                return /^\\w+$/.test(cell.textContent.trim()) && range.getClientRects().length > 1;
            }).map((cell) => cell.textContent)"""
        )
        assert broken == [], path


@pytest.mark.parametrize("script", [True, False])
def test_on_a_phone_the_menu_opens_and_closes_with_the_keyboard(page: Page, script: bool) -> None:
    """The browser does it, without a script of the panel."""
    browser = page.context.browser
    assert browser
    context = browser.new_context(
        base_url=page.url.removesuffix("/apps"),
        viewport={"width": 390, "height": 844},
        java_script_enabled=script,
        storage_state=page.context.storage_state(),
    )
    context.set_default_timeout(WAIT_MS)
    phone = context.new_page()
    phone.goto("/apps")
    menu, pages = phone.get_by_role("button", name="Menu"), phone.get_by_role("navigation", name="Pages")
    expect(pages).to_be_hidden()
    menu.press("Enter")
    expect(pages).to_be_visible()
    phone.keyboard.press("Escape")
    expect(pages).to_be_hidden()
    expect(menu).to_be_focused()
    menu.press("Enter")
    for _ in range(4):
        phone.keyboard.press("Tab")
    expect(pages.get_by_role("link", name="Wear")).to_be_focused()
    phone.keyboard.press("Enter")
    phone.wait_for_url("**/wear")
    expect(pages).to_be_hidden()
    context.close()


def test_on_a_desktop_the_navigation_is_a_column_that_stays(page: Page) -> None:
    pages = page.get_by_role("navigation", name="Pages")
    for width in (1024, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 500})
        expect(page.get_by_role("button", name="Menu")).to_be_hidden()
        column, main = position(pages), position(page.locator("main"))
        assert column["x"] + column["width"] <= main["x"]
        heights = pages.get_by_role("link").evaluate_all("links => links.map(link => link.offsetHeight)")
        assert len(set(heights)) == 1, "each title needs one line"
    page.evaluate("scrollTo(0, 300)")
    expect(pages.get_by_role("link", name="Overview")).to_be_in_viewport()
    page.set_viewport_size({"width": 1023, "height": 500})
    expect(pages).to_be_hidden()
