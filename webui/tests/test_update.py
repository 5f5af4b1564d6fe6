# SPDX-License-Identifier: Apache-2.0
"""The page of updates: uploads, what the agent is asked, and what the page shows in each state."""

from __future__ import annotations

import fcntl
import json
import os
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from evenkeel_api.features.update import Bundle, Slot
from evenkeel_api.messages import Message
from evenkeel_panel.fake_agent import refused
from evenkeel_panel.testing import BASE, Browser
from evenkeel_panel.update import upload
from msgspec.structs import replace

if TYPE_CHECKING:
    from pathlib import Path

    from evenkeel_panel.fake_agent import FakeAgent
    from flask import Flask
    from werkzeug.test import TestResponse

CONTENT = b"a bundle" * 1000


def send(browser: Browser, content: bytes = CONTENT, token: str = "", **headers: str) -> TestResponse:
    if not token:
        match = re.search(r'name="csrf_token" value="([^"]+)"', browser.get("/update").text)
        assert match
        token = match[1]
    return browser.client.post(
        "/upload/bundle",
        base_url=BASE,
        data=content,
        content_type="application/octet-stream",
        headers={"X-CSRFToken": token, **headers},
    )


def stored(state: Path) -> list[str]:
    return sorted(path.name for path in (state / "update").glob("*"))


def test_an_upload_is_stored_and_checked(admin: Browser, agent: FakeAgent, tmp_path: Path) -> None:
    answer = send(admin)
    assert answer.status_code == 200
    assert answer.json == {
        "version": "0.2.0",
        "compatible": "evenkeel-x86_64",
        "description": "",
        "older": False,
    }
    bundle = tmp_path / "update/bundle.raucb"
    assert bundle.read_bytes() == CONTENT
    assert agent.calls[-1] == f"InspectBundle {bundle}"
    assert stored(tmp_path) == ["bundle.raucb", "lock"]


def test_a_large_upload_passes_the_limit_of_forms(admin: Browser, tmp_path: Path) -> None:
    assert send(admin, os.urandom(3 << 20)).status_code == 200
    assert (tmp_path / "update/bundle.raucb").stat().st_size == 3 << 20


def test_a_refused_bundle_is_removed_and_the_reason_shown(
    admin: Browser, agent: FakeAgent, tmp_path: Path
) -> None:
    agent.bundle = refused("Failed", "the bundle was refused: signature verification failed")
    answer = send(admin)
    assert answer.status_code == 503
    assert answer.json
    assert answer.json["reason"] == "The bundle was refused: signature verification failed."
    assert stored(tmp_path) == ["lock"]


def test_an_upload_needs_the_token_and_a_session(admin: Browser, tmp_path: Path) -> None:
    assert send(admin, token="forged").status_code == 400  # noqa: S106
    admin.client.delete_cookie("__Host-evenkeel", domain="board")
    assert send(admin, token="none").status_code == 401  # noqa: S106
    assert stored(tmp_path) == []


def test_an_expired_session_is_no_success(admin: Browser, agent: FakeAgent) -> None:
    """The cookie and the token of the form are still there, but the agent has ended the session."""
    token = re.search(r'name="csrf_token" value="([^"]+)"', admin.get("/update").text)
    assert token
    agent.accounts._sessions.clear()
    answer = send(admin, CONTENT, token[1])
    assert answer.status_code == 401
    assert answer.json


def test_only_an_upload_has_no_limit(admin: Browser) -> None:
    for path, kind, status in (
        ("/upload/bundle", "multipart/form-data; boundary=x", 415),
        ("/upload/bundle", "application/x-www-form-urlencoded", 415),
        ("/upload/other", "application/x-www-form-urlencoded", 413),
        ("/users", "multipart/form-data; boundary=x", 413),
    ):
        answer = admin.client.post(path, base_url=BASE, data=b"x" * (1 << 20), content_type=kind)
        assert answer.status_code == status, (path, kind)


class Unread:
    """A body whose sender sends nothing."""

    def read(self, *_: int) -> bytes:
        raise AssertionError("the panel waits for the body")

    readline = read


