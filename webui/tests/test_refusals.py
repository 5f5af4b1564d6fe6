# SPDX-License-Identifier: Apache-2.0
"""Lines of the journal about refused requests and about errors of the panel."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.refusals import MAX_ENTRIES, PAUSE_S, Refusals
from evenkeel_panel.testing import BASE, Browser

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel
    from evenkeel_panel.fake_agent import FakeAgent


def test_a_forged_form_is_logged(admin: Browser, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        admin.client.post("/logout", base_url=BASE)
    admin.client.post("/logout", base_url=BASE, headers={"Sec-Fetch-Site": "cross-site"})
    assert [record.getMessage() for record in caplog.records] == [
        "refused a request without a valid form token: 127.0.0.1, path '/logout'",
        "refused a request from another site: 127.0.0.1, path '/logout'",
    ]


def test_a_path_stays_in_one_line(admin: Browser, caplog: pytest.LogCaptureFixture) -> None:
    admin.client.post("/a%0Aadmin logged in", base_url=BASE, headers={"Sec-Fetch-Site": "cross-site"})
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    assert r"'/a\nadmin logged in'" in record.getMessage()


def test_a_flood_costs_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    refusals = Refusals(logging.getLogger("test"), lambda: now[0])
    for second in range(121):
        now[0] = float(second)
        refusals.log("as a test", "192.0.2.1", "/")
    assert len(caplog.records) == 1 + 120 // int(PAUSE_S)
    refusals.log("as a test", "192.0.2.2", "/")
    assert len(caplog.records) == 4
    for number in range(3 * MAX_ENTRIES):
        refusals.log("as a test", f"10.0.{number // 256}.{number % 256}", "/")
    assert len(refusals._quiet_until) <= MAX_ENTRIES


def test_an_internal_error_is_logged(
    admin: Browser,
    agent: FakeAgent,
    panel: Panel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(agent, "get_status", broken)
    panel.board.expire()
    admin.get("/apps")
    (record,) = caplog.records
    assert record.getMessage() == "GET '/apps'"
    assert "secret detail" in caplog.text
