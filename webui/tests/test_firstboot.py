# SPDX-License-Identifier: Apache-2.0
"""First boot: what it makes, that it makes it once, and that no moment to lose power is a bad one."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_panel import firstboot
from evenkeel_panel.auth.users import Users
from evenkeel_panel.db import Database
from evenkeel_panel.firstboot import PASSWORD, Places, first_boot

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    console = tmp_path / "console"
    console.touch()
    return Places(tls=tmp_path / "evenkeel/tls", state=tmp_path / "panel", console=console, user=None)


def printed(places: Places) -> list[str]:
    return [line for line in places.console.read_text().splitlines() if line]


def files(places: Places) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for top in (places.tls, places.state) for path in top.iterdir()}


def test_first_boot(places: Places) -> None:
    first_boot(places)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(places.tls / "cert.pem", places.tls / "key.pem")
    password = (places.state / "first-password").read_text().strip()
    assert PASSWORD.fullmatch(password)
    assert printed(places) == [f"evenkeel: panel first-boot password: {password}"]
    for path in (places.tls / "key.pem", places.state / "first-password"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_certificate_names_the_board(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "kelp7")
    first_boot(places)
    text = subprocess.run(
        ["openssl", "x509", "-in", places.tls / "cert.pem", "-noout", "-text"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "DNS:kelp7, DNS:kelp7.local, DNS:localhost, IP Address:127.0.0.1" in text
    assert "prime256v1" in text


@pytest.mark.parametrize("hostname", ["", "a b", "x" * 70, "käse", "a,DNS:evil.example"])
def test_senseless_hostname_still_gives_a_certificate(
    places: Places, monkeypatch: pytest.MonkeyPatch, hostname: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: hostname)
    first_boot(places)
    assert (places.tls / "cert.pem").exists()


def test_later_boots_change_nothing_and_print_again(places: Places) -> None:
    first_boot(places)
    before = files(places)
    first_boot(places)
    assert files(places) == before
    assert len(printed(places)) == 2
    assert len(set(printed(places))) == 1


def test_a_changed_password_is_not_printed_and_leaves_no_file(places: Places) -> None:
    first_boot(places)
    Users(Database(places.state / "panel.db"), places.state / "first-password").set_password("x" * 12)
    first_boot(places)
    assert len(printed(places)) == 1
    assert not (places.state / "first-password").exists()


def test_a_damaged_database_is_kept_aside_and_the_board_begins_anew(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    first_boot(places)
    (places.state / "panel.db").write_bytes(b"no database at all " * 100)
    (places.state / "first-password").unlink()
    first_boot(places)
    assert "kept as *.corrupt" in capsys.readouterr().err
    assert (places.state / "panel.db.corrupt").exists()
    assert PASSWORD.fullmatch((places.state / "first-password").read_text().strip())


def test_power_cut_between_change_and_removal(places: Places) -> None:
    first_boot(places)
    Users(Database(places.state / "panel.db"), places.state / "elsewhere").set_password("x" * 12)
    assert (places.state / "first-password").exists()
    first_boot(places)
    assert not (places.state / "first-password").exists()
    assert len(printed(places)) == 1


@pytest.mark.parametrize("name", ["key.pem", "cert.pem"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN"])
def test_damaged_pair_is_mended(places: Places, name: str, content: bytes | None) -> None:
    first_boot(places)
    key = (places.tls / "key.pem").read_bytes()
    if content is None:
        (places.tls / name).unlink()
    else:
        (places.tls / name).write_bytes(content)
    first_boot(places)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(places.tls / "cert.pem", places.tls / "key.pem")
    if name == "cert.pem":
        assert (places.tls / "key.pem").read_bytes() == key


def test_console_that_is_not_there(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    places.console.unlink()
    first_boot(places)
    assert (places.state / "first-password").exists()
    assert "console" in capsys.readouterr().err


def test_reset(places: Places) -> None:
    first_boot(places)
    users = Users(Database(places.state / "panel.db"), places.state / "first-password")
    users.set_password("x" * 12)
    token = users.open_session()
    firstboot.reset_password(places)
    first_boot(places)
    assert users.must_change()
    assert users.session_user(token) is None
    assert len(printed(places)) == 2


class PowerCut(BaseException):
    pass


STEPS = [
    (Path, "replace"),
    (os, "fsync"),
    (os, "open"),
    (os, "write"),
    (subprocess, "run"),
    (Path, "mkdir"),
    (Path, "unlink"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before-step", "after-step"])
def test_power_cut_at_every_step(places: Places, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """Cut at step 1, 2, 3 … of a first boot until one run survives; each time the next boot completes it."""
    left = 0

    def cut(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            now = left == 0  # a step may contain others
            if now and not after:
                raise PowerCut
            result = real(*args, **kwargs)
            if now:
                raise PowerCut
            return result

        return step

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, cut(getattr(owner, name)))
    for steps in range(1, 100):
        for directory in (places.tls.parent, places.state):
            shutil.rmtree(directory, ignore_errors=True)
        places.console.write_text("")
        left = steps
        try:
            first_boot(places)
            survived = True
        except PowerCut:
            survived = False
        left = 0
        seen = printed(places)
        first_boot(places)
        assert {path.name for path in places.tls.iterdir()} == {"key.pem", "cert.pem"}, steps
        assert {path.name for path in places.state.iterdir()} == {"first-password"}, steps
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            places.tls / "cert.pem", places.tls / "key.pem"
        )
        # what was printed once stays true
        assert set(printed(places)) == {printed(places)[-1]}, (steps, seen)
        if survived:
            break
    assert survived
    assert steps > 15
