# SPDX-License-Identifier: Apache-2.0
"""A user at the panel of a booted board logs in and sets weights, and the I/O of real apps changes accordingly.

The tests are the steps of one visit. They run in order, and each continues where the previous one ended.
Screenshots of every page are written to build/screenshots.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

import posts  # noqa: E402
from boards import Board, power_on, until  # noqa: E402
from pages import PASSWORD, PATIENCE_MS, check  # noqa: E402

# Pause after a change of weights, before rates are measured. The page shows rates over the last 3 s, which must not
# include I/O from before the change.
SETTLE_SECONDS = 12
MEASURE_SECONDS = 24
# bandwidth of the demo's disk, a null_blk
DISK_MBPS = 51
APPS = "/sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice"
PLAYER_WEIGHT = f"cat {APPS}/evenkeel-player.service/io.weight"
LOADER_WEIGHT = f"cat {APPS}/evenkeel-loader.service/io.weight"
# Prints the loader's fixed share of the demo's disk. io.evenkeel.fixed has no line for the disk without a fixed share.
LOADER_FIXED_SHARE = (
    f"grep ^$(cat /sys/block/nullb0/dev) {APPS}/evenkeel-loader.service/io.evenkeel.fixed || :"
)


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    yield from power_on("browser", credentials=("evenkeel.demo=1", "evenkeel.console=1"))


@pytest.fixture(scope="module")
def page(browser: Browser, board: Board) -> Iterator[Page]:
    board.health()
    # Ignore certificate errors: the board made its own certificate at the first boot.
    context = browser.new_context(
        ignore_https_errors=True,
        base_url=f"https://127.0.0.1:{board.port}",
        viewport={"width": 1280, "height": 860},
    )
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    posts.watch(context)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == [], "a script of the page failed"


def app(page: Page, name: str, field: str) -> float | None:
    """A figure of an app on the page."""
    text = page.locator(f'[data-app="{name}"] [data-field="{field}"]').first.get_attribute("data-value")
    return None if text in (None, "") else float(text)


def set_weight(page: Page, name: str, weight: str) -> None:
    row = page.locator(f'[data-app="{name}"]')
    row.locator("input[name=weight]").fill(weight)
    row.locator('[data-action="apply"]').click()


def set_fixed_share(page: Page, name: str, percent: str) -> None:
    row = page.locator(f'[data-app="{name}"]')
    row.locator("input[name=fixed_share]").fill(percent)
    row.locator('[data-action="apply-fixed-share"]').click()


def average(page: Page, seconds: float) -> dict[str, float]:
    """Mean MB/s of both apps over `seconds`, from the figures on the page."""
    sums = {"player": 0.0, "loader": 0.0}
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rates = {name: app(page, name, "mbps") for name in sums}
        if None not in rates.values():
            for name, rate in rates.items():
                sums[name] += rate or 0.0
            count += 1
        page.wait_for_timeout(1000)
    assert count >= seconds / 2, "the page did not get new figures"
    return {name: total / count for name, total in sums.items()}


def full_disk(page: Page) -> dict[str, float]:
    """average() from a time in which both apps together fill the demo's disk: only then weights decide the rates.

    On a busy host the board may at times be too slow to fill the disk, so measure up to six times.
    """
    rates: dict[str, float] = {}
    for _ in range(6):
        rates = average(page, MEASURE_SECONDS)
        if sum(rates.values()) > 0.97 * DISK_MBPS:
            return rates
    raise AssertionError(f"the host is too busy: the apps never filled the disk of {DISK_MBPS} MB/s: {rates}")


@pytest.mark.picture
def test_wrong_password_is_refused(page: Page) -> None:
    page.goto("/")
    expect(page).to_have_url(re.compile("/login"))
    check(page, "login")
    page.locator("input[name=password]").fill("not this one")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    check(page, "login-refused")


@pytest.mark.picture
@pytest.mark.posts("/login", "/password", "/setup/step", "/setup/next")
def test_first_password_must_be_changed(page: Page, board: Board) -> None:
    page.locator("input[name=password]").fill(board.first_password())
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile("/password"))
    # Before the password is changed, no other page opens.
    page.goto("/apps")
    expect(page).to_have_url(re.compile("/password"))
    check(page, "password")
    page.locator("input[name=current]").fill(board.first_password())
    for field in ("new", "confirm"):
        page.locator(f"input[name={field}]").fill(PASSWORD)
    page.get_by_role("button", name="Set the password").click()
    expect(page).to_have_url(re.compile("/setup"))
    # A new board offers its set-up. It works with the keyboard, and step by step on the pages of the panel.
    check(page, "setup")
    page.get_by_role("button", name="Begin").press("Enter")
    for step in ("Name", "Time", "Network", "Alerts", "Code at log-in"):
        expect(page.locator(".setup strong")).to_contain_text(step)
        page.locator(".setup button.primary").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("The set-up has ended")
    page.goto("/apps")
    assert '"password": ""' in board.run("ekctl first-password --json")
    until("the screen lost the first-boot password", lambda: "first-boot password" not in board.screen())
    until("the screen has the addresses", lambda: "evenkeel: panel: https://evenkeel-" in board.screen())


def test_apps_run_at_their_first_start(board: Board) -> None:
    """The agent sets their weights before their device exists. They must be able to open the device all the same."""
    assert board.run("systemctl show -P NRestarts evenkeel-player evenkeel-loader").split() == ["0", "0"]
    assert board.run("systemctl is-active evenkeel-player evenkeel-loader").split() == ["active", "active"]


@pytest.mark.parametrize("weight", ["0", "10001", "-5", "1.5", "heavy", ""])
def test_bad_weight_is_refused_and_changes_nothing(page: Page, board: Board, weight: str) -> None:
    before = board.run(PLAYER_WEIGHT)
    set_weight(page, "player", weight)
    answer = page.locator("#weight-message-player .bad")
    expect(answer).to_be_visible()
    # the message quotes the input
    expect(answer).to_contain_text(weight or "weight")
    # the field keeps the input, so that the user can correct it
    expect(page.locator('[data-app="player"] input[name=weight]')).to_have_value(weight)
    assert before == board.run(PLAYER_WEIGHT)
    if weight == "0":
        check(page, "apps-refused")


@pytest.mark.picture
def test_equal_weights_make_the_player_stall(page: Page) -> None:
    for name in ("player", "loader"):
        set_weight(page, name, "100")
        expect(page.locator(f"#weight-message-{name} .bad")).to_have_count(0)
    page.wait_for_timeout(SETTLE_SECONDS * 1000)
    before = app(page, "player", "stalls") or 0
    rates = average(page, MEASURE_SECONDS)
    assert 0.9 <= rates["player"] / rates["loader"] <= 1.1, rates
    assert (app(page, "player", "stalls") or 0) > before, "the player must stall at equal weights"
    check(page, "apps-stalling")


@pytest.mark.picture
@pytest.mark.posts("/apps/<name>/weight")
def test_weights_of_four_to_one_reach_the_disk_and_end_the_stalls(page: Page, board: Board) -> None:
    set_weight(page, "player", "400")
    expect(page.locator('[data-app="player"] [data-field="weight"]')).to_have_attribute("data-value", "400")
    assert "400" in board.run(PLAYER_WEIGHT)
    page.wait_for_timeout(SETTLE_SECONDS * 1000)
    before = app(page, "player", "stalls")
    rates = full_disk(page)
    ratio = rates["player"] / rates["loader"]
    print(f"player {rates['player']:.1f} MB/s, loader {rates['loader']:.1f} MB/s, ratio {ratio:.2f}")
    assert 3.6 <= ratio <= 4.4, rates
    assert app(page, "player", "stalls") == before, "the player must not stall at 4:1"
    check(page, "apps")


def test_json_has_the_same_weights(page: Page) -> None:
    data = page.request.get("/apps.json").json()
    weights = {a["name"]: a["weight"] for a in data["apps"]}
    assert weights == {"player": 400, "loader": 100}


@pytest.mark.parametrize("percent", ["0", "101", "2.5", "fast", ""])
def test_bad_fixed_share_is_refused_and_changes_nothing(page: Page, board: Board, percent: str) -> None:
    set_fixed_share(page, "loader", percent)
    answer = page.locator("#fixed-share-message-loader .bad")
    expect(answer).to_be_visible()
    expect(answer).to_contain_text(percent or "fixed share")
    expect(page.locator('[data-app="loader"] input[name=fixed_share]')).to_have_value(percent)
    expect(page.locator("#weight-message-loader .bad")).to_have_count(0)
    assert board.run(LOADER_FIXED_SHARE) == ""
    if percent == "101":
        check(page, "apps-fixed-share-refused")


@pytest.mark.posts("/apps/<name>/fixed-share")
def test_fixed_share_reaches_the_disk_and_off_ends_it(page: Page, board: Board) -> None:
    """With a fixed share of 10 %, the loader gets about a tenth of the bandwidth."""
    row = page.locator('[data-app="loader"]')
    set_fixed_share(page, "loader", "10")
    expect(row.locator('[data-field="fixed_share"]')).to_have_attribute("data-value", "10")
    expect(row.locator("#fixed-share-status-loader").get_by_text("in force", exact=True)).to_be_visible()
    expect(row.locator("#weight-status-loader")).to_contain_text("no effect: fixed share")
    assert board.run(LOADER_FIXED_SHARE).split()[1] == "10"
    expect(row.locator('[data-field="fixed-share-used"]')).to_be_visible()
    page.wait_for_timeout(SETTLE_SECONDS * 1000)
    rates = average(page, MEASURE_SECONDS)
    part = rates["loader"] / sum(rates.values())
    print(
        f"player {rates['player']:.1f} MB/s, loader {rates['loader']:.1f} MB/s at 10 %, {100 * part:.1f} % of both"
    )
    # The part is more than 10 %, because the player does not use all of the rest.
    assert 0.07 <= part <= 0.15, rates
    check(page, "apps-fixed-share")
    data = {each["name"]: each for each in page.request.get("/apps.json").json()["apps"]}
    assert [data[name]["fixed_share"] for name in ("loader", "player")] == [10, 0]
    assert data["loader"]["fixed_share_applied"]

    row.locator('[data-action="off"]').click()
    expect(row.locator('[data-field="fixed_share"]')).to_have_attribute("data-value", "0")
    expect(row.locator('[data-action="off"]')).to_be_hidden()
    expect(row.locator('input[name="fixed_share"]')).to_have_value("")
    expect(row.locator("#weight-status-loader").get_by_text("in force", exact=True)).to_be_visible()
    assert board.run(LOADER_FIXED_SHARE) == ""


def test_pressed_button_does_not_move(page: Page, board: Board) -> None:
    """A banner that is due while a button is pressed appears only after its release.

    Otherwise the button would move under the pointer, and the click would be lost.
    """
    row = page.locator('[data-app="loader"]')
    row.locator("input[name=weight]").fill("60")
    button = row.locator('[data-action="apply"]')
    button.hover()
    page.mouse.down()
    before = button.bounding_box()
    try:
        board.run("systemctl mask --runtime --now evenkeeld.service")
        # In this time the page gets several answers that contain the banner.
        page.wait_for_timeout(6000)
        assert button.bounding_box() == before
        expect(page.locator('[data-banner="agent"]')).to_have_count(0)
    finally:
        board.run("systemctl unmask --runtime evenkeeld.service && systemctl start evenkeeld.service")
    page.wait_for_timeout(3000)
    page.mouse.up()
    expect(row.locator('[data-field="weight"]')).to_have_attribute("data-value", "60")


@pytest.mark.posts("/apps/<name>/stop", "/apps/<name>/start")
def test_weight_of_a_stopped_app_applies_when_it_starts(page: Page, board: Board) -> None:
    row = page.locator('[data-app="loader"]')
    row.locator('[data-action="stop"]').click()
    expect(row.locator('[data-field="state"]')).not_to_have_attribute("data-value", "active")
    set_weight(page, "loader", "50")
    expect(row.locator('[data-field="weight"]')).to_have_attribute("data-value", "50")
    expect(row).to_contain_text("applies at next start")
    check(page, "apps-stopped")
    # The page may show the new state before it has the answer.
    with page.expect_response("**/apps/loader/start"):
        row.locator('[data-action="start"]').click()
    expect(row.locator('[data-field="state"]')).to_have_attribute("data-value", "active")
    expect(row.locator("#weight-status-loader").get_by_text("in force", exact=True)).to_be_visible()
    assert "50" in board.run(LOADER_WEIGHT)


def test_dead_agent_is_reported_and_the_panel_stays_up(page: Page, board: Board) -> None:
    board.run("systemctl mask --runtime --now evenkeeld.service")
    try:
        expect(page.locator('[data-banner="agent"]')).to_be_visible()
        check(page, "apps-no-agent")
        status, health = board.health(timeout=5)
        assert status == 503
        assert health["health"] == "agent-unreachable"
        page.reload()
        expect(page.locator('[data-banner="agent"]')).to_be_visible()
    finally:
        board.run("systemctl unmask --runtime evenkeeld.service && systemctl start evenkeeld.service")
    expect(page.locator('[data-banner="agent"]')).to_have_count(0)
    assert app(page, "player", "weight") == 400
