# SPDX-License-Identifier: Apache-2.0
"""The page of the system, and the journal. recipes/agent/tests tests what the agent does."""

from __future__ import annotations

import html
import io
import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from evenkeel_agent import backup
from evenkeel_agent.recorder_config import Recorder
from evenkeel_api.features.system import Journal, Line, System
from evenkeel_api.messages import Message
from evenkeel_common.packets import End, Truncated
from evenkeel_panel.fake_agent import NETWORK, refused, unreachable
from evenkeel_panel.parameters import read
from evenkeel_panel.recorder.model import parse_time
from evenkeel_panel.system import model
from evenkeel_panel.testing import BASE, PASSWORD, Browser, headings
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenkeel_panel.context import Panel
    from evenkeel_panel.fake_agent import FakeAgent
    from flask import Flask


def changes(agent: FakeAgent) -> list[str]:
    return [call for call in agent.calls if call.startswith(("Set", "Power", "Restart"))]


def test_the_page_and_its_twin(admin: Browser) -> None:
    page = admin.get("/system").text
    headings(page)
    for text in (
        "evenkeel",
        "Europe/Berlin",
        "chosen by the network",
        "The clock is right: 192.0.2.1 sets it.",
    ):
        assert text in page
    found = admin.get("/system.json").json
    assert found
    assert set(found) == set(System.__struct_fields__)
    assert 'href="/system" aria-current="page"' in page


def test_name_zone_and_servers_are_changed(admin: Browser, agent: FakeAgent) -> None:
    answer = admin.post("/system/name", "/system", name=" press-7 ")
    assert answer.status_code == 200
    assert "The board is called press-7 now." in answer.text
    answer = admin.post("/system/time-zone", "/system", zone="America/New_York")
    assert "The time zone is America/New_York now." in answer.text
    answer = admin.post("/system/time-servers", "/system", servers="192.0.2.7,  ntp.example.org 192.0.2.7")
    assert "The time servers are saved." in answer.text
    assert 'value="192.0.2.7 ntp.example.org"' in answer.text
    assert (
        "uses the time servers that its network names"
        in admin.post("/system/time-servers", "/system", servers="").text
    )
    assert changes(agent) == [
        "SetHostName press-7",
        "SetTimeZone America/New_York",
        "SetTimeServers 192.0.2.7 ntp.example.org",
        "SetTimeServers ",
    ]


@pytest.mark.parametrize(
    ("path", "field", "value", "text"),
    [
        ("name", "name", "", "1 to 63 letters"),
        ("name", "name", "press 7", "1 to 63 letters"),
        ("name", "name", "-x", "1 to 63 letters"),
        ("name", "name", "a.example.org", "1 to 63 letters"),
        ("time-zone", "zone", "../etc", "from the list"),
        ("time-zone", "zone", "Mars/Base", "no time zone"),
        ("time-servers", "servers", "http://ntp.example.org", "host names or addresses"),
        ("time-servers", "servers", "1 2 3 4 5 6 7 8 9", "at most 8"),
    ],
)
def test_a_bad_value_changes_nothing_and_stays_in_the_form(
    admin: Browser, agent: FakeAgent, path: str, field: str, value: str, text: str
) -> None:
    before = agent.system
    answer = admin.post(f"/system/{path}", "/system", **{field: value})
    assert answer.status_code == 422
    assert text in answer.text
    assert f'value="{value}"' in answer.text
    assert 'aria-invalid="true" aria-describedby="problem"' in answer.text
    assert agent.system == before


def test_a_refusal_of_the_agent_is_shown_with_what_was_typed(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("Failed", "the name was not changed: Read-only file system")
    answer = admin.post("/system/name", "/system", name="press-7")
    assert answer.status_code == 503
    assert "Read-only file system" in answer.text
    assert 'value="press-7"' in answer.text


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"clock": "waiting", "server": ""}, "no time server has answered yet"),
        ({"clock": "off"}, "systemctl start systemd-timesyncd"),
        ({"clock": "missing"}, "has no time service"),
        ({"clock": "unknown", "zone": ""}, "not known whether the clock is right"),
        ({"server": ""}, "A time server sets it"),
        ({"problem": [Message("time-servers-not-in-use", reason="no").note()]}, "did not accept them: no."),
    ],
)
def test_each_state_of_the_clock_is_explained(
    admin: Browser, agent: FakeAgent, changed: dict[str, Any], text: str
) -> None:
    agent.system = replace(agent.system, **changed)
    page = admin.get("/system").text
    assert text.lower() in page.lower()


