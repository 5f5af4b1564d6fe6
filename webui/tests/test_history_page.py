# SPDX-License-Identifier: Apache-2.0
"""The history page in a real browser: zoom by dragging and by the form, and no zoom by a click."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

import pytest
from evenkeel_history.live import Live, Server
from evenkeel_history.store import Store
from evenkeel_history.testing import fill
from evenkeel_history.tiers import slot
from evenkeel_panel.dev import FIRST_PASSWORD, dev_app
from evenkeel_panel.testing import COMPONENT, PASSWORD, time_limit
from playwright.sync_api import Page, expect, sync_playwright
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from evenkeel_panel.fake_agent import FakeAgent

VENDOR = COMPONENT.parent / "build/webui/vendor"
TEST_SECONDS = 90  # the time limit of a test; it takes a few seconds, but much longer on a busy machine
WAIT_MS = 20_000  # the time limit of a wait in a test


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of two apps over two years."""
    folder = tmp_path_factory.mktemp("history")
    store = Store(folder)
    store.open()
    fill(store, slot(int(time.time()), 60), ["player", "loader"])
    store.close()
    return folder


@pytest.fixture
def page(tmp_path: Path, agent: FakeAgent, folder: Path) -> Iterator[Page]:
    """The history page over an hour."""
    live = Server(tmp_path / "live", Live())
    app = dev_app(tmp_path, VENDOR, agent, HISTORY_FOLDER=folder, HISTORY_SOCKET=tmp_path / "live")
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        with time_limit(browser, TEST_SECONDS):
            context = browser.new_context(
                base_url=f"http://127.0.0.1:{server.server_port}", viewport={"width": 1280, "height": 860}
            )
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
            page.goto("/history?span=1h")
            yield page
            browser.close()
    server.shutdown()
    live.close()
    assert errors == [], "a script of the page failed"


def drag(page: Page, left: float, right: float) -> None:
    """Drag across the first chart, from LEFT to RIGHT in parts of its width. The mouse is still pressed."""
    box = page.locator(".plot").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * left, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * right, box["y"] + 70, steps=4)


def span(page: Page) -> int:
    """The length of the span that the form shows, in seconds."""
    return int(
        page.evaluate(
            "(new Date(document.getElementById('zoom-end').value + 'Z')"
            " - new Date(document.getElementById('zoom-start').value + 'Z')) / 1000"
        )
    )


@pytest.mark.parametrize(("left", "right"), [(0.25, 0.5), (0.5, 0.25)])
def test_a_drag_zooms(page: Page, left: float, right: float) -> None:
    drag(page, left, right)
    expect(page.locator(".plot .drag")).to_have_count(1)
    page.mouse.up()
    page.wait_for_url(re.compile(r"/history\?start="))
    assert 850 <= span(page) <= 950
    expect(page.get_by_text("Zoom out")).to_be_visible()


def test_a_short_drag_zooms_to_the_shortest_span(page: Page) -> None:
    drag(page, 0.5, 0.51)
    page.mouse.up()
    page.wait_for_url(re.compile(r"/history\?start="))
    assert span(page) == 60


def test_a_click_and_a_cancelled_drag_do_nothing(page: Page) -> None:
    page.locator(".plot").first.click()
    drag(page, 0.25, 0.5)
    page.keyboard.press("Escape")
    expect(page.locator(".plot .drag")).to_have_count(0)
    page.mouse.up()
    page.wait_for_timeout(500)
    assert page.url.endswith("/history?span=1h")


def readout(page: Page) -> dict[str, str]:
    """The names and values that the cursor shows."""
    rows = page.locator(".readout li").all()
    return {row.locator("span").inner_text(): row.locator("b").inner_text() for row in rows}


def test_the_pointer_shows_the_values_of_the_chart(page: Page) -> None:
    """They are those of the JSON, as precise as the picture."""
    data = page.request.get("/history.json?span=1h").json()
    throughput = page.locator(".plot.area")
    box = throughput.bounding_box()
    assert box
    for part in (0.2, 0.6, 0.9):
        page.mouse.move(box["x"] + box["width"] * part, box["y"] + 60)
        shown = throughput.locator(".readout p").inner_text().removesuffix(" UTC")
        at = max(row["at"] for row in data["rows"] if row["at"] <= data["start"] + 3600 * part)
        assert shown == time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))[: len(shown)]
        values = readout(page)
        high = float(throughput.get_attribute("data-high") or 0)
        for name in ("Player", "Loader"):
            rows = [row for row in data["rows"] if (row["at"], row["app"]) == (at, name.lower())]
            number, unit = values[name].split()
            assert unit == "MB/s"
            assert float(number) == pytest.approx(sum(row["mbps"] for row in rows), abs=high / 400)
    page.mouse.move(5, 5)
    expect(page.locator(".readout")).to_have_count(0)


def test_the_arrow_keys_show_the_values_of_the_chart(page: Page) -> None:
    data = page.request.get("/history.json?span=1h").json()
    times = sorted({row["at"] for row in data["rows"]})
    latency = page.locator(".plot.line")
    latency.focus()

    def shown(key: str) -> str:
        page.keyboard.press(key)
        return latency.locator(".readout p").inner_text()

    def at(index: int) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(times[index]))

    assert shown("ArrowLeft").startswith(at(-1))
    assert shown("ArrowLeft").startswith(at(-2))
    assert shown("Home").startswith(at(0))
    assert shown("ArrowRight").startswith(at(1))
    assert latency.locator(".readout").get_attribute("aria-live") == "polite"
    number, unit = readout(page)["Player"].split()
    us = float(number) * {"µs": 1, "ms": 1000, "s": 1e6}[unit]
    # the chart has reads and writes together
    p99 = [row["p99_us"] for row in data["rows"] if (row["at"], row["app"]) == (times[1], "player")]
    assert len(p99) == 2
    assert min(p99) * 0.99 <= us <= max(p99) * 1.01
    assert shown("End").startswith(at(-1))
    page.keyboard.press("Escape")
    expect(page.locator(".readout")).to_have_count(0)
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    expect(page.locator(".readout")).to_have_count(0)


def test_both_spans_of_a_comparison_show_their_values(page: Page) -> None:
    now = int(time.time())
    page.goto(f"/history/compare?start={now - 7200}&end={now - 3600}&start2={now - 3600}&end2={now - 60}")
    plots = page.locator(".plot[data-unit]")
    expect(plots).to_have_count(4)
    plots.nth(3).hover()
    expect(plots.nth(3).locator(".readout")).to_contain_text("Player")


def test_the_form_zooms_with_the_keyboard(page: Page) -> None:
    page.locator("summary", has_text="Zoom in").focus()
    page.keyboard.press("Enter")
    page.locator("#zoom-start").fill(page.locator("#zoom-start").input_value()[:16] + ":30")
    page.locator("#zoom-start").press("Enter")
    page.wait_for_url(re.compile(r"/history\?start="))
    expect(page.get_by_role("heading", name="Throughput", exact=True)).to_be_visible()


def test_a_bad_form_shows_the_reason(page: Page) -> None:
    page.locator("summary", has_text="Zoom in").click()
    page.locator("#zoom-end").fill("1999-01-01T00:00:00")
    page.locator("#zoom button").click()
    expect(page.locator("body")).to_contain_text("The span must end after it starts.")
