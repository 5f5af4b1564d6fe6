# SPDX-License-Identifier: Apache-2.0
"""Alerts: when a problem is reported, what happens if a receiver cannot be reached, and what ek-alert sends."""

import asyncio
import base64
import contextlib
import http.server
import json
import os
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_harness import Harness, on_board
from evenkeel_agent import alert_sender, alerts
from evenkeel_agent.alerts import GAP_S, HOLD_S, MAX_LINES, Alerts, Outbox, Tracker, texts_of
from evenkeel_agent.caller import Caller
from evenkeel_agent.settings import Settings
from evenkeel_api import errors, schema
from evenkeel_api.features.alerts import SetAlerts
from evenkeel_api.messages import Message, Note
from evenkeel_api.method import Nothing
from hypothesis import given, settings
from hypothesis import strategies as st

COMPONENT = Path(__file__).resolve().parent.parent
ROOT = Caller("root", "admin", "bus")
HOOK = SetAlerts("http://host/hook", "", "", "", 587, "starttls", "", "")
MAIL = SetAlerts("", "ops@example.org", "", "mail.example.org", 587, "starttls", "board", "secret")
BOTH = SetAlerts("http://host/hook", "ops@example.org", "", "mail.example.org", 587, "starttls", "", "")
A, B = ("a",), ("b", "app=player")


def test_a_problem_is_reported_after_it_has_lasted() -> None:
    tracker = Tracker()
    assert tracker.update(0, {A: "the disk is full"}) == []
    assert tracker.update(HOLD_S - 1, {A: "the disk is full"}) == []
    assert tracker.update(HOLD_S, {A: "the disk is full now"}) == ["Problem: the disk is full now."]
    assert tracker.update(HOLD_S + 999, {A: "another text"}) == []
    assert tracker.update(2000, {}) == []
    assert tracker.update(2000 + HOLD_S, {}) == ["Solved: the disk is full now."]


def test_a_short_problem_and_a_short_pause_are_not_reported() -> None:
    tracker = Tracker()
    tracker.update(0, {A: "x"})
    assert tracker.update(HOLD_S - 1, {}) == []
    assert tracker.update(HOLD_S, {A: "x"}) == []  # it begins again
    assert tracker.update(2 * HOLD_S, {A: "x"}) == ["Problem: x."]
    tracker.update(2 * HOLD_S + 1, {})
    assert tracker.update(2 * HOLD_S + 2, {A: "x"}) == []
    assert tracker.update(9 * HOLD_S, {A: "x"}) == []
    assert tracker.update(9 * HOLD_S + 1, {}) == []  # the earlier pause does not count


@given(st.lists(st.tuples(st.integers(1, 50), st.sets(st.sampled_from([A, B]))), max_size=30))
@settings(deadline=None)
def test_reports_alternate_and_tell_the_last_state(steps: list[tuple[int, set[alerts.Key]]]) -> None:
    """However problems come and go, begin and end alternate. After a quiet time, the reports agree with the board."""
    tracker, now, lines = Tracker(), 0, []
    for wait, present in steps:
        now += wait
        lines += tracker.update(now, {key: key[0] for key in present})
    last = steps[-1][1] if steps else set()
    for _ in range(2):
        now += int(HOLD_S)
        lines += tracker.update(now, {key: key[0] for key in last})
    for key in (A, B):
        words = [line.split(":")[0] for line in lines if line.endswith(f": {key[0]}.")]
        assert words == ["Problem", "Solved"] * (len(words) // 2) + ["Problem"] * (len(words) % 2)
        assert (len(words) % 2 == 1) == (key in last)


def keys_of(*messages: Message) -> set[alerts.Key]:
    return set(texts_of(message.note() for message in messages))


def test_figures_in_the_text_do_not_make_a_new_problem() -> None:
    slow, slower = (Message("recorder-silent", seconds=n, unit="u") for n in (12, 13))
    assert keys_of(slow) == keys_of(slower)
    assert keys_of(Message("counters-unknown", file="f", app="a", reason="x")) == keys_of(
        Message("counters-unknown", file="f", app="a", reason="y")
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        [Message("app-not-controlled", app=name, reason="") for name in "ab"],
        [Message("scheduler-inactive", device=name, scheduler="none") for name in "ab"],
        [Message("app-ignored", file=name, reason="") for name in "ab"],
        [Message("weights-damaged", path=name, reason="") for name in "ab"],
        [Message("update-rolled-back", slot=name, version="1", running="c") for name in "ab"],
        [
            Message("rename-failed", problem=Message(f"{kind}s-damaged", path="p", reason=""), reason="")
            for kind in ("weight", "fixed-share")
        ],
    ],
)
def test_two_problems_with_the_same_code_are_both_reported(one: Message, other: Message) -> None:
    tracker = Tracker()
    present = texts_of([one.note(), other.note()])
    tracker.update(0, present)
    assert len(tracker.update(HOLD_S, present)) == 2


