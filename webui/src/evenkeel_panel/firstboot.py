# SPDX-License-Identifier: Apache-2.0
"""evenkeel-panel-firstboot: makes the board's own TLS key and certificate.

It runs at every boot, before nginx and the panel, as the user of ek-certificate, who owns the files.

Guarantee: a power cut at any moment is harmless. Each file is replaced as a whole, and each step reads only finished files.
So the next boot completes the work, and a key that is already in use stays the same.

With --announce, it runs as root, and instead prints what a person needs to reach the panel: its addresses, the first-boot
password, which the agent has until the user changes it, and the fingerprint of the certificate. By the fingerprint, a
person can check that the browser is connected to this board. The text goes to the console, once a boot. With --screen, the
same text goes to the screen, whose content it replaces; evenkeel-screen.path starts this again after each change. Without
the addresses, the text has only the name of the board, so a network that hangs hides no password.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from evenkeel_common.files import host_name, read_small, remove, replace

DAYS = 3650  # validity of the certificate
# In the folder of the certificate: the old key and certificates, while ek-certificate replaces them.
BEFORE = "before.pem"
DAMAGED = ".corrupt"  # the end of the name of a damaged BEFORE, which is kept
_MARK = b"-----BEGIN CERTIFICATE-----"
# nginx reads the files as root, but without the capability to open files of other users. The folder gives the files to the
# group root (setgid).
MODE = 0o640
# systemd-networkd saves its state shortly before an address is in use, and several changes come together.
SETTLE_S = 2.0
# At a boot, the panel waits for the text on the console, and so at most this long for the addresses.
ADDRESSES_S = 5.0
CLEAR = "\033[H\033[2J\033[3J"  # also what had scrolled off the screen: it may have a password that was changed since
NO_CURSOR = "\033[?25l"
FAILURES = (OSError, ValueError, KeyError, subprocess.SubprocessError)  # of a program, or of its answer
HSTS = "hsts"  # while this empty file exists, nginx sends HSTS (evenkeel.conf)


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths on a board; tests use others."""

    tls: Path = Path("/var/lib/evenkeel/tls")
    console: Path = Path("/dev/console")
    screen: Path = Path("/dev/tty1")
    preseed: Path = Path("/run/evenkeel/preseed-message")  # missing without a preseed file
    # What evenkeel-screen.path watches. The last one is the folder of FIRST_CHANGED: only the agent may look inside, but the
    # folder itself changes when the file is replaced.
    watched: tuple[Path, ...] = (
        Path("/run/systemd/netif/links"),
        Path("/etc/hostname"),
        Path("/var/lib/evenkeel/tls/cert.pem"),
        Path("/var/lib/evenkeel-agent"),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="evenkeel-panel-firstboot", description="Prepare the panel's TLS certificate."
    )
    what = "the addresses of the panel, the certificate's fingerprint, and the first-boot password until it is changed"
    parser.add_argument("--announce", action="store_true", help=f"print on the console: {what}")
    parser.add_argument("--screen", action="store_true", help="show the same on the screen")
    options = parser.parse_args()
    paths = Paths()
    os.umask(0o077)
    try:
        if options.announce:
            password, urls, _ = asked(ADDRESSES_S)
            announce(paths.console, f"\n{text(paths, password, urls)}")
        elif options.screen:
            return 0 if show(paths) else 1
        else:
            ensure_certificate(paths.tls)
    except FAILURES as error:
        _report(_detail(error))
        return 1
    return 0


def _detail(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError) and error.stderr:
        return str(error.stderr).strip()
    return str(error)


# ---- first log-in ----


def show(paths: Paths) -> bool:
    """Show the text on the screen. Returns False if the addresses are not known, so that systemd starts this again."""
    while True:
        time.sleep(SETTLE_S)
        # systemd does not watch the paths while this runs
        before = _changes(paths)
        password, urls, known = asked()
        announce(paths.screen, f"{CLEAR}{text(paths, password, urls)}{NO_CURSOR}")
        if _changes(paths) == before:
            return known


def _changes(paths: Paths) -> list[int]:
    """When each watched path last changed, in ns; 0 if it does not exist."""
    found = []
    for path in paths.watched:
        try:
            found.append(path.stat().st_mtime_ns)
        except OSError:
            found.append(0)
    return found