def test_an_upload_is_refused_before_its_body_is_read(admin: Browser, app: Flask) -> None:
    """nginx does not buffer this body. Reading it occupies a thread of the panel for as long as the sender wants."""
    form, octets = "application/x-www-form-urlencoded", "application/octet-stream"
    viewer = admin.new_user("viewer")
    page = viewer.get("/apps").text
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token
    made = admin.post("/account/tokens", "/account", name="t", role="viewer", days="1").text
    key = re.search(r"ek_[\w-]+", made)
    assert key
    bearer = {"Authorization": f"Bearer {key[0]}"}
    for client, verb, kind, headers, status in (
        (app.test_client(), "POST", form, {}, 401),
        (app.test_client(), "POST", "multipart/form-data; boundary=x", {}, 401),
        (app.test_client(), "POST", octets, {"Authorization": "Bearer ek_wrong"}, 401),
        (app.test_client(), "PUT", form, {}, 401),
        (viewer.client, "POST", form, {}, 415),
        (viewer.client, "PUT", form, {}, 415),
        (viewer.client, "POST", octets, {}, 400),
        (viewer.client, "POST", octets, {"X-CSRFToken": token[1]}, 403),
        (app.test_client(), "POST", form, bearer, 415),
        (app.test_client(), "POST", octets, bearer, 403),
        (admin.client, "POST", form, {}, 415),
        (admin.client, "POST", octets, {}, 400),
    ):
        answer = client.open(
            "/upload/bundle",
            method=verb,
            base_url=BASE,
            content_type=kind,
            environ_overrides={"wsgi.input": Unread(), "CONTENT_LENGTH": "60000"},
            headers=headers,
        )
        assert answer.status_code == status, (verb, kind, headers, answer.text)


