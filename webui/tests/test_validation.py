# SPDX-License-Identifier: Apache-2.0
"""The pages of validations. recipes/validate tests the measurements, recipes/agent the orders."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest
from evenkeel_api import errors
from evenkeel_api.features.validation import (
    Profile,
    ReportState,
    Topic,
    Validation,
    ValidationPlan,
    Verdict,
)
from evenkeel_common.packets import End
from evenkeel_panel.fake_agent import refused
from evenkeel_panel.testing import BASE, headings
from evenkeel_panel.validation import model

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser
    from flask import Flask

GOOD, BAD = "20260131-120000", "20260201-090000"
COMPARE = f"/validation/compare?first={GOOD}&second={BAD}"
PLAN = {"profile": "quick", "topic": "device", "compare": "no"}


def start(admin: Browser, **fields: str) -> Any:
    return admin.post("/validation/start", "/validation/plan?profile=quick", **{**PLAN, **fields})


def token(admin: Browser, role: str) -> dict[str, str]:
    page = admin.post("/account/tokens", "/account", name=role, role=role, days="30").text
    found = re.search(r"is (ek_[\w-]+)\.", page)
    assert found
    return {"Authorization": f"Bearer {found[1]}"}


def test_the_page_lists_the_reports_with_their_verdicts(admin: Browser) -> None:
    page = admin.get("/validation").text
    assert headings(page)
    rows = dict(re.findall(r'<tr data-report="([^"]+)">(.*?)</tr>', page, re.DOTALL))
    assert list(rows) == [BAD, GOOD]
    assert "1 broken" in rows[BAD]
    assert "partial" in rows[BAD]
    assert "broken" not in rows[GOOD]
    assert "3 held" in rows[GOOD]
    assert f'href="/validation/{GOOD}"' in rows[GOOD]
    found = admin.get("/validation.json").json
    assert found
    assert (found["validation"]["state"], [row["id"] for row in found["reports"]]) == ("idle", [BAD, GOOD])


def test_the_plan_says_that_files_leave_the_page_cache(admin: Browser, agent: FakeAgent) -> None:
    assert isinstance(agent.plan, ValidationPlan)
    for evicts in (False, True):
        agent.plan = msgspec.structs.replace(agent.plan, evicts=evicts)
        page = admin.get("/validation/plan?profile=full&topic=pool").text
        assert ("It reads a file that is larger than the page cache." in page) is evicts


def test_the_plan_says_if_the_bytes_are_not_certain(admin: Browser, agent: FakeAgent) -> None:
    assert isinstance(agent.plan, ValidationPlan)
    for proven in (False, True):
        agent.plan = msgspec.structs.replace(agent.plan, proven=proven)
        page = admin.get("/validation/plan?profile=full").text
        assert ("If the device is slow, it writes less." in page) is not proven


def test_a_start_needs_the_announcement_first(admin: Browser, agent: FakeAgent) -> None:
    page = admin.get("/validation/plan?profile=full&topic=fair&compare=yes").text
    for text in (
        "It writes 801 MB into the file /data/.ek-validate/data on mmcblk0.",
        "0.0042 % of the endurance",
        "about 2 min, and at most 2 min",
        "backups and apps without a weight are slower",
        "No app is paused.",
        "No file loses data.",
        "evenkeel, bfq, mq-deadline",
        "ek-player is not installed",
    ):
        assert text in page, text
    assert not [call for call in agent.calls if call.startswith("Start")]
    assert "PlanValidation full fair True False" in agent.calls
    assert re.search(
        r'name="profile" value="full".*name="topic" value="fair".*name="compare" value="yes"', page
    )
    assert admin.get("/validation/plan.json?profile=quick").json["written_bytes"] == 801_000_000  # type: ignore[index]


def test_without_a_choice_no_other_scheduler_is_measured(admin: Browser, agent: FakeAgent) -> None:
    page = admin.get("/validation/plan?profile=full").text
    assert "PlanValidation full  False False" in agent.calls
    assert "scheduler of the device changes" not in page


def test_apps_are_paused_only_by_choice_and_the_plan_says_so(admin: Browser, agent: FakeAgent) -> None:
    page = admin.get("/validation/plan?profile=full&compare=yes&exclusive=yes").text
    assert "PlanValidation full  True True" in agent.calls
    assert "All apps are paused for up to" in page
    for wrong in ("No app is paused", "Apps keep their share", "not enforced", "apps may stall"):
        assert wrong not in page
    fields = {"profile": "full", "compare": "yes", "exclusive": "yes"}
    assert all(f'name="{name}" value="{value}"' in page for name, value in fields.items())
    answer = admin.post("/validation/start", "/validation/plan?profile=full", **fields)
    assert answer.status_code == 200
    assert "StartValidation full  True True" in agent.calls
    assert "All apps are paused until the validation ends." in admin.get("/validation").text


def test_progress_and_cancel(admin: Browser, agent: FakeAgent) -> None:
    answer = start(admin)
    assert answer.status_code == 200
    assert "The validation has begun" in answer.text
    assert "StartValidation quick device False False" in agent.calls
    page = admin.get("/validation").text
    assert "Measurement 5 of 14: sequential reads" in page
    assert '<b data-field="left">72 s</b>' in page
    # what is slower meanwhile, and that no app is paused
    assert "Apps keep their share. Updates, backups and apps without a weight are slower until" in page
    assert "paused" not in page
    assert 'hx-get="/validation/progress"' in page
    assert "Start a validation" not in page
    live = admin.get("/validation/progress")
    assert '<progress max="100" value="36"' in live.text
    assert "HX-Redirect" not in live.headers
    again = start(admin)
    assert again.status_code == 409
    assert "A validation is running; wait for its end, or cancel it." in again.text
    cancelled = admin.post("/validation/cancel", "/validation")
    assert "marked partial" in cancelled.text
    # a plain address: HX-Refresh would send the form again from which the page came
    after = admin.get("/validation/progress")
    assert "HX-Refresh" not in after.headers
    assert after.headers["HX-Redirect"] == "/validation"
    assert admin.post("/validation/cancel", "/validation/plan").status_code == 409
    log = admin.get("/audit.json").text
    assert "StartValidation" in log
    assert "CancelValidation" in log


def test_the_page_says_what_apps_notice_while_a_validation_runs(admin: Browser, agent: FakeAgent) -> None:
    """If it measures the device alone, all apps are paused."""
    paused = "All apps are paused until the validation ends."
    unweighed = "The scheduler bfq is measured now, so weights and fixed shares of apps are not enforced."
    slower = "Apps keep their share."
    for exclusive, groups, scheduler, said in (
        (True, True, "evenkeel", {paused}),
        (True, True, "bfq", {paused}),
        (False, True, "evenkeel", {slower}),
        (False, True, "bfq", {slower, unweighed}),
        (False, False, "evenkeel", set()),
    ):
        agent.validation = Validation(
            "running", GOOD, 1, 9, "reads", scheduler, 1, 1, 1, exclusive=exclusive, groups=groups
        )
        for where in ("/validation", "/validation/progress"):
            page = html.unescape(admin.get(where).text)
            assert {line for line in (paused, unweighed, slower) if line in page} == said


def test_before_the_first_measurement_the_page_says_so(admin: Browser, agent: FakeAgent) -> None:
    for found in (Validation("starting"), Validation("running", GOOD)):
        agent.validation = found
        assert "prepares its test file" in admin.get("/validation").text


def test_another_command_is_no_validation(admin: Browser, agent: FakeAgent) -> None:
    agent.validation = Validation("running", about="ek-validate channels")
    page = admin.get("/validation").text
    assert "No validation is running, but the command <code>ek-validate channels</code> is." in page
    assert "prepares its test file" not in page
    assert "Cancel the validation" not in page
    assert "Start a validation" not in page


def test_a_validation_that_ends_offers_no_cancel(admin: Browser, agent: FakeAgent) -> None:
    agent.validation = Validation("ending", GOOD)
    page = admin.get("/validation").text
    assert "restores what it changed on the board" in page
    assert "Cancel the validation" not in page


@pytest.mark.parametrize(
    "fields",
    [
        {"profile": "soak --destroy /dev/sda"},
        {"topic": "../x"},
        {"compare": "maybe"},
        {"exclusive": "maybe"},
        {"profile": ""},
    ],
)
def test_a_choice_outside_the_lists_reaches_no_agent(
    admin: Browser, agent: FakeAgent, fields: dict[str, str]
) -> None:
    answer = start(admin, **fields)
    assert answer.status_code == 422
    assert "Nothing was started" in answer.text
    assert (
        admin.client.get("/validation/plan", base_url=BASE, query_string={**PLAN, **fields}).status_code
        == 422
    )
    assert not [call for call in agent.calls if call.startswith("Start")]


def test_a_board_that_cannot_start_says_why(admin: Browser, agent: FakeAgent) -> None:
    agent.plan = refused("Conflict", "A validation cannot start: /data has 5 MB free.")
    answer = admin.get("/validation/plan?profile=quick")
    assert answer.status_code == 409
    assert "/data has 5 MB free" in answer.text


def test_operators_and_viewers_read(admin: Browser, app: Flask, agent: FakeAgent) -> None:
    client = app.test_client()
    for role in ("operator", "viewer"):
        headers = token(admin, role)
        for path in ("/validation", "/validation/plan?profile=quick", f"/validation/{GOOD}", COMPARE):
            page = client.get(path, base_url=BASE, headers=headers)
            assert page.status_code == 200, path
            assert 'method="post" action="/validation' not in page.text, path
        for path in ("/validation/start", "/validation/cancel"):
            assert client.post(path, base_url=BASE, headers=headers, data=PLAN).status_code == 403, path
    assert agent.validation.state == "idle"


def test_a_report(admin: Browser) -> None:
    page = admin.get(f"/validation/{BAD}").text
    assert headings(page)
    assert "This report is partial: cancelled." in page
    verdicts = re.findall(r'<li data-verdict="(\w+)">', page)
    assert verdicts == ["broken", "open"]
    for text in (
        "At best, this device reads 98 MB/s over 1.5 s.",
        "798 MB of 801 MB announced",
        "1.9 to 2.1",
        "ek-pairs is not installed",
    ):
        assert text in page, text
    assert admin.get(f"/validation/{BAD}/summary.json").json["row"]["broken"] == 1  # type: ignore[index]
    assert "partial" not in admin.get(f"/validation/{GOOD}").text


@pytest.mark.parametrize("id_", ["20990101-000000", "x", "..", "20260131"])
def test_a_report_that_does_not_exist(admin: Browser, id_: str) -> None:
    for path in (f"/validation/{id_}", f"/validation/{id_}/summary.json", f"/validation/{id_}/report.html"):
        answer = admin.get(path)
        assert answer.status_code in (404, 308), path
        assert "Start a validation" not in answer.text


def test_a_report_is_saved_as_a_file(admin: Browser, agent: FakeAgent) -> None:
    for kind, mimetype in (("html", "text/html"), ("json", "application/json")):
        answer = admin.get(f"/validation/{GOOD}/report.{kind}")
        assert answer.data == b'{"format": 1, "rows": []}'
        assert answer.mimetype == mimetype
        # a browser must never show a page that the panel did not make
        assert answer.headers["Content-Disposition"] == f'attachment; filename="validation-{GOOD}.{kind}"'
        assert f"OpenValidation {GOOD} {kind}" in agent.calls
    assert admin.get(f"/validation/{GOOD}/report.pdf").status_code == 404


def test_a_report_that_cannot_be_read_is_no_file(admin: Browser, agent: FakeAgent) -> None:
    agent.report_file = [End(2, "it is damaged")]
    answer = admin.get(f"/validation/{GOOD}/report.html")
    assert answer.status_code == 503
    assert "The download did not begin: it is damaged." in answer.text
    assert "Content-Disposition" not in answer.headers
    # the place of the download is free again
    agent.report_file = [b"x", End(0)]
    for _ in range(4):
        with admin.get(f"/validation/{GOOD}/report.json") as saved:
            assert saved.data == b"x"


def test_two_reports_are_compared(admin: Browser, agent: FakeAgent) -> None:
    page = admin.get(COMPARE).text
    assert headings(page)
    assert "2 figures are worse or missing" in page
    assert "<li>The profile is quick in the first report, and full in the second one.</li>" in page
    assert "-20.4 %" in page
    assert "Only in the first report" in page
    assert "Only in the second report" not in page
    assert admin.get(COMPARE.replace("?", ".json?")).json["same"] == 3  # type: ignore[index]
    for path, reason in (
        ("/validation/compare", "Two reports are needed"),
        ("/validation/compare.json", "parameter second is missing"),
    ):
        one = admin.get(f"{path}?first={GOOD}")
        assert one.status_code == 422
        assert reason in one.text
    assert admin.get(f"/validation/compare?first={GOOD}&second=x").status_code == errors.InvalidArgument.http


def test_a_board_without_reports(admin: Browser, agent: FakeAgent) -> None:
    agent.validations = {}
    assert "This board has no report yet" in admin.get("/validation").text


def test_every_choice_and_state_has_words() -> None:
    assert model.PROFILES.keys() == set(get_args(Profile))
    assert model.TOPICS.keys() == set(get_args(Topic))
    assert model.STATES.keys() == set(get_args(ReportState))
    assert model.VERDICTS.keys() == set(get_args(Verdict))


def test_times_have_fitting_units() -> None:
    assert [model.duration(s) for s in (0, 99, 100, 120, 2700, 5400, 28800)] == [
        "0 s", "99 s", "2 min", "2 min", "45 min", "1.5 h", "8.0 h",
    ]  # fmt: skip
    assert model.percent_done(Validation("running", ran_s=50, left_s=0)) == 99
    assert model.percent_done(Validation("idle")) == 0
