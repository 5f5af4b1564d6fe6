# SPDX-License-Identifier: Apache-2.0
"""Steps that the browser tests of several pages share: log in, check a page at all sizes, and check it for barriers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

import posts  # noqa: E402
from boards import Board  # noqa: E402
from sample import sample  # noqa: E402

SHOTS = TOP / "build/screenshots"
AXE = TOP / "build/axe"
PASSWORD = "a long enough one 42"  # noqa: S105
# Time limit for a page to load or change. An emulated board on two busy cores may need this long.
PATIENCE_MS = 180_000
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
VIEWS = [(device, scheme) for device in ("desktop", "phone") for scheme in ("light", "dark")]


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync", "--no-first-run"],
        )  # fmt: skip
        yield browser
        browser.close()


@contextmanager
def logged_in(
    browser: Browser, board: Board, *, script: bool = True, user_agent: str | None = None
) -> Iterator[Page]:
    """A page whose user, an administrator, is logged in. At the first log-in, the first-boot password is changed.

    SCRIPT: whether the browser runs JavaScript. USER_AGENT: how it calls itself. The block fails if a script of the page
    fails.
    """
    board.health()
    # Ignore certificate errors: the board made its own certificate at the first boot.
    context = browser.new_context(
        ignore_https_errors=True,
        base_url=f"https://127.0.0.1:{board.port}",
        viewport={"width": 1280, "height": 860},
        java_script_enabled=script,
        user_agent=user_agent,
    )
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    posts.watch(context)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    # empty once it has been changed
    first = json.loads("{" + board.run("ekctl first-password --json").partition("{")[2])["password"]
    page.goto("/login")
    page.locator("input[name=password]").fill(first or PASSWORD)
    page.get_by_role("button", name="Log in").click()
    if first:
        page.locator("input[name=current]").fill(first)
        for field in ("new", "confirm"):
            page.locator(f"input[name={field}]").fill(PASSWORD)
        page.get_by_role("button", name="Set the password").click()
    page.wait_for_url(re.compile(r"/(setup\?changed=1)?$"))
    yield page
    context.close()
    assert errors == [], "a script of the page failed"


def check(page: Page, name: str) -> None:
    """Check the page as it looks on a desktop or a phone, light or dark: screenshot, width, no barrier that axe finds.

    Checks one of these four views, which the seed draws for each page; all four with DEEP=1.
    """
    SHOTS.mkdir(parents=True, exist_ok=True)
    for device, scheme in sample(f"views of {name}", VIEWS):
        size = DESKTOP if device == "desktop" else PHONE
        page.set_viewport_size({"width": size["width"], "height": size["height"]})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.wait_for_timeout(300)
        page.screenshot(path=SHOTS / f"{name}-{device}-{scheme}.png", full_page=True)
        overflow = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overflow <= 0, f"{name} on a {device} is {overflow} px wider than the window"
        found = barriers(page)
        assert not found, f"{name} on a {device}, {scheme}: {found}"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 860})


def barriers(page: Page) -> list[str]:
    """The violations that axe finds on the page, as text."""
    subprocess.run([TOP / "tests/browser/axe/fetch", AXE], check=True)
    # evaluate() is not subject to the content security policy, which forbids all other scripts
    page.evaluate((AXE / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:200]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]


# What a user can operate, as texts: the tag, and what tells it from others. Of radio buttons, Tab reaches one of a group. A
# field that is for programs, such as a password manager, has a negative tabIndex.
CONTROLS = """
() => {
  const key = element => [element.tagName, element.id, element.name || "", element.getAttribute("href") || "",
                          element.type === "radio" ? "" : element.value || "",
                          element.innerText.trim().split("\\n")[0]].join("|");
  window.control = () => {
    const element = document.activeElement;
    return [key(element), element === document.body || getComputedStyle(element).outlineStyle !== "none"];
  };
  return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [role=button]")]
    .filter(element => !element.disabled && element.type !== "hidden" && element.tabIndex >= 0
                       && element.checkVisibility({visibilityProperty: true}))
    .map(key);
}
"""


def beyond_the_keyboard(page: Page) -> list[str]:
    """The controls of the page that Tab does not reach, or that do not show that they have the focus.

    A page loads some of its parts late, and then its controls change: it begins again.
    """
    for _ in range(3):
        wanted = set(page.evaluate(CONTROLS))
        reached, shown = set(), set()
        # Tab stops at each part of a date and a time. Its calendar shows the focus by itself.
        dates = page.locator("input[type^=date], input[type=time]").count()
        for _ in range(len(wanted) + 10 + 8 * dates):
            page.keyboard.press("Tab")
            control, visible = page.evaluate("control()")
            reached.add(control)
            if visible:
                shown.add(control)
        if set(page.evaluate(CONTROLS)) == wanted:
            hidden = [f"{control} does not show that it has the focus" for control in sorted(reached - shown)]
            return [*hidden, *(f"Tab does not reach {control}" for control in sorted(wanted - reached))]
    raise AssertionError("the controls of the page changed during three walks with Tab")


def tab_to(page: Page, text: str, presses: int = 80) -> None:
    """Press Tab until the element with TEXT has the focus. The page must show that it has it."""
    for _ in range(presses):
        page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.innerText || document.activeElement.id || ''")
        if focused.strip() == text:
            style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style != "none", f"nothing shows that {text} has the focus"
            return
    raise AssertionError(f"{presses} presses of Tab did not reach {text}")
