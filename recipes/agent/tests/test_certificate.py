# SPDX-License-Identifier: Apache-2.0
"""The methods about the certificate of the panel, with a fake ek-certificate (webui has the real one)."""

import json
import os
import socket
import time
from typing import Any

import pytest
from agent_harness import ERROR, FakeHelper, Harness, on_board
from evenkeel_agent.certificate import DAY_S, HELPER_UNIT, Certificates, problem
from evenkeel_agent.helper import order
from evenkeel_agent.settings import Settings
from evenkeel_api import errors
from evenkeel_api.features.certificate import SOON_DAYS, Certificate
from hypothesis import given
from hypothesis import strategies as st

CERTIFICATE = {
    "subject": "CN=board",
    "issuer": "CN=Example CA",
    "own": False,
    "names": ["board.example", "192.0.2.7"],
    "not_before": 1_795_000_000,
    "not_after": 1_802_776_000,
    "fingerprint": "AB:CD",
    "hsts": True,
}


class Helper(FakeHelper):
    """ek-certificate. It answers each request with `answer`."""

    def __init__(self, board: Harness) -> None:
        self.answer: Any = CERTIFICATE
        super().__init__(board.root / "run/evenkeel/certificate")

    def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
        if self.answer is None:  # killed
            return
        if self.answer is ...:  # busy, until the agent gives up
            connection.recv(1)
            return
        connection.sendall(json.dumps(self.answer).encode())


@on_board
async def test_the_helper_is_asked_once_until_something_changes(board: Harness) -> None:
    with Helper(board) as fake:
        await board.agent_up()
        for _ in range(3):
            assert await board.call("GetCertificate") == CERTIFICATE
        assert fake.orders == [{"order": "state"}]
        fake.answer = {**CERTIFICATE, "own": True, "hsts": False}
        assert (await board.call("MakeCertificate", True))["own"] is True
        assert (await board.call("GetCertificate"))["own"] is True
        assert fake.orders[1:] == [{"order": "make", "force": True}]
        fake.answer = CERTIFICATE
        assert await board.call("InstallCertificate", "PEM", False) == CERTIFICATE
        assert fake.orders[2:] == [{"order": "install", "pem": "PEM", "force": False}]


@on_board
async def test_a_refusal_has_its_reason_and_the_key_is_in_no_log(board: Harness) -> None:
    with Helper(board) as fake:
        await board.agent_up()
        fake.answer = {"error": "certificate-key-other", "parameters": {}, "kind": "InvalidArgument"}
        error = await board.refused("InstallCertificate", "-----BEGIN PRIVATE KEY-----secret", False)
        assert error.name == ERROR + "InvalidArgument"
        assert error.text.startswith("the private key does not belong to the first certificate")
        fake.answer = {"error": "certificate-remembered", "parameters": {}, "kind": "Conflict"}
        assert (await board.refused("MakeCertificate", False)).name == ERROR + "Conflict"
        rows = await board.call("ListAudit", 0, 10)
        assert [(row["action"], row["outcome"]) for row in rows[:2]] == [
            ("MakeCertificate", "Conflict"),
            ("InstallCertificate", "InvalidArgument"),
        ]
        assert "secret" not in json.dumps(rows)
        fake.answer = {"subject": 5}
        assert "cannot be read or changed" in (await board.refused("GetCertificate")).text


@on_board
async def test_only_a_certificate_of_an_authority_is_named_in_a_backup(board: Harness) -> None:
    certificates = Certificates(Settings(root=str(board.root), call_timeout_s=1))
    assert await certificates.signed() is None, "a board without a panel"
    with Helper(board) as fake:
        found = await certificates.signed()
        assert found
        assert found.fingerprint == "AB:CD"
        fake.answer = {**CERTIFICATE, "own": True}
        assert await certificates.signed() is None, "it is asked each time"
        fake.answer = None
        with pytest.raises(errors.Failed):
            await certificates.signed()
        assert fake.orders == [{"order": "state"}] * 3, "and never for the key"


def certificate(begin: int, end: int, *, own: bool = True) -> Certificate:
    return Certificate("CN=board", "CN=board", own, [], begin, end, "AB:CD", hsts=False)


TIMES = st.integers(0, 4_000_000_000)


@given(TIMES, st.integers(0, 10_000 * DAY_S), TIMES, st.booleans())
def test_the_dates_are_a_problem_before_the_begin_and_from_30_days_before_the_end(
    begin: int, length: int, now: int, own: bool
) -> None:
    found = problem(certificate(begin, begin + length, own=own), now)
    if begin <= now <= begin + length - SOON_DAYS * DAY_S:
        assert found is None
    else:
        assert found
        state = "early" if now < begin else "expired" if now > begin + length else "expiring"
        assert found.code == f"panel-certificate-{state}"
        assert ("ekctl make-certificate" if own else "ekctl install-certificate") in str(found)


