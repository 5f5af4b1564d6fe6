# SPDX-License-Identifier: Apache-2.0
"""The user, the password and the sessions."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
import time
import unicodedata
from typing import TYPE_CHECKING

from argon2 import PasswordHasher  # type: ignore[import-untyped,unused-ignore]
from argon2.exceptions import Argon2Error, InvalidHash  # type: ignore[import-untyped,unused-ignore]

if TYPE_CHECKING:
    from pathlib import Path

    from ..db import Database

log = logging.getLogger(__name__)

ADMIN = "admin"
MIN_LENGTH = 10
MAX_LENGTH = 128
SESSION_S = 12 * 3600  # from log-in; use does not extend it
MAX_SESSIONS = 32


class Users:
    """The one user, `admin`.

    While panel.db has no row for `admin`, the first-boot password opens a session that may only set
    a password. First boot writes that password to a file.

    Invariant: the row alone decides which password is valid. It is committed before the file is
    removed, so a power cut in between leaves a file without effect. The next boot removes it.

    Passwords are stored as argon2id with 19 MiB, 2 passes, 1 lane (RFC 9106; the OWASP minimum,
    because the memory of a board is small). One hash is computed at a time, so many log-ins at once
    cost time, not memory.
    """

    def __init__(self, db: Database, first_password: Path) -> None:
        self._db = db
        self._first = first_password
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
        self._one = threading.Lock()

    def must_change(self) -> bool:
        return self._hash() is None

    def has_password(self) -> bool:
        """False only if first boot has not run."""
        return self._hash() is not None or self._first_password() is not None

    def check(self, password: str) -> bool:
        stored = self._hash()
        if stored is None:
            first = self._first_password()
            typed = password.strip().lower()  # the user copies it from a console
            return first is not None and hmac.compare_digest(first.encode(), typed.encode())
        if len(password) > MAX_LENGTH:
            return False
        with self._one:
            try:
                return bool(self._hasher.verify(stored, _normal(password)))
            except InvalidHash:
                log.error(
                    "the password hash in panel.db is damaged; run evenkeel-panel-firstboot --reset-password"
                )
                return False
            except Argon2Error:
                return False

    def refusal(self, current: str, new: str, confirm: str) -> tuple[str, str] | None:
        """Why `new` is not acceptable as (form field, message), or None if it is."""
        if len(new) < MIN_LENGTH:
            return "new", f"The password needs at least {MIN_LENGTH} characters. This one has {len(new)}."
        if len(new) > MAX_LENGTH:
            return "new", f"The password may have at most {MAX_LENGTH} characters. This one has {len(new)}."
        first = self._first_password()
        if _normal(new) == _normal(current) or new.strip().lower() in (current.strip().lower(), first):
            return "new", "The new password must differ from the old one."
        if new != confirm:
            return "confirm", "The two new passwords are not the same. Enter the new password again."
        return None

    def set_password(self, password: str) -> None:
        """Store the password, end every session, and only then remove the first-boot password."""
        with self._one:
            digest = self._hasher.hash(_normal(password))
        with self._db.write() as cursor:
            cursor.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?)", (ADMIN, digest, int(time.time())))
            cursor.execute("DELETE FROM sessions")
        try:
            self._first.unlink(missing_ok=True)
        except OSError as error:
            log.warning(
                "cannot remove %s: %s. It has no effect; the next boot removes it.", self._first, error
            )

    def open_session(self) -> str:
        """The token of a new session. The cookie gets the token; panel.db stores only its hash."""
        token = secrets.token_urlsafe(24)
        now = int(time.time())
        with self._db.write() as cursor:
            cursor.execute(
                "DELETE FROM sessions WHERE created_at NOT BETWEEN ? AND ?", (now - SESSION_S, now)
            )
            cursor.execute(
                "DELETE FROM sessions WHERE id NOT IN"
                " (SELECT id FROM sessions ORDER BY created_at DESC LIMIT ?)",
                (MAX_SESSIONS - 1,),
            )
            cursor.execute("INSERT INTO sessions VALUES (?, ?, ?)", (_digest(token), ADMIN, now))
        return token

    def session_user(self, token: object) -> str | None:
        if not isinstance(token, str):
            return None
        now = int(time.time())
        row = self._db.one(
            "SELECT user FROM sessions WHERE id = ? AND created_at BETWEEN ? AND ?",
            _digest(token),
            now - SESSION_S,
            now + 60,  # NTP may set the clock back a little after boot: the session stays valid
        )
        return None if row is None else str(row[0])

    def close_session(self, token: object) -> None:
        if isinstance(token, str):
            with self._db.write() as cursor:
                cursor.execute("DELETE FROM sessions WHERE id = ?", (_digest(token),))

    def _hash(self) -> str | None:
        row = self._db.one("SELECT hash FROM users WHERE name = ?", ADMIN)
        return None if row is None else str(row[0])

    def _first_password(self) -> str | None:
        try:
            return self._first.read_text("utf-8").strip() or None
        except OSError:
            return None


def _normal(password: str) -> str:
    """NFKC, so that the same password typed on another system gives the same bytes."""
    return unicodedata.normalize("NFKC", password)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
