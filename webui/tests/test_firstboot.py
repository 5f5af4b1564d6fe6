# SPDX-License-Identifier: Apache-2.0
"""evenkeel-panel-firstboot: its files, repeated boots, power cuts at any moment, and its output on console and screen."""

from __future__ import annotations

import errno
import json
import os
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_agent.accounts import FIRST_CHANGED
from evenkeel_common.files import replace
from evenkeel_panel import firstboot
from evenkeel_panel.firstboot import CLEAR, NO_CURSOR, Paths, addresses, announce, ensure_certificate

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
PASSWORD = "abcd-efgh-jkmn"  # noqa: S105


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    console, screen = tmp_path / "console", tmp_path / "screen"
    console.touch()
    screen.touch()
    return Paths(
        tls=tmp_path / "evenkeel/tls",
        console=console,
        screen=screen,
        preseed=tmp_path / "preseed",
        watched=(tmp_path / "links", tmp_path / "missing"),
    )


def first_boot(paths: Paths) -> None:
    ensure_certificate(paths.tls)


def printed(paths: Paths) -> list[str]:
    return [line for line in paths.console.read_text().splitlines() if line]


def files(paths: Paths) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in paths.tls.iterdir()}


def test_first_boot(paths: Paths) -> None:
    first_boot(paths)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths.tls / "cert.pem", paths.tls / "key.pem")
    assert {path.name for path in paths.tls.iterdir()} == {"key.pem", "cert.pem"}
    assert (paths.tls / "key.pem").stat().st_mode & 0o777 == 0o640
    assert printed(paths) == []


NETWORK = {
    "host": "evenkeel-1a2b3c.local",
    "interfaces": [
        {"name": "enp1s0", "addresses": ["2001:db8::7/64", "fe80::1/64", "192.0.2.7/24"]},
        {"name": "enp2s0", "addresses": []},
    ],
}
URLS = "https://evenkeel-1a2b3c.local  https://192.0.2.7  https://[2001:db8::7]"


