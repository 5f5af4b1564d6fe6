# SPDX-License-Identifier: Apache-2.0
"""First boot: the board's own TLS key and certificate, and the first password.

Runs as root at every boot, before nginx and the panel. Each file is written under a fixed
temporary name, synced and renamed, and a step looks only at finished files: whatever moment the
power fails, the next boot goes on from there, and nothing that was handed out changes.

The password is printed on the console until it has been changed. panel.db decides: once it has a
row for `admin`, a first-password file that is still there is left from a power cut, and removed.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import secrets
import socket
import sqlite3
import ssl
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# No 0 1 i l o: they look alike. 12 of 31 letters are 59 bits.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
PASSWORD = re.compile(f"[{ALPHABET}]{{4}}(-[{ALPHABET}]{{4}}){{2}}")
DAYS = 3650


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are; tests choose others."""

    tls: Path = Path("/var/lib/evenkeel/tls")
    state: Path = Path("/var/lib/evenkeel-panel")
    console: Path = Path("/dev/console")
    user: str | None = "evenkeel-panel"  # owner of `state`; None: whoever runs this


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="evenkeel-panel-firstboot", description="Prepare the panel's TLS and password."
    )
    parser.add_argument(
        "--reset-password", action="store_true", help="forget the password and make a first-boot one"
    )
    options = parser.parse_args()
    places = Places()
    os.umask(0o077)
    try:
        if options.reset_password:
            reset_password(places)
        first_boot(places)
    except (OSError, KeyError, sqlite3.Error, subprocess.SubprocessError) as error:
        detail = (
            error.stderr.strip()
            if isinstance(error, subprocess.CalledProcessError) and error.stderr
            else error
        )
        print(f"evenkeel-panel-firstboot: {detail}", file=sys.stderr)
        return 1
    return 0


def first_boot(places: Places) -> None:
    ensure_certificate(places.tls)
    try:
        password = ensure_password(places)
    except sqlite3.Error as error:  # locked, or no space: nginx needs only the certificate
        print(f"evenkeel-panel-firstboot: {places.state}: {error}", file=sys.stderr)
        return
    if password is not None:
        announce(places.console, password)


# ---- TLS ----


def ensure_certificate(tls: Path) -> None:
    """key.pem and cert.pem that belong together. A key is kept as long as it can be read."""
    tls.parent.mkdir(mode=0o700, exist_ok=True)
    tls.mkdir(mode=0o700, exist_ok=True)
    key, cert = tls / "key.pem", tls / "cert.pem"
    if _belong_together(key, cert):
        return
    if not _readable(key):
        _write(key, _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout"))
    _write(cert, _certificate(key, socket.gethostname()))
    if not _belong_together(key, cert):
        raise OSError(f"the certificate {cert} that was just made does not belong to its key")


def _belong_together(key: Path, cert: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ssl.SSLError):
        return False
    return True


def _readable(key: Path) -> bool:
    if not key.exists():
        return False
    return (
        subprocess.run(["openssl", "pkey", "-in", key, "-noout"], check=False, capture_output=True).returncode
        == 0
    )


def _certificate(key: Path, hostname: str) -> bytes:
    # A common name has at most 64 characters, and a host name that DNS could not carry is no SAN.
    host = hostname if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?", hostname) else "evenkeel"
    names = dict.fromkeys((host, f"{host}.local", "localhost"))
    return _openssl(
        *("req", "-x509", "-new", "-sha256", "-key", str(key), "-days", str(DAYS), "-subj", f"/CN={host}"),
        *("-addext", "subjectAltName=" + ",".join([*(f"DNS:{name}" for name in names), "IP:127.0.0.1"])),
        *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=critical,digitalSignature"),
        *("-addext", "extendedKeyUsage=serverAuth"),
    )


def _openssl(*arguments: str) -> bytes:
    return subprocess.run(
        ["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL
    ).stdout


# ---- password ----


def ensure_password(places: Places) -> str | None:
    """The first-boot password; None once it has been changed."""
    _own_directory(places)
    with _acting_as(places.user):
        first = places.state / "first-password"
        if _changed(places.state / "panel.db"):
            if first.exists():
                first.unlink()
                _sync(places.state)
            return None
        try:
            password = first.read_text("ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            password = ""
        if not PASSWORD.fullmatch(password):
            password = "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))
            _write(first, password.encode() + b"\n")
        return password


def reset_password(places: Places) -> None:
    """For an owner at the serial console who has forgotten it. Every session ends."""
    with _acting_as(places.user):
        database = places.state / "panel.db"
        if database.exists():
            with closing(sqlite3.connect(database, timeout=10)) as connection, connection:
                connection.execute("DELETE FROM users WHERE name = 'admin'")
                connection.execute("DELETE FROM sessions")


def announce(console: Path, password: str) -> None:
    """One line of its own on the console. It is never in the journal, which others may read."""
    line = f"\nevenkeel: panel first-boot password: {password}\n".encode()
    try:
        descriptor = os.open(console, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:  # a board without a console still has its panel
        print(f"evenkeel-panel-firstboot: {console}: {error.strerror}", file=sys.stderr)


def _changed(database: Path) -> bool:
    """Has somebody set a password? A damaged database is kept aside, and the board begins anew."""
    try:
        return _has_admin(database)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        print(f"evenkeel-panel-firstboot: {database}: {error}; kept as *.corrupt", file=sys.stderr)
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{database}{end}").replace(f"{database}{end}.corrupt")
        return False


def _has_admin(database: Path) -> bool:
    if not database.exists():
        return False
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        table = connection.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'users'"
        ).fetchone()
        return table is not None and (
            connection.execute("SELECT 1 FROM users WHERE name = 'admin'").fetchone() is not None
        )


def _own_directory(places: Places) -> None:
    places.state.mkdir(mode=0o700, exist_ok=True)
    if places.user is not None:
        entry = pwd.getpwnam(places.user)
        os.chown(places.state, entry.pw_uid, entry.pw_gid)


@contextmanager
def _acting_as(user: str | None) -> Iterator[None]:
    """Files belong to the panel from their first moment, and root never follows what it left there."""
    if user is None:
        yield
        return
    entry = pwd.getpwnam(user)
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


# ---- files ----


def _write(path: Path, content: bytes) -> None:
    """The whole content or nothing, mode 0600. A left-over temporary file is simply written again."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, content)  # a few kB to a file: all of it or an error
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
