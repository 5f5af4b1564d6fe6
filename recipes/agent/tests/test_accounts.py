# SPDX-License-Identifier: Apache-2.0
"""Users, roles, sessions, tokens, codes and the audit log: the real evenkeeld, called as the panel calls it."""

import asyncio
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyotp
import pytest
from agent_harness import ERROR, Harness, on_board
from dbus_fast import Message, MessageType
from disks import fill_up, small_disk
from evenkeel_agent import accounts as accounts_module
from evenkeel_agent import accounts_db, backup, passwords
from evenkeel_agent.accounts import (
    FIRST_CHANGED,
    IDLE_S,
    KEPT_REFUSALS,
    MAX_SESSIONS,
    MAX_TOKENS,
    MAX_USERS,
    REFUSAL_S,
    SESSION_S,
    STRANGER_ROWS,
    Accounts,
)
from evenkeel_agent.accounts_db import Database
from evenkeel_agent.bus import CallError
from evenkeel_agent.caller import Caller
from evenkeel_api import errors, interface
from evenkeel_api.features import accounts as api
from evenkeel_api.method import Nothing
from evenkeel_api.roles import ROLES

PASSWORD = "sailing on an even keel"  # noqa: S105
METHODS = interface.METHODS


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """The accounts of a board, called as for a person at a browser."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.folder = folder
        self.accounts = Accounts(str(folder), "board", self.clock)

    async def start(self) -> "Desk":
        await self.accounts.start()
        return self

    async def again(self) -> "Desk":
        """Read the accounts from the files again, as after a restart of the agent."""
        self.close()
        self.accounts = Accounts(str(self.folder), "board", self.clock)
        await self.accounts.start()
        return self

    def close(self) -> None:
        """Close the files, as the end of the agent does."""
        if self.accounts._db:
            self.accounts._db.close()

    async def do(self, method: str, secret: str, *values: Any, address: str = "192.0.2.1") -> Any:
        found = METHODS[method]
        caller = self.accounts.caller(found, secret, address)
        return await getattr(self.accounts, found.handler)(found.request(*values), caller)

    async def log_in(
        self, user: str, password: str, *, code: str = "", device: str = "", address: str = "192.0.2.1"
    ) -> api.Login:
        login = await self.do("LogIn", "", user, password, code, device, "test", address=address)
        assert isinstance(login, api.Login)
        return login

    async def first(self) -> str:
        return (await self.accounts.get_first_password(Nothing(), Caller("root", "admin", "bus"))).password

    async def admin(self) -> str:
        """Log in as the user admin for the first time and change the password. Returns the secret of the session."""
        login = await self.log_in("admin", await self.first())
        return str(
            (await self.do("ChangePassword", login.session, await self.first(), PASSWORD, "test")).session
        )

    async def user(self, admin: str, name: str, role: str) -> str:
        """Add a user, log in as this user and change the password. Returns the secret of the session."""
        first = (await self.do("AddUser", admin, name, role)).password
        login = await self.log_in(name, first)
        return str((await self.do("ChangePassword", login.session, first, PASSWORD + name, "test")).session)


def at_desk(test: Callable[[Desk], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await test(await Desk(tmp_path).start())

        asyncio.run(limited())

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


async def refused(call: Coroutine[Any, Any, Any], kind: type[errors.AgentError]) -> str:
    with pytest.raises(kind) as caught:
        await call
    return caught.value.message.code


async def meanwhile(
    call: Coroutine[Any, Any, Any], change: Coroutine[Any, Any, Any], number: int = 1
) -> tuple[Any, Any]:
    """Begin CALL, and make CHANGE while the hash NUMBER of CALL is computed. Returns the errors or answers of both."""
    reached, goes_on, entered = threading.Event(), threading.Event(), 0

    class Pause:
        """Replaces the lock for one hash at a time."""

        def __enter__(self) -> None:
            nonlocal entered
            entered += 1
            if entered == number:
                reached.set()
                assert goes_on.wait(20)

        def __exit__(self, *_: object) -> None:
            pass

    real, passwords._one = passwords._one, Pause()  # type: ignore[assignment]
    try:
        task = asyncio.ensure_future(asyncio.gather(call, return_exceptions=True))
        assert await asyncio.to_thread(reached.wait, 20)
        passwords._one = real
        changed = (await asyncio.gather(change, return_exceptions=True))[0]
    finally:
        passwords._one = real
        goes_on.set()
    return (await task)[0], changed


@at_desk
async def test_the_first_password_opens_the_change_of_the_password_only(desk: Desk) -> None:
    first = await desk.first()
    login = await desk.log_in("admin", f" {first.upper()} ")
    assert login.must_change
    for method in ("ListUsers", "GetSnapshot", "ListSessions", "SetWeight", "BeginTotp"):
        with pytest.raises(errors.PasswordMustChange):
            desk.accounts.caller(METHODS[method], login.session, "")
    assert (await desk.do("CheckSession", login.session, True)).must_change
    session = (await desk.do("ChangePassword", login.session, first, PASSWORD, "test")).session
    assert await desk.first() == ""
    assert len(await desk.do("ListUsers", session)) == 1
    assert await refused(desk.do("CheckSession", login.session, True), errors.NotLoggedIn)
    assert await refused(desk.log_in("admin", first), errors.WrongPassword)
    await desk.again()
    assert await desk.first() == ""
    assert (await desk.do("CheckSession", session, True)).user == "admin"


@at_desk
async def test_the_screen_gets_each_change_of_the_first_password(desk: Desk) -> None:
    """evenkeel-screen.path waits until the file is written."""
    mark = desk.folder / FIRST_CHANGED

    def written() -> bool:
        found = mark.exists()
        mark.unlink(missing_ok=True)
        return found

    assert written(), "the first start of the board"
    await desk.again()
    assert not written(), "the same password"
    await desk.admin()
    assert written(), "a new password"
    bus = Caller("root", "admin", "bus")
    await desk.accounts.add_user(api.UserRole("other", "admin"), bus)
    await desk.accounts.set_role(api.UserRole("admin", "viewer"), bus)
    assert not written(), "the console does not show this"
    await desk.accounts.reset_password(api.UserName("admin"), bus)
    assert written(), "a reset"
    saved = [backup.User("admin", "admin", passwords.digest(PASSWORD), False, "")]
    await desk.accounts.restore(saved)
    assert written(), "a restore"
    await desk.accounts.add_user(api.UserRole("other", "admin"), bus)
    await desk.accounts.reset_password(api.UserName("admin"), bus)
    assert written()
    await desk.accounts.remove_user(api.UserName("admin"), bus)
    assert written(), "no password any more"
    assert await desk.first() == ""


@at_desk
async def test_sessions_end_before_the_screen_gets_a_report(desk: Desk) -> None:
    """The report waits for the flash. A session that was opened with the old password must not be valid meanwhile."""
    events: list[object] = []
    desk.accounts.changed = lambda: events.append("changed")
    desk.accounts._mark_first_changed = lambda: events.append(len(desk.accounts._sessions))  # type: ignore[method-assign]
    bus = Caller("root", "admin", "bus")
    await desk.admin()
    await desk.accounts.reset_password(api.UserName("admin"), bus)
    await desk.log_in("admin", await desk.first())
    await desk.accounts.restore([backup.User("admin", "admin", passwords.digest(PASSWORD), False, "")])
    await desk.accounts.add_user(api.UserRole("other", "admin"), bus)
    await desk.accounts.reset_password(api.UserName("admin"), bus)
    await desk.log_in("admin", await desk.first())
    await desk.accounts.remove_user(api.UserName("admin"), bus)
    reports = [at for at, event in enumerate(events) if event != "changed"]
    assert [(events[at - 1], events[at]) for at in reports] == [("changed", 0)] * 5


@at_desk
async def test_a_preset_password_replaces_the_first_one_only(desk: Desk) -> None:
    digest = passwords.digest(PASSWORD)
    assert not desk.accounts.is_preset(digest)
    for _ in range(2):
        await desk.accounts.preset(digest)
        assert desk.accounts.is_preset(digest)
        assert not (await desk.log_in("admin", PASSWORD)).must_change
    sessions = await desk.accounts.list_sessions(Nothing(), Caller("root", "admin", "bus"))
    assert len(sessions) == 2, "the repetition ends no session"
    for other in (passwords.digest(PASSWORD), None):
        with pytest.raises(errors.Conflict):
            desk.accounts.is_preset(other)
    assert await refused(desk.accounts.preset(passwords.digest(PASSWORD)), errors.Conflict)
    assert (await desk.log_in("admin", PASSWORD)).session
    desk.accounts._db = None
    with pytest.raises(errors.Failed):
        desk.accounts.is_preset(digest)


@at_desk
async def test_a_full_disk_does_not_undo_a_new_password(desk: Desk) -> None:
    (desk.folder / f"{FIRST_CHANGED}.new").mkdir()
    await desk.admin()
    assert await desk.first() == ""


@at_desk
async def test_roles(desk: Desk) -> None:
    admin = await desk.admin()
    sessions = {
        "admin": admin,
        **{role: await desk.user(admin, role, role) for role in ("operator", "viewer")},
    }
    order = list(ROLES)
    for method in METHODS.values():
        if method.local or method.role is None:
            continue
        for role, session in sessions.items():
            allowed = order.index(role) >= order.index(method.role)
            try:
                assert desk.accounts.caller(method, session, "").role == role
                assert allowed, (method.name, role)
            except errors.NotAuthorized:
                assert not allowed, (method.name, role)


@at_desk
async def test_without_a_session_only_health_and_log_in_are_open(desk: Desk) -> None:
    assert {name for name, method in METHODS.items() if method.role is None} == {"GetHealth", "LogIn"}
    for method in METHODS.values():
        for secret in ("", "x", "ek_x", "\udc80"):
            if method.role is not None:
                with pytest.raises(errors.NotLoggedIn):
                    desk.accounts.caller(method, secret, "")


@at_desk
async def test_a_session_ends(desk: Desk) -> None:
    """Inactivity, age, log-out, EndSession from another session, a change of the role, and a clock that is set back end it."""
    admin = await desk.admin()

    async def ended(session: str) -> bool:
        try:
            await desk.do("CheckSession", session, False)
        except errors.NotLoggedIn:
            return True
        return False

    desk.clock.now += IDLE_S - 1
    assert not await ended(admin)
    desk.clock.now += 1
    assert await ended(admin), "a page that only polls does not extend the session"
    session = (await desk.log_in("admin", PASSWORD)).session
    for _ in range(SESSION_S // (IDLE_S // 2) - 1):
        desk.clock.now += IDLE_S // 2
        await desk.do("CheckSession", session, True)
    await desk.again()
    assert not await ended(session), "the last use survives a restart"
    desk.clock.now += IDLE_S // 2
    assert await ended(session)

    one, two = [(await desk.log_in("admin", PASSWORD)).session for _ in range(2)]
    await desk.do("LogOut", one)
    assert (await ended(one), await ended(two)) == (True, False)
    other = await desk.user(two, "ben", "operator")
    rows = sorted(await desk.do("ListSessions", two), key=lambda row: row.user)
    assert [(row.user, row.current) for row in rows] == [("admin", True), ("ben", False)]
    assert [row.user for row in await desk.do("ListSessions", other)] == ["ben"]
    assert await refused(desk.do("EndSession", other, rows[0].id), errors.UnknownAccount)
    await desk.do("EndSession", two, rows[1].id)
    assert await ended(other)
    other = (await desk.log_in("ben", PASSWORD + "ben")).session
    await desk.do("SetRole", two, "ben", "viewer")
    assert await ended(other)
    desk.clock.now -= 86400
    assert await ended(two)


@at_desk
async def test_a_neighbour_cannot_lock_the_administrator_out(desk: Desk) -> None:
    """Wrong passwords of others do not count against a browser that has logged in before, whatever their addresses."""
    await desk.admin()
    known = (await desk.log_in("admin", PASSWORD)).device
    for number in range(5):
        assert await refused(desk.log_in("admin", f"guess {number}"), errors.WrongPassword)
    assert await refused(desk.log_in("admin", PASSWORD), errors.TooManyTries)
    for number in range(30):  # many hosts: the account is limited as well
        with pytest.raises(errors.AgentError):
            await desk.log_in("admin", "guess", address=f"198.51.100.{number}")
    assert await refused(desk.log_in("admin", PASSWORD, address="203.0.113.1"), errors.TooManyTries)
    assert (await desk.log_in("admin", PASSWORD, device=known)).device == known
    for forged in (known.partition(".")[0] + ".x", "x." + known.partition(".")[2], ".", "é.é", known + "A"):
        assert await refused(desk.log_in("admin", PASSWORD, device=forged), errors.TooManyTries)
    assert await refused(desk.log_in("other", PASSWORD, device=known), errors.TooManyTries)
    # A stolen device secret has a limit of its own.
    for _ in range(5):
        assert await refused(desk.log_in("admin", "guess", device=known), errors.WrongPassword)
    assert await refused(desk.log_in("admin", PASSWORD, device=known), errors.TooManyTries)


@at_desk
async def test_a_neighbour_cannot_lock_the_owner_out_of_a_new_board(desk: Desk) -> None:
    """Wrong passwords count, but the first password is accepted in any case: nobody can guess it."""
    first = await desk.first()
    for number in range(5):
        assert await refused(desk.log_in("admin", f"guess {number}"), errors.WrongPassword)
    assert await refused(desk.log_in("admin", "guess"), errors.TooManyTries)
    login = await desk.log_in("admin", first)
    await desk.do("ChangePassword", login.session, first, PASSWORD, "test")
    assert await refused(desk.log_in("admin", PASSWORD), errors.TooManyTries), "chosen by a person"
    assert await refused(desk.log_in("admin", first), errors.TooManyTries), "not valid any more"


@at_desk
async def test_an_unknown_user_looks_like_a_wrong_password(desk: Desk) -> None:
    await desk.admin()
    codes = [
        await refused(desk.log_in(name, "guess"), errors.WrongPassword) for name in ("admin", "nobody", "")
    ]
    assert codes == ["wrong-password"] * 3
    rows = await desk.do("ListAudit", (await desk.log_in("admin", PASSWORD)).session, 0, 10)
    assert [row.user for row in rows if row.outcome == "WrongPassword"] == ["", "", "admin"]


@at_desk
async def test_a_name_is_limited_alike_whether_it_exists_or_not(desk: Desk) -> None:
    await desk.admin()
    for number, name in enumerate(("admin", "nobody")):
        guesses = [desk.log_in(name, "guess", address=f"10.{number}.{host}.1") for host in range(30)]
        kinds = [await refused(guess, errors.AgentError) for guess in guesses]
        assert kinds == ["wrong-password"] * 20 + ["too-many-tries"] * 10


@at_desk
async def test_the_time_of_an_answer_does_not_tell_which_users_exist(desk: Desk) -> None:
    """The audit log has a row for each wrong password of a user, but not for each unknown name."""
    admin = await desk.admin()
    for number in range(STRANGER_ROWS):
        assert await refused(
            desk.log_in(f"user{number}", "x", address=f"10.{number}.0.1"), errors.WrongPassword
        )
    assert desk.accounts._db
    add_audit, written = desk.accounts._db.add_audit, threading.Event()
    desk.accounts._db.add_audit = lambda row: (written.wait(20), add_audit(row))[1]  # type: ignore[method-assign]
    for name in ("nobody", "admin"):
        async with asyncio.timeout(10):
            assert await refused(desk.log_in(name, "x", address="10.0.0.9"), errors.WrongPassword)
    written.set()
    await asyncio.sleep(0)  # the row follows the answer
    rows = await desk.do("ListAudit", admin, 0, 100)
    assert [row.user for row in rows if row.outcome == "WrongPassword"] == ["admin", *[""] * STRANGER_ROWS]


@at_desk
async def test_tries_at_the_same_time_do_not_exceed_the_limits(desk: Desk) -> None:
    await desk.admin()
    for number in range(18):
        assert await refused(desk.log_in("admin", "x", address=f"10.{number}.0.1"), errors.WrongPassword)

    async def at_once(*tries: Coroutine[Any, Any, Any]) -> list[str]:
        answers = await asyncio.gather(*tries, return_exceptions=True)
        return sorted(type(answer).__name__ for answer in answers)

    found = await at_once(*(desk.log_in("admin", "x", address=f"10.{number}.1.1") for number in range(6)))
    assert found == ["TooManyTries"] * 4 + ["WrongPassword"] * 2


@at_desk
async def test_codes_at_the_same_time_do_not_exceed_the_limits(desk: Desk) -> None:
    admin = await desk.admin()
    totp = pyotp.TOTP((await desk.do("BeginTotp", admin)).secret)
    await desk.do("ConfirmTotp", admin, totp.at(desk.clock.now), PASSWORD)
    codes = [desk.log_in("admin", PASSWORD, code="000000") for number in range(8)]
    answers = await asyncio.gather(*codes, return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["TooManyTries"] * 3 + ["WrongPassword"] * 5


@at_desk
async def test_a_browser_is_known_until_the_password_changes(desk: Desk) -> None:
    """Whoever knew an earlier password could otherwise use up the tries of all known browsers."""
    session = await desk.admin()
    known = (await desk.log_in("admin", PASSWORD)).device
    changed = await desk.do("ChangePassword", session, PASSWORD, PASSWORD + "2", "test")
    for _ in range(5):
        assert await refused(desk.log_in("admin", "guess"), errors.WrongPassword)
    assert await refused(desk.log_in("admin", PASSWORD + "2", device=known), errors.TooManyTries)
    opened = await desk.log_in("admin", PASSWORD + "2", device=changed.device)
    assert opened.device == changed.device
    assert (await (await desk.again()).log_in("admin", PASSWORD + "2", device=changed.device)).session


@at_desk
async def test_a_code_is_needed_and_valid_once(desk: Desk) -> None:
    admin = await desk.admin()
    assert await refused(desk.do("ConfirmTotp", admin, "000000", PASSWORD), errors.Conflict)
    secret = (await desk.do("BeginTotp", admin)).secret
    assert not (await desk.do("CheckSession", admin, True)).totp
    totp = pyotp.TOTP(secret)
    await desk.do("ConfirmTotp", admin, totp.at(desk.clock.now), PASSWORD)
    assert await refused(desk.log_in("admin", "guess"), errors.WrongPassword) == "wrong-password"
    assert await refused(desk.log_in("admin", PASSWORD), errors.CodeRequired)
    assert await refused(desk.log_in("admin", PASSWORD, code=totp.at(desk.clock.now)), errors.WrongPassword)
    desk.clock.now += 30
    code = totp.at(desk.clock.now)
    await desk.log_in("admin", PASSWORD, code=f" {code[:3]} {code[3:]} ")
    assert await refused(desk.log_in("admin", PASSWORD, code=code), errors.WrongPassword) == "wrong-code"
    await desk.again()
    assert await refused(desk.log_in("admin", PASSWORD, code=code), errors.WrongPassword) == "wrong-code"
    desk.clock.now += 3600
    await desk.again()
    assert await refused(
        desk.log_in("admin", PASSWORD, code=totp.at(desk.clock.now - 90)), errors.WrongPassword
    )
    session = (await desk.log_in("admin", PASSWORD, code=totp.at(desk.clock.now))).session
    assert await refused(desk.do("EndTotp", session, "guess"), errors.WrongPassword)
    await desk.do("EndTotp", session, PASSWORD)
    await desk.log_in("admin", PASSWORD)


@at_desk
async def test_tokens(desk: Desk) -> None:
    admin = await desk.admin()
    operator = await desk.user(admin, "ben", "operator")
    assert await refused(desk.do("CreateToken", operator, "x", "admin", 0), errors.InvalidArgument)
    token = (await desk.do("CreateToken", operator, "cron", "operator", 1)).token
    identity = await desk.do("CheckSession", token, True)
    assert (identity.user, identity.role, identity.via) == ("ben", "operator", "token")
    for method in ("ChangePassword", "CreateToken", "LogOut", "BeginTotp"):
        with pytest.raises(errors.NotAuthorized):
            desk.accounts.caller(METHODS[method], token, "")
    await desk.do("SetRole", admin, "ben", "viewer")
    assert (await desk.do("CheckSession", token, True)).role == "viewer", "never more than the user"
    desk.clock.now += 86400
    assert await refused(desk.do("CheckSession", token, True), errors.NotLoggedIn)
    admin = (await desk.log_in("admin", PASSWORD)).session
    token = (await desk.do("CreateToken", admin, "for ever", "viewer", 0)).token
    await desk.again()
    assert (await desk.do("CheckSession", token, True)).user == "admin"
    rows = await desk.do("ListTokens", admin)
    assert [row.name for row in rows] == ["cron", "for ever"]
    await desk.do("RemoveToken", admin, rows[1].id)
    assert await refused(desk.do("CheckSession", token, True), errors.NotLoggedIn)
    assert await refused(desk.do("RemoveToken", admin, rows[1].id), errors.UnknownAccount)


@at_desk
async def test_a_change_of_the_code_needs_the_password_and_ends_other_sessions(desk: Desk) -> None:
    """Otherwise a person at an unlocked browser could lock the user out with a code of another telephone."""
    admin = await desk.admin()

    async def other() -> str:
        code = totp.at(desk.clock.now) if (await desk.do("CheckSession", admin, True)).totp else ""
        return (await desk.log_in("admin", PASSWORD, code=code)).session

    await desk.do("BeginTotp", admin)  # the user reloads the page: the last secret counts
    totp = pyotp.TOTP((await desk.do("BeginTotp", admin)).secret)
    before = await other()
    code = totp.at(desk.clock.now)
    assert (
        await refused(desk.do("ConfirmTotp", admin, code, "guess"), errors.WrongPassword) == "wrong-current"
    )
    assert not (await desk.do("CheckSession", before, True)).totp
    await desk.do("ConfirmTotp", admin, code, PASSWORD)
    assert await refused(desk.do("CheckSession", before, True), errors.NotLoggedIn)
    desk.clock.now += 30
    before = await other()
    assert await refused(desk.do("EndTotp", admin, "guess"), errors.WrongPassword) == "wrong-current"
    await desk.do("EndTotp", admin, PASSWORD)
    assert await refused(desk.do("CheckSession", before, True), errors.NotLoggedIn)
    assert (await desk.do("CheckSession", admin, True)).user == "admin"


@at_desk
async def test_a_reset_ends_sessions_code_and_tokens(desk: Desk) -> None:
    admin = await desk.admin()
    ben = await desk.user(admin, "ben", "operator")
    token = (await desk.do("CreateToken", ben, "cron", "viewer", 0)).token
    other = (await desk.do("CreateToken", admin, "cron", "viewer", 0)).token
    totp = pyotp.TOTP((await desk.do("BeginTotp", ben)).secret)
    await desk.do("ConfirmTotp", ben, totp.at(desk.clock.now), PASSWORD + "ben")
    first = (await desk.do("ResetPassword", admin, "ben")).password
    assert await refused(desk.do("CheckSession", ben, True), errors.NotLoggedIn)
    assert await refused(desk.log_in("ben", PASSWORD + "ben"), errors.WrongPassword)
    login = await desk.log_in("ben", first)
    assert login.must_change
    assert not (await desk.do("CheckSession", login.session, True)).totp
    ben = (await desk.do("ChangePassword", login.session, first, PASSWORD + "new", "test")).session
    for _ in range(2):
        assert await desk.do("ListTokens", ben) == []
        assert await refused(desk.do("CheckSession", token, True), errors.NotLoggedIn)
        assert (await desk.do("CheckSession", other, True)).user == "admin"
        await desk.again()


@at_desk
async def test_the_own_change_of_the_password_keeps_the_tokens(desk: Desk) -> None:
    admin = await desk.admin()
    token = (await desk.do("CreateToken", admin, "cron", "viewer", 0)).token
    await desk.do("ChangePassword", admin, PASSWORD, PASSWORD + "new", "test")
    assert (await desk.do("CheckSession", token, True)).user == "admin"


@at_desk
async def test_a_change_of_an_account_outlives_a_change_of_the_password(desk: Desk) -> None:
    """The user's own ChangePassword computes two hashes, and an administrator changes the account during either."""
    admin = await desk.admin()
    for number in (1, 2):
        ben = await desk.user(admin, "ben", "admin")
        for method, *values in (
            ("ResetPassword", "ben"),
            ("SetRole", "ben", "viewer"),
            ("RemoveUser", "ben"),
        ):
            call = desk.do("ChangePassword", ben, PASSWORD + "ben", PASSWORD + "new", "test")
            late, change = await meanwhile(call, desk.do(method, admin, *values), number)
            assert isinstance(late, errors.NotLoggedIn), (method, late)
            found = {user.name: user for user in await desk.do("ListUsers", admin)}.get("ben")
            assert await refused(desk.log_in("ben", PASSWORD + "new"), errors.WrongPassword)
            if method == "ResetPassword":
                assert found
                assert found.must_change
                login = await desk.log_in("ben", change.password)
                call = desk.do("ChangePassword", login.session, change.password, PASSWORD + "ben", "test")
                ben = (await call).session
            elif method == "SetRole":
                assert found
                assert (found.role, found.must_change) == ("viewer", False)
                ben = (await desk.log_in("ben", PASSWORD + "ben")).session
            else:
                assert found is None
        await desk.again()