def test_the_panel_asks_for_the_time_zones_once_and_selects_the_present_one(
    admin: Browser, agent: FakeAgent
) -> None:
    zones = agent.zones = ["America/New_York", "Etc/GMT-1", "Etc/GMT-14", "UTC"]
    for zone in zones:
        agent.system = replace(agent.system, zone=zone)
        page = admin.get("/system").text
        assert re.findall("<option( selected)?>([^<]*)</option>", page) == [
            (" selected" if name == zone else "", name) for name in zones
        ]
        agent.zones = []
    for zone, words in (("", "not known"), ("Mars/<b>", "Mars/&lt;b&gt;")):
        agent.system = replace(agent.system, zone=zone)
        page = admin.get("/system").text
        assert re.search(rf'<select[^>]*>\s*<option value="[^"]*" selected>{words}</option>', page)


def test_an_image_without_time_zones_says_so(admin: Browser, agent: FakeAgent) -> None:
    agent.zones = []
    page = admin.get("/system").text
    assert "no list of time zones" in page
    assert 'name="zone"' not in page


def test_a_zone_that_is_not_in_the_list_stays_chosen(admin: Browser, agent: FakeAgent) -> None:
    agent.system = replace(agent.system, zone="Etc/GMT-3")
    assert '<option value="Etc/GMT-3" selected>' in admin.get("/system").text


def test_a_restart_is_asked_about_first(admin: Browser, agent: FakeAgent) -> None:
    for page, link, back in (
        ("/system", "/system/restart", "/system"),
        ("/update", "/system/restart?back=update", "/update"),
    ):
        assert f'href="{link}"' in admin.get(page).text
        asked = admin.get(link).text
        assert "Restart the board?" in asked
        assert f'href="{back}"' in asked
        assert changes(agent) == []
        answer = admin.post("/system/restart", link, back=back[1:])
        assert f'data-back="{back}"' in answer.text
        assert changes(agent) == ["Restart"]
        agent.calls.clear()
    assert 'value="system"' in admin.get("/system/restart?back=https://evil.example/").text


def test_restart_and_power_off(admin: Browser, agent: FakeAgent) -> None:
    answer = admin.post("/system/restart", "/system", back="https://evil.example/")
    assert "The board restarts" in answer.text
    assert 'data-back="/system"' in answer.text
    answer = admin.post("/system/power-off", "/system")
    assert answer.status_code == 422
    assert "Confirm first" in answer.text
    assert changes(agent) == ["Restart"]
    answer = admin.post("/system/power-off", "/system", confirm="yes")
    assert "The board switches off" in answer.text
    assert changes(agent) == ["Restart", "PowerOff"]


def test_a_factory_reset(admin: Browser, agent: FakeAgent) -> None:
    resets = lambda: [call for call in agent.calls if call.startswith("FactoryReset")]  # noqa: E731
    answer = admin.post("/system/reset", "/system", password=PASSWORD)
    assert "The board is reset" in answer.text
    admin.post("/system/reset", "/system", password=PASSWORD, recordings="erase")
    assert resets() == [f"FactoryReset True {PASSWORD}", f"FactoryReset False {PASSWORD}"]


