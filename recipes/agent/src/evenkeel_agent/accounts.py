# SPDX-License-Identifier: Apache-2.0
"""The feature accounts: users, sessions, API tokens and the audit log.

Invariants:

- The panel is not trusted: each of its calls except LogIn and GetHealth needs the secret of a session or token, which
  caller() checks.
- Users, sessions and tokens in memory equal those in accounts.db, because a change is saved first. Three changes are
  made in memory even if saving fails. The first two are a log-in and the end of a session: a person must be able to
  log in to a board whose disk is full, and to log out. The third is the time of a session's last use, which is saved
  every SAVE_USE_S only.
- One task at a time changes users and tokens, and opens sessions: it holds `_changing`. It reads the state after it got
  the lock, so no change is lost. Hashes of passwords are computed before, because they take up to a second each.
  A change of a user ends the user's sessions, except the session that made it. So a task that has checked a password
  continues only if its session is still valid. A log-in has no session yet: it continues only if the user has not changed.
- Passwords and the secrets of sessions and tokens are stored as hashes. Three kinds of secret are stored as text: the
  first-boot password (the console shows it until the user changes it), TOTP secrets, and the key that signs device
  secrets (see tries.py).
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import sqlite3
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from evenkeel_api import errors
from evenkeel_api.features import accounts as api
from evenkeel_api.features.changes import LISTED, Change, ListChanges
from evenkeel_api.messages import Message
from evenkeel_api.method import Method, Nothing
from evenkeel_api.roles import ADMIN, Role, includes
from evenkeel_common.files import replace as write_file
from evenkeel_common.files import why
from msgspec.structs import astuple

from . import backup, passwords
from .accounts_db import CORRUPT, Database
from .backup import MAX_TOKENS, MAX_USERS, Token
from .caller import Caller
from .tries import Tries, network

BUILT_IN = "admin"  # the user whose first password is printed on the console
TOKEN_PREFIX = "ek_"  # noqa: S105  the start of every API token; session secrets do not start with it
TOTP_S = 30  # a code is made for a time step of so many seconds
TOTP_USED = (
    "totp-used "  # with the name of a user: the setting that has the last time step whose code was used
)
SESSION_S = 12 * 3600  # a session ends this long after log-in; use does not extend it
IDLE_S = 60 * 60  # a session ends this long after the last action of its user
SAVE_USE_S = 300  # the time of a session's last use is saved at most this often, to spare the flash
# A session stays valid if the clock is set back by up to this time after log-in: NTP may do so shortly after boot.
CLOCK_S = 60
MAX_SESSIONS = 16  # of a user
# An empty file in the state directory, written when the first-boot password becomes valid or invalid.
# evenkeel-screen.path waits for this.
FIRST_CHANGED = "first-password-changed"
RETRY_S = 30.0  # if accounts.db could not be opened, the agent tries again after this time
REFUSAL_S = 3600.0  # a refusal that repeats gets a row in the audit log at most this often
KEPT_REFUSALS = 256  # the maximum number of refusals that are remembered for this
# Rows without a user, from all networks together, in REFUSAL_S. Anybody may cause such rows, from any number of addresses.
# With this limit, they hardly wear the flash, and need two weeks to displace all rows of the audit log.
STRANGER_ROWS = 30
MAX_HASHING = 8  # at most this many log-ins may wait for their password hash; more are refused
NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")  # of users
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: Role
    hash: str | None
    first: str | None
    must_change: bool
    totp: str | None
    changed_at: int


@dataclass(frozen=True, slots=True)
class Session:
    digest: str
    user: str
    address: str
    client: str
    created_at: int
    used_at: int


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _id(digest: str) -> str:
    """The public name of a session or token."""
    return digest[:12]


class Accounts:
    """The users, sessions and tokens, in memory and in accounts.db. Call start() first, and all methods in one event loop.

    The attribute `changed` is a function: it is called when a session, user or token has changed or ended, or may have.
    """

    def __init__(self, directory: str, host: str, clock: Callable[[], float] = time.time) -> None:
        self._path = os.path.join(directory, "accounts.db")  # noqa: PTH118
        self._first_changed = os.path.join(directory, FIRST_CHANGED)  # noqa: PTH118
        self._host = host
        self._clock = clock
        self.changed: Callable[[], None] = lambda: None
        self.problem: Message | None = None
        self._db: Database | None = None
        self._writing = asyncio.Lock()  # held while accounts.db is in use
        self._changing = asyncio.Lock()  # held from the reading of the state to its change, see above
        self._users: dict[str, User] = {}
        self._sessions: dict[str, Session] = {}  # by digest
        self._tokens: dict[str, Token] = {}  # by digest
        self._key = b""
        self._saved_use: dict[str, int] = {}  # by digest of a session: the saved time of its last use
        self._pending_totp: dict[str, str] = {}  # by session: secret of BeginTotp, until ConfirmTotp
        self._totp_used: dict[str, int] = {}  # by user: the last time step whose code was used
        self._tries = Tries()
        self._hashing = 0
        self._audits: set[asyncio.Task[None]] = set()
        # by network, user, action and outcome: the monotonic time until which further refusals get no row in the audit log
        self._refused_until: OrderedDict[tuple[str, str, str, str], float] = OrderedDict()
        self._stranger_rows: deque[float] = deque(
            maxlen=STRANGER_ROWS
        )  # monotonic times of the last rows without a user

    async def start(self) -> None:
        """Read accounts.db. If it cannot be opened, the agent still runs and reports a problem, but nobody can log in."""
        try:
            await asyncio.to_thread(self._load)
        except (sqlite3.Error, OSError) as error:
            if self._db:
                self._db.close()
                self._db = None
            self.problem = Message("accounts-not-saved", path=self._path, reason=str(error))
        if self.problem:
            _log.warning("%s", self.problem)

    async def watch(self) -> None:
        """If accounts.db could not be opened at the start, open it as soon as this is possible."""
        while self._db is None:
            await asyncio.sleep(RETRY_S)
            before = self.problem
            async with self._writing:
                await self.start()
                if self._db is not None and self.problem is before:
                    self.problem = None
        await asyncio.Event().wait()

    def _load(self) -> None:
        db = self._db = Database(self._path)
        if db.damage:
            self.problem = Message("accounts-damaged", reason=db.damage, path=self._path + CORRUPT)
        found = dict(db.rows("SELECT key, value FROM settings"))
        if "key" not in found:
            found["key"] = secrets.token_hex(32)
            with db.write() as cursor:
                cursor.execute("INSERT INTO settings VALUES ('key', ?)", (found["key"],))
        self._key = bytes.fromhex(found["key"])
        self._totp_used = {
            key.removeprefix(TOTP_USED): int(value)
            for key, value in found.items()
            if key.startswith(TOTP_USED)
        }
        for name, role, digest, first, must_change, totp, changed_at in db.rows(
            "SELECT name, role, hash, first, must_change, totp, changed_at FROM users"
        ):
            self._users[name] = User(name, role, digest, first, bool(must_change), totp, changed_at)
        if not any(user.role == ADMIN for user in self._users.values()):
            admin = User(BUILT_IN, ADMIN, None, passwords.first_password(), True, None, int(self._clock()))
            with db.write() as cursor:
                self._upsert(cursor, admin)
            self._users[BUILT_IN] = admin
            self._mark_first_changed()
        for row in db.rows("SELECT digest, user, address, client, created_at, used_at FROM sessions"):
            self._sessions[row[0]] = Session(*row)
            self._saved_use[row[0]] = row[5]
        for row in db.rows("SELECT digest, name, user, role, created_at, expires_at FROM tokens"):
            self._tokens[row[0]] = Token(*row)

    # identifying the caller

    def caller(self, method: Method, secret: str, address: str) -> Caller:
        """The user of the session or token with this SECRET. Raises AgentError if it may not call METHOD.

        A METHOD that needs no role has a caller without a name, whatever the SECRET.
        """
        if method.role is None:
            return Caller("", None, "panel", address)
        caller = self._identify(secret, address)
        refused = method.no_token or (method.panel and method.name != "CheckSession")
        if caller.via == "token" and refused:
            # A token is for programs. So a caller with a token may neither change the user's password, nor create
            # other tokens, nor read or replace secrets.
            raise errors.NotAuthorized("not-from-here", method=method.name)
        if self._users[caller.user].must_change and not method.first:
            raise errors.PasswordMustChange("must-change")
        if not includes(caller.role or "", method.role):
            raise errors.NotAuthorized("role-missing", user=caller.user, role=caller.role, needed=method.role)
        return caller

    def _identify(self, secret: str, address: str) -> Caller:
        """The user of the session or token with this SECRET. Raises NotLoggedIn if it is not valid."""
        now = int(self._clock())
        digest = _digest(secret)
        if secret.startswith(TOKEN_PREFIX):
            token = self._tokens.get(digest)
            user = self._users.get(token.user) if token else None
            if token is None or user is None or 0 < token.expires_at <= now:
                raise errors.NotLoggedIn("not-logged-in")
            role = token.role if includes(user.role, token.role) else user.role
            return Caller(user.name, role, "token", address, _id(digest))
        user = self._users[self._live_session(digest, now).user]
        return Caller(user.name, user.role, "panel", address, digest)

    async def audit_refusal(
        self, error: errors.AgentError, method: Method, secret: str, address: str
    ) -> None:
        """Add a row about a call that was refused before its method began: by a role, by polkit, or by an invalid token.

        The end of a session is no attempt to do something that is not allowed, so it has no row.
        """
        try:
            caller, action = self._identify(secret, address), method.name
        except errors.NotLoggedIn:
            if not secret.startswith(TOKEN_PREFIX):
                return
            caller, action = Caller("", None, "token", address), "CheckSession"
        await self._audit_refusal(caller, action, error.kind)

    async def _audit_refusal(self, caller: Caller, action: str, outcome: str) -> None:
        """Add a row, unless the same refusal has one of the last REFUSAL_S.

        A program may repeat a refused call each second. Its rows would displace older ones and wear the flash.
        """
        key, now = (network(caller.address), caller.user, action, outcome), time.monotonic()
        if now < self._refused_until.get(key, 0.0):
            return
        self._refused_until[key] = now + REFUSAL_S
        self._refused_until.move_to_end(key)
        if len(self._refused_until) > KEPT_REFUSALS:
            self._refused_until.popitem(last=False)
        await self.audit(caller, action, "", outcome)

    def _live_session(self, digest: str, now: int) -> Session:
        session = self._sessions.get(digest)
        if (
            session is None
            or session.user not in self._users
            or not session.created_at - CLOCK_S <= now < session.created_at + SESSION_S
            or now >= session.used_at + IDLE_S
        ):
            raise errors.NotLoggedIn("not-logged-in")
        return session

    # log-in

    async def log_in(self, request: api.LogIn, caller: Caller) -> api.Login:
        name, address = request.user.strip().lower(), caller.address
        device = self._device_of(name, request.device)
        user = await self._check(name, request.password, address, device)
        if user.totp:
            if not request.code.strip():
                # The owner sees that somebody knows the password. After the owner's own log-in, a row of it follows.
                await self._audit_refusal(Caller(name, None, "panel", address), "LogIn", "CodeRequired")
                raise errors.CodeRequired("code-required")
            await self._check_code(user, request.code, address, device)
        async with self._changing:
            if self._users.get(name) is not user:
                raise errors.WrongPassword("wrong-password")
            login = await self._open_session(user, address, request.client, request.device if device else "")
        detail = "with a code" if user.totp else ""
        await self.audit(Caller(name, user.role, "panel", address), "LogIn", detail)
        return login

    async def _check(self, name: str, password: str, address: str, device: str) -> User:
        """The user NAME with the password PASSWORD. The user may have changed since then.

        Raises AgentError if this is not the password, or if too many wrong ones came before.
        """
        user = self._users.get(name)
        # A first password has 59 random bits, so nobody guesses it over the network. It opens a new board whatever others
        # have tried: no browser has a device secret yet, so they could lock out the owner. The user copies it from a
        # console, so capitals and whitespace around it do not matter.
        typed = password.strip().lower().encode()
        if user and user.first and hmac.compare_digest(user.first.encode(), typed):
            return user
        async with self._try(name, address, device):
            if self._hashing >= MAX_HASHING:
                raise errors.TooManyTries("busy", seconds=5)
            self._hashing += 1
            try:
                right = await asyncio.to_thread(passwords.matches, user.hash if user else None, password)
            finally:
                self._hashing -= 1
            if user is None or not right:
                self._audit_later(
                    Caller(name if user else "", None, "panel", address), "LogIn", "WrongPassword"
                )
                raise errors.WrongPassword("wrong-password")
        return user

    @contextlib.asynccontextmanager
    async def _try(self, name: str, address: str, device: str) -> AsyncIterator[None]:
        """The check of a password or code. It counts as wrong while it runs, and afterwards if it raises WrongPassword.

        Raises TooManyTries if too many wrong ones came before.
        """
        if seconds := self._tries.wait_s(name, address, device):
            await self._audit_refusal(Caller("", None, "panel", address), "LogIn", "TooManyTries")
            raise errors.TooManyTries("too-many-tries", seconds=seconds)
        begun = self._tries.begin(name, address, device)
        try:
            yield
        except errors.WrongPassword:
            raise
        except BaseException:
            begun.right()
            raise
        begun.right()

    async def _check_code(self, user: User, code: str, address: str, device: str) -> None:
        async with self._try(user.name, address, device):
            step, used = _totp_step(user.totp or "", code, self._clock()), self._totp_used.get(user.name, 0)
            # A used step that is far ahead does not count: the clock was set back since. Otherwise no code would be valid
            # until that step.
            if step is None or step <= used <= int(self._clock()) // TOTP_S + 1:
                await self.audit(Caller(user.name, None, "panel", address), "LogIn", "", "WrongCode")
                raise errors.WrongPassword("wrong-code")
            self._totp_used[user.name] = step
        with contextlib.suppress(errors.Failed):
            await self._write(
                lambda cursor: cursor.execute(
                    "INSERT INTO settings VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                    (TOTP_USED + user.name, str(step)),
                )
            )

    def _device_of(self, name: str, secret: str) -> str:
        """The id of the browser with the device secret SECRET, if it has logged in with NAME's present password; else "".

        Whoever knew only an earlier password has no known browser, and so cannot use up the tries of all known browsers.
        """
        nonce, _, mac = secret.partition(".")
        return (
            nonce
            if nonce and hmac.compare_digest(self._mac(name, nonce), mac.encode("utf-8", "replace"))
            else ""
        )

    def _mac(self, name: str, nonce: str) -> bytes:
        user = self._users.get(name)
        text = f"device {name} {nonce} {user.hash if user else None}"
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256").hex().encode()

    async def _open_session(self, user: User, address: str, client: str, device: str) -> api.Login:
        now = int(self._clock())
        secret = secrets.token_urlsafe(24)
        session = Session(_digest(secret), user.name, address[:64], client[:200], now, now)
        mine = sorted((s for s in self._sessions.values() if s.user == user.name), key=lambda s: s.used_at)
        ended = [s.digest for s in mine[: max(0, len(mine) - MAX_SESSIONS + 1)]]
        ended += [s.digest for s in self._sessions.values() if now - s.created_at > SESSION_S]

        def save(cursor: sqlite3.Cursor) -> None:
            cursor.executemany("DELETE FROM sessions WHERE digest = ?", [(digest,) for digest in ended])
            cursor.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)",
                (session.digest, user.name, session.address, session.client, now, now),
            )

        try:
            await self._write(save)
        except errors.Failed as error:
            _log.warning("a session is kept in memory only: %s", error)
        for digest in ended:
            self._sessions.pop(digest, None)
        self._sessions[session.digest] = session
        self._saved_use[session.digest] = now
        if not device:
            nonce = secrets.token_urlsafe(12)
            device = f"{nonce}.{self._mac(user.name, nonce).decode()}"
        return api.Login(
            session=secret, device=device, user=user.name, role=user.role, must_change=user.must_change
        )

    async def check_session(self, request: api.CheckSession, caller: Caller) -> api.Identity:
        now = int(self._clock())
        session = self._sessions.get(caller.session)
        if request.active and session:
            self._sessions[session.digest] = replace(session, used_at=now)
            if now - self._saved_use.get(session.digest, 0) >= SAVE_USE_S:
                self._saved_use[session.digest] = now
                with contextlib.suppress(errors.Failed):
                    await self._write(
                        lambda cursor: cursor.execute(
                            "UPDATE sessions SET used_at = ? WHERE digest = ?", (now, session.digest)
                        )
                    )
        user = self._users.get(caller.user)
        if user is None:
            raise errors.NotLoggedIn("not-logged-in")
        return api.Identity(
            user=user.name,
            role=cast("Role", caller.role),
            via=caller.via,
            must_change=user.must_change,
            totp=bool(user.totp),
        )

    async def log_out(self, _request: Nothing, caller: Caller) -> None:
        await self._end({caller.session})

    # methods on the caller's own account

    async def change_password(self, request: api.ChangePassword, caller: Caller) -> api.Login:
        await self.check_password(caller, request.current)
        if bad := passwords.refusal(request.new, request.current, caller.user, self._host):
            raise errors.PasswordRefused(bad.code, **bad.parameters)
        digest = await asyncio.to_thread(passwords.digest, request.new)
        async with self._changing:
            user, at = self._own_user(caller), int(self._clock())
            changed = replace(user, hash=digest, first=None, must_change=False, changed_at=at)
            await self._put(changed, end_sessions=True)
            if self.problem and self.problem.code == "accounts-damaged":
                self.problem = None
            return await self._open_session(changed, caller.address, request.client, "")

    async def check_password(self, caller: Caller, password: str) -> None:
        """Raises AgentError if PASSWORD is not the present password of CALLER, or if too many wrong ones came before.

        Raises NotLoggedIn if the session of CALLER has ended meanwhile.
        """
        try:
            await self._check(caller.user, password, caller.address, f"session {caller.session}")
        except errors.WrongPassword:
            raise errors.WrongPassword("wrong-current") from None
        self._own_user(caller)

    def _own_user(self, caller: Caller) -> User:
        """The user of the session of CALLER. Raises NotLoggedIn if the session has ended since the call began."""
        return self._users[self._live_session(caller.session, int(self._clock())).user]

    async def _end_others(self, caller: Caller) -> None:
        """End the other sessions of the caller's user: they were opened with other factors."""
        user = caller.user
        others = {s.digest for s in self._sessions.values() if s.user == user and s.digest != caller.session}
        if others:
            await self._end(others)

    async def begin_totp(self, _request: Nothing, caller: Caller) -> api.Totp:
        import pyotp

        secret = pyotp.random_base32()
        others = [(session, old) for session, old in self._pending_totp.items() if session != caller.session]
        self._pending_totp = {caller.session: secret, **dict(others[:31])}
        uri = pyotp.TOTP(secret).provisioning_uri(name=caller.user, issuer_name=f"Evenkeel {self._host}")
        return api.Totp(secret=secret, uri=uri)

    async def confirm_totp(self, request: api.ConfirmTotp, caller: Caller) -> None:
        await self.check_password(caller, request.password)
        async with self._changing:
            user, secret = self._own_user(caller), self._pending_totp.get(caller.session)
            if secret is None:
                raise errors.Conflict("no-totp")
            changed = replace(user, totp=secret)
            await self._check_code(changed, request.code, caller.address, f"session {caller.session}")
            await self._put(changed)
            del self._pending_totp[caller.session]
            await self._end_others(caller)

    async def end_totp(self, request: api.EndTotp, caller: Caller) -> None:
        await self.check_password(caller, request.password)
        async with self._changing:
            await self._put(replace(self._own_user(caller), totp=None))
            await self._end_others(caller)

    # sessions and tokens

    async def list_sessions(self, _request: Nothing, caller: Caller) -> list[api.Session]:
        now = int(self._clock())
        found = []
        for session in self._sessions.values():
            if caller.role != ADMIN and session.user != caller.user:
                continue
            try:
                self._live_session(session.digest, now)
            except errors.NotLoggedIn:
                continue
            found.append(
                api.Session(
                    id=_id(session.digest),
                    user=session.user,
                    address=session.address,
                    client=session.client,
                    created_at=session.created_at,
                    used_at=session.used_at,
                    current=session.digest == caller.session,
                )
            )
        return sorted(found, key=lambda session: (-session.used_at, session.id))

    async def end_session(self, request: api.Id, caller: Caller) -> None:
        ended = {
            s.digest
            for s in self._sessions.values()
            if _id(s.digest) == request.id and (caller.role == ADMIN or s.user == caller.user)
        }
        if not ended:
            raise errors.UnknownAccount("unknown-session", id=request.id)
        await self._end(ended)

    async def _end(self, digests: set[str]) -> None:
        for digest in digests:  # in memory first: a session must end even if the disk is full
            self._sessions.pop(digest, None)
        self.changed()
        await self._write(
            lambda cursor: cursor.executemany(
                "DELETE FROM sessions WHERE digest = ?", [(d,) for d in digests]
            )
        )

    async def list_tokens(self, _request: Nothing, caller: Caller) -> list[api.Token]:
        return [
            api.Token(
                id=_id(token.digest),
                name=token.name,
                user=token.user,
                role=token.role,
                created_at=token.created_at,
                expires_at=token.expires_at,
            )
            for token in sorted(self._tokens.values(), key=lambda token: (token.created_at, token.digest))
            if caller.role == ADMIN or token.user == caller.user
        ]

    async def create_token(self, request: api.CreateToken, caller: Caller) -> api.NewToken:
        if not includes(caller.role or "", request.role):
            raise errors.InvalidArgument("token-role")
        async with self._changing:
            self._own_user(caller)
            if sum(token.user == caller.user for token in self._tokens.values()) >= MAX_TOKENS:
                raise errors.Conflict("too-many", limit=MAX_TOKENS, what="tokens")
            now = int(self._clock())
            secret = TOKEN_PREFIX + secrets.token_urlsafe(30)
            expires_at = now + request.days * 86400 if request.days else 0
            token = Token(
                _digest(secret), request.name.strip()[:64], caller.user, request.role, now, expires_at
            )
            await self._write(
                lambda cursor: cursor.execute(
                    "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)",
                    (token.digest, token.name, token.user, token.role, now, expires_at),
                )
            )
            self._tokens[token.digest] = token
            return api.NewToken(id=_id(token.digest), token=secret)

    async def remove_token(self, request: api.Id, caller: Caller) -> None:
        async with self._changing:
            found = {
                token.digest
                for token in self._tokens.values()
                if _id(token.digest) == request.id and (caller.role == ADMIN or token.user == caller.user)
            }
            if not found:
                raise errors.UnknownAccount("unknown-token", id=request.id)
            await self._write(
                lambda cursor: cursor.executemany(
                    "DELETE FROM tokens WHERE digest = ?", [(d,) for d in found]
                )
            )
            for digest in found:
                del self._tokens[digest]
            self.changed()

    # users

    async def list_users(self, _request: Nothing, _caller: Caller) -> list[api.User]:
        return [
            api.User(
                name=user.name,
                role=user.role,
                must_change=user.must_change,
                totp=bool(user.totp),
                changed_at=user.changed_at,
            )
            for user in sorted(self._users.values(), key=lambda user: user.name)
        ]

    async def add_user(self, request: api.UserRole, _caller: Caller) -> api.FirstPassword:
        if not NAME.fullmatch(request.name):
            raise errors.InvalidArgument("user-name")
        if request.name == "root":
            raise errors.InvalidArgument("user-root", name=request.name)

        def new() -> User:
            if request.name in self._users:
                raise errors.Conflict("user-exists", name=request.name)
            if len(self._users) >= MAX_USERS:
                raise errors.Conflict("too-many", limit=MAX_USERS, what="users")
            return User(request.name, request.role, None, None, True, None, 0)

        return await self._give_first_password(request.name, new)

    async def set_role(self, request: api.UserRole, caller: Caller) -> None:
        async with self._changing:
            user = self._user(request.name)
            if caller.via != "bus" and user.name == caller.user:
                raise errors.Conflict("own-account")
            if user.role == ADMIN and request.role != ADMIN:
                self._keep_an_admin(user)
            await self._put(replace(user, role=request.role), end_sessions=True)

    async def reset_password(self, request: api.UserName, _caller: Caller) -> api.FirstPassword:
        return await self._give_first_password(request.name, lambda: self._user(request.name))

    async def remove_user(self, request: api.UserName, caller: Caller) -> None:
        async with self._changing:
            user = self._user(request.name)
            if caller.via != "bus" and user.name == caller.user:
                raise errors.Conflict("own-account")
            self._keep_an_admin(user)
            await self._write(lambda cursor: cursor.execute("DELETE FROM users WHERE name = ?", (user.name,)))
            before = self._first()
            del self._users[user.name]
            self._sessions = {d: s for d, s in self._sessions.items() if s.user != user.name}
            self._tokens = {d: t for d, t in self._tokens.items() if t.user != user.name}
            self.changed()
            await self._report_first(before)

    async def get_first_password(self, _request: Nothing, _caller: Caller) -> api.FirstPassword:
        return api.FirstPassword(password=self._first())

    def _first(self) -> str:
        """The first-boot password; "" once it has been changed."""
        user = self._users.get(BUILT_IN)
        return (user.first or "") if user else ""

    async def _report_first(self, before: str) -> None:
        """Report to the screen if the first-boot password is not BEFORE any more. It waits, so the sessions must end first."""
        if self._first() != before:
            await asyncio.to_thread(self._mark_first_changed)

    def _mark_first_changed(self) -> None:
        """Report that the first-boot password has changed. Blocks. It never fails, because the change itself is saved."""
        try:
            write_file(self._first_changed, b"")
        except OSError as error:
            _log.warning("the screen may show an old first-boot password: %s", why(error))

    def saved(self) -> list[backup.User]:
        """The users that have a password, for a backup."""
        return [
            backup.User(user.name, user.role, user.hash, user.must_change, user.totp or "")
            for user in sorted(self._users.values(), key=lambda user: user.name)
            if user.hash
        ]

    def saved_tokens(self) -> list[Token]:
        """The tokens, for a backup. A user without a password has none. Expired ones are there, too: the clock may be wrong."""
        return sorted(self._tokens.values(), key=lambda token: token.digest)

    def is_preset(self, digest: str | None) -> bool:
        """Whether the hash DIGEST has replaced the first-boot password, which is otherwise in force. Raises AgentError.

        Conflict: somebody has changed the password, so it must stay.
        """
        if self._db is None:
            raise errors.Failed("accounts-not-saved", path=self._path, reason="it could not be opened")
        if self._first():
            return False
        user = self._users.get(BUILT_IN)
        if user is None or digest is None or user.hash != digest:
            raise errors.Conflict("preseed-not-new")
        return True

    async def preset(self, digest: str) -> None:
        """Give the built-in user the password with the hash DIGEST, in place of the first-boot password. Raises AgentError."""
        async with self._changing:
            if self.is_preset(digest):
                return
            others = [user for user in self.saved() if user.name != BUILT_IN]
            await self._restore([*others, backup.User(BUILT_IN, ADMIN, digest, False, "")])

    async def restore(self, users: Sequence[backup.User], tokens: Sequence[Token] | None = None) -> None:
        """Make USERS the users of the board, and TOKENS their tokens. Sessions of users that change or go end.

        If TOKENS is None, users that stay keep their tokens. Raises AgentError; then nothing has changed, also if a token is
        that of another user.
        """
        async with self._changing:
            await self._restore(users, tokens)

    async def _restore(self, users: Sequence[backup.User], tokens: Sequence[Token] | None = None) -> None:
        found: dict[str, User] = {}
        for one in users:
            old = self._users.get(one.name)
            at = int(self._clock())
            user = User(one.name, one.role, one.hash, None, one.must_change, one.totp or None, at)
            found[one.name] = old if old and replace(old, changed_at=at) == user else user
        changed = [user for user in found.values() if self._users.get(user.name) is not user]
        gone = self._users.keys() - found.keys()
        if tokens is None:
            kept = {d: t for d, t in self._tokens.items() if t.user not in gone}
        else:
            kept = {token.digest: token for token in tokens}

        def save(cursor: sqlite3.Cursor) -> None:
            cursor.executemany("DELETE FROM users WHERE name = ?", [(name,) for name in gone])
            for user in changed:
                self._upsert(cursor, user)
                cursor.execute("DELETE FROM sessions WHERE user = ?", (user.name,))
            cursor.execute("DELETE FROM tokens")
            cursor.executemany("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)", map(astuple, kept.values()))

        await self._write(save)
        before, self._users = self._first(), found
        ended = gone | {user.name for user in changed}
        self._sessions = {d: s for d, s in self._sessions.items() if s.user not in ended}
        self._tokens = kept
        self.changed()
        await self._report_first(before)

    def _user(self, name: str) -> User:
        user = self._users.get(name)
        if user is None:
            raise errors.UnknownAccount("unknown-user", name=name)
        return user

    def _keep_an_admin(self, user: User) -> None:
        if user.role == ADMIN and sum(other.role == ADMIN for other in self._users.values()) == 1:
            raise errors.Conflict("last-admin", name=user.name)

    async def _give_first_password(self, name: str, user: Callable[[], User]) -> api.FirstPassword:
        """Give the user NAME a new first password. Only the built-in user's is stored as text, because the console shows it.

        USER is called under the lock and returns the user as it is then, or raises AgentError.
        """
        first = passwords.first_password()
        digest = None if name == BUILT_IN else await asyncio.to_thread(passwords.digest, first)
        async with self._changing:
            changed = replace(
                user(),
                hash=digest,
                first=first if digest is None else None,
                must_change=True,
                totp=None,
                changed_at=int(self._clock()),
            )
            await self._put(changed, end_sessions=True, remove_tokens=True)
        return api.FirstPassword(password=first)

    async def _put(self, user: User, *, end_sessions: bool = False, remove_tokens: bool = False) -> None:
        def save(cursor: sqlite3.Cursor) -> None:
            self._upsert(cursor, user)
            if end_sessions:
                cursor.execute("DELETE FROM sessions WHERE user = ?", (user.name,))
            if remove_tokens:
                cursor.execute("DELETE FROM tokens WHERE user = ?", (user.name,))

        await self._write(save)
        before = self._first()
        self._users[user.name] = user
        if end_sessions:
            self._sessions = {d: s for d, s in self._sessions.items() if s.user != user.name}
        if remove_tokens:
            self._tokens = {d: t for d, t in self._tokens.items() if t.user != user.name}
        self.changed()
        await self._report_first(before)

    @staticmethod
    def _upsert(cursor: sqlite3.Cursor, user: User) -> None:
        cursor.execute(
            "INSERT INTO users VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET role = excluded.role,"
            " hash = excluded.hash, first = excluded.first, must_change = excluded.must_change,"
            " totp = excluded.totp, changed_at = excluded.changed_at",
            (user.name, user.role, user.hash, user.first, user.must_change, user.totp, user.changed_at),
        )

    async def _write(self, change: Callable[[sqlite3.Cursor], object]) -> None:
        """Run CHANGE in a transaction. If saving fails, it raises Failed, and nothing has changed."""

        def run() -> None:
            if self._db is None:
                raise sqlite3.OperationalError("it could not be opened")
            with self._db.write() as cursor:
                change(cursor)

        async with self._writing:
            try:
                await asyncio.to_thread(run)
            except sqlite3.Error as error:
                raise errors.Failed("accounts-not-saved", path=self._path, reason=str(error)) from error

    # audit log

    async def audit(self, caller: Caller, action: str, detail: str, outcome: str = "") -> None:
        """Add a row to the audit log. Never fails: if the row cannot be saved, it goes to the journal instead.

        A row without a user is left out if STRANGER_ROWS of them were added in the last REFUSAL_S.
        """
        if not caller.user:
            now, last = time.monotonic(), self._stranger_rows
            if len(last) == STRANGER_ROWS and now < last[0] + REFUSAL_S:
                return
            last.append(now)
        row = (
            int(self._clock()), caller.user, caller.via, caller.address[:64], action, detail[:300], outcome
        )  # fmt: skip
        try:
            async with self._writing:
                if self._db is None:
                    raise sqlite3.OperationalError("it could not be opened")
                await asyncio.to_thread(self._db.add_audit, row)
        except sqlite3.Error as error:
            _log.warning("the audit log cannot be saved (%s); the row is: %s", error, row[1:])

    def _audit_later(self, caller: Caller, action: str, outcome: str) -> None:
        """Add a row after the answer. Unknown names have no rows beyond STRANGER_ROWS, so the time would tell them apart."""
        task = asyncio.get_running_loop().create_task(self.audit(caller, action, "", outcome))
        self._audits.add(task)
        task.add_done_callback(self._audits.discard)

    async def list_audit(self, request: api.ListAudit, _caller: Caller) -> list[api.Entry]:
        async with self._writing:
            if self._db is None:
                raise errors.Failed("accounts-not-saved", path=self._path, reason="it could not be opened")
            rows = await asyncio.to_thread(
                self._db.rows,
                "SELECT id, at, user, via, address, action, detail, outcome FROM audit"
                " WHERE id < ? ORDER BY id DESC LIMIT ?",
                min(request.before or (1 << 62), 1 << 62),
                request.limit,
            )
        return [api.Entry(*row) for row in rows]

    async def list_changes(self, request: ListChanges, _caller: Caller) -> list[Change]:
        try:
            async with self._writing:
                if self._db is None:
                    raise sqlite3.OperationalError("it could not be opened")
                rows = await asyncio.to_thread(
                    self._db.rows,
                    "SELECT id, at, action, app, before, value FROM changes WHERE at >= ? AND at < ?"
                    " ORDER BY at DESC, id DESC LIMIT ?",
                    request.start,
                    request.end,
                    LISTED,
                )
        except sqlite3.Error as error:
            raise errors.Failed("accounts-not-saved", path=self._path, reason=str(error)) from error
        return [Change(*row) for row in rows]


def _totp_step(secret: str, code: str, now: float) -> int | None:
    """The time step to which CODE belongs. Accepted are the present step, the previous one and the next one; else None."""
    import pyotp

    totp: Any = pyotp.TOTP(secret)
    typed = code.replace(" ", "").strip()
    for offset in (0, -1, 1):
        step = int(now) // TOTP_S + offset
        if hmac.compare_digest(str(totp.generate_otp(step)).encode(), typed.encode("utf-8", "replace")):
            return step
    return None
