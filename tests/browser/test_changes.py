# SPDX-License-Identifier: Apache-2.0
"""Changes in a browser that have no file of their own here: each is made, is shown, and is undone."""

from __future__ import annotations

import http.server
import json
import re
import sys
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board  # noqa: E402
from pages import check  # noqa: E402


@pytest.mark.posts("/users", "/users/<name>/role", "/users/<name>/reset", "/users/<name>/remove")
def test_a_user_is_added_gets_a_role_and_a_new_password_and_is_removed(page: Page) -> None:
    page.goto("/users")
    page.get_by_label("New user").fill("mona")
    page.get_by_label("Role", exact=True).select_option("operator")
    page.get_by_role("button", name="Add the user").click()
    expect(page.get_by_role("status").first).to_be_visible()
    row = page.get_by_role("row").filter(has_text="mona")
    expect(row).to_contain_text("first password")
    check(page, "users-added")

    role = page.get_by_label("Role of mona")
    expect(role).to_have_value("operator")
    role.select_option("viewer")
    row.get_by_role("button", name="Set").click()
    expect(page.get_by_label("Role of mona")).to_have_value("viewer")

    page.get_by_role("link", name="Reset the password of mona").click()
    check(page, "users-reset")
    page.locator("main button.primary").click()
    expect(page.get_by_role("status").first).to_contain_text("mona")

    page.goto("/users")
    page.get_by_role("link", name="Remove mona").click()
    check(page, "users-remove")
    page.locator("main button.primary").click()
    expect(page.get_by_role("row").filter(has_text="mona")).to_have_count(0)


def test_a_name_of_a_user_that_is_taken_is_refused(page: Page) -> None:
    page.goto("/users")
    page.get_by_label("New user").fill("admin")
    page.get_by_role("button", name="Add the user").click()
    expect(page.get_by_role("alert")).to_contain_text("admin")


@pytest.mark.posts("/account/tokens", "/account/tokens/<id>/remove")
def test_a_token_reads_figures_until_it_is_removed(page: Page) -> None:
    page.goto("/account")
    page.get_by_label("Name", exact=True).fill("figures")
    page.get_by_role("button", name="Make a token").click()
    shown = re.search(r"(ek_\S+)\. Note it now", page.get_by_role("status").first.inner_text())
    assert shown is not None
    token = shown[1]
    check(page, "account-token")

    def status() -> int:
        headers = {"Authorization": f"Bearer {token}", "Cookie": ""}
        return page.request.get("/metrics", headers=headers).status

    assert status() == 200
    page.goto("/account")
    page.get_by_role("button", name="Remove the token figures").click()
    expect(page.get_by_role("button", name="Remove the token figures")).to_have_count(0)
    assert status() in (401, 403)


class Receiver(http.server.BaseHTTPRequestHandler):
    """A webhook. It keeps the documents that it gets."""

    got: list[dict[str, object]] = []  # noqa: RUF012  one list for all requests

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()


@pytest.mark.posts("/alerts", "/alerts/test")
def test_a_test_of_the_alerts_arrives(page: Page) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto("/alerts")
        # QEMU's address of this machine, as the board sees it
        page.locator("#webhook").fill(f"http://10.0.2.2:{server.server_address[1]}/")
        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_role("status").first).to_contain_text("The test was sent.")
        check(page, "alerts-test")
        server.shutdown()
    assert len(Receiver.got) == 1
    page.locator("#webhook").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Send a test")).to_have_count(0)


@pytest.mark.posts("/alerts")
def test_alerts_are_saved(page: Page) -> None:
    page.goto("/alerts")
    page.locator("#webhook").fill("https://example.org/alerts")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_be_visible()
    check(page, "alerts-saved")
    page.goto("/alerts")
    expect(page.locator("#webhook")).to_have_value("https://example.org/alerts")
    page.locator("#webhook").fill("")
    page.get_by_role("button", name="Save").click()
    page.goto("/alerts")
    expect(page.locator("#webhook")).to_have_value("")