@at_desk
async def test_a_change_of_the_code_does_not_undo_other_changes(desk: Desk) -> None:
    admin = await desk.admin()
    for switched_on in (False, True):
        ben = await desk.user(admin, "ben", "admin")
        totp = pyotp.TOTP((await desk.do("BeginTotp", ben)).secret)
        confirm = desk.do("ConfirmTotp", ben, totp.at(desk.clock.now), PASSWORD + "ben")
        call = confirm
        if switched_on:
            await confirm
            call = desk.do("EndTotp", ben, PASSWORD + "ben")
        late, _ = await meanwhile(call, desk.do("SetRole", admin, "ben", "viewer"))
        assert isinstance(late, errors.NotLoggedIn)
        found = {user.name: user for user in await desk.do("ListUsers", admin)}["ben"]
        assert (found.role, found.totp) == ("viewer", switched_on)
        await desk.do("RemoveUser", admin, "ben")
        desk.clock.now += 60


@at_desk
async def test_a_user_may_change_password_and_code_at_once(desk: Desk) -> None:
    admin = await desk.admin()
    totp = pyotp.TOTP((await desk.do("BeginTotp", admin)).secret)
    confirm = desk.do("ConfirmTotp", admin, totp.at(desk.clock.now), PASSWORD)
    change = desk.do("ChangePassword", admin, PASSWORD, PASSWORD + "new", "test")
    session, _ = await meanwhile(change, confirm, 2)
    assert (await desk.do("CheckSession", session.session, True)).totp
    desk.clock.now += 30
    await desk.log_in("admin", PASSWORD + "new", code=totp.at(desk.clock.now))


