# SPDX-License-Identifier: Apache-2.0
"""First boot: its files, repeated boots, and power cuts at any moment."""

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
from evenkeel_panel.firstboot import PASSWORD, Paths, first_boot

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    console = tmp_path / "console"
    console.touch()
    return Paths(tls=tmp_path / "evenkeel/tls", state=tmp_path / "panel", console=console, user=None)


def printed(paths: Paths) -> list[str]:
    return [line for line in paths.console.read_text().splitlines() if line]


def files(paths: Paths) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for top in (paths.tls, paths.state) for path in top.iterdir()}


def test_first_boot(paths: Paths) -> None:
    first_boot(paths)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths.tls / "cert.pem", paths.tls / "key.pem")
    password = (paths.state / "first-password").read_text().strip()
    assert PASSWORD.fullmatch(password)
    assert printed(paths) == [f"evenkeel: panel first-boot password: {password}"]
    for path in (paths.tls / "key.pem", paths.state / "first-password"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_certificate_names_the_board(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "kelp7")
    first_boot(paths)
    text = subprocess.run(
        ["openssl", "x509", "-in", paths.tls / "cert.pem", "-noout", "-text"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "DNS:kelp7, DNS:kelp7.local, DNS:localhost, IP Address:127.0.0.1" in text
    assert "prime256v1" in text


@pytest.mark.parametrize("hostname", ["", "a b", "x" * 70, "käse", "a,DNS:evil.example"])
def test_invalid_hostname_still_gives_a_certificate(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, hostname: str
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: hostname)
    first_boot(paths)
    assert (paths.tls / "cert.pem").exists()


def test_later_boots_change_nothing_and_print_the_password_again(paths: Paths) -> None:
    first_boot(paths)
    before = files(paths)
    first_boot(paths)
    assert files(paths) == before
    assert len(printed(paths)) == 2
    assert len(set(printed(paths))) == 1


def test_changed_password_is_not_printed_and_leaves_no_file(paths: Paths) -> None:
    first_boot(paths)
    Users(Database(paths.state / "panel.db"), paths.state / "first-password").set_password("x" * 12)
    first_boot(paths)
    assert len(printed(paths)) == 1
    assert not (paths.state / "first-password").exists()


def test_damaged_database_is_renamed_and_the_panel_starts_without_one(
    paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    first_boot(paths)
    (paths.state / "panel.db").write_bytes(b"no database at all " * 100)
    (paths.state / "first-password").unlink()
    first_boot(paths)
    assert "is kept as *.corrupt" in capsys.readouterr().err
    assert (paths.state / "panel.db.corrupt").exists()
    assert PASSWORD.fullmatch((paths.state / "first-password").read_text().strip())


def test_power_cut_between_change_and_removal(paths: Paths) -> None:
    first_boot(paths)
    Users(Database(paths.state / "panel.db"), paths.state / "elsewhere").set_password("x" * 12)
    assert (paths.state / "first-password").exists()
    first_boot(paths)
    assert not (paths.state / "first-password").exists()
    assert len(printed(paths)) == 1


@pytest.mark.parametrize("name", ["key.pem", "cert.pem"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN"])
def test_damaged_key_or_certificate_is_replaced(paths: Paths, name: str, content: bytes | None) -> None:
    first_boot(paths)
    key = (paths.tls / "key.pem").read_bytes()
    if content is None:
        (paths.tls / name).unlink()
    else:
        (paths.tls / name).write_bytes(content)
    first_boot(paths)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths.tls / "cert.pem", paths.tls / "key.pem")
    if name == "cert.pem":
        assert (paths.tls / "key.pem").read_bytes() == key


def test_missing_console(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    paths.console.unlink()
    first_boot(paths)
    assert (paths.state / "first-password").exists()
    assert "console" in capsys.readouterr().err


def test_reset(paths: Paths) -> None:
    first_boot(paths)
    users = Users(Database(paths.state / "panel.db"), paths.state / "first-password")
    users.set_password("x" * 12)
    token = users.open_session()
    firstboot.reset_password(paths)
    first_boot(paths)
    assert users.must_change()
    assert users.session_user(token) is None
    assert len(printed(paths)) == 2


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
def test_power_cut_at_every_step(paths: Paths, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """A power cut at step 1, 2, 3 … until a boot has no more steps. Each time the next boot completes the work."""
    left = 0

    def cut(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            now = left == 0  # Decide before the call, because a step may contain other steps.
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
        for directory in (paths.tls.parent, paths.state):
            shutil.rmtree(directory, ignore_errors=True)
        paths.console.write_text("")
        left = steps
        try:
            first_boot(paths)
            survived = True
        except PowerCut:
            survived = False
        left = 0
        seen = printed(paths)
        first_boot(paths)
        assert {path.name for path in paths.tls.iterdir()} == {"key.pem", "cert.pem"}, steps
        assert {path.name for path in paths.state.iterdir()} == {"first-password"}, steps
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths.tls / "cert.pem", paths.tls / "key.pem")
        # A printed password stays valid.
        assert set(printed(paths)) == {printed(paths)[-1]}, (steps, seen)
        if survived:
            break
    assert survived
    assert steps > 15