def test_a_factory_reset_that_is_refused(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("WrongPassword", "the present password is wrong")
    answer = admin.post("/system/reset", "/system", password=PASSWORD)
    assert answer.status_code == 401
    assert "The present password is wrong" in answer.text
    assert admin.get("/system").status_code == 200, "the session goes on"
    agent.refuse = refused(
        "Conflict", "the board was not reset, and nothing is lost: an installation is running"
    )
    answer = admin.post("/system/reset", "/system", password=PASSWORD)
    assert answer.status_code == 409
    assert "nothing is lost: an installation is running" in answer.text


def test_a_board_that_stops_before_it_answers_is_no_failure(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(sent: bool) -> None:
        raise unreachable("the agent stopped", sent=sent)

    monkeypatch.setattr(agent, "power_off", lambda: stops(True), raising=False)
    assert admin.post("/system/power-off", "/system", confirm="yes").status_code == 200
    monkeypatch.setattr(agent, "power_off", lambda: stops(False), raising=False)
    assert admin.post("/system/power-off", "/system", confirm="yes").status_code == 503


def test_no_restart_during_an_installation(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused(
        "Conflict", "the board was not switched off: an installation is running; wait until it ends"
    )
    answer = admin.post("/system/power-off", "/system", confirm="yes")
    assert answer.status_code == 409
    assert "an installation is running" in answer.text


def test_roles(admin: Browser, agent: FakeAgent) -> None:
    viewer, operator = admin.new_user("viewer"), admin.new_user("operator")
    for each in (viewer, operator):
        page = each.get("/system").text
        assert "Europe/Berlin" in page
        assert "Switch the board off" not in page
        for path in ("name", "time-zone", "time-servers", "restart", "power-off", "reset"):
            assert f'action="/system/{path}"' not in page
        for path in ("name", "time-zone", "time-servers", "restart", "power-off", "reset"):
            fields = {"name": "x", "zone": "UTC", "servers": "", "confirm": "yes"}
            assert each.post(f"/system/{path}", "/apps", **fields).status_code == 403, path
    assert changes(agent) == []
    assert "/system/journal" not in viewer.get("/system").text
    assert viewer.get("/system/journal").status_code == 403
    assert viewer.get("/system/journal.json").status_code == 403
    assert "/system/journal" in operator.get("/system").text
    assert operator.get("/system/journal").status_code == 200
    assert not [call for call in agent.calls if call.startswith("GetJournal")][1:]


def test_without_an_agent_the_page_says_so(admin: Browser, agent: FakeAgent) -> None:
    agent.dead = "The agent does not answer: it is not running."
    for path in ("/system", "/system/journal"):
        answer = admin.get(path)
        assert answer.status_code == 503
        assert "agent does not answer" in answer.text
    assert admin.get("/system.json").status_code == 503


# ---- the journal ----


def test_the_journal_and_its_twin(admin: Browser, agent: FakeAgent) -> None:
    page = admin.get("/system/journal").text
    headings(page)
    assert "mmc0: Timeout waiting" in page
    assert "4 lines, newest last" in page
    assert re.search(r"GetJournal  info \S+Z  50$", agent.calls[-1])
    found = admin.get("/system/journal.json?unit=kernel&priority=err&span=all&limit=500").json
    assert found
    assert agent.calls[-1] == "GetJournal kernel err   500"
    assert set(found) == set(Journal.__struct_fields__)
    assert set(found["lines"][0]) == set(Line.__struct_fields__)


def test_a_text_of_the_journal_is_only_text(admin: Browser, agent: FakeAgent) -> None:
    agent.journal = [Line(1.0, "info", "", "", 0, "<script>alert(1)</script>\x1b[31m")]
    page = admin.get("/system/journal").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "1 line<" in page


def test_an_empty_journal_says_so(admin: Browser, agent: FakeAgent) -> None:
    agent.journal = []
    assert "No line matches" in admin.get("/system/journal").text


@pytest.mark.parametrize(
    ("query", "text", "value"),
    [
        ("unit=a%20b", "letters, digits and the characters", 'value="a b"'),
        ("unit=--root", "letters, digits and the characters", 'value="--root"'),
        ("end=yesterday", "is not a time", 'value="yesterday"'),
        ("end=2026-02-30", "is not a time", 'value="2026-02-30"'),
        ("priority=loud", "Choose one of", ""),
        ("span=year", "Choose one of", ""),
        ("limit=501", "Choose one of", ""),
    ],
)
def test_a_bad_query_is_explained_and_stays_in_the_form(
    admin: Browser, query: str, text: str, value: str
) -> None:
    answer = admin.get(f"/system/journal?{query}")
    assert answer.status_code == 422
    assert text in answer.text
    assert value in answer.text
    assert 'aria-invalid="true"' in answer.text
    twin = admin.get(f"/system/journal.json?{query}")
    assert twin.status_code == 422
    assert twin.json
    assert text in twin.json["reason"]


def test_a_search_that_fails_keeps_the_form(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("Failed", "the journal was not read: the search took more than 7 s")
    answer = admin.get("/system/journal?unit=nginx&span=7d")
    assert answer.status_code == 503
    assert "took more than 7 s" in answer.text
    assert 'value="nginx"' in answer.text
    assert '<option value="7d" selected>' in answer.text


def test_older_lines_have_a_link(admin: Browser, agent: FakeAgent) -> None:
    now = time.time()
    agent.journal = [Line(now - 100 + n, "info", "", "", 0, f"line {n}") for n in range(60)]
    page = admin.get("/system/journal?unit=a").text
    link = re.search(r'href="/system/journal\?([^"]+)">Show older', page)
    assert link
    query = parse_qs(link[1].replace("&amp;", "&"))
    assert (query["unit"], query.get("limit")) == (["a"], None)
    assert "Show older" not in admin.get("/system/journal?limit=100").text


def test_an_api_token_reads_the_journal(admin: Browser, app: Flask) -> None:
    page = admin.post("/account/tokens", "/account", name="x", role="operator", days="30").text
    found = re.search(r"is (ek_[\w-]+)\.", page)
    assert found
    answer = app.test_client().get(
        "/system/journal.json", base_url=BASE, headers={"Authorization": f"Bearer {found[1]}"}
    )
    assert answer.status_code == 200


def at(text: str) -> float:
    return model._at(text)


@given(
    st.sampled_from(list(model.SPANS)),
    st.sampled_from(["", "2026-11-25", "2026-11-25 10:00", "1970-01-01 00:01"]),
    st.floats(0, 4e9),
)
def test_a_range_ends_after_it_begins(span: str, end: str, now: float) -> None:
    found = model.JournalQuery(span=span, end=end).request(now)
    assert bool(found.end) == bool(end)
    assert bool(found.start) == (span != "all")
    if found.start and found.end:
        assert found.start <= found.end
        assert at(found.end) - at(found.start) in (model.SPANS[span][1], at(found.end))


@given(
    st.lists(st.floats(1e9, 1e9 + 5).map(lambda t: round(t, 6)), min_size=1, max_size=40), st.integers(1, 8)
)
def test_the_links_to_older_lines_end_and_skip_no_second(times: list[float], limit: int) -> None:
    """Follow the links from page to page. Each line is on a page, unless a page is full of lines of its second."""
    lines = [Line(moment, "info", "", "", 0, "") for moment in sorted(times)]
    query, seen, pages = model.JournalQuery(span="all"), set(), 0
    while True:
        until = at(parse_time("end", query.end)) if query.end else 2e9
        matching = [line for line in lines if line.at <= until]
        shown = matching[-limit:]
        seen |= {line.at for line in shown}
        older = query.older(Journal(lines=shown, more=len(matching) > limit))
        pages += 1
        assert pages < 100
        if not older:
            break
        query = read(model.JournalQuery, {name: value[0] for name, value in parse_qs(older).items()})
    for line in lines:
        same_second = [other for other in lines if math.ceil(other.at) == math.ceil(line.at)]
        assert line.at in seen or len(same_second) >= limit


@given(st.integers(0, 4 * 10**9), st.integers(-12 * 3600, 14 * 3600))
def test_local_time(moment: int, offset: int) -> None:
    text = model.local_time(moment, offset // 60 * 60)
    found = re.fullmatch(r"(\S+) (\S+) \(UTC([+−])(\d\d):(\d\d)\)", text)
    assert found
    seconds = (int(found[4]) * 3600 + int(found[5]) * 60) * (-1 if found[3] == "−" else 1)
    assert at(f"{found[1]}T{found[2]}Z") - seconds == moment


# ---- the support bundle ----


def test_the_support_bundle(admin: Browser, agent: FakeAgent) -> None:
    answer = admin.post("/system/support", "/system")
    assert answer.status_code == 200
    assert answer.data == b"gzip of the demo"
    assert answer.mimetype == "application/gzip"
    assert re.search(r'filename="support-[-\dT]+Z\.tar\.gz"', answer.headers["Content-Disposition"])
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert "OpenSupportBundle" in admin.get("/audit.json").text


def test_a_bundle_that_is_cut_is_no_bundle(admin: Browser, agent: FakeAgent) -> None:
    agent.bundle_file = [b"gzip"]
    with pytest.raises(Truncated):
        _ = admin.post("/system/support", "/system").data
    # its place is free again, also after a failure before the first byte
    agent.bundle_file = [End(2, "the request is not valid")]
    for _ in range(5):
        answer = admin.post("/system/support", "/system")
        assert answer.status_code == 503
        assert "The support bundle was not made: the request is not valid." in answer.text
    agent.refuse = refused("Failed", "the support bundle was not made: the helper cannot be reached")
    for _ in range(5):
        assert "helper cannot be reached" in admin.post("/system/support", "/system").text
    agent.refuse = None
    agent.bundle_file = [b"gzip", End(0)]
    assert admin.post("/system/support", "/system").status_code == 200


def test_a_viewer_gets_no_bundle(admin: Browser, agent: FakeAgent) -> None:
    viewer = admin.new_user("viewer")
    assert viewer.post("/system/support", "/apps").status_code == 403
    assert "OpenSupportBundle" not in agent.calls
    assert admin.new_user("operator").post("/system/support", "/system").status_code == 200


# ---- backup and restore ----


def saved(admin: Browser) -> str:
    answer = admin.post("/system/backup", "/system", password=PASSWORD)
    assert answer.status_code == 200
    assert re.search(r'filename="evenkeel-backup-[-\dT]+Z\.json"', answer.headers["Content-Disposition"])
    return answer.text


def send(admin: Browser, path: str, **fields: Any) -> Any:
    match = re.search(r'name="csrf_token" value="([^"]+)"', admin.get("/system").text)
    assert match
    return admin.client.post(path, base_url=BASE, data={"csrf_token": match[1], **fields})


def check(admin: Browser, text: str) -> Any:
    return send(admin, "/system/backup/check", file=(io.BytesIO(text.encode()), "backup.json"))


def test_a_backup_is_checked_and_then_restored(admin: Browser, agent: FakeAgent, panel: Panel) -> None:
    admin.set_weight("player", "300")
    admin.post("/wear/limit", "/wear", limit="70")
    admin.post("/system/name", "/system", name="press-7")
    admin.post("/users", "/users", name="eve", role="viewer")
    text = saved(admin)
    assert PASSWORD not in text
    assert "same settings as this board" in check(admin, text).text
    admin.set_weight("player", "50")
    admin.post("/wear/limit", "/wear", limit="off")
    admin.post("/system/name", "/system", name="other")
    admin.post("/users/eve/remove", "/users")
    before = len(agent.calls)
    page = check(admin, text)
    assert page.status_code == 200
    for sentence in (
        "The weight of player changes from 50 to 300.",
        "The wear limit changes from off to 70 %.",
        "The name changes from other to press-7.",
    ):
        assert sentence in page.text
    assert not [call for call in agent.calls[before:] if call.startswith("Set")], "a check changes nothing"
    hidden = re.search(r'name="backup" value="([^"]*)"', page.text)
    assert hidden
    done = send(admin, "/system/restore", backup=html.unescape(hidden[1]).replace("\n", "\r\n"))
    assert "The settings of the backup are those of the board now." in done.text
    assert agent.system.name == "press-7"
    assert {app.name: app.weight for app in agent.apps}["player"] == 300
    assert agent.wear.limit == 70
    assert "eve" in admin.get("/users").text
    assert admin.get("/system").status_code == 200, "the user has not changed, so the session goes on"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda text: "", "no file is chosen"),
        (lambda text: text + " " * 50_000, "run &#39;ekctl restore file&#39; on the board"),
        (lambda text: "a picture", "not a backup"),
        (lambda text: text[: len(text) // 2], "not a backup"),
        (
            lambda text: text.replace("evenkeel", "evenkeek").replace("evenkeek-backup", "evenkeel-backup"),
            "checksum is wrong",
        ),
        (lambda text: text.replace('"version": 4', '"version": 9'), "update the board first"),
    ],
)
def test_a_file_that_cannot_be_restored_says_why(
    admin: Browser, agent: FakeAgent, change: Callable[[str], str], text: str
) -> None:
    bad = change(saved(admin))
    before = agent.system, list(agent.apps)
    answer = check(admin, bad)
    assert answer.status_code == 422
    assert text in answer.text.lower()
    answer = send(admin, "/system/restore", backup=bad)
    assert answer.status_code == 422
    assert (agent.system, list(agent.apps)) == before


def fixed_address(admin: Browser, agent: FakeAgent, address: str) -> None:
    admin.post(
        "/network/enp1s0", "/network", mode="fixed", address=address, gateway="192.168.1.1", dns="192.168.1.1"
    )
    agent.network.now_s += 10
    admin.post("/network/confirm", "/network")


def test_network_settings_change_only_on_demand_and_wait_for_their_confirmation(
    admin: Browser, agent: FakeAgent
) -> None:
    fixed_address(admin, agent, "192.168.1.20/24")
    text = saved(admin)
    assert "same settings as this board" in check(admin, text).text
    fixed_address(admin, agent, "192.168.1.30/24")
    page = check(admin, text).text
    headings(page)
    assert "All settings but those of the network are the same." in page
    assert "The network settings of enp1s0 change to 192.168.1.20/24, gateway 192.168.1.1" in page
    box = re.search(r'<input type="checkbox" name="network"[^>]*>', page)
    assert box
    assert "checked" not in box[0]

    def state() -> Any:
        return admin.get("/network.json").json

    done = send(admin, "/system/restore", backup=text).text
    assert "The settings of the backup are those of the board now." in done
    assert state()["trial"] == []
    done = send(admin, "/system/restore", backup=text, network="yes").text
    assert "Confirm the network settings." in done
    assert "enp1s0 changes to 192.168.1.20/24. The board undoes this in" in done
    assert 'href="https://192.168.1.20/login?to=network"' in done
    refused = send(admin, "/system/restore", backup=text, network="yes")
    assert (refused.status_code, "confirm or undo it first" in refused.text) == (409, True)
    agent.network.now_s += 61
    assert (state()["trial"], state()["last"]) == ([], "expired")
    assert state()["interfaces"][0]["settings"]["address"] == "192.168.1.30/24"


def test_a_backup_of_another_board_tells_which_interfaces_are_missing(
    admin: Browser, agent: FakeAgent
) -> None:
    fixed_address(admin, agent, "192.168.1.20/24")
    text = saved(admin)
    fixed_address(admin, agent, "192.168.1.30/24")
    agent.network.described = {"Interfaces": [{**NETWORK["Interfaces"][1], "Name": "eth0"}]}
    page = check(admin, text).text
    assert "This board has no network interface enp1s0" in page
    assert 'name="network"' not in page, "there is nothing to choose"
    agent.network.silent = "no reply"
    assert "The state of the network is unknown" in check(admin, text).text


def test_a_restore_says_which_certificate_to_install(admin: Browser, agent: FakeAgent) -> None:
    own = agent.certificate
    agent.certificate = replace(own, subject="CN=<press>", issuer="CN=Example CA", own=False)
    text = saved(admin)
    assert "left out" not in check(admin, text).text
    agent.certificate = own
    admin.post("/system/name", "/system", name="other")
    left_out = "The certificate for CN=&lt;press&gt;, signed by CN=Example CA, is left out"
    for page in (check(admin, text).text, send(admin, "/system/restore", backup=text).text):
        assert left_out in page
        assert "install it again with its key, on the page System" in page


CHANNEL = "# a comment of the owner\nrecord_size = 64\nretain = 1GiB\nread_mode = all\n"


def with_channels(text: str, channels: dict[str, str]) -> str:
    """The backup TEXT with these channels of the recorder."""
    content = replace(backup.load(text).content, recorder=Recorder("ek-record", 0, channels))
    return backup.dump(content, 5)


def test_channels_that_change_are_listed(admin: Browser, agent: FakeAgent) -> None:
    folder = Path(agent._folder.name) / "etc/ek-recorder/channels.d"
    folder.mkdir(parents=True)
    text = saved(admin)
    assert "same settings as this board" in check(admin, text).text
    page = check(admin, with_channels(text, {"arm": CHANNEL})).text
    headings(page)
    sentence = "The channel arm of the recorder is added: record_size 64, retain 1GiB, read_mode all."
    assert sentence in page
    assert "What is left out" not in page
    (folder / "eye.conf").write_text("retain = 1GiB\n")
    answer = admin.post("/system/backup", "/system", password=PASSWORD)
    assert (answer.status_code, "correct this file in /etc/ek-recorder" in answer.text) == (503, True)


def test_channels_are_left_out_on_a_board_without_a_recorder(admin: Browser) -> None:
    text, left_out = saved(admin), "This board has no recorder, so the channels of the backup are left out."
    other = with_channels(text, {"arm": CHANNEL})
    answer = check(admin, other).text
    assert "same settings as this board" in answer
    assert left_out in answer
    admin.post("/system/name", "/system", name="other")
    page = check(admin, other).text
    headings(page)
    assert page.index("What is left out") < page.index(left_out)
    assert left_out in send(admin, "/system/restore", backup=other).text


def test_the_largest_backup_of_the_panel_passes_both_steps(admin: Browser, agent: FakeAgent) -> None:
    """In a form of the usual kind, most characters of JSON take three bytes."""
    text = saved(admin)
    empty = len(with_channels(text, {"arm": CHANNEL}))
    marks = '"' * ((40_000 - empty - 2) // 2)
    text = with_channels(text, {"arm": f"{CHANNEL}# {marks}"})
    assert 39_990 < len(text) <= 40_000
    admin.post("/system/name", "/system", name="other")
    page = check(admin, text).text
    form = re.search(r'<form method="post" action="/system/restore"(?: enctype="([^"]*)")?>', page)
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert form
    assert token
    answer = admin.client.post(
        "/system/restore",
        base_url=BASE,
        data={"csrf_token": token[1], "backup": text.replace("\n", "\r\n")},
        content_type=form[1] or "application/x-www-form-urlencoded",
    )
    assert answer.status_code == 200
    assert agent.system.name == "evenkeel"


def test_priority_directories_are_restored(admin: Browser, agent: FakeAgent) -> None:
    text = saved(admin)
    admin.post("/cache/remove", "/cache", app="player", directory="/data/player/new")
    expected = "player change from /data/player/clips to /data/player/clips, /data/player/new."
    assert expected in check(admin, text).text
    send(admin, "/system/restore", backup=text)
    assert [one.path for one in agent.cache.directories] == ["/data/player/clips", "/data/player/new"]


def test_a_backup_needs_the_password_and_leaves_no_secret(admin: Browser) -> None:
    answer = admin.post("/system/backup", "/system", password="wrong")  # noqa: S106
    assert answer.status_code == 401
    assert "not the present password" in answer.text
    assert "argon2" not in answer.text
    text = saved(admin)
    assert "argon2id" in text, "a board that replaces this one needs the users"
    send(admin, "/system/restore", backup=text)
    log = admin.get("/audit.json").text
    assert "GetBackup" in log
    assert "RestoreBackup" in log
    assert "argon2" not in log


def test_a_token_that_comes_back_is_named_first(admin: Browser, app: Flask) -> None:
    page = admin.post("/account/tokens", "/account", name="ci <1>", role="viewer", days="0").text
    secret = re.search(r"is (ek_[\w-]+)\.", page)
    assert secret

    def status() -> int:
        headers = {"Authorization": f"Bearer {secret[1]}"}
        return int(app.test_client().get("/apps.json", base_url=BASE, headers=headers).status_code)

    assert status() == 200
    text = saved(admin)
    assert secret[1] not in text
    (token,) = admin.get("/account.json").json["tokens"]
    admin.post(f"/account/tokens/{token['id']}/remove", "/account")
    assert status() == 401
    page = check(admin, text).text
    assert "The API token ci &lt;1&gt; of admin comes back: it is valid again, with the role viewer" in page
    assert "Remove it again after the restore" in page
    assert status() == 401, "a check changes nothing"
    send(admin, "/system/restore", backup=text)
    assert status() == 200
    assert "Remove it again" not in check(admin, text).text


def test_only_an_administrator_gets_a_backup(admin: Browser, app: Flask) -> None:
    text = saved(admin)
    operator = admin.new_user("operator")
    assert "/system/backup" not in operator.get("/system").text
    assert operator.post("/system/backup", "/system", password="a long new secret 1").status_code == 403  # noqa: S106
    assert check(operator, text).status_code == 403
    assert send(operator, "/system/restore", backup=text).status_code == 403
    page = admin.post("/account/tokens", "/account", name="x", role="admin", days="30").text
    token = re.search(r"is (ek_[\w-]+)\.", page)
    assert token
    headers = {"Authorization": f"Bearer {token[1]}"}
    answer = app.test_client().post(
        "/system/backup", base_url=BASE, headers=headers, data={"password": PASSWORD}
    )
    assert answer.status_code == 403