@at_desk
async def test_changes_by_administrators_at_once_are_all_made(desk: Desk) -> None:
    admin = await desk.admin()
    add = [desk.do("AddUser", admin, "ben", role) for role in ("viewer", "operator")]
    done = await asyncio.gather(*add, return_exceptions=True)
    assert {type(one) for one in done} == {api.FirstPassword, errors.Conflict}
    reset, _ = await meanwhile(
        desk.do("ResetPassword", admin, "ben"), desk.do("SetRole", admin, "ben", "admin")
    )
    login = await desk.log_in("ben", reset.password)
    assert login.role == "admin"
    ben = (await desk.do("ChangePassword", login.session, reset.password, PASSWORD + "ben", "test")).session
    token = await desk.do("CreateToken", ben, "cron", "viewer", 0)
    removals = [desk.do("RemoveToken", secret, token.id) for secret in (admin, ben)]
    done = await asyncio.gather(*removals, return_exceptions=True)
    assert {type(one) for one in done} == {type(None), errors.UnknownAccount}
    removal, late = await asyncio.gather(
        desk.do("RemoveUser", admin, "ben"), desk.do("CreateToken", ben, "late", "viewer", 0),
        return_exceptions=True,
    )  # fmt: skip
    assert removal is None
    assert isinstance(late, errors.NotLoggedIn)


