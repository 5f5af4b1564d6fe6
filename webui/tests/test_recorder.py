# SPDX-License-Identifier: Apache-2.0
"""The recorder page: what it shows in each state, and the download from the form to the last packet."""

from __future__ import annotations

import gc
import os
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_api.features.recorder import Channel, Loss, Recorder
from evenkeel_api.messages import Message
from evenkeel_common.packets import End, Truncated
from evenkeel_panel import gunicorn_conf, texts
from evenkeel_panel.context import KEY
from evenkeel_panel.fake_agent import demo_recorder, refused, unreachable
from evenkeel_panel.recorder import download, model
from evenkeel_panel.recorder.download import Downloads, Recording
from evenkeel_panel.testing import BASE, Browser
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from flask import Flask
    from werkzeug.test import TestResponse


def words(browser: Browser, path: str = "/recorder") -> str:
    """The text of a page, without markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"</?b>", "", browser.get(path).text)))


def send(browser: Browser, *channels: str, **fields: str) -> TestResponse:
    token = re.search(r'name="csrf_token" value="([^"]+)"', browser.get("/recorder").text)
    assert token
    data: dict[str, Any] = {"csrf_token": token[1], "channel": list(channels), **fields}
    return browser.client.post("/recorder/download", base_url=BASE, data=data)


def test_the_page_shows_channels_losses_latencies_and_reach(admin: Browser) -> None:
    found = words(admin)
    assert "At least 1,203 records lost since 20" in found
    assert "1,203 because the flash was slower than the program" in found
    assert "unknown number, because the recorder or the board was not shut down cleanly" in found
    assert "290 ms longest 410 ms allowed 500 ms" in found
    assert "930 ms longest 3.10 s allowed 1.0 s: 17 late" in found
    assert "213 MB" in found
    assert "brake-failure can0" in found
    assert "What is lost when" in found


def test_nothing_lost(admin: Browser, agent: FakeAgent) -> None:
    agent.recorder = replace(agent.recorder, channels=agent.recorder.channels[:1], started_at=1795600800.0)
    assert "Nothing lost since 2026-11-25 10:00:00 UTC." in words(admin)
    assert admin.get("/recorder.json").json["losses"] == "Nothing lost since 2026-11-25 10:00:00 UTC."  # type: ignore[index]


def test_the_json_twin_has_the_data_of_the_page(admin: Browser) -> None:
    answer = admin.get("/recorder.json")
    assert answer.json is not None
    assert set(answer.json) == set(model.RecorderPage.__struct_fields__)
    (arm, can0) = answer.json["channels"]
    assert (arm["lost"], can0["lost"], can0["lost_unknown"], can0["late"]) == (0, 1203, 1, 17)


CASES = [
    (Recorder(state="running"), "No channel is set up, so nothing is recorded"),
    (Recorder(state="stopped"), "restart the board on the page System"),
    (Recorder(state="not-installed"), "This board has no recorder"),
    (Recorder(state="unknown"), "because systemd does not answer"),
    (Recorder(state="starting"), "Wait a moment"),
    (
        Recorder(state="failed", problems=[Message("recorder-failed", unit="ek-recorder.service").note()]),
        "The recorder has failed, so nothing is recorded; look for",
    ),
    (Recorder(state="running", configuration="a restart is needed"), "is not in force: a restart is needed."),
    (
        Recorder(
            state="running", channels=[Channel("arm", "failed", "/recorder: not mounted")], listed_at=1.0
        ),
        "does not record /recorder: not mounted",
    ),
    (
        Recorder(state="running", channels=[Channel("arm", "preparing")]),
        "The board is looking up how far back",
    ),
    (Recorder(state="running", channels=[Channel("arm", "recording")], listed_at=1.0), "no record"),
    (Recorder(state="running", channels=[Channel("old", "not-configured")]), "Only its recording is left"),
    (
        Recorder(state="running", channels=[Channel("arm", "recording", readable=False)]),
        "The panel may not read this channel.",
    ),
    (
        Recorder(
            state="running",
            channels=[Channel("arm", "recording")],
            listing_problem=[Message("recordings-unreadable", reason="no medium").note()],
        ),
        "The recordings cannot be read: no medium.",
    ),
]


@pytest.mark.parametrize(("recorder", "text"), CASES)
def test_each_state_has_a_sentence(admin: Browser, agent: FakeAgent, recorder: Recorder, text: str) -> None:
    agent.recorder = recorder
    for path in ("/recorder", "/recorder/live"):
        assert text.replace("'", "&#39;") in words(admin, path)
    assert admin.get("/recorder.json").status_code == 200


def test_all_states_of_the_agent_are_known() -> None:
    from typing import get_args

    from evenkeel_api.features.recorder import ChannelState, Reason, State

    assert set(get_args(State)) | {"no-answer"} == set(model.STATES)
    assert set(get_args(ChannelState)) == set(model.CHANNEL_STATES)
    for reason in get_args(Reason):
        assert f"lost-{reason}" in texts.TEXTS
    assert {*model.ADVICE.values()} <= texts.TEXTS.keys()


def test_without_the_agent_the_page_says_so(admin: Browser, agent: FakeAgent) -> None:
    admin.get("/recorder")
    agent.dead = "the agent does not answer: it is not running"
    admin.client.application.extensions[KEY].board.expire()
    found = words(admin)
    assert "The agent does not answer: it is not running." in found
    assert "The recorder does not depend on the agent" in found
    assert admin.get("/recorder.json").status_code == 503


def test_open_pages_share_one_question_and_get_304(admin: Browser, agent: FakeAgent) -> None:
    first = admin.get("/recorder/live")
    before = agent.calls.count("GetRecorder")
    for _ in range(5):
        again = admin.get("/recorder/live", **{"If-None-Match": first.headers["ETag"]})
        assert again.status_code == 304
    assert agent.calls.count("GetRecorder") == before


def test_page_and_data_of_a_view_are_one_question(admin: Browser, agent: FakeAgent) -> None:
    admin.client.application.extensions[KEY].board.expire()
    before = agent.calls.count("GetRecorder"), agent.calls.count("GetStatus")
    for path in ("/recorder", "/recorder.json", "/recorder/live"):
        admin.get(path)
    views = agent.calls.count("GetStatus") - before[1]
    assert agent.calls.count("GetRecorder") - before[0] <= views < 3


def test_an_agent_that_does_not_answer_this_question_only(
    admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> Recorder:
        raise unreachable("the agent did not answer within 8 s")

    monkeypatch.setattr(agent, "get_recorder", silent)
    assert admin.get("/recorder.json").status_code == 503
    answer = admin.get("/recorder/live")
    assert "The agent did not answer within 8 s." in answer.text
    assert "ETag" not in answer.headers


def test_the_live_parts_replace_no_input(admin: Browser) -> None:
    live = admin.get("/recorder/live").text
    assert "<input" not in live
    assert "<select" not in live
    page = admin.get("/recorder").text
    for name in re.findall(r'<div id="([a-z]+)" hx-swap-oob', live):
        assert f'id="{name}"' in page


def test_the_form_has_a_url(admin: Browser) -> None:
    page = admin.get("/recorder?channel=can0&span=times&start=2026-11-25+10:00&format=csv-text").text
    assert 'value="can0" checked' in page
    assert 'value="arm">' in page
    assert '<option value="times" selected>' in page
    assert 'value="2026-11-25 10:00"' in page
    assert '<option value="csv-text" selected>' in page


# the download


def test_a_download(admin: Browser, agent: FakeAgent) -> None:
    answer = send(admin, "arm", "can0", span="times", start="2026-11-25 10:00", end="2026-11-25T10:05:30Z")
    assert answer.status_code == 200
    assert answer.data == b"MCAP of the demo"
    assert agent.calls[-1] == "OpenRecording 2026-11-25T10:00:00Z 2026-11-25T10:05:30Z  mcap arm can0"
    name = 'attachment; filename="recording-2026-11-25T100000Z.mcap"'
    assert answer.headers["Content-Disposition"] == name
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert "Content-Length" not in answer.headers
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_download_has_a_row_in_the_audit_log(admin: Browser) -> None:
    send(admin, "arm", span="all", format="csv-hex")
    row = words(admin, "/audit")
    assert "Download of a recording" in row
    assert "format csv-hex, channels [&#39;arm&#39;]" in row


def test_an_incident(admin: Browser, agent: FakeAgent) -> None:
    answer = send(admin, "can0", span="all", incident="brake-failure")
    assert agent.calls[-1] == "OpenRecording   brake-failure mcap can0"
    assert 'filename="can0-brake-failure-' in answer.headers["Content-Disposition"]


def test_the_last_minutes(admin: Browser, agent: FakeAgent) -> None:
    send(admin, "arm", span="5min")
    start = agent.calls[-1].split()[1]
    at = time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    assert 290 < time.time() - at < 310
    send(admin, "arm", span="5min", end="2026-11-25 10:00")
    assert agent.calls[-1] == "OpenRecording  2026-11-25T10:00:00Z  mcap arm"


@pytest.mark.parametrize(
    ("channels", "fields", "text", "field"),
    [
        ((), {}, "No channel is chosen. Choose at least one.", "channel"),
        (("arm",), {"start": "yesterday"}, "“yesterday” is not a time.", "start"),
        (("arm",), {"end": "2026-02-20 10:00:60"}, "is not a time.", "end"),
        (("arm",), {"end": "2026-02-30"}, "“2026-02-30” is not a time.", "end"),
        (("arm",), {"start": "2026-11-25", "end": "2026-11-24"}, "before it begins", "end"),
        (("arm",), {"span": "times"}, "No time is entered.", "start"),
        (("arm", "can0"), {"format": "csv-text"}, "A CSV file has one channel", "format"),
        (("arm",), {"format": "exe"}, "The choice under format is not known.", "format"),
        (("arm",), {"span": "x"}, "The choice under time is not known.", "span"),
    ],
)
def test_bad_input_gets_a_reason_and_loses_nothing(
    admin: Browser, agent: FakeAgent, channels: tuple[str, ...], fields: dict[str, str], text: str, field: str
) -> None:
    answer = send(admin, *channels, **{"span": "all", **fields})
    assert answer.status_code == 422
    assert text in answer.text
    assert re.search(
        rf'(id="{field}"[^>]* aria-invalid="true"|<fieldset) aria-describedby="download-message"', answer.text
    )
    for name in ("start", "end"):
        assert f'value="{fields.get(name, "")}"' in answer.text
    for name in channels:
        assert f'value="{name}" checked' in answer.text
    assert not [call for call in agent.calls if call.startswith("OpenRecording")]


def test_names_that_the_schema_refuses(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("InvalidArgument", "channels: does not match")
    answer = send(admin, "../etc", span="all")
    assert (answer.status_code, "Reload the page" in answer.text) == (422, True)


@pytest.mark.parametrize(("kind", "status"), [("Conflict", 409), ("Failed", 503)])
def test_a_refused_download_is_the_page_with_the_reason(
    admin: Browser, agent: FakeAgent, kind: str, status: int
) -> None:
    agent.refuse = refused(kind, "the download did not begin: too many downloads run")
    answer = send(admin, "arm", span="all")
    assert answer.status_code == status
    assert "The download did not begin: too many downloads run." in answer.text
    assert 'value="arm" checked' in answer.text


def test_an_export_that_fails_before_the_first_byte(admin: Browser, agent: FakeAgent) -> None:
    agent.recording = [End(2, "arm: no segments")]
    answer = send(admin, "arm", span="all")
    assert answer.status_code == 503
    assert "The download did not begin: arm: no segments." in answer.text


def test_damaged_records_do_not_make_the_file_incomplete(admin: Browser, agent: FakeAgent) -> None:
    agent.recording = [b"some", End(1, "arm: 7 records lost")]
    assert send(admin, "arm", span="all").data == b"some"


@pytest.mark.parametrize("packets", [[b"part"], [b"part", End(2, "the medium failed")]])
def test_a_cut_file_never_looks_complete(
    admin: Browser, agent: FakeAgent, packets: list[bytes | End]
) -> None:
    """The iterator fails. gunicorn then closes the connection without the last chunk."""
    agent.recording = packets
    with pytest.raises(Truncated):
        assert not send(admin, "arm", span="all").data


def test_an_empty_answer_is_cut_as_well(admin: Browser, agent: FakeAgent) -> None:
    agent.recording = []
    assert send(admin, "arm", span="all").status_code == 503


def test_only_two_downloads_run_at_once(admin: Browser, agent: FakeAgent) -> None:
    agent.recording = [b"x" * 1000] * 500 + [End(0)]
    running = [open_download(admin) for _ in range(download.MAX_DOWNLOADS)]
    third = send(admin, "arm", span="all")
    assert third.status_code == 409
    assert "Too many downloads run" in third.text or "too many downloads run" in third.text
    running[0].close()  # the browser goes away
    fourth = send(admin, "arm", span="all")
    assert len(fourth.data) == 500_000
    running[1].close()
    assert gunicorn_conf.threads >= download.MAX_DOWNLOADS + 4


def open_download(browser: Browser) -> TestResponse:
    token = re.search(r'name="csrf_token" value="([^"]+)"', browser.get("/recorder").text)
    assert token
    data = {"csrf_token": token[1], "channel": "arm", "span": "all"}
    return browser.client.post("/recorder/download", base_url=BASE, data=data, buffered=False)


def test_a_refused_download_leaves_its_place(admin: Browser, agent: FakeAgent) -> None:
    agent.refuse = refused("Failed", "no")
    for _ in range(download.MAX_DOWNLOADS + 2):
        assert send(admin, "arm", span="all").status_code == 503
    agent.refuse = None
    agent.recording = [End(2, "no")]
    for _ in range(download.MAX_DOWNLOADS + 2):
        assert send(admin, "arm", span="all").status_code == 503


def test_a_download_needs_the_token_of_the_form(admin: Browser, agent: FakeAgent) -> None:
    answer = admin.client.post("/recorder/download", base_url=BASE, data={"channel": "arm"})
    assert answer.status_code == 400
    assert not [call for call in agent.calls if call.startswith("OpenRecording")]


def test_a_viewer_sees_everything_and_downloads_nothing(admin: Browser, app: Flask, agent: FakeAgent) -> None:
    viewer = admin.new_user("viewer")
    found = words(viewer)
    assert "Your role may not download recordings." in found
    assert "290 ms" in found
    token = re.search(r'name="csrf_token" value="([^"]+)"', viewer.get("/recorder").text)
    assert token
    data = {"csrf_token": token[1], "channel": "arm"}
    answer = viewer.client.post("/recorder/download", base_url=BASE, data=data)
    assert answer.status_code == 403
    assert not [call for call in agent.calls if call.startswith("OpenRecording")]


def test_an_operator_may_download(admin: Browser, app: Flask) -> None:
    assert send(admin.new_user("operator"), "arm", span="all").data == b"MCAP of the demo"


def test_a_program_with_a_token_gets_the_file_or_json(admin: Browser) -> None:
    page = admin.post("/account/tokens", "/account", name="x", role="operator", days="1").text
    found = re.search(r"ek_[A-Za-z0-9_-]+", page)
    assert found, page
    headers = {"Authorization": f"Bearer {found[0]}"}
    fresh = admin.client.application.test_client()
    good = fresh.post("/recorder/download", base_url=BASE, headers=headers, data={"channel": "arm"})
    assert good.data == b"MCAP of the demo"
    bad = fresh.post("/recorder/download", base_url=BASE, headers=headers, data={})
    assert (bad.status_code, bad.json) == (
        422,
        {"error": "Download", "reason": "No channel is chosen. Choose at least one."},
    )


def test_the_api_does_not_have_the_method(admin: Browser) -> None:
    assert admin.get("/api/v1/GetRecorder").json["state"] == "running"  # type: ignore[index]
    assert "OpenRecording" not in admin.get("/api/v1/openapi.json").text


def test_nothing_that_arrives_for_long_is_a_cut_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PACKET_S", 0.05)
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ended: list[int] = []
    with pytest.raises(Truncated, match=r"nothing arrived"):
        Recording(theirs.detach(), lambda: ended.append(1))
    assert ended == [1]
    mine.close()


def test_a_packet_is_passed_on_before_the_next_one_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """nginx waits 60 s for the first byte, and a packet may take 50 s."""
    monkeypatch.setattr(download, "PACKET_S", 0.05)
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.send(b"Dx")
    content = Recording(theirs.detach(), lambda: None)
    assert next(content) == b"x"
    mine.send(b'E[0,""]')
    assert list(content) == []
    assert list(content) == []
    content.close()
    mine.close()


def test_closing_twice_ends_once_and_leaves_no_descriptor() -> None:
    downloads = Downloads(1)
    gc.collect()  # otherwise the garbage of earlier tests could close descriptors meanwhile
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.send(b"Dx")
        assert downloads.begin()
        assert not downloads.begin()
        content = Recording(theirs.detach(), downloads.end)
        content.close()
        content.close()
        mine.close()
    assert downloads.begin()
    with pytest.raises(Truncated):
        Recording(os.open(os.devnull, os.O_RDONLY), downloads.end)
    assert downloads.begin()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# times and names


@pytest.mark.parametrize(
    ("typed", "field", "made"),
    [
        ("2026-11-25 10:00:07", "start", "2026-11-25T10:00:07Z"),
        ("2026-11-25T10:00", "start", "2026-11-25T10:00:00Z"),
        (" 2026-11-25 10:00:07.5 UTC ", "start", "2026-11-25T10:00:07Z"),
        ("2026-11-25", "start", "2026-11-25T00:00:00Z"),
        ("2026-11-25", "end", "2026-11-25T23:59:59Z"),
    ],
)
def test_times(typed: str, field: str, made: str) -> None:
    assert model.parse_time(field, typed) == made


@given(st.datetimes())
def test_each_time_that_the_page_shows_can_be_entered(at: Any) -> None:
    if at.year < 1000:
        return
    text = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    assert model.parse_time("start", text) == text[:19].replace(" ", "T") + "Z"


@given(st.text(max_size=30) | st.from_regex(r"\A\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?\Z"))
def test_whatever_is_typed_is_a_time_of_the_agent_or_refused(typed: str) -> None:
    from evenkeel_api.features.recorder import TIME

    try:
        made = model.parse_time("start", typed)
    except model.BadDownload:
        return
    assert re.fullmatch(TIME.replace(r"$(?!\n)", ""), made)
    time.strptime(made, "%Y-%m-%dT%H:%M:%SZ")


LOSSES = st.lists(
    st.builds(Loss, st.sampled_from(("overrun", "absent", "restart")), st.integers(1, 1 << 40)),
    max_size=3,
    unique_by=lambda loss: loss.reason,
)


@given(st.lists(LOSSES, max_size=4))
def test_the_sentence_says_nothing_lost_only_if_nothing_is_lost(losses: list[list[Loss]]) -> None:
    channels = [Channel(f"c{n}", "recording", lost=lost) for n, lost in enumerate(losses)]
    page = model.page_data(Recorder(state="running", started_at=1.0, channels=channels))
    if not channels:
        assert page.losses == ""
    else:
        assert page.losses.startswith("Nothing lost since") == (not any(losses))
        assert sum(channel.lost for channel in page.channels) == sum(
            loss.records for lost in losses for loss in lost if loss.reason != "restart"
        )


def test_a_channel_that_does_not_record_is_not_without_loss(admin: Browser, agent: FakeAgent) -> None:
    agent.recorder = Recorder(
        state="running", channels=[Channel("arm", "recording"), Channel("can0", "failed", "not mounted")]
    )
    found = words(admin)
    assert "Not every channel records." in found
    assert "Nothing lost since" not in found


def test_a_channel_without_recording_is_not_offered(admin: Browser, agent: FakeAgent) -> None:
    channels = [
        Channel("bad", "failed", "its file is invalid"),
        Channel("new", "recording", records=1),
        Channel("old", "not-configured", oldest_at=1.0),
        Channel("secret", "recording", readable=False, records=1),
    ]
    agent.recorder = Recorder(state="running", channels=channels, listed_at=2.0)
    offered = re.findall(r'name="channel" value="([a-z]+)"', admin.get("/recorder").text)
    assert offered == ["new", "old"]


def test_file_names() -> None:
    assert model.file_name("2026-11-25T10:00:00Z", "", "csv-hex", ["arm"], 0) == "arm-2026-11-25T100000Z.csv"
    assert model.file_name("", "crash", "mcap", ["a", "b"], 0) == "recording-crash-1970-01-01T000000Z.mcap"


def test_the_demo_is_what_a_board_would_send() -> None:
    from evenkeel_api import schema

    packed = schema.pack(demo_recorder(), Recorder, lambda _, value, __=True: value)
    assert schema.convert(packed, Recorder).channels[0].name == "arm"
