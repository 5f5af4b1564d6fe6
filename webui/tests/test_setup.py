# SPDX-License-Identifier: Apache-2.0
"""The set-up of a new board: its steps are the existing pages, and each can be left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.setup import model
from evenkeel_panel.testing import FIRST, PASSWORD, Browser, headings

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel
    from evenkeel_panel.fake_agent import FakeAgent
    from flask import Flask


def bar(browser: Browser, path: str) -> str:
    """The text of the bar on a page; "" without one."""
    found = re.search(r'<section class="banner setup".*?</section>', browser.get(path).text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split()) if found else ""


def test_each_step_is_a_page_with_its_form(app: Flask, admin: Browser) -> None:
    for step in model.STEPS:
        path, _, part = step.url.partition("#")
        page = admin.get(path)
        assert page.status_code == 200
        assert not part or f'id="{part}"' in page.text, step
        assert 'method="post"' in page.text


def test_the_first_log_in_leads_to_the_set_up(browser: Browser) -> None:
    browser.log_in(FIRST)
    fields = {"current": FIRST, "new": PASSWORD, "confirm": PASSWORD}
    done = browser.post("/password", "/password", **fields)
    assert done.location == "/setup?changed=1"
    page = browser.get(done.location).text
    assert "Your new password is set." in page
    assert "Set up this board" in page
    assert "Your new password" not in browser.get("/setup").text


def test_a_later_change_of_the_password_does_not(admin: Browser) -> None:
    fields = {"current": PASSWORD, "new": PASSWORD + "!", "confirm": PASSWORD + "!"}
    assert admin.post("/password", "/password", **fields).location == "/apps?changed=1"


def test_all_steps_in_order(admin: Browser) -> None:
    assert "The set-up of this board has not begun" in bar(admin, "/")
    assert [bar(admin, path) for path in ("/system", "/network", "/alerts", "/account", "/apps")] == [""] * 5
    step = admin.post("/setup/step", "/setup", step="name").location
    for number, expected in enumerate(model.STEPS, 1):
        assert step == expected.url
        assert f"step {number} of 5: {expected.title}." in bar(admin, step)
        assert f"step {number} of 5" in bar(admin, "/")
        assert (admin.get("/setup.json").json or {})["step"] == expected.name
        step = admin.post("/setup/next", step or "", step=expected.name).location
    assert step == "/setup"
    assert "The set-up has ended" in admin.get("/setup").text
    for path in ("/", "/system", "/network", "/alerts", "/account"):
        assert bar(admin, path) == ""


def test_the_bar_stays_while_a_form_of_the_page_is_used(admin: Browser, agent: FakeAgent) -> None:
    admin.post("/setup/step", "/setup", step="name")
    answer = admin.post("/system/name", "/system", name="press-7")
    assert "The board is called press-7 now." in answer.text
    assert "Set-up, step 1 of 5" in answer.text
    assert agent.system.name == "press-7"


def test_a_form_that_is_sent_twice_skips_no_step(admin: Browser) -> None:
    admin.post("/setup/step", "/setup", step="name")
    for _ in range(2):
        assert admin.post("/setup/next", "/system", step="name").location == "/system#h-time"


def test_it_is_offered_until_it_is_dismissed_and_can_be_opened_again(admin: Browser, panel: Panel) -> None:
    assert admin.post("/setup/end", "/", **{}).location == "/"
    assert panel.db.setting(model.KEY) == model.ENDED
    assert bar(admin, "/") == ""
    assert 'href="/setup"' in admin.get("/system").text
    assert admin.post("/setup/step", "/setup", step="alerts").location == "/alerts"
    assert "step 4 of 5" in bar(admin, "/alerts")


def test_only_an_administrator_is_offered_the_set_up(app: Flask, admin: Browser) -> None:
    first = re.search(
        r"first password ([-a-z0-9]+)", admin.post("/users", "/users", name="ben", role="operator").text
    )
    assert first
    ben = Browser(app.test_client(), admin.state)
    ben.log_in(first[1], user="ben")
    done = ben.post("/password", "/password", current=first[1], new=PASSWORD + "b", confirm=PASSWORD + "b")
    assert done.location == "/apps?changed=1"
    assert bar(ben, "/") == ""
    assert ben.get("/setup").status_code == ben.get("/setup.json").status_code == 403
    for path in ("/setup/step", "/setup/next", "/setup/end"):
        assert ben.post(path, "/account", step="name").status_code == 403
    assert "The set-up of this board has not begun" in bar(admin, "/")


def forget(panel: Panel) -> None:
    """Make the board one without a progress: an update from an earlier version, or a damaged settings.db."""
    panel.db._values.pop(model.KEY)


def test_a_board_in_use_is_not_offered_the_set_up(admin: Browser, panel: Panel) -> None:
    forget(panel)
    assert bar(admin, "/") == ""
    page = admin.get("/setup").text
    assert "Set up this board" in page
    assert "Do not offer" not in page
    assert (admin.get("/setup.json").json or {})["state"] == "not-offered"
    assert admin.post("/setup/step", "/setup", step="alerts").location == "/alerts"
    assert "step 4 of 5" in bar(admin, "/alerts")


@pytest.mark.parametrize("in_use", [False, True])
def test_a_further_administrator_is_not_led_to_the_set_up(
    app: Flask, admin: Browser, panel: Panel, in_use: bool
) -> None:
    if in_use:
        forget(panel)
    first = re.search(
        r"first password ([-a-z0-9]+)", admin.post("/users", "/users", name="ben", role="admin").text
    )
    assert first
    ben = Browser(app.test_client(), admin.state)
    ben.log_in(first[1], user="ben")
    done = ben.post("/password", "/password", current=first[1], new=PASSWORD + "b", confirm=PASSWORD + "b")
    assert done.location == "/apps?changed=1"
    assert (bar(ben, "/") == "") == in_use


def test_a_restored_board_is_not_offered_the_set_up(admin: Browser, panel: Panel) -> None:
    backup = admin.post("/system/backup", "/system", password=PASSWORD).text
    assert bar(admin, "/")
    assert admin.post("/system/restore", "/system", backup=backup).status_code == 200
    assert panel.db.setting(model.KEY) == model.ENDED


def test_an_unknown_step_is_refused(admin: Browser, panel: Panel) -> None:
    for path in ("/setup/step", "/setup/next"):
        answer = admin.post(path, "/setup", step="colour")
        assert answer.status_code == 422
        assert "Choose one of: name, time, network, alerts, code." in answer.text
    assert panel.db.setting(model.KEY) == model.OFFERED


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        (None, ("not-offered", "")),
        ("offered", ("new", "")),
        ("ended", ("ended", "")),
        ("alerts", ("open", "alerts")),
        ("later", ("open", "name")),
    ],
)
def test_state(saved: str | None, expected: tuple[str, str]) -> None:
    assert model.state(saved) == expected


def test_the_page_shows_what_is_set(admin: Browser, agent: FakeAgent) -> None:
    agent.set_host_name("press-7")
    steps = {step["name"]: step["present"] for step in (admin.get("/setup.json").json or {})["steps"]}
    assert steps["name"] == "press-7"
    assert (steps["alerts"], steps["code"]) == ("off", "off")
    assert re.search(r"\d+\.\d+\.\d+\.\d+/", steps["network"])
    page = admin.get("/setup").text
    assert "press-7" in page
    assert headings(page)


def test_without_the_agent_the_page_shows_the_steps(admin: Browser, agent: FakeAgent) -> None:
    admin.get("/setup")
    agent.dead = "it is not running"
    answer = admin.get("/setup")
    assert answer.status_code == 200
    assert [step["present"] for step in (admin.get("/setup.json").json or {})["steps"]] == [""] * 4 + ["off"]
    assert answer.text.count("not known") == 4
