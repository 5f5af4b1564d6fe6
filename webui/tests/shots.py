# SPDX-License-Identifier: Apache-2.0
"""Screenshots of every page and state: `python3 webui/tests/shots.py VENDOR OUT`.

Needs Playwright and Debian's chromium. VENDOR is the folder that webui/src/fetch-static has filled.

Runs the panel with a fake agent, visits all pages in all states, and writes screenshots into OUT.
Fails if the browser reports an error (a violation of the content policy, an exception in a script,
a missing file), or if a page is wider than its window.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/agent/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/history/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recipes/history/tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from evenkeel_agent.network_config import Config
from evenkeel_agent.network_trial import State
from evenkeel_common.wear import Wear
from evenkeel_history.live import Live, Server
from evenkeel_history.period import READ, SYSTEM, WRITE, Sum
from evenkeel_history.store import Store
from evenkeel_history.testing import fill
from evenkeel_history.tiers import DAY, slot
from evenkeel_panel.dev import FIRST_PASSWORD, dev_app
from evenkeel_panel.fake_agent import FakeAgent, external, refused
from evenkeel_panel.testing import PASSWORD, time_limit
from history_library import load
from msgspec.structs import replace
from playwright.sync_api import (  # type: ignore[import-not-found,unused-ignore]
    ConsoleMessage,
    Page,
    sync_playwright,
)
from werkzeug.serving import make_server

LIMIT_S = 400
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
WIDTHS = {
    "wide": 1440,
    "side": 1024,
    "no-side": 1023,
}  # further windows, about the width at which the navigation moves
# the HTTP status codes of refused forms, which the browser logs as errors
EXPECTED = ("401", "404", "422", "429", "503")


def demo_history(folder: Path) -> Server:
    """A history of two years; in its last minutes, the player reads and the loader writes. An eMMC reports its wear."""
    now, live, store = int(time.time()), Live(), Store(folder)
    store.open()
    fill(store, slot(now, 60), ["player", "loader"])

    def span(seconds: int, n: int) -> Sum:
        found = Sum(ms=seconds * 1000)
        found.flow(("player", "mmcblk0", READ)).bytes = seconds * (30 + n % 7) * 1_000_000
        found.flow(("player", "mmcblk0", WRITE)).bytes = seconds * 20_000
        found.flow(("loader", "mmcblk0", READ)).bytes = seconds * (18 - n % 5) * 1_000_000
        found.flow(("loader", "mmcblk0", WRITE)).bytes = seconds * (90_000 + n % 6 * 12_000)
        found.flow((SYSTEM, "mmcblk0", WRITE)).bytes = seconds * 9_000
        return found

    for day in range(14):
        at = slot(now, DAY) - (13 - day) * DAY
        step = Wear("mmcblk0", 20 + day // 5 * 10, 10, "normal", (day + 1) * 10_000_000_000)
        store.write([], [step, Wear("vda")], min(at + 9, now))
    store.close()
    for at in range(now - 900, now):
        found = span(1, at // 20)
        found.add_stalls("player", at % 200 == 0, 140 * (at % 200 == 0))
        live.add(at, found)
    return Server(folder / "live", live)


def page_of_overview(page: Page) -> Page:
    """The overview in the window of PAGE."""
    page.goto("/")
    return page


def main() -> int:
    vendor, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    agent = FakeAgent(moving=True)
    agent.worn(Wear("mmcblk0", 40, 10, "normal"), Wear("vda"))  # as demo_history() ends
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as state, sync_playwright() as playwright, ExitStack() as stack:
        load(Path(state))
        history = Path(state) / "history"
        stack.callback(demo_history(history).close)
        app = dev_app(Path(state), vendor, agent, HISTORY_FOLDER=history, HISTORY_SOCKET=history / "live")
        server = make_server("127.0.0.1", 0, app, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        stack.enter_context(time_limit(browser, LIMIT_S))

        def on_console(message: ConsoleMessage) -> None:
            text = message.text
            known = text.startswith("Failed to load resource") and any(code in text for code in EXPECTED)
            if message.type in ("error", "warning") and not known:
                errors.append(text)

        def page_of(size: str, theme: str) -> Page:
            width, height = SIZES[size]
            scheme = "dark" if theme == "dark" else "light"
            context = browser.new_context(
                base_url=base, viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page = context.new_page()
            page.on("console", on_console)
            page.on("pageerror", lambda error: errors.append(str(error)))
            return page

        def shot(page: Page, name: str) -> None:
            page.wait_for_load_state()
            page.screenshot(path=out / f"{name}.png", full_page=True)
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            wide += page.evaluate(
                "Math.max(0, ...[...document.querySelectorAll('.app, .card, .bar, .panel')]"
                ".map((box) => box.scrollWidth - box.clientWidth))"
            )
            if wide > 0:
                errors.append(f"{name}: {wide} px too wide")

        page = page_of("desktop", "light")
        page.goto("/login")
        shot(page, "login-desktop-light")
        page.fill("[name=password]", "wrong")
        page.click("[type=submit]")
        shot(page, "login-wrong-desktop-light")
        page.fill("[name=password]", FIRST_PASSWORD)
        page.click("[type=submit]")
        shot(page, "password-desktop-light")
        page.fill("[name=current]", FIRST_PASSWORD)
        page.fill("[name=new]", PASSWORD)
        page.fill("[name=confirm]", PASSWORD + "s")
        page.click(".card [type=submit]")
        shot(page, "password-wrong-desktop-light")
        page.fill("[name=current]", FIRST_PASSWORD)
        page.fill("[name=new]", PASSWORD)
        page.fill("[name=confirm]", PASSWORD)
        page.click(".card [type=submit]")
        page.wait_for_url("**/setup?changed=1")
        shot(page, "setup-new-desktop-light")
        page.goto("/")
        shot(page, "setup-offered-desktop-light")
        page.goto("/setup")
        page.click("main button.primary")
        for step in ("name", "time", "network", "alerts", "code"):
            page.locator(".setup").wait_for()
            shot(page, f"setup-{step}-desktop-light")
            page.click(".setup button.primary")
        page.wait_for_url("**/setup")
        shot(page, "setup-ended-desktop-light")

        pages = {}
        for size in SIZES:
            for theme in ("light", "dark"):
                page = pages[size, theme] = page_of(size, theme)
                page.goto("/login")
                if theme == "dark":
                    shot(page, f"login-{size}-{theme}")
                page.fill("[name=password]", PASSWORD)
                page.click("[type=submit]")
                page.wait_for_url("**/")
                page.locator("[data-state=fine]").wait_for()
                page.wait_for_timeout(
                    11_000 if (size, theme) == ("desktop", "light") else 1500
                )  # one update at least
                shot(page, f"overview-{size}-{theme}")
                if size == "phone":
                    page.press(".menu", "Enter")
                    page.locator("#pages").wait_for()
                    shot(page, f"menu-{size}-{theme}")
                    page.keyboard.press("Escape")
                    page.locator("#pages").wait_for(state="hidden")
                for name in ("wear", "account", "users", "audit"):
                    page.goto(f"/{name}")
                    shot(page, f"{name}-{size}-{theme}")
                if (size, theme) == ("desktop", "light"):
                    page.goto("/users")
                    page.fill("[name=name]", "ben")
                    page.click("main [type=submit].primary")
                    shot(page, "users-added-desktop-light")
                    page.click("[href='/users/ben/remove']")
                    shot(page, "users-remove-desktop-light")
                    page.click("main [type=submit]")
                    page.goto("/account")
                    page.click("[action='/account/totp/begin'] [type=submit]")
                    shot(page, "account-code-desktop-light")
                page.goto("/apps")
        page = pages["desktop", "light"]
        width, height = SIZES["desktop"]
        for name, wide in WIDTHS.items():
            page.set_viewport_size({"width": wide, "height": height})
            assert page.locator("#pages").is_visible() == (wide >= 1024), name
            page.wait_for_timeout(300)
            shot(page, f"apps-{name}-light")
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(6000)
        player = page.locator("[data-app=player]")
        loader = page.locator("[data-app=loader]")
        player.locator("[name=weight]").fill("400")
        page.wait_for_timeout(2500)  # polls must not replace the input
        assert player.locator("[name=weight]").input_value() == "400"
        player.locator("[data-action=apply]").click()
        player.locator(".message.ok").wait_for()
        page.wait_for_timeout(12000)
        assert player.locator("[data-field=weight]").text_content() == "400"
        for (size, theme), each in pages.items():
            shot(each, f"apps-{size}-{theme}")

        loader.locator("[name=weight]").fill("heavy")
        loader.locator("[data-action=apply]").click()
        loader.locator(".message.bad").wait_for()
        page.wait_for_timeout(1500)
        assert loader.locator("[name=weight]").input_value() == "heavy"
        agent.refuse = refused(
            "Failed", "systemd did not take the weight: evenkeel-player.service is masked."
        )
        player.locator("[name=weight]").fill("9000")
        player.locator("[data-action=apply]").click()
        player.locator(".message.bad").wait_for()
        shot(page, "refused-desktop-light")
        agent.refuse = None
        player.locator("[name=weight]").fill("200")
        player.locator("[data-action=apply]").click()
        player.locator(".message.ok").wait_for()
        loader.locator("[data-action=stop]").click()
        loader.locator("[data-action=start]").wait_for()
        loader.locator("[name=weight]").fill("50")
        loader.locator("[data-action=apply]").click()
        loader.locator(".message.ok").wait_for()
        page.wait_for_timeout(1500)
        shot(page, "stopped-desktop-light")
        page.locator("[data-action=theme]").click()
        page.wait_for_timeout(300)
        shot(page, "toggled-desktop")
        page.locator("[data-action=theme]").click()

        # a fixed share
        page.reload()
        percent = loader.locator("[name=fixed_share]")
        assert loader.locator("[data-action=off]").is_hidden()
        percent.fill("15")
        page.wait_for_timeout(2500)  # polls must not replace the input
        assert percent.input_value() == "15"
        percent.press("Enter")  # must press Apply, not Off
        loader.locator(".fixed-share-form .message.ok").wait_for()
        assert loader.locator("[data-field=fixed_share]").get_attribute("data-value") == "15"
        loader.locator("[data-action=start]").click()
        loader.locator("[data-action=stop]").wait_for()
        loader.locator("[data-field=fixed-share-used]").wait_for()
        player.locator("[name=fixed_share]").fill("90")
        player.locator("[data-action=apply-fixed-share]").click()
        player.locator(".fixed-share-form .message.bad").wait_for()
        assert player.locator("[name=fixed_share]").get_attribute("aria-invalid") == "true"
        assert player.locator(".weight-form .message").count() == 0
        for size, theme in (("desktop", "light"), ("desktop", "dark"), ("phone", "light"), ("phone", "dark")):
            each = pages[size, theme]
            each.reload()
            each.wait_for_timeout(3500)
            shot(each, f"fixed-share-{size}-{theme}")
        player.locator("[name=fixed_share]").fill("90")
        player.locator("[data-action=apply-fixed-share]").click()
        player.locator(".fixed-share-form .message.bad").wait_for()
        shot(page, "fixed-share-refused-desktop-light")
        player.locator("[name=fixed_share]").fill("85")
        player.locator("[data-action=apply-fixed-share]").click()
        player.locator("[data-field=fixed-share-behind][data-value='1']").wait_for()
        shot(page, "fixed-share-behind-desktop-light")
        shot(pages["phone", "dark"], "fixed-share-behind-phone-dark")
        # The button Off disappears when it is pressed. With the keyboard, the focus must move to another button.
        loader.locator("[name=fixed_share]").focus()
        for _ in range(2):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        loader.locator(".fixed-share-form .message.ok").wait_for()
        assert loader.locator("[data-action=off]").is_hidden()
        page.wait_for_timeout(1500)
        assert page.evaluate("document.activeElement.dataset.action") == "apply-fixed-share"
        agent.obstacle = (
            "fixed share {percent} % of {app} is not in force: only the scheduler evenkeel can do it, "
            "and mmcblk0 has bfq"
        )
        loader.locator("[name=fixed_share]").fill("10 %")
        loader.locator("[data-action=apply-fixed-share]").click()
        loader.locator("[data-field=fixed-share-problem]").wait_for()
        shot(page, "fixed-share-not-in-force-desktop-light")
        agent.obstacle = ""
        for app in (player, loader):
            app.locator("[data-action=off]").click()
            app.locator(".fixed-share-form .message.ok").wait_for()
            app.locator("[data-action=off]").wait_for(state="hidden")

        # an app that is added and removed: both can be undone
        page.goto("/apps/add")
        for field, value in (("unit", "dashcam.service"), ("title", "Dashcam")):
            page.fill(f"[name={field}]", value)
        page.click("main [type=submit].primary")
        page.locator("[data-app=dashcam]").wait_for()
        shot(page, "apps-added-desktop-light")
        page.click("[data-app=dashcam] [name=undo][value=added]")
        for (size, theme), each in pages.items():
            each.goto("/apps")
            each.locator("[data-removed=dashcam]").wait_for()
            shot(each, f"apps-removed-{size}-{theme}")

        pages["phone", "light"].set_viewport_size({"width": 360, "height": 740})
        page.wait_for_timeout(300)
        shot(pages["phone", "light"], "apps-small-phone-light")

        # the history of two years and the changes above
        now = int(time.time())
        halves = f"start={now - 3600}&end={now - 1800}&start2={now - 1800}&end2={now}"
        for path, name in (
            ("/history", "history"),
            (f"/history/compare?{halves}", "compare"),
            ("/update", "update"),
        ):
            for (size, theme), each in pages.items():
                each.goto(path)
                shot(each, f"{name}-{size}-{theme}")
        # the recorder
        for (size, theme), each in pages.items():
            each.goto("/recorder")
            shot(each, f"recorder-{size}-{theme}")
        page.check("[name=channel][value=can0]")
        page.fill("[name=start]", "yesterday")
        page.wait_for_timeout(2500)  # polls must not replace the input
        assert page.input_value("[name=start]") == "yesterday"
        page.click(".download [type=submit]")
        page.locator(".message.bad").wait_for()
        assert page.is_checked("[name=channel][value=can0]")
        shot(page, "recorder-refused-desktop-light")
        page.fill("[name=start]", "")
        with page.expect_download() as download:
            page.click(".download [type=submit]")
        assert download.value.failure() is None
        # validations
        compared = "/validation/compare?first=20260131-120000&second=20260201-090000"
        for path, name in (
            ("/validation", "validation"),
            ("/validation/plan?profile=full&compare=yes", "validation-plan"),
            ("/validation/20260201-090000", "validation-report"),
            (compared, "validation-compare"),
        ):
            for (size, theme), each in pages.items():
                each.goto(path)
                shot(each, f"{name}-{size}-{theme}")
        page.goto("/validation/20260131-120000")
        with page.expect_download() as download:
            page.click("text=Save as JSON")
        assert download.value.failure() is None
        page.goto("/validation")
        page.click("main button.primary")
        page.click("main button.primary")
        page.locator("#progress progress").wait_for()
        page.wait_for_timeout(2500)  # one update at least
        shot(page, "validation-running-desktop-light")
        pages["phone", "dark"].goto("/validation")
        shot(pages["phone", "dark"], "validation-running-phone-dark")
        pages["phone", "dark"].goto(
            "/apps"
        )  # otherwise the end of the validation reloads the page during a goto()
        page.click("[action='/validation/cancel'] button")
        page.locator(".banner.ok").wait_for()
        # the page cache
        for (size, theme), each in pages.items():
            each.goto("/cache")
            shot(each, f"cache-{size}-{theme}")
        page.goto("/cache")
        page.fill("#directory", "srv/top")
        page.click("[action='/cache/add'] button")
        page.locator(".banner.bad").wait_for()
        page.wait_for_timeout(5500)  # an update must not replace the input
        assert page.input_value("#directory") == "srv/top"
        shot(page, "cache-refused-desktop-light")
        # the system
        for (size, theme), each in pages.items():
            each.goto("/setup")
            shot(each, f"setup-{size}-{theme}")
            each.goto("/system")
            shot(each, f"system-{size}-{theme}")
            each.goto("/system/journal?limit=50")
            shot(each, f"journal-{size}-{theme}")
        agent.certificate = replace(agent.certificate, issuer="CN=Example CA", own=False, hsts=True)
        agent.certificate = replace(agent.certificate, not_after=int(time.time()) + 20 * 86400)
        page.goto("/system")
        shot(page, "certificate-desktop-light")
        page.goto("/system")
        page.fill("[name=name]", "press 7")
        page.click("[action='/system/name'] button")
        page.locator(".banner.bad").wait_for()
        assert page.input_value("[name=name]") == "press 7"
        shot(page, "system-refused-desktop-light")
        agent.system = replace(agent.system, clock="waiting", server="")
        page.goto("/system")
        shot(page, "system-waiting-desktop-light")
        page.goto("/system/journal?end=yesterday")
        shot(page, "journal-refused-desktop-light")
        agent.journal = []
        page.goto("/system/journal")
        shot(page, "journal-empty-desktop-light")
        page.goto("/system")
        page.fill("[name=password]", PASSWORD)
        with page.expect_download() as download:
            page.click("[action='/system/backup'] button")
        saved = download.value.path()
        agent.set_host_name("other")
        agent.network._helper._state = State({"enp1s0": Config()})  # the backup has none
        page.set_input_files("[name=file]", saved)
        page.click("[action='/system/backup/check'] button")
        page.wait_for_selector("text=What changes")
        shot(page, "restore-desktop-light")
        agent.network._helper._state = State()
        page.goto("/system")
        page.check("[name=confirm]")
        page.click("[action='/system/power-off'] button")
        page.wait_for_selector("text=The board switches off")
        shot(page, "off-desktop-light")
        for each in pages.values():
            each.goto("/apps")

        agent.dead = "The agent does not answer: it is not running."
        page.wait_for_timeout(3500)
        for size, theme in (("desktop", "light"), ("phone", "dark")):
            shot(pages[size, theme], f"dead-agent-{size}-{theme}")
        overview = page_of_overview(pages["desktop", "dark"])
        shot(overview, "overview-dead-agent-desktop-dark")
        agent.dead = ""
        page.wait_for_timeout(3500)
        assert not page.locator("[data-banner=agent]").count()
        agent.board = replace(
            agent.board,
            health="degraded",
            problems=[
                external("evenkeel is not active on mmcblk0: it has mq-deadline"),
                external("x.toml is ignored: weight is missing"),
            ],
        )
        page.wait_for_timeout(2500)
        for size in SIZES:
            shot(pages[size, "light"], f"problems-{size}-light")
        overview.wait_for_timeout(2500)
        assert "2 problems need attention" in (overview.locator("h1").text_content() or "")
        shot(overview, "overview-problems-desktop-dark")
        shot(page_of_overview(pages["phone", "dark"]), "overview-problems-phone-dark")
        agent.worn(Wear("mmcblk0", 40, 10, "normal"))  # as in the history
        limit = pages["desktop", "light"]
        limit.goto("/wear?days=90")
        limit.fill("[name=limit]", "much")
        limit.click("form[action*=limit] [type=submit]")
        limit.locator(".banner.bad").wait_for()
        limit.fill("[name=limit]", "30")
        limit.click("form[action*=limit] [type=submit]")
        limit.locator("[data-problem=wear-limit]").wait_for()
        shot(limit, "wear-limit-desktop-light")
        limit.goto("/apps")
        page.goto("/alerts")
        shot(page, "alerts-off-desktop-light")
        page.fill("[name=mail_to]", "ops@example.org")
        page.click("main button.primary")
        page.wait_for_selector("[aria-invalid=true], .banner.bad")
        assert page.input_value("[name=mail_to]") == "ops@example.org"
        shot(page, "alerts-refused-desktop-light")
        page.fill("[name=webhook]", "https://chat.example.org/hooks/board")
        page.fill("[name=smtp_server]", "mail.example.org")
        page.click("main button.primary")
        page.wait_for_selector(".banner.ok")
        agent.alerts.fails = "the server answered 535 authentication failed"
        page.click("[action='/alerts/test'] button")
        page.wait_for_selector(".message.bad")
        shot(page, "alerts-failed-desktop-light")
        for size, theme in (("desktop", "dark"), ("phone", "light"), ("phone", "dark")):
            pages[size, theme].goto("/alerts")
            shot(pages[size, theme], f"alerts-failed-{size}-{theme}")
            pages[size, theme].goto("/apps")
        agent.alerts.fails = ""
        page.goto("/network")
        page.check("[name=mode][value=fixed]")
        page.fill("[name=gateway]", "192.168.2.1")
        page.click("main button.primary")
        page.wait_for_selector("[aria-invalid=true]")
        shot(page, "network-refused-desktop-light")
        page.fill("[name=gateway]", "192.168.1.1")
        page.fill("[name=address]", "192.168.1.20/24")
        page.click("main button.primary")
        page.wait_for_selector("[data-trial]")
        shot(page, "network-begun-desktop-light")
        agent.network.now_s += 12
        for size, theme in (("desktop", "light"), ("desktop", "dark"), ("phone", "light"), ("phone", "dark")):
            pages[size, theme].goto("/network")
            shot(pages[size, theme], f"network-trial-{size}-{theme}")
        agent.network.now_s += 60
        for size, theme in (("desktop", "light"), ("phone", "dark")):
            pages[size, theme].goto("/network")
            shot(pages[size, theme], f"network-undone-{size}-{theme}")
            pages[size, theme].goto("/apps")
        page.goto("/apps")

        agent.apps = []
        page.wait_for_timeout(2500)
        for size in SIZES:
            shot(pages[size, "light"], f"no-app-{size}-light")
        for size in SIZES:
            page = pages[size, "light"]
            for path, name in (("/password", "change"), ("/nowhere", "error"), ("/static/down.html", "down")):
                page.goto(path)
                shot(page, f"{name}-{size}-light")
        browser.close()
        server.shutdown()
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
