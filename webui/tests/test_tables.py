# SPDX-License-Identifier: Apache-2.0
"""Each list of a page is a CSV file, too, with the rows of the page's JSON."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_panel import tables
from evenkeel_panel.history.model import Cost
from evenkeel_panel.testing import BASE, Browser

if TYPE_CHECKING:
    from evenkeel_panel.context import Panel
    from evenkeel_panel.fake_agent import FakeAgent

TWO = "first=20260131-120000&second=20260201-090000"
PLAN = "profile=quick&topic=&compare=no&exclusive=no"
# the JSON of a page, the field of the JSON that has the list (empty: the JSON is the list), the CSV
LISTS = [
    ("/apps.json", "apps", "/apps.csv"),
    ("/recorder.json", "channels", "/recorder.csv"),
    ("/recorder.json", "incidents", "/recorder/incidents.csv"),
    ("/validation.json", "reports", "/validation.csv"),
    (f"/validation/plan.json?{PLAN}", "left_out", f"/validation/plan.csv?{PLAN}"),
    (f"/validation/compare.json?{TWO}", "changed", f"/validation/compare.csv?{TWO}"),
    ("/validation/20260131-120000/summary.json", "figures", "/validation/20260131-120000/figures.csv"),
    ("/cache.json", "directories", "/cache.csv"),
    ("/cache.json", "minutes", "/cache/minutes.csv"),
    ("/network.json", "interfaces", "/network.csv"),
    ("/update.json", "slots", "/update.csv"),
    ("/setup.json", "steps", "/setup.csv"),
    ("/system/journal.json?limit=50", "lines", "/system/journal.csv?limit=50"),
    ("/account.json", "sessions", "/account/sessions.csv"),
    ("/account.json", "tokens", "/account/tokens.csv"),
    ("/users.json", "", "/users.csv"),
    ("/audit.json", "", "/audit.csv"),
]


def rows(browser: Browser, path: str) -> list[dict[str, str]]:
    answer = browser.get(path)
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    assert answer.headers["Content-Disposition"].endswith('.csv"')
    return list(csv.DictReader(io.StringIO(answer.text)))


def as_cell(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    text = "" if value is None else str(value)
    return f"'{text}" if isinstance(value, str) and text[:1] in tables.FORMULA else text


@pytest.mark.parametrize(("path", "field", "file"), LISTS)
def test_json_and_csv_have_the_same_list(admin: Browser, path: str, field: str, file: str) -> None:
    admin.post("/account/tokens", "/account", name="=monitoring", role="viewer", days="30")
    found: Any = json.loads(admin.get(path).data)
    listed = found[field] if field else found
    assert listed
    assert rows(admin, file) == [{name: as_cell(value) for name, value in row.items()} for row in listed]


@pytest.mark.parametrize("path", [path for *_, path in LISTS] + ["/account.json", "/users.json"])
def test_lists_need_a_log_in(browser: Browser, path: str) -> None:
    assert browser.get(path).status_code in (302, 401)
    answer = browser.client.get(path, base_url=BASE, headers={"Authorization": "Bearer ek_wrong"})
    assert (answer.status_code, answer.is_json) == (401, True)


def test_the_audit_log_has_the_query_of_the_page(admin: Browser) -> None:
    newest = json.loads(admin.get("/audit.json").data)[0]["id"]
    assert f'href="/audit.csv?before={newest}"' in admin.get(f"/audit?before={newest}").text
    assert newest not in [int(row["id"]) for row in rows(admin, f"/audit.csv?before={newest}")]


@pytest.mark.parametrize(
    "path", ["/apps.csv", "/recorder.csv", "/overview.csv", "/network.csv", "/update.csv", "/validation.csv"]
)
def test_without_an_agent_a_file_has_the_status_of_the_json(
    admin: Browser, agent: FakeAgent, panel: Panel, path: str
) -> None:
    admin.get("/apps")
    agent.dead = "The agent does not answer: it is not running."
    panel.board.expire()
    assert admin.get(path).status_code == admin.get(path.replace("csv", "json")).status_code == 503


def test_a_spreadsheet_takes_no_name_for_a_formula() -> None:
    found = tables.as_csv(Cost, [Cost("=1+1", "player", 1.5)])
    assert list(csv.reader(io.StringIO(found)))[1] == ["'=1+1", "player", "1.5"]
