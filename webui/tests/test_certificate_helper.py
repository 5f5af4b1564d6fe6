# SPDX-License-Identifier: Apache-2.0
"""ek-certificate: which certificates it takes, and that the old one stays in use unless nginx serves the new one."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_agent.certificate import ORDER_S
from evenkeel_common import files
from evenkeel_common.files import host_name
from evenkeel_panel import certificate_helper, firstboot
from evenkeel_panel.agent import SLOW_TIMEOUT_S
from evenkeel_panel.certificate_helper import Helper, Refused, parts, serve
from evenkeel_panel.testing import COMPONENT, Authority, openssl

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEMD = COMPONENT / "data/systemd"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


class Web:
    """Stands for nginx: it serves the certificate that it read at its last reload."""

    def __init__(self, tls: Path) -> None:
        self.tls, self.digest, self.reloads = tls, "", 0
        self.hsts: list[bool] = []  # whether it would send HSTS, by reload
        self.fault: Callable[[], None] = lambda: None

    def reload(self) -> None:
        self.reloads += 1
        self.fault()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.tls / "cert.pem", self.tls / "key.pem")
        self.digest = firstboot.digest((self.tls / "cert.pem").read_text())
        self.hsts.append((self.tls / firstboot.HSTS).exists())

    def served(self) -> str:
        return self.digest


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    firstboot.ensure_certificate(tmp_path / "tls")
    return tmp_path / "tls"


@pytest.fixture
def web(tls: Path) -> Web:
    web = Web(tls)
    web.reload()
    web.reloads, web.hsts = 0, []
    return web


@pytest.fixture
def helper(tls: Path, web: Web) -> Helper:
    return Helper(tls, web.reload, web.served, served_s=0.3)


def ask(helper: Helper, order: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(helper.answer(json.dumps({"order": order, **more}).encode()))
    return found


def content(tls: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in tls.iterdir()}


def test_state(helper: Helper, tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(helper, "state")
    host = host_name()
    assert found["own"] is True
    assert found["hsts"] is False
    assert found["subject"] == found["issuer"] == f"CN={host}"
    assert {host, "localhost", "127.0.0.1"} <= set(found["names"])
    assert found["fingerprint"] == firstboot.fingerprint(tls / "cert.pem")
    assert found["not_before"] <= time.time() < found["not_after"]
    assert found["not_after"] - found["not_before"] == firstboot.DAYS * 86400


@pytest.mark.parametrize("curve", ["P-256", "P-384", "2048"])
def test_a_certificate_of_an_authority_is_installed(
    helper: Helper, tls: Path, web: Web, authority: Authority, curve: str
) -> None:
    chain, key = authority.board(curve=curve)
    found = ask(helper, "install", pem=key + "comment\n" + chain.replace("\n", "\r\n"), force=False)
    assert (found["subject"], found["issuer"], found["own"], found["hsts"]) == (
        "CN=board",
        "CN=middle",
        False,
        True,
    )
    assert found["names"] == ["board.example"]
    assert (tls / "cert.pem").read_text() == chain
    leaf = openssl(
        "x509", "-in", authority.folder / "board.pem", "-noout", "-fingerprint", "-sha256"
    ).decode()
    assert found["fingerprint"] == leaf.strip().partition("=")[2]
    assert (tls / "key.pem").stat().st_mode & 0o777 == 0o640
    assert {path.name for path in tls.iterdir()} == {"cert.pem", "key.pem", firstboot.HSTS}
    assert web.hsts == [False], "HSTS only after the change is final"


def test_no_answer_has_the_key(helper: Helper, tls: Path, authority: Authority) -> None:
    """A backup has no private key, because a compromised agent could read it at any time."""
    chain, key = authority.board()
    orders: tuple[dict[str, Any], ...] = (
        {"order": "install", "pem": key + chain, "force": False}, {"order": "install", "pem": key, "force": False},
        {"order": "state"}, {"order": "state", "key": True}, {"order": "key"}, {"order": "backup"}, {"order": "export"},
        {"order": "make", "force": True},
    )  # fmt: skip
    for order in orders:
        answer = helper.answer(json.dumps(order).encode()).decode()
        lines = [*key.splitlines(), *(tls / "key.pem").read_text().splitlines()]
        assert len(lines) > 6
        assert not [line for line in lines if line in answer], order


def test_a_new_self_signed_certificate(helper: Helper, tls: Path, web: Web) -> None:
    before = ask(helper, "state")
    after = ask(helper, "make", force=False)
    assert after["own"]
    assert after["fingerprint"] != before["fingerprint"]
    assert web.digest.upper() == after["fingerprint"].replace(":", "")


def test_browsers_that_remember_hsts_are_not_locked_out(
    helper: Helper, tls: Path, authority: Authority
) -> None:
    chain, key = authority.board()
    ask(helper, "install", pem=chain + key, force=False)
    before = content(tls)
    own_key, own = firstboot.new_pair()
    for order, more in (("make", {}), ("install", {"pem": (own + own_key).decode()})):
        answer = ask(helper, order, force=False, **more)
        assert (answer["error"], answer["kind"]) == ("certificate-remembered", "Conflict")
    assert content(tls) == before
    assert ask(helper, "make", force=True)["hsts"] is False
    assert not (tls / firstboot.HSTS).exists()


def test_what_is_refused(helper: Helper, tls: Path, web: Web, authority: Authority, tmp_path: Path) -> None:
    chain, key = authority.board()
    leaf, middle = chain.split("-----END CERTIFICATE-----\n")[:2]
    leaf, middle = leaf + "-----END CERTIFICATE-----\n", middle + "-----END CERTIFICATE-----\n"
    other_key = firstboot.new_pair()[0].decode()
    (tmp_path / "key").write_text(key)
    locked = openssl("pkey", "-in", tmp_path / "key", "-aes256", "-passout", "pass:x").decode()
    weak_chain, weak_key = authority.board(curve="1024")
    unknown = ["".join(authority.board(curve=curve)) for curve in ("P-521", "secp256k1", "ed25519")]
    client = "".join(authority.board(extensions=("extendedKeyUsage=clientAuth",)))
    before = content(tls)
    cases = {
        "certificate-keys": ["", chain, chain + key + other_key],
        "certificate-count": [key, key + chain * 5],
        "certificate-key-encrypted": [chain + locked],
        "certificate-key-other": [chain + other_key, middle + leaf + key],
        "certificate-chain": [leaf + authority.root.read_text() + key],
        "certificate-unreadable": ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + key],
        "certificate-weak": [weak_chain + weak_key],
        "certificate-key-kind": unknown,
        "certificate-purpose": [client],
    }
    for code, pems in cases.items():
        for pem in pems:
            answer = ask(helper, "install", pem=pem, force=True)
            assert (answer.get("error"), answer.get("kind")) == (code, "InvalidArgument"), pem
    assert content(tls) == before
    assert web.reloads == 0


def test_dates_are_checked(authority: Authority) -> None:
    chain, key = authority.board()
    parts(chain + key, time.time())
    with pytest.raises(Refused, match="certificate-expired"):
        parts(chain + key, time.time() + 31 * 86400)
    with pytest.raises(Refused, match="certificate-early") as refused:
        parts(chain + key, time.time() - 86400)
    found = refused.value.parameters
    assert re.fullmatch(r"20..-..-.. ..:.. UTC", found["date"]), "a slow clock is often wrong by minutes"
    assert found["date"] != found["now"]


@pytest.mark.parametrize(("middle_days", "code"), [(5, "certificate-expired"), (90, "")])
def test_dates_of_each_certificate_are_checked(tmp_path: Path, middle_days: int, code: str) -> None:
    chain, key = Authority(tmp_path / "short", middle_days=middle_days).board()
    try:
        parts(chain + key, time.time() + 6 * 86400)
        found, number = "", 2
    except Refused as error:
        found, number = error.code, error.parameters["number"]
    assert (found, number) == (code, 2)


@pytest.mark.parametrize("fault", ["reload fails", "still the old one", "not reachable"])
def test_the_old_certificate_comes_back(
    helper: Helper, tls: Path, web: Web, authority: Authority, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, digest = content(tls), web.digest
    chain, key = authority.board()

    def fail(*_: object) -> str:
        raise OSError("no")

    if fault == "reload fails":
        web.fault = lambda: fail() and None
    elif fault == "still the old one":
        monkeypatch.setattr(helper, "_served", lambda: digest)
    else:
        monkeypatch.setattr(helper, "_served", fail)
    answer = ask(helper, "install", pem=chain + key, force=False)
    assert (answer["error"], answer["kind"]) == ("certificate-not-served", "Failed")
    assert content(tls) == before
    assert web.reloads == 2, "the old one is loaded again"
    web.fault = lambda: None
    web.reload()
    assert web.digest == digest


def test_an_old_pair_that_could_not_be_put_back_is_not_lost(
    helper: Helper, tls: Path, web: Web, authority: Authority
) -> None:
    """The earlier change has left the saved pair, and a key and a certificate that do not belong together."""
    before = content(tls)
    firstboot.keep(tls)
    (tls / "key.pem").write_bytes(firstboot.new_pair()[0])
    chain, key = authority.board()
    reload = web.reload

    def fault() -> None:
        if web.reloads == 1:
            raise OSError("no")

    web.fault = fault
    assert ask(helper, "install", pem=chain + key, force=False)["error"] == "certificate-not-served"
    assert content(tls) == before
    reload()


def test_hsts_is_not_sent_with_a_certificate_that_may_be_undone(
    helper: Helper, tls: Path, web: Web, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = web.digest
    monkeypatch.setattr(helper, "_served", lambda: digest)
    chain, key = authority.board()
    assert ask(helper, "install", pem=chain + key, force=False)["error"] == "certificate-not-served"
    assert web.hsts == [False, False]


def test_hsts_does_not_begin_at_a_boot_that_cannot_undo_the_change(
    tls: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> bool:
        raise OSError("no")

    chain, key = authority.board()
    firstboot.keep(tls)
    firstboot.put(tls, key.encode(), chain.encode())
    monkeypatch.setattr(firstboot, "undo", fail)
    firstboot.ensure_certificate(tls)
    assert (tls / "cert.pem").read_text() == chain
    assert not (tls / firstboot.HSTS).exists()


def test_hsts_comes_back_with_the_old_certificate(
    helper: Helper, tls: Path, web: Web, authority: Authority
) -> None:
    chain, key = authority.board()
    ask(helper, "install", pem=chain + key, force=False)
    before = content(tls)

    def fault() -> None:
        if web.reloads == 2:
            raise OSError("no")

    web.fault = fault
    assert ask(helper, "make", force=True)["error"] == "certificate-not-served"
    assert content(tls) == before
    assert web.hsts == [False, True]


def test_an_order_whose_sender_has_gone_changes_nothing(helper: Helper, tls: Path, tmp_path: Path) -> None:
    before = content(tls)
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        for leaves in (True, False):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.connect(path)
                connection.sendall(b'{"order": "make", "force": false}')
                if leaves:
                    connection.close()
                serve(listener, helper, 0.1)
            assert (content(tls) == before) == leaves


def test_the_agent_and_the_panel_wait_longer_than_an_order_takes() -> None:
    checks_s = 5
    assert certificate_helper.LONGEST_S + checks_s <= ORDER_S
    assert ORDER_S + 5 <= SLOW_TIMEOUT_S


class Cut(BaseException):
    """The process is killed, or the board loses power."""


@pytest.mark.parametrize("boot", [False, True])
def test_a_cut_at_every_step_leaves_a_valid_pair(
    tmp_path: Path, authority: Authority, boot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process or the next boot finds the old pair or the new one, and never a mixture."""
    chain, key = authority.board()
    real = files._flush_folder
    seen = set()
    for step in range(1, 30):
        tls = tmp_path / f"tls-{step}"
        firstboot.ensure_certificate(tls)
        old = (tls / "cert.pem").read_text()
        web = Web(tls)
        left = step

        def count(path: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise Cut
            real(path)

        monkeypatch.setattr(files, "_flush_folder", count)
        helper = Helper(tls, web.reload, web.served, served_s=0.3)
        try:
            ask(helper, "install", pem=chain + key, force=False)
            ended = True
        except Cut:
            ended = False
        monkeypatch.setattr(files, "_flush_folder", real)
        if boot:
            firstboot.ensure_certificate(tls)
        else:
            Helper(tls, web.reload, web.served)
        now = (tls / "cert.pem").read_text()
        seen.add(now == chain)
        assert now in (old, chain)
        web.reload()  # the key fits
        assert (tls / firstboot.HSTS).exists() == (now == chain)
        assert not (tls / firstboot.BEFORE).exists()
        if ended:
            break
    else:
        pytest.fail("the installation never ends")
    assert seen == {True, False}


@pytest.mark.parametrize(
    "packet", [b"", b"[]", b"{}", b'{"order": "format"}', b'{"order": "install"}', b"\xff"]
)
def test_any_request_has_an_answer(helper: Helper, tls: Path, packet: bytes) -> None:
    before = content(tls)
    assert json.loads(helper.answer(packet))["kind"] in ("Failed", "InvalidArgument")
    assert content(tls) == before


def test_it_serves_requests_until_none_comes(helper: Helper, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener, helper, 1.0))
        thread.start()
        for _ in range(2):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(20)
                connection.connect(path)
                connection.sendall(b'{"order": "state"}')
                assert json.loads(connection.recv(65536))["own"] is True
        thread.join(20)
        assert not thread.is_alive()