def test_each_problem_names_the_dates_and_what_to_do() -> None:
    begin, end = 1_800_000_000, 1_900_000_000  # 2027-01-15, 2030-03-17
    own = "make a new one on the page System, or run 'ekctl make-certificate'"
    signed = "let the authority sign a new one, and install it on the page System or with 'ekctl install-certificate'"
    for now, is_own, text in (
        (end - SOON_DAYS * DAY_S, True, None),
        (end - SOON_DAYS * DAY_S + 1, True, f"the certificate of the panel expires on 2030-03-17; {own}"),
        (end, False, f"the certificate of the panel expires on 2030-03-17; {signed}"),
        (
            end + DAY_S,
            True,
            "the certificate of the panel expired on 2030-03-17, and the clock of the board says 2030-03-18;"
            f" check the clock on the page System. If the clock is right, {own}",
        ),
        (
            begin - 1,
            True,
            "the certificate of the panel is valid from 2027-01-15 08:00 UTC on, and the clock of the board says"
            " 2027-01-15 07:59 UTC;"
            f" set the clock on the page System. If the clock is right, {own}",
        ),
        (begin, True, None),
    ):
        found = problem(certificate(begin, end, own=is_own), now)
        assert (str(found) if found else None) == text


@on_board
async def test_a_certificate_that_ends_soon_is_a_problem_until_it_is_renewed(board: Harness) -> None:
    with Helper(board) as fake:
        now = int(time.time())
        fake.answer = {**CERTIFICATE, "own": True, "not_before": now - DAY_S, "not_after": now + DAY_S}
        await board.agent_up("--first-update-check", "0.1")

        async def codes() -> list[str]:
            return [note["code"] for note in (await board.call("GetStatus"))["problems"]]

        async def reported() -> bool:
            return "panel-certificate-expiring" in await codes()

        await board.until(reported)
        assert "run 'ekctl make-certificate'" in (await board.ekctl("status")).out
        fake.answer = {**CERTIFICATE, "not_before": now - DAY_S, "not_after": now + 90 * DAY_S}
        await board.call("MakeCertificate", False)
        assert not await reported()


@on_board
async def test_without_the_helper_the_error_names_it(board: Harness) -> None:
    await board.agent_up()
    text = (await board.refused("GetCertificate")).text
    assert "No such file or directory" in text
    assert "systemctl status evenkeel-certificate" in text


@on_board
async def test_without_an_answer_to_an_order_the_certificate_may_have_changed(board: Harness) -> None:
    with Helper(board) as fake:
        await board.agent_up()
        fake.answer = None
        text = (await board.refused("MakeCertificate", False)).text
        assert "it ended without an answer" in text
        assert "the certificate may have changed" in text
        fake.answer = ...
        path = str(board.root / "run/evenkeel/certificate")
        with pytest.raises(errors.Failed) as error:
            await order(path, {}, 0.3, "certificate-unreachable", HELPER_UNIT, "certificate-unanswered")
        assert "it did not answer in time; the certificate may have changed" in str(error.value)
    text = (await board.refused("MakeCertificate", False)).text
    assert "cannot be reached" in text
    assert "may have changed" not in text


@on_board
async def test_ekctl(board: Harness) -> None:
    with Helper(board) as fake:
        await board.agent_up()
        answer = await board.ekctl("certificate")
        assert answer.out.splitlines() == [
            "made for   CN=board",
            "signed by  CN=Example CA",
            "names      board.example, 192.0.2.7",
            "valid      2026-11-18 to 2027-02-16",
            "SHA-256    AB:CD",
            "HSTS       on",
        ]
        files = [board.root / "cert.pem", board.root / "key.pem"]
        for file in files:
            file.write_text(f"{file.name}\n")
        answer = await board.ekctl("install-certificate", *map(str, files))
        assert answer.status == 0, answer.err
        assert fake.orders[-1] == {"order": "install", "pem": "cert.pem\n\nkey.pem\n", "force": False}
        assert (await board.ekctl("make-certificate", "--force")).status == 0
        assert fake.orders[-1] == {"order": "make", "force": True}
        answer = await board.ekctl("install-certificate", str(board.root / "none"))
        assert answer.status == 1
        assert "cannot be read: No such file or directory" in answer.err
    assert os.path.exists(files[0])  # noqa: PTH110
