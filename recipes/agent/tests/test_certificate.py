# SPDX-License-Identifier: Apache-2.0
"""The methods about the certificate of the panel, with a fake ek-certificate (webui has the real one)."""

import json
import os
import socket
from typing import Any

import pytest
from agent_harness import ERROR, FakeHelper, Harness, on_board
from evenkeel_agent.certificate import HELPER_UNIT
from evenkeel_agent.helper import order
from evenkeel_api import errors

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