@at_desk
async def test_administrators_who_demote_each_other_leave_one(desk: Desk) -> None:
    admin = await desk.admin()
    ben = await desk.user(admin, "ben", "admin")
    done = await asyncio.gather(
        desk.do("SetRole", admin, "ben", "viewer"), desk.do("SetRole", ben, "admin", "viewer"),
        return_exceptions=True,
    )  # fmt: skip
    assert done[0] is None
    assert isinstance(done[1], errors.Conflict)
    assert done[1].message.code == "last-admin"
    roles = {user.name: user.role for user in await desk.do("ListUsers", admin)}
    assert roles == {"admin": "admin", "ben": "viewer"}


@at_desk
async def test_a_log_in_with_what_was_valid_before_opens_no_session(desk: Desk) -> None:
    """The password, the code or the user changes while the log-in is checked."""
    admin = await desk.admin()
    ben = await desk.user(admin, "ben", "operator")
    totp = pyotp.TOTP((await desk.do("BeginTotp", ben)).secret)
    old, new = PASSWORD + "ben", PASSWORD + "new"
    for change in (
        desk.do("ConfirmTotp", ben, totp.at(desk.clock.now), old),
        desk.do("EndTotp", ben, old),
        desk.do("ChangePassword", ben, old, new, "test"),
        desk.do("ResetPassword", admin, "ben"),
        desk.do("RemoveUser", admin, "ben"),
    ):
        before = len(await desk.do("ListSessions", admin))
        code = totp.at(desk.clock.now) if desk.accounts._users["ben"].totp else ""
        late, changed = await meanwhile(desk.log_in("ben", old, code=code), change)
        assert not isinstance(changed, Exception)
        assert isinstance(late, errors.WrongPassword)
        assert late.message.code == "wrong-password"
        assert len(await desk.do("ListSessions", admin)) <= before
        old = changed.password if isinstance(changed, api.FirstPassword) else new if changed else old
        desk.clock.now += 30


@at_desk
async def test_a_check_of_the_password_ends_with_its_session(desk: Desk) -> None:
    """GetBackup and an installation need the password: somebody removes the user while it is checked."""
    admin = await desk.admin()
    ben = await desk.user(admin, "ben", "admin")
    caller = desk.accounts.caller(METHODS["GetBackup"], ben, "192.0.2.1")
    check = desk.accounts.check_password(caller, PASSWORD + "ben")
    late, _ = await meanwhile(check, desk.do("RemoveUser", admin, "ben"))
    assert isinstance(late, errors.NotLoggedIn)


