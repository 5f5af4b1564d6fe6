# SPDX-License-Identifier: Apache-2.0
"""First boot: the board's own TLS key and certificate, and the first-boot password.

Runs as root at every boot, before nginx and the panel.

Guarantee: a power cut at any moment is harmless. Each file is written under a fixed temporary name,
synced and renamed, and each step reads only finished files. So the next boot completes the work, and
a key or password that was already given out stays the same.

Each boot prints the password on the console until the user has changed it. panel.db decides: if it has
a row for `admin`, a power cut has left the file first-password behind, and this program removes it.
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

# Without 0 1 i l o, which look alike. 12 of 31 characters are 59 bits.
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
PASSWORD = re.compile(f"[{ALPHABET}]{{4}}(-[{ALPHABET}]{{4}}){{2}}")
DAYS = 3650


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths on a board; tests use others."""

    tls: Path = Path("/var/lib/evenkeel/tls")
    state: Path = Path("/var/lib/evenkeel-panel")
    console: Path = Path("/dev/console")
    user: str | None = "evenkeel-panel"  # owner of `state`; None: the user who runs this program


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="evenkeel-panel-firstboot", description="Prepare the panel's TLS certificate and password."
    )
    parser.add_argument(
        "--reset-password",
        action="store_true",
        help="delete the password, log out every browser and print a new first-boot password",
    )
    options = parser.parse_args()
    paths = Paths()
    os.umask(0o077)
    try:
        if options.reset_password:
            reset_password(paths)
        first_boot(paths)
    except (OSError, KeyError, sqlite3.Error, subprocess.SubprocessError) as error:
        detail = (
            error.stderr.strip()
            if isinstance(error, subprocess.CalledProcessError) and error.stderr
            else error
        )
        print(f"evenkeel-panel-firstboot: {detail}", file=sys.stderr)
        return 1
    return 0


def first_boot(paths: Paths) -> None:
    ensure_certificate(paths.tls)
    try:
        password = ensure_password(paths)
    except sqlite3.Error as error:  # locked or no space; go on, because nginx needs the certificate only
        message = f"cannot prepare the password in {paths.state}: {error}"
        print(f"evenkeel-panel-firstboot: {message}", file=sys.stderr)
        return
    if password is not None:
        print_password(paths.console, password)


# ---- TLS ----


def ensure_certificate(tls: Path) -> None:
    """Make sure that cert.pem belongs to key.pem. A readable key is kept."""
    tls.parent.mkdir(mode=0o700, exist_ok=True)
    tls.mkdir(mode=0o700, exist_ok=True)
    key, cert = tls / "key.pem", tls / "cert.pem"
    if _is_pair(key, cert):
        return
    if not _readable(key):
        _write(key, _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout"))
    _write(cert, _certificate(key, socket.gethostname()))
    if not _is_pair(key, cert):
        raise OSError(f"the new certificate {cert} does not belong to the key {key}")


def _is_pair(key: Path, cert: Path) -> bool:
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
    # A common name has at most 64 characters, and a subject alternative name must be a valid DNS name.
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


def ensure_password(paths: Paths) -> str | None:
    """The first-boot password; None once it has been changed."""
    _own_directory(paths)
    with _acting_as(paths.user):
        first = paths.state / "first-password"
        if _changed(paths.state / "panel.db"):
            if first.exists():
                first.unlink()
                _sync(paths.state)
            return None
        try:
            password = first.read_text("ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            password = ""
        if not PASSWORD.fullmatch(password):
            password = "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))
            _write(first, password.encode() + b"\n")
        return password


def reset_password(paths: Paths) -> None:
    """Delete the password and end every session. For an owner at the serial console."""
    with _acting_as(paths.user):
        database = paths.state / "panel.db"
        if database.exists():
            with closing(sqlite3.connect(database, timeout=10)) as connection, connection:
                connection.execute("DELETE FROM users WHERE name = 'admin'")
                connection.execute("DELETE FROM sessions")


def print_password(console: Path, password: str) -> None:
    """Print the password on a line of its own on the console, never in the journal: others may read that."""
    line = f"\nevenkeel: panel first-boot password: {password}\n".encode()
    try:
        descriptor = os.open(console, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:  # go on: the panel works without a console
        message = f"cannot print the first-boot password on {console}: {error.strerror}"
        print(f"evenkeel-panel-firstboot: {message}", file=sys.stderr)


def _changed(database: Path) -> bool:
    """Whether the user has set a password. A damaged database is renamed, and the panel starts without one."""
    try:
        return _has_admin(database)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        message = (
            f"{database} is damaged ({error}). It is kept as *.corrupt; the panel starts with an empty one."
        )
        print(f"evenkeel-panel-firstboot: {message}", file=sys.stderr)
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


def _own_directory(paths: Paths) -> None:
    paths.state.mkdir(mode=0o700, exist_ok=True)
    if paths.user is not None:
        entry = pwd.getpwnam(paths.user)
        os.chown(paths.state, entry.pw_uid, entry.pw_gid)


@contextmanager
def _acting_as(user: str | None) -> Iterator[None]:
    """Work as the panel's user: it owns new files at once, and root follows no symbolic link of the panel."""
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
    """Write the whole content or nothing, mode 0600. A temporary file of an earlier run is replaced."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, content)  # a few kB to a file: never a partial write
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
