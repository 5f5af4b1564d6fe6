# SPDX-License-Identifier: Apache-2.0
"""The certificate on the page System: what it shows, and how an administrator replaces it."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from evenkeel_api.features.certificate import MAX_PEM
from evenkeel_api.messages import Message
from evenkeel_panel.fake_agent import refused
from evenkeel_panel.system import model
from evenkeel_panel.testing import BASE, Browser, headings
from msgspec.structs import replace

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from werkzeug.test import TestResponse

PATH = "/system/certificate"


def send(browser: Browser, **files: str) -> TestResponse:
    """Send the form with these files; a field `force` as a value."""
    token = re.search(r'name="csrf_token" value="([^"]+)"', browser.get("/system").text)
    assert token
    data: dict[str, object] = {"csrf_token": token[1]}
    for name, text in files.items():
        data[name] = text if name == "force" else (io.BytesIO(text.encode()), f"{name}.pem")
    return browser.client.post(PATH, base_url=BASE, data=data)


def test_the_page_shows_the_certificate(admin: Browser, agent: FakeAgent) -> None:
    page = admin.get("/system").text
    assert agent.certificate.fingerprint in page
    assert "the board itself" in page
    assert "evenkeel.local" in page
    assert re.search(r'data-field="left">\d+ days left<', page)
    assert headings(page)
    found = admin.get(f"{PATH}.json").json or {}
    assert (found["fingerprint"], found["own"]) == (agent.certificate.fingerprint, True)


def test_the_page_says_where_the_new_fingerprint_is(admin: Browser) -> None:
    """The console shows a fingerprint only until the first password is changed."""
    page = admin.get("/system").text
    assert "on the console" not in page
    assert "ekctl certificate" in page


def test_a_certificate_is_installed_from_one_or_two_files(admin: Browser, agent: FakeAgent) -> None:
    answer = send(admin, certificate="CHAIN", key="KEY")
    assert answer.status_code == 200
    assert agent.pem == "CHAIN\nKEY"
    assert "The certificate is installed, and is valid until 2036-11-11." in answer.text
    assert "CN=Example CA" in answer.text
    send(admin, certificate="BOTH")
    assert agent.pem == "BOTH"
    assert "InstallCertificate False" in agent.calls
    page = admin.get("/audit").text
    assert "Install certificate" in page
    assert "CHAIN" not in page


@pytest.mark.parametrize(
    ("files", "text"),
    [({}, "No file is chosen."), ({"certificate": "x" * MAX_PEM, "key": "y"}, "more than 40000 characters")],
)
def test_a_form_that_cannot_be_right_is_refused(
    admin: Browser, agent: FakeAgent, files: dict[str, str], text: str
) -> None:
    answer = send(admin, **files)
    assert answer.status_code == 422
    assert text in answer.text
    assert agent.pem == ""


def test_a_refusal_is_shown_at_its_field(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("InvalidArgument", "the certificate expired on 2026-01-01")
    answer = send(admin, certificate="PEM")
    assert answer.status_code == 422
    assert "The certificate expired on 2026-01-01." in answer.text
    assert re.search(r'<input id="certificate"[^>]*aria-invalid="true"', answer.text)


def test_a_self_signed_one_needs_a_confirmation_if_browsers_remember_the_old_one(
    admin: Browser, agent: FakeAgent
) -> None:
    assert 'name="force"' not in admin.get("/system").text
    before = admin.post(f"{PATH}/new", "/system")
    assert "The board uses a new self-signed certificate" in before.text
    agent.certificate = replace(agent.certificate, issuer="CN=CA", own=False, hsts=True)
    assert 'name="force"' in admin.get("/system").text
    answer = admin.post(f"{PATH}/new", "/system")
    assert answer.status_code == 409
    assert "confirm that you want this" in answer.text
    assert agent.certificate.hsts
    assert admin.post(f"{PATH}/new", "/system", force="yes").status_code == 200
    assert agent.certificate.own


def test_others_see_the_certificate_and_cannot_change_it(
    app: object, admin: Browser, agent: FakeAgent
) -> None:
    found = re.search(
        r"first password ([-a-z0-9]+)", admin.post("/users", "/users", name="ben", role="viewer").text
    )
    assert found
    admin.post("/logout", "/apps")
    admin.log_in(found[1], user="ben")
    fields = {"current": found[1], "new": "a viewer of boards", "confirm": "a viewer of boards"}
    admin.post("/password", "/password", **fields)
    page = admin.get("/system").text
    assert agent.certificate.fingerprint in page
    assert PATH not in page
    for path in (PATH, f"{PATH}/new"):
        assert admin.post(path, "/account", certificate="PEM").status_code in (403, 422)
    assert "Certificate" not in "".join(agent.calls)


def test_without_the_helper_the_rest_of_the_page_works(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        from evenkeel_api import errors

        raise errors.Failed(
            "certificate-unreachable", path="/run/x", reason="gone", unit="evenkeel-certificate"
        )

    monkeypatch.setattr(agent, "get_certificate", fail)
    page = admin.get("/system")
    assert page.status_code == 200
    assert "The helper that has the certificate cannot be reached" in page.text
    assert "Time zone" in page.text


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (400, ("ok", "400 days left")),
        (30, ("ok", "30 days left")),
        (29, ("wait", "29 days left")),
        (1, ("wait", "1 day left")),
        (0, ("wait", "0 days left")),
        (-1, ("bad", "expired")),
    ],
)
def test_time_left(agent: FakeAgent, days: int, expected: tuple[str, str]) -> None:
    now = 1_800_000_000
    found = replace(agent.certificate, not_before=now - 500 * 86400, not_after=now + days * 86400 + 100)
    assert model.time_left(found, now) == expected
    assert model.time_left(replace(found, not_before=now + 1), now) == ("bad", "not valid yet")


def test_a_problem_of_the_dates_says_how_to_renew_the_certificate(admin: Browser, agent: FakeAgent) -> None:
    note = Message(
        "panel-certificate-expired",
        date="2030-03-17",
        now="2030-03-18",
        remedy=Message("certificate-renew-own"),
    ).note()
    agent.board = replace(agent.board, health="degraded", problems=[note])
    (found,) = admin.get("/overview.json").json["problems"]  # type: ignore[index]
    assert found["reason"] == (
        "The certificate of the panel expired on 2030-03-17, and the clock of the board says 2030-03-18."
    )
    assert found["remedy"] == (
        "Check the clock on the page System. If the clock is right, make a new one on the page System,"
        " or run 'ekctl make-certificate'."
    )
    assert "Check the clock on the page System." in admin.get("/").text