@at_desk
async def test_codes_are_valid_after_the_clock_was_set_back(desk: Desk) -> None:
    """A board may start with a wrong time, in which a code was used."""
    admin = await desk.admin()
    totp = pyotp.TOTP((await desk.do("BeginTotp", admin)).secret)
    await desk.do("ConfirmTotp", admin, totp.at(desk.clock.now), PASSWORD)
    desk.clock.now -= 86400
    code = totp.at(desk.clock.now)
    await desk.log_in("admin", PASSWORD, code=code)
    assert await refused(desk.log_in("admin", PASSWORD, code=code), errors.WrongPassword) == "wrong-code"


@at_desk
async def test_a_password_does_not_expire(desk: Desk) -> None:
    await desk.admin()
    desk.clock.now += 10 * 365 * 86400
    assert not (await desk.log_in("admin", PASSWORD)).must_change


@at_desk
async def test_secrets_are_long_and_differ(desk: Desk) -> None:
    """Bits by the length of the text: 6 per character of base64, 5 of base32."""
    admin = await desk.admin()
    sessions = {(await desk.log_in("admin", PASSWORD)).session for _ in range(4)}
    tokens = {(await desk.do("CreateToken", admin, "x", "viewer", 1)).token for _ in range(4)}
    codes = {(await desk.do("BeginTotp", admin)).secret for _ in range(4)}
    assert {len(found) for found in (sessions, tokens, codes)} == {4}
    assert min(6 * len(secret) for secret in sessions) >= 192
    assert min(6 * len(secret.removeprefix("ek_")) for secret in tokens) >= 240
    assert min(5 * len(secret) for secret in codes) >= 160
    assert len(desk.accounts._key) == 32
    assert type(pyotp.random).__name__ == "SystemRandom"


@at_desk
async def test_users_sessions_and_tokens_are_limited(desk: Desk) -> None:
    admin = await desk.admin()
    sessions = []
    for _ in range(MAX_SESSIONS):
        desk.clock.now += 1
        sessions.append((await desk.log_in("admin", PASSWORD)).session)
    assert len(await desk.do("ListSessions", sessions[0])) == MAX_SESSIONS
    assert await refused(desk.do("CheckSession", admin, True), errors.NotLoggedIn), (
        "the least recently used one"
    )
    for _ in range(MAX_TOKENS):
        await desk.do("CreateToken", sessions[0], "x", "viewer", 1)
    assert await refused(desk.do("CreateToken", sessions[0], "x", "viewer", 1), errors.Conflict) == "too-many"
    desk.accounts._users |= {f"u{n}": desk.accounts._users["admin"] for n in range(MAX_USERS - 1)}
    assert await refused(desk.do("AddUser", sessions[0], "ben", "viewer"), errors.Conflict) == "too-many"


@at_desk
async def test_a_user_cannot_touch_the_tokens_of_another(desk: Desk) -> None:
    admin = await desk.admin()
    ben = await desk.user(admin, "ben", "operator")
    token = await desk.do("CreateToken", admin, "cron", "viewer", 1)
    assert await desk.do("ListTokens", ben) == []
    assert await refused(desk.do("RemoveToken", ben, token.id), errors.UnknownAccount)
    assert (await desk.do("CheckSession", token.token, True)).user == "admin"


@at_desk
async def test_the_log_says_whether_a_code_was_entered(desk: Desk) -> None:
    admin = await desk.admin()
    totp = pyotp.TOTP((await desk.do("BeginTotp", admin)).secret)
    await desk.do("ConfirmTotp", admin, totp.at(desk.clock.now), PASSWORD)
    desk.clock.now += 30
    admin = (await desk.log_in("admin", PASSWORD, code=totp.at(desk.clock.now))).session
    rows = [row.detail for row in await desk.do("ListAudit", admin, 0, 9) if row.action == "LogIn"]
    assert rows == ["with a code", ""]


@at_desk
async def test_the_log_says_that_somebody_knows_the_password(desk: Desk) -> None:
    """Without a code, the log-in is not complete. It has a row an hour for a network."""
    admin = await desk.admin()
    totp = pyotp.TOTP((await desk.do("BeginTotp", admin)).secret)
    await desk.do("ConfirmTotp", admin, totp.at(desk.clock.now), PASSWORD)
    for address in ("198.51.100.7", "2001:db8::1", "2001:db8::2", "198.51.100.7"):
        assert await refused(desk.log_in("admin", PASSWORD, address=address), errors.CodeRequired)
    rows = [
        (row.user, row.address, row.action, row.outcome) for row in await desk.do("ListAudit", admin, 0, 2)
    ]
    assert rows == [
        ("admin", "2001:db8::1", "LogIn", "CodeRequired"), ("admin", "198.51.100.7", "LogIn", "CodeRequired")
    ]  # fmt: skip


@at_desk
async def test_users(desk: Desk) -> None:
    admin = await desk.admin()
    for name in ("", "Ben", "1st", "a b", "a" * 33, "root", "ä"):
        assert await refused(desk.do("AddUser", admin, name, "viewer"), errors.InvalidArgument)
    await desk.do("AddUser", admin, "ben", "viewer")
    assert await refused(desk.do("AddUser", admin, "ben", "viewer"), errors.Conflict) == "user-exists"
    assert await refused(desk.do("SetRole", admin, "admin", "viewer"), errors.Conflict) == "own-account"
    assert await refused(desk.do("RemoveUser", admin, "admin"), errors.Conflict) == "own-account"
    root = Caller("root", "admin", "bus")
    assert (
        await refused(desk.accounts.remove_user(api.UserName("admin"), root), errors.Conflict) == "last-admin"
    )
    assert (
        await refused(desk.accounts.set_role(api.UserRole("admin", "viewer"), root), errors.Conflict)
        == "last-admin"
    )
    first = (await desk.do("ResetPassword", admin, "ben")).password
    session = (await desk.log_in("ben", first)).session
    await desk.do("RemoveUser", admin, "ben")
    assert await refused(desk.do("CheckSession", session, True), errors.NotLoggedIn)
    assert await refused(desk.do("RemoveUser", admin, "ben"), errors.UnknownAccount)
    assert [user.name for user in await desk.do("ListUsers", admin)] == ["admin"]


@at_desk
async def test_three_secrets_are_stored_as_text(desk: Desk) -> None:
    """docs/security.md lists these three secrets as exceptions."""

    def stored() -> bytes:
        return b"".join(path.read_bytes() for path in desk.folder.iterdir())

    assert (await desk.first()).encode() in stored()
    admin = await desk.admin()
    token = (await desk.do("CreateToken", admin, "x", "viewer", 0)).token
    first = (await desk.do("AddUser", admin, "ben", "viewer")).password
    totp = (await desk.do("BeginTotp", admin)).secret
    assert totp.encode() not in stored(), "before it is confirmed"
    await desk.do("ConfirmTotp", admin, pyotp.TOTP(totp).at(desk.clock.now), PASSWORD)
    for secret in (totp, desk.accounts._key.hex()):
        assert secret.encode() in stored()
    for secret in (PASSWORD, admin, token, first):
        assert secret.encode() not in stored()
    assert {oct(path.stat().st_mode & 0o777) for path in desk.folder.iterdir()} == {"0o600"}


@at_desk
async def test_a_damaged_file_is_set_aside(desk: Desk) -> None:
    await desk.admin()
    for path in desk.folder.iterdir():
        path.unlink()
    (desk.folder / "accounts.db").write_bytes(b"not a database" * 100)
    await desk.again()
    assert desk.accounts.problem
    assert desk.accounts.problem.code == "accounts-damaged"
    assert (desk.folder / "accounts.db.corrupt").exists()
    await desk.admin()
    assert desk.accounts.problem is None


