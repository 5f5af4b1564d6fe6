# SPDX-License-Identifier: Apache-2.0
"""Changes in a browser that have no file of their own here: each is made, is shown, and is undone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board  # noqa: E402
from pages import check  # noqa: E402


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