def asked(limit_s: float | None = None) -> tuple[str, list[str], bool]:
    """What the agent knows: the first-boot password, "" once it has been changed; the addresses of the panel.

    The last value is False if the agent does not report the addresses, or not within LIMIT_S. The name stands in for them.
    """
    # both at once: the panel starts after this, and on an emulated CPU each command takes a second
    with ThreadPoolExecutor() as pool:
        first, network = pool.submit(_ask, "first-password"), pool.submit(_ask, "network", limit_s)
        password = str(first.result()["password"])
        try:
            return password, addresses(network.result()), True
        except FAILURES as error:
            _report(f"the addresses of the panel are not known: {_detail(error)}")
    return password, [f"https://{host_name().partition('.')[0]}.local"], False


def _ask(command: str, limit_s: float | None = None) -> dict[str, Any]:
    answer = subprocess.run(
        ["ekctl", command, "--json"], check=True, capture_output=True, text=True, timeout=limit_s
    )
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def addresses(network: dict[str, Any]) -> list[str]:
    """The addresses of the panel: by name, then IPv4, then IPv6. NETWORK: the answer of GetNetwork.

    A link-local IPv6 address is left out: browsers cannot open it, because it needs the interface of their own machine.
    """
    own = [ip_interface(address).ip for row in network["interfaces"] for address in row["addresses"]]
    usable = sorted((ip for ip in own if ip.version == 4 or not ip.is_link_local), key=lambda ip: ip.version)
    return [
        f"https://{host}"
        for host in (network["host"], *(f"[{ip}]" if ip.version == 6 else str(ip) for ip in usable))
    ]


def text(paths: Paths, password: str, urls: list[str]) -> str:
    """What console and screen show. PASSWORD: "" once it has been changed."""
    lines = [f"panel: {'  '.join(urls)}"]
    lines += [f"panel first-boot password: {password}"] if password else []
    lines += [f"panel certificate SHA-256: {fingerprint(paths.tls / 'cert.pem')}"]
    message = _preseed_message(paths.preseed)
    lines += [f"preseed: {message}"] if message else []
    return "".join(f"evenkeel: {line}\n" for line in lines)


def _preseed_message(path: Path) -> str:
    try:
        found = read_small(str(path), 4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    # It has parts of a file that somebody has written, and a terminal acts on control characters.
    return "".join(letter if letter.isprintable() else "?" for letter in found)


def announce(terminal: Path, content: str) -> None:
    """Write CONTENT to TERMINAL. It never goes to the journal, which other users may read."""
    try:
        descriptor = os.open(terminal, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.write(descriptor, content.encode())
        finally:
            os.close(descriptor)
    except OSError as error:  # not a failure: the panel works without a console
        _report(f"cannot print the addresses of the panel on {terminal}: {error.strerror}")


def fingerprint(cert: Path) -> str:
    """The SHA-256 fingerprint of the certificate as browsers show it, in pairs of hexadecimal digits."""
    digits = digest(cert.read_text("ascii", "replace"))
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2)).upper()


def digest(pem: str) -> str:
    """The SHA-256 digest of the first certificate in the text PEM. Raises ValueError without one."""
    end = "-----END CERTIFICATE-----"
    first = pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(end)]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(f"{first}{end}\n")).hexdigest()


# ---- TLS ----


def ensure_certificate(tls: Path) -> None:
    """Make sure that cert.pem belongs to key.pem. A valid pair is kept, and so is a readable key.

    nginx cannot start without a valid pair. So this function fails only if it cannot make one. On a full disk, it goes on
    with the pair that is there.

    nginx sends HSTS only if the certificate is not self-signed. The board may have to make a self-signed certificate
    again. Then a browser that remembers HSTS would not let the owner accept the new certificate.
    """
    tls.parent.mkdir(mode=0o755, exist_ok=True)
    tls.mkdir(mode=0o700, exist_ok=True)
    key, cert = tls / "key.pem", tls / "cert.pem"
    try:
        undo(tls)
    except OSError as error:
        _report(f"the old certificate cannot be put back: {error}")
    if not _is_pair(key, cert):
        _make_certificate(key, cert)
    if (tls / BEFORE).exists():
        return  # a later undo() may replace the pair, so HSTS must not begin
    try:
        set_hsts(tls)
    except OSError as error:
        _report(f"HSTS cannot be set: {error}")


def set_hsts(tls: Path) -> None:
    """Let nginx send HSTS if the present certificate is not self-signed. nginx looks at each request, without a reload.

    Call it for a final certificate only: browsers remember HSTS for a year.
    """
    hsts = tls / HSTS
    if (not _is_own(tls / "cert.pem")) == hsts.exists():
        return
    if hsts.exists():
        remove(str(hsts))
    else:
        _write(hsts, b"")