@pytest.mark.parametrize("restarted", [False, True])
def test_a_damaged_file_on_a_full_disk_is_reported_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    """The damaged file is renamed, and there is no space for a new one."""
    monkeypatch.setattr(accounts_module, "RETRY_S", 0.01)
    real, full = Database._open, True

    def connect(db: Database) -> sqlite3.Connection:
        if full and not (tmp_path / "accounts.db").exists():
            (tmp_path / "accounts.db").touch()
            raise sqlite3.OperationalError("database or disk is full")
        return real(db)

    async def run() -> None:
        nonlocal full
        (tmp_path / "accounts.db").write_bytes(b"not a database" * 100)
        monkeypatch.setattr(Database, "_open", connect)
        desk = await Desk(tmp_path).start()
        assert desk.accounts.problem
        assert desk.accounts.problem.code == "accounts-not-saved"
        full = False
        if restarted:
            await desk.again()
        watching = asyncio.create_task(desk.accounts.watch())
        async with asyncio.timeout(10):
            while desk.accounts.problem.code == "accounts-not-saved":
                await asyncio.sleep(0.01)
        assert desk.accounts.problem.code == "accounts-damaged"
        await desk.admin()
        assert desk.accounts.problem is None
        await desk.again()
        assert desk.accounts.problem is None, "reported once"
        watching.cancel()

    asyncio.run(run())


@at_desk
async def test_log_in_works_on_a_full_disk(
    desk: Desk,
) -> None:
    """A person must be able to log in and free space. The session is in memory only: the agent's next start ends it."""
    await desk.admin()

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    assert desk.accounts._db
    desk.accounts._db.write = full  # type: ignore[method-assign,assignment]
    session = (await desk.log_in("admin", PASSWORD)).session
    assert await desk.do("ListUsers", session)
    assert await refused(desk.do("AddUser", session, "ben", "viewer"), errors.Failed) == "accounts-not-saved"
    assert [user.name for user in await desk.do("ListUsers", session)] == ["admin"]


def test_the_accounts_open_on_a_full_disk(tmp_path: Path) -> None:
    """After a restart on a full disk, users can log in, and nothing is lost when there is space again."""

    async def run(disk: Path) -> None:
        desk = await Desk(disk).start()
        await desk.admin()
        desk.close()
        filler = fill_up(disk)
        await desk.again()
        assert desk.accounts.problem is None
        session = (await desk.log_in("admin", PASSWORD)).session
        assert (
            await refused(desk.do("AddUser", session, "ben", "viewer"), errors.Failed) == "accounts-not-saved"
        )
        filler.unlink()
        await desk.do("AddUser", session, "ben", "viewer")
        await desk.again()
        session = (await desk.log_in("admin", PASSWORD)).session
        assert [user.name for user in await desk.do("ListUsers", session)] == ["admin", "ben"]
        desk.close()

    with small_disk(tmp_path, "512k") as disk:
        asyncio.run(run(disk))


def test_the_accounts_are_opened_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts_module, "RETRY_S", 0.01)

    async def run() -> None:
        desk = await Desk(tmp_path).start()
        session = await desk.admin()
        desk.close()
        (tmp_path / "accounts.db").rename(tmp_path / "kept")
        (tmp_path / "accounts.db").mkdir()
        await desk.again()
        assert desk.accounts.problem
        assert desk.accounts.problem.code == "accounts-not-saved"
        with pytest.raises(errors.AgentError):
            await desk.log_in("admin", PASSWORD)
        watching = asyncio.create_task(desk.accounts.watch())
        await asyncio.sleep(0.05)
        assert desk.accounts.problem
        async with desk.accounts._writing:  # another call uses accounts.db
            (tmp_path / "accounts.db").rmdir()
            (tmp_path / "kept").rename(tmp_path / "accounts.db")
            await asyncio.sleep(0.05)
            assert desk.accounts.problem
        async with asyncio.timeout(10):
            while desk.accounts.problem:
                await asyncio.sleep(0.01)
        assert await desk.do("ListUsers", session)
        assert not watching.done()
        watching.cancel()

    asyncio.run(run())