def test_only_one_upload_at_a_time(admin: Browser, tmp_path: Path) -> None:
    (tmp_path / "update").mkdir()
    with (tmp_path / "update/lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        answer = send(admin)
    assert answer.status_code == 409
    assert answer.json
    assert "Another upload" in answer.json["reason"]
    # the lock is gone, and its rest is no obstacle
    assert send(admin).status_code == 200


def test_a_full_disk_is_reported_before_anything_is_written(
    admin: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(f_bavail=(upload.RESERVE_BYTES + 1000) // 1000, f_frsize=1000)
    monkeypatch.setattr(upload.os, "statvfs", lambda _: free)
    answer = send(admin)
    assert answer.status_code == 413
    assert answer.json
    assert "has 0 MB" in answer.json["reason"]
    assert not (tmp_path / "update/bundle.raucb").exists()


class Broken:
    """A body that ends too early, as when the browser is closed."""

    def __init__(self) -> None:
        self.left = 10_000

    def read(self, size: int) -> bytes:
        given = min(size, self.left)
        self.left -= given
        return b"x" * given


def test_an_interrupted_upload_leaves_nothing(admin: Browser, tmp_path: Path) -> None:
    from werkzeug.exceptions import BadRequest

    uploads = upload.Uploads(tmp_path / "update")
    with pytest.raises(BadRequest, match="interrupted"):
        uploads.receive(Broken(), 20_000)
    assert stored(tmp_path) == ["lock"]
    (tmp_path / "update/bundle.raucb.part").write_text("left by a power cut")
    upload.Uploads(tmp_path / "update")
    assert stored(tmp_path) == ["lock"]


def test_no_upload_during_an_installation(admin: Browser, agent: FakeAgent, tmp_path: Path) -> None:
    send(admin)
    token = re.search(r'name="csrf_token" value="([^"]+)"', admin.get("/update").text)
    assert token
    admin.post("/update/install", "/update")
    answer = send(admin, b"other", token[1])
    assert answer.status_code == 409
    assert (tmp_path / "update/bundle.raucb").read_bytes() == CONTENT


def test_installing_the_upload(admin: Browser, agent: FakeAgent, tmp_path: Path) -> None:
    assert admin.post("/update/install", "/update").status_code == 409  # nothing was uploaded
    send(admin)
    page = admin.post("/update/install", "/update")
    assert page.status_code == 200
    assert agent.calls[-1] == f"InstallBundle {tmp_path}/update/bundle.raucb False"
    assert 'value="40"' in page.text
    assert 'hx-get="/update/state"' in page.text
    assert 'id="upload"' not in page.text  # no second installation meanwhile


def test_installing_from_a_url(admin: Browser, agent: FakeAgent) -> None:
    url = "https://updates.example/1.raucb"
    agent.bundle = Bundle("0.0.9", "evenkeel-x86_64", "for tests", True)
    page = admin.post("/update/inspect", "/update", source=url)
    assert "for tests" in page.text
    assert "older than the version" in page.text
    admin.post("/update/install", "/update", source=url, allow_older="yes")
    assert agent.calls[-1] == f"InstallBundle {url} True"


def test_a_stored_bundle_can_be_installed_later_or_removed(
    admin: Browser, agent: FakeAgent, tmp_path: Path
) -> None:
    send(admin)
    assert "is stored on the board" in admin.get("/update").text
    assert "The uploaded bundle was removed." in admin.post("/update/remove", "/update").text
    assert stored(tmp_path) == ["lock"]
    assert "is stored on the board" not in admin.get("/update").text
    # what was not installed is not removed when another bundle is installed
    send(admin)
    agent.update = replace(agent.update, state="installed")
    admin.get("/update.json")
    assert "bundle.raucb" in stored(tmp_path)
    # a bundle that was refused while another one waits for its start is not removed either
    agent.update = replace(agent.update, state="idle")
    admin.post("/update/install", "/update")
    note = Message("update-failed", reason="Version mismatch").note()
    agent.update = replace(agent.update, state="installed", problem=[note])
    admin.get("/update.json")
    assert "bundle.raucb" in stored(tmp_path)


def test_when_it_is_installed_the_page_offers_a_restart(
    admin: Browser, agent: FakeAgent, tmp_path: Path
) -> None:
    send(admin)
    admin.post("/update/install", "/update")
    assert "HX-Redirect" not in admin.get("/update/state").headers
    a, b = agent.update.slots
    agent.update = replace(
        agent.update,
        state="installed",
        slots=[
            replace(a, next=False),
            replace(b, next=True, version="0.2.0", installed_at="2026-11-25T12:00:00Z"),
        ],
    )
    # a plain address: HX-Refresh would send the form again from which the page came
    after = admin.get("/update/state")
    assert "HX-Refresh" not in after.headers
    assert after.headers["HX-Redirect"] == "/update"
    page = admin.get("/update").text
    assert "Restart now" in page
    assert "2026-11-25 12:00:00" in page
    assert stored(tmp_path) == ["lock"]  # the file is not needed any more
    answer = admin.post("/system/restart", "/update", back="update")
    assert answer.status_code == 200
    assert "restarts" in answer.text
    assert 'data-back="/update"' in answer.text
    assert agent.calls[-1] == "Restart"


def test_a_rolled_back_update_is_explained(admin: Browser, agent: FakeAgent) -> None:
    a, b = agent.update.slots
    note = Message("update-rolled-back", slot="B", version="0.2.0", running="A").note()
    agent.update = replace(
        agent.update, state="rolled-back", problem=[note], slots=[a, replace(b, good=False, version="0.2.0")]
    )
    page = admin.get("/update").text
    assert "Slot B (version 0.2.0) was not confirmed in three starts, so the board runs slot A again" in page
    assert "not usable" in page
    assert 'name="slot" value="B"' not in page  # it cannot be chosen


def test_choosing_a_slot(admin: Browser, agent: FakeAgent) -> None:
    page = admin.post("/update/slot", "/update", slot="B")
    assert page.status_code == 200
    assert agent.update.slots[1].next
    assert "The board starts slot B next time." in page.text


def test_a_viewer_cannot_do_anything(admin: Browser, agent: FakeAgent) -> None:
    eve = admin.new_user("viewer")
    assert "/update" not in eve.get("/apps").text
    token = re.search(r'name="csrf_token" value="([^"]+)"', eve.get("/apps").text)
    assert token
    for state in ("idle", "installed"):
        agent.update = replace(agent.update, state=state)
        shown = eve.get("/update").text
        assert set(re.findall(r'action="(/[^"]*)"', shown)) == {"/logout"}
        assert "Only an administrator can update the board." in shown
    before = list(agent.calls)
    assert send(eve, CONTENT, token[1]).status_code == 403
    assert eve.post("/system/restart", "/apps").status_code == 403
    assert eve.post("/update/install", "/apps", source="https://evil.example/x").status_code == 403
    assert [call for call in agent.calls[len(before) :] if call.startswith(("Ins", "Res", "Cho"))] == []


def test_the_twin_in_json(admin: Browser) -> None:
    found = json.loads(admin.get("/update.json").text)
    assert found["state"] == "idle"
    assert [slot["name"] for slot in found["slots"]] == ["A", "B"]
    assert set(found["slots"][0]) == set(Slot.__struct_fields__)