def test_only_the_agent_reaches_it_and_it_writes_in_one_folder() -> None:
    unit = (SYSTEMD / "evenkeel-certificate.service").read_text().splitlines()
    assert {
        "User=evenkeel-certificate",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "IPAddressDeny=any",
        "IPAddressAllow=localhost",
    } <= set(unit)
    assert [line for line in unit if line.startswith("ReadWritePaths=")] == [
        "ReadWritePaths=/var/lib/evenkeel/tls"
    ]
    assert str(certificate_helper.TLS) == "/var/lib/evenkeel/tls"
    first = (SYSTEMD / "evenkeel-firstboot.service").read_text().splitlines()
    assert {"User=evenkeel-certificate", "ReadWritePaths=/var/lib/evenkeel/tls"} <= set(first)
    listener = (SYSTEMD / "evenkeel-certificate.socket").read_text()
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in listener
    assert "Accept=no\n" in listener


def test_a_helper_that_keeps_failing_is_logged_and_starts_less_often() -> None:
    unit = (SYSTEMD / "evenkeel-certificate.service").read_text().splitlines()
    assert {"StartLimitIntervalSec=0", "RestartSteps=5", "RestartMaxDelaySec=30"} <= set(unit)
    assert {"LogLevelMax=notice", "SyslogLevel=notice"} <= set(unit)