@pytest.mark.parametrize("state", ["failed", "degraded"])
def test_a_further_channel_does_not_solve_the_problem_of_the_first(state: str) -> None:
    """The recorder reports two channels with the same reason in one message, which has another code."""
    tracker = Tracker()
    one = texts_of([Message(f"channel-{state}", channels=["arm"], reason="full").note()])
    both = texts_of([Message(f"channels-{state}", channels=["arm", "can0"], reason="full").note()])
    tracker.update(0, one)
    (begin,) = tracker.update(HOLD_S, one)
    assert begin.startswith("Problem: channel arm is ")
    tracker.update(100, both)
    (further,) = tracker.update(100 + HOLD_S, both)
    assert further.startswith("Problem: channel can0 is ")
    tracker.update(200, one)
    assert tracker.update(200 + HOLD_S, one) == [further.replace("Problem", "Solved")]


def test_a_certificate_that_has_expired_is_not_solved() -> None:
    tracker = Tracker()
    soon, over = (
        texts_of(
            [Message(f"panel-certificate-{state}", date="2030-03-17", now="x", remedy="renew it").note()]
        )
        for state in ("expiring", "expired")
    )
    tracker.update(0, soon)
    assert len(tracker.update(HOLD_S, soon)) == 1
    tracker.update(100, over)
    (line,) = tracker.update(100 + HOLD_S, over)
    assert line.startswith("Problem: the certificate of the panel expired on 2030-03-17")
    tracker.update(200, {})
    (line,) = tracker.update(200 + HOLD_S, {})
    assert line.startswith("Solved: the certificate of the panel expired")


def test_a_solved_problem_has_no_instruction() -> None:
    tracker = Tracker()
    tracker.update(0, {A: "the disk: x; y is full; add a disk"})
    tracker.update(HOLD_S, {A: "the disk: x; y is full; add a disk"})
    tracker.update(100, {})
    assert tracker.update(100 + HOLD_S, {}) == ["Solved: the disk: x; y is full."]


def test_an_outbox_keeps_its_lines_until_they_are_sent() -> None:
    outbox = Outbox()
    outbox.add(["one"])
    assert outbox.waiting(0) == ["one"]
    outbox.add(["two"])  # while the first attempt runs
    outbox.done(0, 1, sent=False)
    assert outbox.waiting(GAP_S - 1) == []
    assert outbox.waiting(GAP_S) == ["one", "two"]
    outbox.add(["three"])
    outbox.done(GAP_S, 2, sent=True)
    assert outbox.waiting(2 * GAP_S) == ["three"]


def test_a_dead_receiver_costs_neither_memory_nor_many_attempts() -> None:
    outbox, now, attempts = Outbox(), 0.0, 0
    while now < 86_400:
        outbox.add(["x"])
        if outbox.waiting(now):
            attempts += 1
            outbox.done(now, len(outbox.lines), sent=False)
        now += 5
    assert attempts < 40
    assert len(outbox.lines) == MAX_LINES
    assert outbox.waiting(now + 9999)[0] == f"{86_400 // 5 - MAX_LINES} older messages were dropped."


# ---- the agent's part, with a fake ek-alert ----