@at_desk
async def test_a_storm_of_log_ins_is_refused_soon(desk: Desk) -> None:
    await desk.admin()
    tries = [desk.log_in(f"user{number}", "guess", address=f"10.0.0.{number}") for number in range(40)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    kinds = [answer.kind for answer in answers if isinstance(answer, errors.AgentError)]
    assert len(kinds) == 40
    assert 1 <= kinds.count("WrongPassword") <= 10
    assert kinds.count("TooManyTries") >= 30


class PanelClient:
    """Calls the agent as the panel does."""

    def __init__(self, board: Harness) -> None:
        self.board = board
        self.session = ""

    async def call(self, member: str, *body: Any) -> Any:
        from dbus_fast.unpack import unpack_variants

        signature = interface.SESSION_SIGNATURE + METHODS[member].in_signature
        answer = await self.board.client.call(
            interface.NAME, interface.PATH, interface.SESSION, member, signature,
            (self.session, "192.0.2.7", *body), timeout_s=25,
        )  # fmt: skip
        return unpack_variants(answer[0]) if answer else None

    async def refused(self, member: str, *body: Any) -> CallError:
        try:
            await self.call(member, *body)
        except CallError as error:
            return error
        raise AssertionError(f"{member} was not refused")

    async def log_in(self) -> None:
        first = (await self.board.call("GetFirstPassword"))["password"]
        self.session = (await self.call("LogIn", "admin", first, "", "", "test"))["session"]
        self.session = (await self.call("ChangePassword", first, PASSWORD, "test"))["session"]


@on_board
async def test_the_panel_acts_for_its_user(board: Harness) -> None:
    board.app("player")
    await board.agent_up()
    panel = PanelClient(board)
    assert (await panel.call("GetHealth"))["health"] == "ok"
    assert (await panel.refused("GetSnapshot")).name == ERROR + "NotLoggedIn"
    await panel.log_in()
    assert (await panel.call("SetWeight", "player", 60))["weight"] == 60
    assert (await panel.refused("SetWeight", "player", 0)).name == ERROR + "InvalidWeight"
    assert (await panel.refused("GetFirstPassword")).name.endswith("UnknownMethod")
    assert (await board.refused("LogIn", "a", "b", "", "", "")).name.endswith("UnknownMethod")
    assert (await board.call("SetWeight", "player", 70))["weight"] == 70
    first = await panel.call("GetSnapshot")
    assert (await panel.call("GetSnapshot"))["sequence"] in (first["sequence"], first["sequence"] + 1)
    rows = [
        (r["user"], r["via"], r["action"], r["detail"], r["outcome"])
        for r in await panel.call("ListAudit", 0, 9)
    ]
    assert rows == [
        ("root", "bus", "SetWeight", "name player, weight 70", ""),
        ("admin", "panel", "SetWeight", "name player, weight 0", "InvalidWeight"),
        ("admin", "panel", "SetWeight", "name player, weight 60", ""),
        ("admin", "panel", "ChangePassword", "", ""),
        ("admin", "panel", "LogIn", "", ""),
    ]
    answer = await board.ekctl("audit", "--json")
    assert '"address": "192.0.2.7"' in answer.out


@on_board
async def test_a_refused_call_has_a_row_an_hour(board: Harness) -> None:
    """A call that the role does not allow, and an invalid token. The end of a session has no row."""
    board.app("player")
    await board.agent_up()
    admin, viewer = PanelClient(board), PanelClient(board)
    await admin.log_in()
    first = (await admin.call("AddUser", "ben", "viewer"))["password"]
    viewer.session = (await viewer.call("LogIn", "ben", first, "", "", "test"))["session"]
    viewer.session = (await viewer.call("ChangePassword", first, PASSWORD + "ben", "test"))["session"]
    for _ in range(3):
        assert (await viewer.refused("SetWeight", "player", 5)).name == ERROR + "NotAuthorized"
        assert (await viewer.refused("ListUsers")).name == ERROR + "NotAuthorized"
    for secret in ("an ended session", "", "ek_guess", "ek_another"):
        if secret == "ek_guess":  # noqa: S105
            assert (await admin.call("ListAudit", 0, 1))[0]["outcome"] == "NotAuthorized"
        viewer.session = secret
        assert (await viewer.refused("CheckSession", True)).name == ERROR + "NotLoggedIn"
    rows = [
        (row["user"], row["via"], row["address"], row["action"], row["detail"], row["outcome"])
        for row in await admin.call("ListAudit", 0, 3)
    ]
    assert rows == [
        ("", "token", "192.0.2.7", "CheckSession", "", "NotLoggedIn"),
        ("ben", "panel", "192.0.2.7", "ListUsers", "", "NotAuthorized"),
        ("ben", "panel", "192.0.2.7", "SetWeight", "", "NotAuthorized"),
    ]
    assert REFUSAL_S == 3600


@pytest.mark.parametrize("attack", ["tokens", "names", "passwords"])
def test_strangers_fill_little_of_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    """They come from many addresses of one network, then from many networks."""
    now = 1000.0
    monkeypatch.setattr(accounts_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr("evenkeel_agent.accounts.passwords.matches", lambda *_: False)

    async def run() -> None:
        nonlocal now
        desk = await Desk(tmp_path).start()
        first = await desk.first()
        admin = (await desk.log_in("admin", first)).session
        desk.accounts._users["admin"] = replace(desk.accounts._users["admin"], must_change=False, hash="x")

        async def attempt(number: int, address: str) -> None:
            if attack == "tokens":
                try:
                    desk.accounts.caller(METHODS["CheckSession"], f"ek_{number}", address)
                except errors.NotLoggedIn as error:
                    await desk.accounts.audit_refusal(error, METHODS["CheckSession"], f"ek_{number}", address)
            else:
                name = f"user{number}" if attack == "names" else "admin"
                with pytest.raises(errors.AgentError):
                    await desk.log_in(name, "guess", address=address)

        async def rows() -> int:
            return sum(not row.user for row in await desk.do("ListAudit", admin, 0, 500))

        for number in range(40):
            await attempt(number, f"2001:db8::{number:x}")
        # The limit of the network allows five wrong names, and then there is one row about the limit.
        assert await rows() == {"tokens": 1, "names": 6, "passwords": 1}[attack]
        for number in range(40, 400):
            await attempt(number, f"2001:db8:0:{number:x}::1")
        assert await rows() == STRANGER_ROWS
        now += REFUSAL_S
        for number in range(40):
            await attempt(number, f"2001:db8:1:{number:x}::1")
        assert await rows() == 2 * STRANGER_ROWS

    asyncio.run(run())


@at_desk
async def test_only_the_oldest_refusal_is_forgotten(desk: Desk) -> None:
    admin = await desk.admin()
    ben = await desk.user(admin, "ben", "viewer")

    async def refusals(*networks: int) -> int:
        before = (await desk.do("ListAudit", admin, 0, 1))[0].id
        for number in networks:
            address = f"2001:db8:0:{number:x}::1"
            with pytest.raises(errors.NotAuthorized) as caught:
                desk.accounts.caller(METHODS["ListUsers"], ben, address)
            await desk.accounts.audit_refusal(caught.value, METHODS["ListUsers"], ben, address)
        return int((await desk.do("ListAudit", admin, 0, 1))[0].id - before)

    assert await refusals(*range(KEPT_REFUSALS + 1)) == KEPT_REFUSALS + 1
    assert await refusals(*range(1, KEPT_REFUSALS + 1)) == 0
    assert await refusals(0) == 1


@on_board
async def test_the_end_of_a_session_and_a_new_agent_are_signalled(board: Harness) -> None:
    """An agent that is killed may have saved the end of a session, and not have sent the signal."""
    signals: list[str] = []

    def count(message: Message) -> bool:
        if message.message_type is MessageType.SIGNAL and message.member == interface.SESSIONS_CHANGED:
            signals.append(message.interface or "")
        return False

    board.client.handle(count)
    await board.client.subscribe(f"type='signal',interface='{interface.SESSION}'")
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()
    before = len(signals)
    await panel.call("LogOut")
    assert len(signals) == before + 1
    await board.agent_down(signal.SIGKILL)
    assert len(signals) == before + 1
    await board.agent_up()
    await panel.call("GetHealth")
    assert signals == [interface.SESSION] * (before + 2)


@on_board
async def test_secrets_reach_no_log(board: Harness) -> None:
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()
    first = (await panel.call("AddUser", "ben", "viewer"))["password"]
    token = (await panel.call("CreateToken", "x", "viewer", 0))["token"]
    log = board.log.read_text() + repr(await panel.call("ListAudit", 0, 100))
    for secret in (PASSWORD, panel.session, token, first):
        assert secret not in log


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run programs as other users")
@on_board
async def test_the_bus_gives_the_panel_the_interface_of_sessions_only(board: Harness) -> None:
    """And a ping, by which the panel notices that the agent hangs (evenkeel_panel/agent.py)."""
    await board.agent_up()
    script = (
        "import asyncio, sys; from evenkeel_agent.bus import Bus, CallError\n"
        "from evenkeel_api import interface as i\n"
        "async def main():\n"
        "    bus = await Bus.connect(None)\n"
        "    peer = 'org.freedesktop.DBus.Peer'\n"
        "    for name, member, *body in (\n"
        "        (i.NAME, 'GetHealth'), (i.SESSION, 'GetHealth', '', ''), (peer, 'Ping'), (peer, 'GetMachineId')\n"
        "    ):\n"
        "        try:\n"
        "            print(await bus.call(i.NAME, i.PATH, name, member, 's' * len(body), body, timeout_s=9))\n"
        "        except CallError as error: print(error.name)\n"
        "asyncio.run(main())\n"
    )
    board.polkit.granted = set(interface.ACTIONS)
    answer = await board.python(script, user="daemon")
    others, health, ping, machine = answer.out.splitlines()
    assert others == machine == "org.freedesktop.DBus.Error.AccessDenied", answer
    assert "health" in health
    assert ping == "[]"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run programs as other users")
@on_board
async def test_polkit_sees_who_acts(board: Harness) -> None:
    """A rule of the owner can read the details. Without a log-in, user and role are empty."""
    board.app("player")
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()
    script = (
        "import asyncio; from evenkeel_agent.bus import Bus\n"
        "from evenkeel_api import interface as i\n"
        "async def call(name, signature, *body):\n"
        "    bus = await Bus.connect(None)\n"
        "    await bus.call(i.NAME, i.PATH, i.SESSION, name, signature, body, timeout_s=9)\n"
        f"asyncio.run(call('SetWeight', 'sssu', {panel.session!r}, '192.0.2.8', 'player', 60))\n"
        "asyncio.run(call('GetHealth', 'ss', '', '192.0.2.9'))\n"
    )
    board.polkit.granted = set(interface.ACTIONS)
    answer = await board.python(script, user="daemon")
    assert answer.status == 0, answer
    assert [(body[1], body[2]) for _, body in board.polkit.calls] == [
        (
            METHODS["SetWeight"].action,
            {
                "session.user": "admin",
                "session.role": "admin",
                "session.address": "192.0.2.8",
                "session.method": "SetWeight",
            },
        ),
        (
            METHODS["GetHealth"].action,
            {
                "session.user": "",
                "session.role": "",
                "session.address": "192.0.2.9",
                "session.method": "GetHealth",
            },
        ),
    ]


async def audited(desk: Desk, at: float, action: str, detail: str = "", outcome: str = "") -> None:
    desk.clock.now = at
    await desk.accounts.audit(Caller("admin", "admin", "panel", "192.0.2.1"), action, detail, outcome)


@at_desk
async def test_a_viewer_lists_the_changes_of_a_span(desk: Desk) -> None:
    """Without who made them, from where, and without values that may be secret."""
    viewer = await desk.user(await desk.admin(), "vera", "viewer")
    now = desk.clock.now
    await audited(desk, now, "SetWeight", "name player, weight 100")
    await audited(desk, now + 10, "SetWeight", "name loader, weight 7")
    await audited(desk, now + 20, "SetWeight", "name player, weight 0", "InvalidWeight")
    await audited(desk, now + 30, "LogIn", "code not entered")
    await audited(desk, now + 40, "SetWeight", "name player, weight 300")
    await audited(desk, now + 50, "InstallBundle", "source https://x/a?key=secret, allow_older False")
    await audited(desk, now + 60, "OpenRecording", "")
    await audited(desk, now + 70, "Restart")
    found = await desk.do("ListChanges", viewer, int(now) + 5, int(now) + 70)
    assert [(change.at - int(now), change.action, change.app, change.before, change.value) for change in found] == [
        (50, "InstallBundle", "", "", ""), (40, "SetWeight", "player", "100", "300"), (10, "SetWeight", "loader", "", "7"),
    ]  # fmt: skip


@at_desk
async def test_an_undo_is_listed_as_a_change_of_the_value_that_it_sets_back(desk: Desk) -> None:
    admin, now = await desk.admin(), desk.clock.now
    for name, value in (("Weight", "weight"), ("FixedShare", "percent")):
        await audited(desk, now, f"Set{name}", f"name player, {value} 20")
        await audited(desk, now, f"Set{name}", f"name player, {value} 30")
        await audited(desk, now, f"Undo{name}", f"name player, {value} 20, present 30")
        await audited(desk, now, f"Undo{name}", f"name player, {value} 30, present 50", "Conflict")
        await audited(desk, now, f"Set{name}", f"name player, {value} 40")
        found = (await desk.do("ListChanges", admin, 0, int(now) + 1))[:4]
        assert [(change.action, change.app, change.before, change.value) for change in found] == [
            (f"Set{name}", "player", "20", "40"), (f"Set{name}", "player", "30", "20"),
            (f"Set{name}", "player", "20", "30"), (f"Set{name}", "player", "", "20"),
        ]  # fmt: skip


@at_desk
async def test_rows_that_the_agent_cannot_read_are_no_changes_or_have_no_value(desk: Desk) -> None:
    """Of another version of the agent, for example."""
    admin, now = await desk.admin(), desk.clock.now
    await audited(desk, now, "NoSuchMethod", "x")
    await audited(desk, now, "SetWeight", "rubbish")
    found = await desk.do("ListChanges", admin, 0, int(now) + 1)
    assert [(change.action, change.app, change.value) for change in found] == [("SetWeight", "", "")]


@at_desk
async def test_log_ins_delete_no_change(desk: Desk) -> None:
    admin, now = await desk.admin(), desk.clock.now
    await audited(desk, now, "SetWeight", "name player, weight 100")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounts_db, "AUDIT_ROWS", 3)
        for _ in range(4):
            await audited(desk, now + 1, "LogIn")
    assert "SetWeight" not in {row.action for row in await desk.do("ListAudit", admin, 0, 500)}
    assert [change.value for change in await desk.do("ListChanges", admin, 0, int(now) + 9)] == ["100"]


@at_desk
async def test_the_oldest_changes_are_deleted(desk: Desk) -> None:
    admin, now = await desk.admin(), desk.clock.now
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounts_db, "CHANGES_ROWS", 3)
        for weight in range(1, 6):
            await audited(desk, now, "SetWeight", f"name player, weight {weight}")
    found = await desk.do("ListChanges", admin, 0, int(now) + 1)
    assert [(change.before, change.value) for change in found] == [("4", "5"), ("3", "4"), ("2", "3")]