def test_files_of_an_earlier_image_become_those_of_the_helper_and_nginx_may_read_them(tmp_path: Path) -> None:
    if not shutil.which("systemd-tmpfiles") or os.geteuid():
        pytest.skip("needs systemd-tmpfiles and root")
    tls = tmp_path / "var/lib/evenkeel/tls"
    tls.mkdir(0o700, parents=True)
    (tls / "key.pem").touch(0o600)
    (tls / "hsts.conf").touch()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/x\nevenkeel-certificate:x:905:905::/:/x\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nevenkeel-certificate:x:905:\n")
    lines = (SYSTEMD / "evenkeel-panel.tmpfiles").read_text().splitlines()
    rules = tmp_path / "rules.conf"
    rules.write_text("\n".join(line for line in lines if "/var/lib/evenkeel/tls" in line) + "\n")
    subprocess.run(["systemd-tmpfiles", f"--root={tmp_path}", "--create", "--remove", str(rules)], check=True)
    key = tls / "key.pem"
    for path, mode in ((tls, 0o2751), (key, 0o640)):
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (905, 0, mode), path
    assert [path.name for path in tls.iterdir()] == ["key.pem"]
    firstboot._write(tls / "new.pem", b"x")
    assert (tls / "new.pem").stat().st_mode & 0o7777 == 0o640


def test_systemd_rates_the_helper_safe(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    text = (SYSTEMD / "evenkeel-certificate.service").read_text()
    unit = tmp_path / "evenkeel-certificate.service"
    unit.write_text(re.sub(r"^ExecStart=.*", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)],
        capture_output=True,
        text=True,
        env={**os.environ, "LANG": "C.UTF-8"},
    )
    assert rated.returncode == 0, rated.stdout + rated.stderr