# A replacement of the pair by ek-certificate: keep(), put(), then done() or undo(). A power cut leaves BEFORE, and the next
# boot undoes the replacement.


def keep(tls: Path) -> None:
    """Save the present pair in one file, so that a power cut between two files does no harm."""
    _write(tls / BEFORE, (tls / "key.pem").read_bytes() + (tls / "cert.pem").read_bytes())


def put(tls: Path, key: bytes, chain: bytes) -> None:
    """Replace key and certificates. HSTS ends with a self-signed certificate; set_hsts() lets it begin."""
    _write(tls / "key.pem", key)
    _write(tls / "cert.pem", chain)
    if _is_own(tls / "cert.pem"):
        set_hsts(tls)


def undo(tls: Path) -> bool:
    """Put the saved pair back. Returns False if no valid pair is saved, so nothing is to be undone. Raises OSError.

    It needs little space: a file that has the saved content stays. On a full disk, a file that is of no use makes room.
    Until done(), the saved pair is on the medium, so the next call completes the work.
    """
    before = tls / BEFORE
    try:
        saved = before.read_bytes()
    except FileNotFoundError:
        return False
    key, mark, rest = saved.partition(_MARK)
    chain = mark + rest
    if not _fits(key, chain):
        kept = before.with_name(BEFORE + DAMAGED)
        before.replace(kept)
        _report(f"{before} is damaged, so the present certificate stays in use; the file is kept as {kept}")
        return False
    for path, content in ((tls / "key.pem", key), (tls / "cert.pem", chain)):
        if _has(path, content):
            continue
        try:
            _write(path, content)
        except OSError:
            if _is_pair(tls / "key.pem", tls / "cert.pem"):
                raise
            path.unlink(missing_ok=True)
            _write(path, content)
    done(tls)
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # the next boot tries again
        set_hsts(tls)
    return True


def done(tls: Path) -> None:
    """The replacement is complete: forget the saved pair."""
    remove(str(tls / BEFORE))


def new_pair() -> tuple[bytes, bytes]:
    """A new key and a self-signed certificate for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "key.pem"
        key = _new_key()
        _write(path, key)
        return key, _certificate(path, host_name())


def _new_key() -> bytes:
    return openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout")


def _is_own(cert: Path) -> bool:
    """Whether the certificate is self-signed: its subject and its issuer are equal."""
    names = openssl("x509", "-in", str(cert), "-noout", "-subject", "-issuer").decode().splitlines()
    return names[0].partition("=")[2].strip() == names[1].partition("=")[2].strip()


def _make_certificate(key: Path, cert: Path) -> None:
    if not _readable(key):
        _write(key, _new_key())
    _write(cert, _certificate(key, host_name()))
    if not _is_pair(key, cert):
        raise OSError(f"the new certificate {cert} does not belong to the key {key}")


def _is_pair(key: Path, cert: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ssl.SSLError):
        return False
    return True


def _fits(key: bytes, chain: bytes) -> bool:
    """Whether the certificates CHAIN can be read, and the first one belongs to KEY."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "key.pem", Path(folder) / "cert.pem"
        for path, content in zip(paths, (key, chain), strict=True):
            path.write_bytes(content)
        return _is_pair(*paths)


def _readable(key: Path) -> bool:
    if not key.exists():
        return False
    return (
        subprocess.run(["openssl", "pkey", "-in", key, "-noout"], check=False, capture_output=True).returncode
        == 0
    )


def _certificate(key: Path, hostname: str) -> bytes:
    # A common name has at most 64 characters, and a subject alternative name must be a valid DNS name.
    host = hostname if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?", hostname) else "evenkeel"
    names = dict.fromkeys((host, f"{host}.local", "localhost"))
    return openssl(
        *("req", "-x509", "-new", "-sha256", "-key", str(key), "-days", str(DAYS), "-subj", f"/CN={host}"),
        *("-addext", "subjectAltName=" + ",".join([*(f"DNS:{name}" for name in names), "IP:127.0.0.1"])),
        *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=critical,digitalSignature"),
        *("-addext", "extendedKeyUsage=serverAuth"),
    )


def openssl(*arguments: str) -> bytes:
    """What openssl prints. Raises CalledProcessError."""
    return subprocess.run(
        ["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL
    ).stdout


# ---- files ----


def _write(path: Path, content: bytes) -> None:
    replace(str(path), content, MODE)


def _has(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _report(text: str) -> None:
    print(f"evenkeel-panel-firstboot: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