@at_desk
async def test_changes_that_an_older_agent_has_saved_are_listed(desk: Desk) -> None:
    """It has no table of changes, and does not fill one after a roll-back."""
    admin, now = await desk.admin(), desk.clock.now
    await audited(desk, now, "SetWeight", "name player, weight 100")
    assert desk.accounts._db is not None
    with desk.accounts._db.write() as cursor:
        cursor.execute("DROP TABLE changes")
    await desk.again()
    row = (int(now), "admin", "panel", "192.0.2.1", "SetWeight", "name player, weight 200", "")
    with desk.accounts._db.write() as cursor:
        cursor.execute(
            "INSERT INTO audit (at, user, via, address, action, detail, outcome) VALUES (?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    await desk.again()
    found = await desk.do("ListChanges", admin, 0, int(now) + 1)
    assert [(change.before, change.value) for change in found] == [("100", "200"), ("", "100")]


INSERT = "INSERT INTO audit (at, user, via, address, action, detail, outcome) VALUES (?, ?, ?, ?, ?, ?, ?)"
LOG_IN = (1, "admin", "panel", "192.0.2.1", "LogIn", "", "")


def a_change(weight: int) -> tuple[int, str, str, str, str, str, str]:
    return (weight, "admin", "panel", "192.0.2.1", "SetWeight", f"name player, weight {weight}", "")


def values(db: Database) -> list[str]:
    return [value for (value,) in db.rows("SELECT value FROM changes ORDER BY id")]


def test_a_row_of_the_audit_log_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    """Each step is an instruction of SQLite's virtual machine."""
    db = Database(str(tmp_path / "accounts.db"))

    def steps(row: tuple[Any, ...]) -> int:
        found = 0

        def count() -> int:
            nonlocal found
            found += 10
            return 0

        db._connection.set_progress_handler(count, 10)
        db.add_audit(row)
        db._connection.set_progress_handler(None, 0)
        return found

    few = steps(LOG_IN), steps(a_change(1))
    with db.write() as cursor:
        cursor.executemany(INSERT, [LOG_IN] * 9000)
    db.add_audit(LOG_IN)
    many = steps(LOG_IN), steps(a_change(2))
    db.close()
    print(few, many)
    assert max(many) < 2 * max(few)


def test_a_change_is_listed_once_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that cannot be saved is in no table. Rows that an older agent has added are listed as soon as it is possible."""
    path = str(tmp_path / "accounts.db")
    db = Database(path)
    db.add_audit(a_change(1))

    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(accounts_db, "shown", fails)
        with pytest.raises(sqlite3.OperationalError):
            db.add_audit(a_change(2))
    db.add_audit(a_change(3))
    assert values(db) == ["1", "3"]
    with db.write() as cursor:
        cursor.execute(INSERT, a_change(4))
    db.close()
    with monkeypatch.context() as patch:
        patch.setattr(accounts_db, "shown", fails)
        db = Database(path)
    assert values(db) == ["1", "3"]
    db.add_audit(LOG_IN)
    db.add_audit(a_change(5))
    assert values(db) == ["1", "3", "4", "5"]
    db.close()
    db = Database(path)
    assert values(db) == ["1", "3", "4", "5"]
    db.close()


def test_a_span_of_changes_is_read_from_an_index(tmp_path: Path) -> None:
    db = accounts_db.Database(str(tmp_path / "accounts.db"))
    plan = db.rows(
        "EXPLAIN QUERY PLAN SELECT id FROM changes WHERE at >= 1 AND at < 2 ORDER BY at DESC, id DESC LIMIT 9"
    )
    db.close()
    assert [step[3] for step in plan] == ["SEARCH changes USING COVERING INDEX changes_at (at>? AND at<?)"]
