# SPDX-License-Identifier: Apache-2.0
"""The bench's page on a desktop and on a phone: nothing is wider than the window, and every plot is legible.

The page shows invented rows of every kind that a bench writes, so the tests boot no guest.
Screenshots are written to build/screenshots.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/lab"), str(TOP / "tests/bench"), str(TOP / "recipes/validate/src")]

from evenkeel_report import page as bench_page  # noqa: E402
from evenkeel_report.verdict import Verdict  # noqa: E402
from lab.model import Row  # noqa: E402
from quick_rows import QUICK  # noqa: E402

SHOTS = TOP / "build/screenshots"
DESKTOP, PHONE = (1280, 860), (390, 844)  # width and height of the window, in CSS pixels
# size of the smallest text that is legible on a phone, in CSS pixels on the screen
LEAST_TEXT = 11.0
# a case that has a curve of its distribution, in addition to rows of its percentiles
DISTRIBUTION = "latency.mixed.read"


def row(id_: str, value: float, **more: Any) -> Row:
    fields: dict[str, Any] = {
        "unit": "", "better": None, "target": None, "paper": None, "clock": "virtual", "kernel": "6.12",
        "subject": "evenkeel", **more,
    }  # fmt: skip
    return Row(id_, value, **fields)


def sample() -> str:
    """A page like that of a full bench."""
    invented = ("fair.read.", "fair.write.", "latency.")
    rows = [
        row(f"{name}.{metric}", 10.0 + i, unit="us", better="lower", target=12, must=i % 7 == 0,
            baselines={"bfq": 20.0 + i, "mq-deadline": 17.5})
        for name, metrics in QUICK.items() if not name.startswith(invented) for i, metric in enumerate(metrics)
    ]  # fmt: skip
    rows += [
        row(f"fair.{direction}.{mb}m.qd{qd}.depth64.ratio", 2.0 - mb / 1e4, target=(1.94, 2.06), paper=1.9 - mb / 150,
            baselines={"bfq": 2 - mb / 90, "none": 1.0, "mq-deadline": 1.01, "kyber": 0.99}, kernel=kernel)
        for direction in ("read", "write") for qd in (1, 4) for kernel in ("6.12", "7.3")
        for mb in (1, 8, 30, 35, 40, 45, 50, 100)
    ]  # fmt: skip
    rows += [
        row(f"{DISTRIBUTION}.{metric}", value, unit="us", better="lower", target=5000 if metric == "p99" else None,
            must=True, baselines={"bfq": 3.7 * value})
        for metric, value in (("p50", 180.0), ("p90", 900.0), ("p99", 2200.0), ("p999", 3900.0), ("max", 5100.0))
    ]  # fmt: skip
    shares = [1 - 10 ** (-4 * i / 40) for i in range(40)] + [1.0]
    curves = {
        (DISTRIBUTION, "6.12"): {
            "evenkeel": [(150 * 1.09**i, share) for i, share in enumerate(shares)],
            "bfq": [(160 * 1.2**i, share) for i, share in enumerate(shares)],
        }
    }
    long = "WPRE-SDATA-FON-BGALL, " * 6
    return bench_page.render(
        rows, title="Evenkeel bench",
        meta={
            "revision": "0123456789ab-dirty", "qemu": "10.0.8 (Debian 1:10.0.8+ds-0+deb13u1)",
            "made": "2026-01-01T00:00:00Z", "guests": "290 of 290",
        },
        verdicts=[
            Verdict("fall of the ratio", "weights hold for small blocks", True, "read 1.96"),
            Verdict("fastest setting", long, False, long),
            Verdict("channel order", "none wins", None, "channel.mixed-90-10.mbps (6.12, none) missing"),
        ],
        curves=curves,
    )  # fmt: skip


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def opened(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[tuple[Page, str]]:
    width, height = request.param
    file = tmp_path / "index.html"
    file.write_text(sample())
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=width < 500)
    page = context.new_page()
    requested: list[str] = []
    page.on("request", lambda r: requested.append(r.url))
    page.goto(file.as_uri())
    yield page, request.node.callspec.id
    context.close()
    assert requested == [file.as_uri()], "the page must not load other files"


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_nothing_is_wider_than_the_window(opened: tuple[Page, str]) -> None:
    page, device = opened
    SHOTS.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.screenshot(path=SHOTS / f"bench-{device}-{scheme}.png", full_page=True)
    assert overflow(page) <= 0
    # also with all folded parts open
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    page.emulate_media(color_scheme="light")
    assert overflow(page) <= 0
    page.screenshot(path=SHOTS / f"bench-{device}-unfolded.png", full_page=True)


def test_plots_fit_and_their_text_is_legible(opened: tuple[Page, str]) -> None:
    page, _ = opened
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    plots = page.locator("svg.plot")
    assert plots.count() > 20
    window = page.viewport_size
    assert window is not None
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll("svg.plot")].map(plot => {
            const drawn = plot.getBoundingClientRect().width / plot.viewBox.baseVal.width;
            return Math.min(...[...plot.querySelectorAll("text")].map(
                text => drawn * parseFloat(getComputedStyle(text).fontSize)));
        }))"""
    )
    assert smallest >= LEAST_TEXT, f"text of {smallest:.1f} px"
    for box in (plots.nth(i).bounding_box() for i in range(plots.count())):
        assert box is not None
        assert box["width"] >= 280
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= window["width"]


def test_text_of_plots_is_inside_the_plot(opened: tuple[Page, str]) -> None:
    page, _ = opened
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    outside = page.evaluate(
        """() => [...document.querySelectorAll("svg.plot text")].filter(text => {
            const box = text.getBBox(), whole = text.ownerSVGElement.viewBox.baseVal;
            return box.x < -1 || box.x + box.width > whole.width + 1 || box.y + box.height > whole.height + 1;
        }).map(text => text.textContent)"""
    )
    assert sorted(set(outside)) == []


def test_distribution_has_one_line_per_scheduler(opened: tuple[Page, str]) -> None:
    page, _ = opened
    figure = page.locator("figure", has_text="mixed, read").filter(has=page.locator("ul.key"))
    assert figure.count() == 1
    assert figure.locator("path.line").count() == 2
    # The line has the 41 points of the curve (40 segments), not the five points of the percentiles.
    assert (figure.locator("path.line").first.get_attribute("d") or "").count("L") == 40


def test_missing_verdicts_are_highlighted(opened: tuple[Page, str]) -> None:
    page, _ = opened
    item = page.locator(".shapes li.missed")
    assert "Not judged: channel.mixed-90-10.mbps (6.12, none) missing" in item.inner_text()
    assert "1 could not be judged" in page.locator("#shapes").inner_text()
    assert "1 of 3 reproduced" in page.locator("#shapes").inner_text()