@pytest.fixture
def agent(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The program ekctl. The function sets the first-boot password."""
    (tmp_path / "network --json").write_text(json.dumps(NETWORK))
    program = tmp_path / "ekctl"
    program.write_text(f'#!/bin/sh\nexec cat "{tmp_path}/$*"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(firstboot, "Paths", lambda: paths)
    monkeypatch.setattr(firstboot, "SETTLE_S", 0)
    first_boot(paths)
    return lambda password: (
        (tmp_path / "first-password --json").write_text(json.dumps({"password": password})) and None
    )


def show(monkeypatch: pytest.MonkeyPatch, option: str) -> int:
    monkeypatch.setattr("sys.argv", ["evenkeel-panel-firstboot", option])
    return firstboot.main()


def test_the_console_shows_addresses_password_and_fingerprint(
    paths: Paths, agent: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = subprocess.run(
        ["openssl", "x509", "-in", paths.tls / "cert.pem", "-noout", "-fingerprint", "-sha256"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    agent(PASSWORD)
    assert show(monkeypatch, "--announce") == 0
    assert printed(paths) == [
        f"evenkeel: panel: {URLS}",
        f"evenkeel: panel first-boot password: {PASSWORD}",
        f"evenkeel: panel certificate SHA-256: {shown.partition('=')[2]}",
    ]
    assert paths.screen.read_text() == ""


def test_the_screen_shows_the_same(
    paths: Paths, agent: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed password is not shown any more. A screen is cleared first, also what has scrolled off it."""
    for password in (PASSWORD, ""):
        paths.console.write_text("")
        paths.screen.write_text("")
        agent(password)
        assert show(monkeypatch, "--announce") == 0
        assert show(monkeypatch, "--screen") == 0
        assert ("first-boot password" in paths.console.read_text()) == bool(password)
        assert paths.screen.read_text() == CLEAR + paths.console.read_text().lstrip("\n") + NO_CURSOR
    assert CLEAR.endswith("\033[3J")


def test_the_outcome_of_the_preseed_file_is_shown(
    paths: Paths, agent: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal acts on control characters, and the message has parts of the file."""
    agent("")
    paths.preseed.write_text("evenkeel.toml has an error: unknown field `\033[2J\n`\n")
    assert show(monkeypatch, "--announce") == 0
    assert printed(paths)[2] == "evenkeel: preseed: evenkeel.toml has an error: unknown field `?[2J?`"
    paths.preseed.unlink()
    assert show(monkeypatch, "--screen") == 0
    assert "preseed" not in paths.screen.read_text()


def test_addresses_of_the_panel_are_those_that_a_browser_can_open() -> None:
    assert "  ".join(addresses(NETWORK)) == URLS
    assert addresses({"host": "x.local", "interfaces": []}) == ["https://x.local"]
    without_dhcp = [{"addresses": ["169.254.7.7/16", "fe80::1/64"]}]
    assert addresses({"host": "x.local", "interfaces": without_dhcp}) == [
        "https://x.local",
        "https://169.254.7.7",
    ]


def test_without_the_agent_nothing_is_shown(
    paths: Paths, agent: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd starts the program again. A screen that shows something keeps it."""
    paths.screen.write_text("before")
    for option in ("--announce", "--screen"):
        assert show(monkeypatch, option) == 1
    assert (printed(paths), paths.screen.read_text()) == ([], "before")


@pytest.mark.parametrize("script", ["echo 'ekctl: no answer' >&2; exit 1", "exec sleep 30", "echo {}"])
def test_a_network_that_fails_does_not_hide_the_password(
    paths: Paths,
    agent: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    script: str,
) -> None:
    """The panel starts after the console has its text. The screen is tried again, because nobody waits for it."""
    agent(PASSWORD)
    (tmp_path / "ekctl").write_text(
        f'#!/bin/sh\ncase $1 in network) {script} ;; esac\nexec cat "{tmp_path}/$*"\n'
    )
    monkeypatch.setattr(firstboot, "host_name", lambda: "press-7.example")
    monkeypatch.setattr(firstboot, "ADDRESSES_S", 0.5)
    begin = time.monotonic()
    assert show(monkeypatch, "--announce") == 0
    assert time.monotonic() - begin < 10
    assert printed(paths)[:2] == [
        "evenkeel: panel: https://press-7.local",
        f"evenkeel: panel first-boot password: {PASSWORD}",
    ]
    assert "the addresses of the panel are not known" in capsys.readouterr().err
    if "sleep" not in script:
        assert show(monkeypatch, "--screen") == 1
        assert PASSWORD in paths.screen.read_text()


def test_a_change_while_the_screen_is_written_is_shown(
    paths: Paths, agent: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd does not watch the paths until the program ends."""
    agent(PASSWORD)
    write = firstboot.announce
    texts: list[str] = []

    def change(terminal: Path, content: str) -> None:
        write(terminal, content)
        texts.append(content)
        if len(texts) < 3:  # the first change creates the path, the second one changes it
            agent("")
            paths.watched[0].touch()
            os.utime(paths.watched[0], ns=(0, len(texts)))

    monkeypatch.setattr(firstboot, "announce", change)
    assert show(monkeypatch, "--screen") == 0
    assert [PASSWORD in text for text in texts] == [True, False, False]


def test_the_screen_follows_each_change() -> None:
    """The path unit waits for the files that other programs write. A boot does not wait for the screen."""
    systemd = Path(__file__).resolve().parents[1] / "data/systemd"
    waits = (systemd / "evenkeel-screen.path").read_text()
    assert f"PathChanged=/var/lib/evenkeel-agent/{FIRST_CHANGED}\n" in waits
    assert f"PathChanged={Paths().tls}/cert.pem\n" in waits
    assert "PathChanged=/etc/hostname\n" in waits
    files = [line.partition("=")[2] for line in waits.splitlines() if line.startswith("PathChanged=")]
    agent_folder = str(Path(files[-1]).parent)
    assert [str(path) for path in Paths().watched] == [*files[:-1], agent_folder]
    shows = (systemd / "evenkeel-screen.service").read_text().splitlines()
    assert {"Type=exec", f"DeviceAllow={Paths().screen} w", "CapabilityBoundingSet="} <= set(shows)
    boots = (systemd / "evenkeel-first-password.service").read_text().splitlines()
    assert f"DeviceAllow={Paths().console} w" in boots


def test_hsts_only_with_a_certificate_of_an_authority(paths: Paths) -> None:
    first_boot(paths)
    assert not (paths.tls / "hsts").exists()
    run = [
        "openssl",
        "req",
        "-x509",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    ca, ca_key, request = (paths.tls.parent / name for name in ("ca.pem", "ca.key", "board.csr"))
    key, cert = paths.tls / "key.pem", paths.tls / "cert.pem"
    subprocess.run(
        [*run, "-keyout", ca_key, "-out", ca, "-subj", "/CN=Authority"], check=True, capture_output=True
    )
    subprocess.run(["openssl", "req", "-new", "-key", key, "-out", request, "-subj", "/CN=board"], check=True)
    sign = [
        "openssl",
        "x509",
        "-req",
        "-in",
        request,
        "-CA",
        ca,
        "-CAkey",
        ca_key,
        "-out",
        cert,
        "-days",
        "9",
    ]
    subprocess.run(sign, check=True, capture_output=True)
    before = cert.read_bytes()
    first_boot(paths)
    assert cert.read_bytes() == before, "the owner's certificate is kept"
    assert (paths.tls / "hsts").read_bytes() == b"", "it only exists"
    cert.unlink()
    first_boot(paths)
    assert not (paths.tls / "hsts").exists()


def test_certificate_names_the_board(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firstboot, "host_name", lambda: "kelp7")
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
    monkeypatch.setattr(firstboot, "host_name", lambda: hostname)
    first_boot(paths)
    assert (paths.tls / "cert.pem").exists()


def test_later_boots_change_nothing(paths: Paths) -> None:
    first_boot(paths)
    before = files(paths)
    first_boot(paths)
    assert files(paths) == before


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
    first_boot(paths)
    paths.console.unlink()
    announce(paths.console, PASSWORD)
    err = capsys.readouterr().err
    assert "console" in err
    assert PASSWORD not in err


@pytest.fixture
def pairs(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The pair of the first boot, which is also saved in BEFORE, and another pair."""
    first_boot(paths)
    firstboot.keep(paths.tls)
    key, cert = firstboot.new_pair()
    old = {name: (paths.tls / name).read_bytes() for name in ("key.pem", "cert.pem")}
    return old, {"key.pem": key, "cert.pem": cert}


def full_disk(path: str, content: bytes, mode: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def nearly_full_disk(path: str, content: bytes, mode: int) -> None:
    """There is room for no other file than those that there were."""
    if Path(path).exists():
        full_disk(path, content, mode)
    replace(path, content, mode)


@pytest.mark.parametrize("new", [(), ("key.pem",), ("cert.pem",), ("key.pem", "cert.pem")])
@pytest.mark.parametrize("disk", [full_disk, nearly_full_disk])
def test_a_full_disk_does_not_keep_nginx_from_starting(
    paths: Paths,
    monkeypatch: pytest.MonkeyPatch,
    pairs: tuple[dict[str, bytes], dict[str, bytes]],
    new: tuple[str, ...],
    disk: Callable[[str, bytes, int], None],
) -> None:
    """A change was cut after it had replaced the files NEW."""
    old, other = pairs
    for name in new:
        (paths.tls / name).write_bytes(other[name])
    monkeypatch.setattr(firstboot, "replace", disk)
    if len(new) == 1 and disk is full_disk:
        with pytest.raises(OSError, match="No space left"):
            first_boot(paths)
    else:
        first_boot(paths)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths.tls / "cert.pem", paths.tls / "key.pem")
        assert new or not (paths.tls / firstboot.BEFORE).exists(), "nothing is to be written"
    monkeypatch.setattr(firstboot, "replace", replace)
    first_boot(paths)
    assert {name: (paths.tls / name).read_bytes() for name in old} == old
    assert {path.name for path in paths.tls.iterdir()} == set(old)


@pytest.mark.parametrize("damage", ["empty", "no certificate", "truncated", "other key"])
def test_a_damaged_saved_pair_is_kept_and_ignored(
    paths: Paths,
    pairs: tuple[dict[str, bytes], dict[str, bytes]],
    damage: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = paths.tls / firstboot.BEFORE
    content = {
        "empty": b"",
        "no certificate": b"x" * 100,
        "truncated": before.read_bytes()[:-100],
        "other key": pairs[1]["key.pem"] + pairs[0]["cert.pem"],
    }[damage]
    before.write_bytes(content)
    for _ in range(2):
        first_boot(paths)
        assert {name: (paths.tls / name).read_bytes() for name in pairs[0]} == pairs[0]
        assert not before.exists()
    assert (paths.tls / "before.pem.corrupt").read_bytes() == content
    assert capsys.readouterr().err.count("before.pem is damaged") == 1


def test_a_short_write_is_continued(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    first_boot(paths)
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, content: write(fd, content[:100]))
    firstboot.keep(paths.tls)
    pair = (paths.tls / "key.pem").read_bytes() + (paths.tls / "cert.pem").read_bytes()
    assert (paths.tls / firstboot.BEFORE).read_bytes() == pair


class PowerCut(BaseException):
    pass


STEPS = [
    (os, "replace"),
    (os, "fsync"),
    (os, "open"),
    (os, "write"),
    (subprocess, "run"),
    (Path, "mkdir"),
    (os, "unlink"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before-step", "after-step"])
def test_power_cut_at_every_step(paths: Paths, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """Simulate a power cut at step 1, 2, 3 … until a boot has no such step. Each time, the next boot completes the work."""
    left = 0

    def cut(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            now = left == 0  # before the call, because a step may contain other steps
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
        shutil.rmtree(paths.tls.parent, ignore_errors=True)
        left = steps
        try:
            first_boot(paths)
            survived = True
        except PowerCut:
            survived = False
        left = 0
        first_boot(paths)
        assert {path.name for path in paths.tls.iterdir()} == {"key.pem", "cert.pem"}, steps
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(paths.tls / "cert.pem", paths.tls / "key.pem")
        if survived:
            break
    assert survived
    assert steps > 15