@pytest.mark.posts("/wear/limit")
def test_a_limit_of_wear_is_set(page: Page) -> None:
    page.goto("/wear")
    page.locator("#limit").fill("77")
    page.get_by_role("button", name="Set the limit").click()
    page.goto("/wear")
    expect(page.locator("#limit")).to_have_value("77")
    page.locator("#limit").fill("110 %")
    page.get_by_role("button", name="Set the limit").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    check(page, "wear-limit-refused")
    page.locator("#limit").fill("off")
    page.get_by_role("button", name="Set the limit").click()
    page.goto("/wear")
    expect(page.locator("#limit")).to_have_value("off")


@pytest.mark.posts("/system/name", "/system/time-zone")
def test_the_name_and_the_time_zone_of_the_board_are_changed(page: Page, board: Board) -> None:
    page.goto("/system")
    before = page.locator("[data-field=name]").inner_text()
    for name in ("shop-7", before):
        page.get_by_label("New name").fill(name)
        page.get_by_role("button", name="Change the name").click()
        expect(page.locator("[data-field=name]")).to_have_text(name)
        assert board.run("hostnamectl --static hostname").strip() == name
    page.get_by_label("Time zone").select_option("Europe/Vienna")
    page.get_by_role("button", name="Change the time zone").click()
    expect(page.get_by_role("status").first).to_be_visible()
    assert board.run("timedatectl show -P Timezone").strip() == "Europe/Vienna"
    page.goto("/system")
    page.get_by_label("Time zone").select_option("UTC")
    page.get_by_role("button", name="Change the time zone").click()
    expect(page.get_by_label("Time zone")).to_have_value("UTC")


@pytest.mark.posts("/system/time-servers")
def test_time_servers_are_set_and_left_to_the_network_again(page: Page, board: Board) -> None:
    page.goto("/system")
    page.get_by_label("Time servers (NTP)").fill("no-name-at-all!")
    page.get_by_role("button", name="Change the time servers").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Time servers (NTP)")).to_have_value("no-name-at-all!")
    for typed, shown in (
        ("10.0.2.2 ntp.example.org", "10.0.2.2, ntp.example.org"),
        ("", "chosen by the network"),
    ):
        page.get_by_label("Time servers (NTP)").fill(typed)
        page.get_by_role("button", name="Change the time servers").click()
        expect(page.locator("[data-field=servers]")).to_have_text(shown)
        expect(page.get_by_role("status").first).to_be_visible()
        assert json.loads(board.run("ekctl system --json"))["servers"] == typed.split()
        if typed:
            check(page, "time-servers")


@pytest.mark.posts("/cache/add", "/cache/remove")
def test_a_priority_directory_is_added_and_removed(page: Page, board: Board) -> None:
    board.run("mkdir -p /data/shop")
    page.goto("/cache")
    page.get_by_label("App").select_option(label="Player")
    page.get_by_label("Directory").fill("shop")
    page.get_by_role("button", name="Add the directory").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Directory")).to_have_value("shop")
    page.get_by_label("Directory").fill("/data/shop")
    page.keyboard.press("Enter")
    row = page.locator('[data-directory="/data/shop"]')
    expect(row).to_contain_text("Player")
    expect(row.locator(".pill")).to_have_text("protected")
    check(page, "cache-added")
    page.get_by_role("button", name="Remove /data/shop").click()
    expect(row).to_have_count(0)
    assert "/data/shop" not in board.run("ekctl cache --json")


@pytest.mark.picture
@pytest.mark.posts("/setup/step", "/setup/next", "/setup/end")
def test_the_set_up_leads_on_and_is_offered_no_more(page: Page) -> None:
    """Pictures of the overview then do not show the offer. test_panel.py takes a new board through all steps."""
    page.goto("/setup")
    page.get_by_role("button", name="Open the step Time").click()
    bar = page.get_by_role("region", name="Set-up of this board")
    expect(bar).to_contain_text("Set-up, step 2 of 5: Time.")
    check(page, "setup-bar")
    bar.get_by_role("button", name="Next step: Network").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Network")
    bar.get_by_role("button", name="Do not offer the set-up any more").click()
    expect(page).to_have_title(re.compile("Overview"))
    expect(bar).to_have_count(0)