class FakeSender:
    """Listens on the socket of ek-alert, and stores the orders."""

    def __init__(self, root: Path) -> None:
        self.orders: list[dict[str, Any]] = []
        self.answer: bytes | None = None  # None: every receiver was reached
        self.delay_s = 0.0
        (root / "run/evenkeel").mkdir(parents=True, exist_ok=True)
        self.path = str(root / "run/evenkeel/alert")

    async def start(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._serve, self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = json.loads(await reader.read())
        self.orders.append(order)
        await asyncio.sleep(self.delay_s)
        done = {name: "" for name in ("webhook", "mail") if name in order}
        writer.write(json.dumps(done).encode() if self.answer is None else self.answer)
        writer.close()


class Board:
    def __init__(self, root: Path) -> None:
        (root / "var/lib/evenkeel-agent").mkdir(parents=True)
        self.root, self.now = root, 0.0
        self.sender = FakeSender(root)
        self.alerts = self.start()

    def start(self) -> Alerts:
        return Alerts(Settings(root=str(self.root)), "board-7", lambda: self.now)

    async def pass_time(self, seconds: float, *problems: Note) -> None:
        self.now += seconds
        await self.alerts.check(list(problems))


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def run(board: Board, test: Callable[[], Awaitable[None]]) -> None:
    async def work() -> None:
        server = await board.sender.start()
        await test()
        server.close()

    asyncio.run(work())


PROBLEM = Message("data-degraded", reason="").note()


def test_a_problem_and_its_end_reach_the_webhook(board: Board) -> None:
    async def test() -> None:
        assert (await board.alerts.get_alerts(Nothing(), ROOT)).state == "off"
        assert (await board.alerts.set_alerts(HOOK, ROOT)).state == "ready"
        await board.pass_time(0, PROBLEM)
        assert board.sender.orders == []
        await board.pass_time(HOLD_S, PROBLEM)
        (order,) = board.sender.orders
        assert order["webhook"] == "http://host/hook"
        assert "mail" not in order
        assert order["document"]["board"] == "board-7"
        assert order["document"]["lines"] == [f"Problem: {PROBLEM.text}."]
        await board.pass_time(1)
        await board.pass_time(HOLD_S)
        assert board.sender.orders[1]["document"]["lines"] == [f"Solved: {PROBLEM.text}."]
        assert (await board.alerts.get_alerts(Nothing(), ROOT)).state == "sent"
        assert board.alerts.problems == []

    run(board, test)


def test_a_failure_is_a_problem_that_is_not_reported_itself(board: Board) -> None:
    async def test() -> None:
        await board.alerts.set_alerts(HOOK, ROOT)
        board.sender.answer = b'{"webhook": "the server answered 500"}'
        await board.pass_time(0, PROBLEM)
        await board.pass_time(HOLD_S, PROBLEM)
        (problem,) = board.alerts.problems
        assert (problem.code, problem.parameters["reason"]) == ("alert-not-sent", "the server answered 500")
        assert (await board.alerts.get_alerts(Nothing(), ROOT)).state == "failed"
        board.sender.answer = None
        for _ in range(5):
            await board.pass_time(HOLD_S, PROBLEM, problem.note())
        assert [order["document"]["lines"] for order in board.sender.orders] == [
            [f"Problem: {PROBLEM.text}."]
        ] * 2
        assert board.alerts.problems == []

    run(board, test)


def test_the_other_receiver_gets_the_failure_and_its_end(board: Board) -> None:
    def lines(name: str) -> list[str]:
        return "".join(order["text"] for order in board.sender.orders if name in order).splitlines()

    async def test() -> None:
        await board.alerts.set_alerts(BOTH, ROOT)
        board.sender.answer = b'{"webhook": "the server answered 500", "mail": ""}'
        for _ in range(4):
            await board.pass_time(HOLD_S, PROBLEM)
        assert lines("mail") == [
            f"Problem: {PROBLEM.text}.",
            "Problem: an alert was not sent (webhook): the server answered 500; check the settings of the alerts,"
            " then send a test.",
        ]
        board.sender.answer, board.sender.orders = None, []
        for _ in range(4):
            await board.pass_time(HOLD_S, PROBLEM, *(problem.note() for problem in board.alerts.problems))
        assert lines("mail") == ["Solved: an alert was not sent (webhook): the server answered 500."]
        assert lines("webhook") == [f"Problem: {PROBLEM.text}."]

    run(board, test)


def test_every_order_fits_and_is_text(board: Board) -> None:
    """The text of a problem may have names of files, so it may have any length and any character."""

    async def test() -> None:
        await board.alerts.set_alerts(BOTH, ROOT)
        board.sender.answer = b'{"webhook": "the server answered 500", "mail": "the server answered 500"}'
        names = [f"{number}\U0001f600\udcff\0" + "\U0001f600" * 9000 for number in range(2 * MAX_LINES)]
        notes = [Message("app-ignored", file=name, reason="").note() for name in names]
        await board.pass_time(0, *notes)
        await board.pass_time(HOLD_S, *notes)
        assert len(board.sender.orders) == 2
        for order in board.sender.orders:
            assert len(json.dumps(order)) < alert_sender.LIMIT
            order["text"].encode()  # no lone surrogate
            assert len(order["text"].splitlines()) == MAX_LINES + 1
            assert (
                max(len(line) for line in order["text"].splitlines()) <= len("Problem: .") + alerts.MAX_LENGTH
            )

    run(board, test)


def test_new_settings_begin_again(board: Board) -> None:
    """What failed before is forgotten. The new receiver gets the present problems."""

    async def test() -> None:
        await board.alerts.set_alerts(HOOK, ROOT)
        board.sender.answer = b'{"webhook": "the server answered 500"}'
        await board.pass_time(0, PROBLEM)
        await board.pass_time(HOLD_S, PROBLEM)
        assert board.alerts.problems
        board.sender.answer = None
        assert (await board.alerts.set_alerts(MAIL, ROOT)).state == "ready"
        assert board.alerts.problems == []
        await board.pass_time(1, PROBLEM)
        await board.pass_time(HOLD_S, PROBLEM)
        assert board.sender.orders[-1]["mail"]["to"] == "ops@example.org"

    run(board, test)


@pytest.mark.parametrize("answer", [b"", b"rubbish", b"[]", b"{}"])
def test_a_sender_that_dies_is_reported(board: Board, answer: bytes) -> None:
    async def test() -> None:
        await board.alerts.set_alerts(HOOK, ROOT)
        board.sender.answer = answer
        found = await board.alerts.send_test_alert(Nothing(), ROOT)
        assert found.state == "failed"
        assert "without an answer" in found.problem[0].text

    run(board, test)


def test_a_missing_sender_is_reported(board: Board) -> None:
    async def test() -> None:
        await board.alerts.set_alerts(HOOK, ROOT)
        found = await board.alerts.send_test_alert(Nothing(), ROOT)
        assert found.state == "failed"
        assert "cannot be reached" in found.problem[0].text

    asyncio.run(test())


def test_a_slow_test_does_not_have_the_result_of_an_older_message(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        await board.alerts.set_alerts(HOOK, ROOT)
        found = await board.alerts.send_test_alert(Nothing(), ROOT)
        assert (found.state, found.testing) == ("sent", False)
        monkeypatch.setattr(alerts, "TEST_S", 0.01)
        board.sender.answer, board.sender.delay_s = b'{"webhook": "no"}', 0.2
        found = await board.alerts.send_test_alert(Nothing(), ROOT)
        assert (found.state, found.testing) == ("sent", True)
        while (found := await board.alerts.get_alerts(Nothing(), ROOT)).testing:
            await asyncio.sleep(0.01)
        assert found.state == "failed"

    run(board, test)


def test_settings_survive_a_restart_and_the_password_stays_secret(board: Board) -> None:
    async def test() -> None:
        await board.alerts.set_alerts(MAIL, ROOT)
        file = board.root / "var/lib/evenkeel-agent/alerts.json"
        assert file.stat().st_mode & 0o777 == 0o600
        board.alerts = board.start()
        found = await board.alerts.get_alerts(Nothing(), ROOT)
        assert (found.mail_to, found.password_set) == ("ops@example.org", True)
        assert "secret" not in repr(found)
        # an empty password keeps the saved one, but not for another server
        kept = await board.alerts.set_alerts(schema.convert(_values(MAIL, smtp_password=""), SetAlerts), ROOT)
        assert kept.password_set
        other = _values(MAIL, smtp_password="", smtp_server="evil.example.org")
        assert not (await board.alerts.set_alerts(schema.convert(other, SetAlerts), ROOT)).password_set

    run(board, test)


def _values(request: SetAlerts, **changes: object) -> dict[str, object]:
    return {name: getattr(request, name) for name in request.__struct_fields__} | changes


def test_bad_settings_change_nothing(board: Board) -> None:
    async def test() -> None:
        await board.alerts.set_alerts(MAIL, ROOT)
        for bad in ({"smtp_server": ""}, {"smtp_security": "none"}):
            with pytest.raises(errors.InvalidArgument):
                await board.alerts.set_alerts(schema.convert(_values(MAIL, **bad), SetAlerts), ROOT)
        (board.root / "var/lib/evenkeel-agent/alerts.json.new").mkdir()
        with pytest.raises(errors.Failed):
            await board.alerts.set_alerts(HOOK, ROOT)
        assert (await board.alerts.get_alerts(Nothing(), ROOT)).mail_to == "ops@example.org"

    run(board, test)


def test_a_damaged_file_is_reported(board: Board) -> None:
    (board.root / "var/lib/evenkeel-agent/alerts.json").write_text("{")
    found = board.start()
    assert [problem.code for problem in found.problems] == ["alerts-unreadable"]


def test_a_test_needs_a_receiver(board: Board) -> None:
    with pytest.raises(errors.Conflict):
        asyncio.run(board.alerts.send_test_alert(Nothing(), ROOT))


@pytest.mark.parametrize(
    "bad",
    [
        {"webhook": "file:///etc/passwd"},
        {"webhook": "http://host/\r\nX: y"},
        {"webhook": "https://user:secret@host/"},
        {"webhook": "https://user@host"},
        {"webhook": "https:///path"},
        {"webhook": "https://host:65536/"},
        {"webhook": "https://host:port/"},
        {"mail_to": "a@b\nBcc: c@d"},
        {"mail_to": "a@b,c@d"},
        {"mail_from": "<a@b>"},
        {"smtp_server": "host/../"},
        {"smtp_port": 0},
        {"smtp_security": "ssl"},
        {"smtp_user": "a\nb"},
    ],
)
def test_the_schema_refuses(bad: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        schema.convert(_values(MAIL, **bad), SetAlerts)


@pytest.mark.parametrize(
    "url", ["", "http://host", "https://[::1]:8443/x@y?z=@#@", "http://host?a=b", "http://host#@"]
)
def test_the_schema_accepts_a_webhook(url: str) -> None:
    assert schema.convert(_values(MAIL, webhook=url), SetAlerts).webhook == url


# ---- ek-alert, with a real web server and a small mail server ----


class Hook(http.server.BaseHTTPRequestHandler):
    bodies: list[Any]

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append(json.loads(content))
        self.send_response({"/ok": 204, "/moved": 302}.get(self.path, 500))
        self.send_header("Location", "/ok")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Smtp(socketserver.StreamRequestHandler):
    """Speaks just enough SMTP (RFC 5321) for one mail."""

    mails: list[str]
    refuses = False

    def handle(self) -> None:
        self.wfile.write(b"220 test\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper()
            if word == b"EHLO":
                self.wfile.write(b"250-test\r\n250 AUTH PLAIN\r\n")
            elif word == b"AUTH":
                assert base64.b64decode(line.split()[2]) == b"\0board\0secret"
                self.wfile.write(b"235 ok\r\n")
            elif word == b"RCPT" and self.refuses:
                self.wfile.write(b"550 no such user\r\n")
            elif word == b"DATA":
                self.wfile.write(b"354 go\r\n")
                content = b""
                while (row := self.rfile.readline()) != b".\r\n":
                    content += row
                self.mails.append(content.decode())
                self.wfile.write(b"250 ok\r\n")
            elif word == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 ok\r\n")


@pytest.fixture
def hook() -> Iterator[tuple[str, list[Any]]]:
    Hook.bodies = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", Hook.bodies
    server.shutdown()


@pytest.fixture
def smtp() -> Iterator[int]:
    Smtp.mails, Smtp.refuses = [], False
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def order_mail(port: int, **changes: object) -> dict[str, object]:
    receiver = {
        "to": "ops@example.org",
        "from": "",
        "server": "127.0.0.1",
        "port": port,
        "security": "none",
        "user": "board",
        "password": "secret",
    }
    return {"subject": "Evenkeel board x", "text": "Problem: y.\n", "mail": receiver | changes}


def send(order: object) -> bytes:
    """The answer of the real program, started as systemd starts it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from evenkeel_agent.alert_sender import main; sys.exit(main())",
            ],
            stdin=theirs,
            env={**os.environ, "PYTHONPATH": str(COMPONENT / "src")},
        )
        theirs.close()
        ours.sendall(order if isinstance(order, bytes) else json.dumps(order).encode())
        ours.shutdown(socket.SHUT_WR)
        ours.settimeout(30)
        answer = b""
        while chunk := ours.recv(65536):
            answer += chunk
        assert process.wait(30) == (0 if answer else 1)
    return answer


def test_the_program_sends_to_both_receivers(hook: tuple[str, list[Any]], smtp: int) -> None:
    url, bodies = hook
    order = order_mail(smtp) | {"webhook": f"{url}/ok", "document": {"board": "x", "lines": ["Problem: y."]}}
    assert json.loads(send(order)) == {"webhook": "", "mail": ""}
    assert bodies == [{"board": "x", "lines": ["Problem: y."]}]
    (mail,) = Smtp.mails
    for line in ("Subject: Evenkeel board x", "To: ops@example.org", "From: ops@example.org", "Problem: y."):
        assert line in mail


def test_a_receiver_that_fails_does_not_stop_the_other(hook: tuple[str, list[Any]], smtp: int) -> None:
    order = order_mail(smtp) | {"webhook": f"{hook[0]}/broken", "document": {}}
    answer = alert_sender.deliver(order)
    assert answer == {"webhook": "the server answered 500 Internal Server Error", "mail": ""}
    Smtp.refuses = True
    answer = alert_sender.deliver(order | {"webhook": f"{hook[0]}/ok"})
    assert answer["webhook"] == ""
    assert "no such user" in answer["mail"]


def test_a_redirect_is_not_followed(hook: tuple[str, list[Any]]) -> None:
    answer = alert_sender.deliver({"webhook": f"{hook[0]}/moved", "document": {}})
    assert answer["webhook"].startswith("the server answered 302")
    assert len(hook[1]) == 1


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answer = alert_sender.deliver(order_mail(port) | {"webhook": f"http://127.0.0.1:{port}/", "document": {}})
    assert answer == {"webhook": "Connection refused", "mail": "Connection refused"}


def test_a_server_that_speaks_another_protocol() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            for _ in range(2):
                client, _ = server.accept()
                client.sendall(b"rubbish\r\n\r\n")
                client.close()

        threading.Thread(target=answer, daemon=True).start()
        found = alert_sender.deliver(
            order_mail(port) | {"webhook": f"http://127.0.0.1:{port}/", "document": {}}
        )
    assert all(found.values()), found


def test_a_password_is_never_sent_without_encryption(smtp: int) -> None:
    answer = alert_sender.deliver(order_mail(smtp, security="starttls"))
    assert "STARTTLS" in answer["mail"]
    assert Smtp.mails == []


def test_a_server_with_an_unknown_certificate_is_refused(tmp_path: Path) -> None:
    """Webhook and mail server have a certificate that no authority has signed: nothing is sent."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    new = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*new, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                client, _ = server.accept()
                with client, contextlib.suppress(OSError):
                    sent.append(context.wrap_socket(client, server_side=True).recv(100))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        order = order_mail(port, security="tls") | {"webhook": f"https://127.0.0.1:{port}/", "document": {}}
        answer = alert_sender.deliver(order)
        thread.join(20)
    assert all("certificate verify failed" in reason.lower() for reason in answer.values()), answer
    assert set(answer) == {"webhook", "mail"}
    assert not any(sent)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://user:SECRET@127.0.0.1/", "the URL is not valid"),
        ("http://127.0.0.1:SECRET/", "the URL is not valid"),
        ("http://127.0.0.1/a SECRET", "the URL is not valid"),
        (f"http://{'SECRET' * 20}/", "the host name is not valid"),
    ],
)
def test_no_reason_has_a_part_of_the_url(url: str, reason: str) -> None:
    assert alert_sender.deliver({"webhook": url, "document": {}}) == {"webhook": reason}


@pytest.mark.parametrize("field", ["user", "password"])
def test_no_reason_has_a_part_of_the_password(smtp: int, field: str) -> None:
    """A library names the character that ASCII lacks."""
    answer = alert_sender.deliver(order_mail(smtp, **{field: "b\xe4r"}))
    assert answer == {"mail": "user and password must be ASCII"}
    assert Smtp.mails == []


def test_rubbish_gets_no_answer() -> None:
    assert send(b"rubbish") == b""


# ---- the real agent ----


@on_board
async def test_the_agent_reports_its_problems(board: Harness) -> None:
    """evenkeeld serves the methods, and sends a test to the socket of ek-alert."""
    sender = FakeSender(board.root)
    server = await sender.start()
    await board.agent_up()
    found = await board.call("GetAlerts")
    assert (found["state"], found["password_set"]) == ("off", False)
    values = [getattr(HOOK, name) for name in HOOK.__struct_fields__]
    assert (await board.call("SetAlerts", *values))["state"] == "ready"
    assert (await board.call("SendTestAlert"))["state"] == "sent"
    assert [order["webhook"] for order in sender.orders] == [HOOK.webhook]
    server.close()
