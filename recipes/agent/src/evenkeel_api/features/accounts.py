# SPDX-License-Identifier: Apache-2.0
"""Users, sessions, API tokens and the audit log."""

from typing import Annotated

from msgspec import Meta

from ..errors import (
    CodeRequired,
    Conflict,
    InvalidArgument,
    NotLoggedIn,
    PasswordMustChange,
    PasswordRefused,
    TooManyTries,
    UnknownAccount,
    WrongPassword,
)
from ..method import ANY, Method
from ..roles import ADMIN, VIEWER, Role
from ..schema import I64, U64, Struct

ACCOUNT = "org.evenkeel.agent.account"
MANAGE = "org.evenkeel.agent.manage-accounts"
ACTIONS = {
    ACCOUNT: "Log in to the panel and change one's own account",
    MANAGE: "Manage users, sessions and tokens, and read the audit log",
}
LOGGED_IN = (NotLoggedIn, PasswordMustChange)

Time = Annotated[I64, Meta(extra={"unit": "Unix time, s"})]
Password = Annotated[str, Meta(max_length=256)]
# without the limit, a program could send a number that D-Bus cannot carry
Before = Annotated[U64, Meta(description="only rows with a lower number; 0: the newest", le=(1 << 63) - 1)]


class Login(Struct, frozen=True):
    """A new session."""

    session: Annotated[str, Meta(description="the secret of the session")]
    device: Annotated[
        str,
        Meta(
            description="the device secret of this browser; with it, the wrong passwords of others do not lock out"
            " this browser"
        ),
    ]
    user: Annotated[str, Meta(description="name of the user")]
    role: Annotated[Role, Meta(description="role of the user")]
    must_change: Annotated[bool, Meta(description="whether the user must change the password first")]


class Identity(Struct, frozen=True):
    """The user to whom a session or token belongs."""

    user: Annotated[str, Meta(description="name of the user")]
    role: Annotated[Role, Meta(description="role of the session or token")]
    via: Annotated[str, Meta(description="`panel` for a session, `token` for an API token")]
    must_change: Annotated[bool, Meta(description="whether the user must change the password first")]
    totp: Annotated[bool, Meta(description="whether the user needs a code to log in")]


class User(Struct, frozen=True):
    """A user of the panel."""

    name: Annotated[str, Meta(description="name of the user")]
    role: Annotated[Role, Meta(description="role of the user")]
    must_change: Annotated[bool, Meta(description="whether the user must change the password first")]
    totp: Annotated[bool, Meta(description="whether the user needs a code to log in")]
    changed_at: Annotated[Time, Meta(description="when the password was set")]


class Session(Struct, frozen=True):
    """A session of the panel."""

    id: Annotated[str, Meta(description="public name of the session")]
    user: Annotated[str, Meta(description="name of the user")]
    address: Annotated[str, Meta(description="address of the browser at log-in")]
    client: Annotated[str, Meta(description="name of the browser, as it reports it (`User-Agent`)")]
    created_at: Annotated[Time, Meta(description="when the user logged in")]
    used_at: Annotated[Time, Meta(description="when the user last did something in this session")]
    current: Annotated[bool, Meta(description="whether this is the caller's own session")]


class Token(Struct, frozen=True):
    """An API token."""

    id: Annotated[str, Meta(description="public name of the token")]
    name: Annotated[str, Meta(description="purpose of the token, as the user entered it")]
    user: Annotated[str, Meta(description="name of the user to whom the token belongs")]
    role: Annotated[Role, Meta(description="role of the token")]
    created_at: Annotated[Time, Meta(description="when the token was made")]
    expires_at: Annotated[Time, Meta(description="when the token expires; 0: never")]


class NewToken(Struct, frozen=True):
    id: Annotated[str, Meta(description="public name of the token")]
    token: Annotated[str, Meta(description="the secret; the agent does not show it again")]


class FirstPassword(Struct, frozen=True):
    password: Annotated[
        str,
        Meta(
            description="the first password, with which the user can only set a new one; empty if that was done"
        ),
    ]


class Totp(Struct, frozen=True):
    secret: Annotated[str, Meta(description="the shared secret, base32")]
    uri: Annotated[str, Meta(description="the same secret as an `otpauth:` address")]


class Entry(Struct, frozen=True):
    """A row of the audit log."""

    id: Annotated[U64, Meta(description="number of the row")]
    at: Annotated[Time, Meta(description="when the action took place")]
    user: Annotated[str, Meta(description="name of the user; empty if nobody was logged in")]
    via: Annotated[
        str, Meta(description="`panel` for a browser, `token` for an API token, `bus` for a Unix user")
    ]
    address: Annotated[str, Meta(description="address of the browser; empty for a Unix user")]
    action: Annotated[str, Meta(description="name of the method")]
    detail: Annotated[
        str,
        Meta(description="arguments of the method without secrets; of a log-in: whether a code was entered"),
    ]
    outcome: Annotated[str, Meta(description="empty if the action succeeded, else the kind of the error")]


class LogIn(Struct, frozen=True):
    user: Annotated[str, Meta(description="name of the user", max_length=64)]
    password: Annotated[Password, Meta(description="password")]
    code: Annotated[str, Meta(description="code of the authenticator app; empty without one", max_length=16)]
    device: Annotated[str, Meta(description="`device` of an earlier log-in; may be empty", max_length=256)]
    client: Annotated[str, Meta(description="name of the browser, as it reports it", max_length=512)]


class CheckSession(Struct, frozen=True):
    active: Annotated[bool, Meta(description="whether the user did something, which extends the session")]


class ChangePassword(Struct, frozen=True):
    current: Annotated[Password, Meta(description="present password")]
    new: Annotated[Password, Meta(description="new password")]
    client: Annotated[str, Meta(description="name of the browser, as it reports it", max_length=512)]


class ConfirmTotp(Struct, frozen=True):
    code: Annotated[str, Meta(description="present code of the authenticator app", max_length=16)]
    password: Annotated[Password, Meta(description="present password")]


class EndTotp(Struct, frozen=True):
    password: Annotated[Password, Meta(description="present password")]


class UserName(Struct, frozen=True):
    name: Annotated[str, Meta(description="name of the user", max_length=64)]


class UserRole(UserName, frozen=True):
    role: Annotated[Role, Meta(description="role of the user")]


class Id(Struct, frozen=True):
    id: Annotated[str, Meta(description="public name", max_length=64)]


class CreateToken(Struct, frozen=True):
    name: Annotated[str, Meta(description="purpose of the token", min_length=1, max_length=64)]
    role: Annotated[Role, Meta(description="role of the token")]
    days: Annotated[
        int,
        Meta(
            description="how long the token is valid; 0: without limit",
            ge=0,
            le=3650,
            extra={"dbus": "u", "unit": "days"},
        ),
    ]


class ListAudit(Struct, frozen=True):
    before: Before
    limit: Annotated[int, Meta(description="number of rows", ge=1, le=500, extra={"dbus": "u"})]


METHODS = (
    Method(
        "LogIn",
        ACCOUNT,
        None,
        "Opens a session.",
        LogIn,
        Login,
        "login",
        (WrongPassword, CodeRequired, TooManyTries, *ANY),
        secret=("password", "code", "device", "client"),
        panel=True,
        first=True,
    ),
    Method(
        "CheckSession",
        ACCOUNT,
        VIEWER,
        "Returns the user to whom the session belongs.",
        CheckSession,
        Identity,
        "identity",
        (NotLoggedIn, *ANY),
        panel=True,
        first=True,
    ),
    Method(
        "LogOut",
        ACCOUNT,
        VIEWER,
        "Ends the session.",
        errors=(NotLoggedIn, *ANY),
        changes=True,
        panel=True,
        first=True,
    ),
    Method(
        "ChangePassword",
        ACCOUNT,
        VIEWER,
        "Sets the password of the user, ends all sessions of the user, and opens a new session. Tokens stay valid.",
        ChangePassword,
        Login,
        "login",
        (NotLoggedIn, WrongPassword, TooManyTries, PasswordRefused, *ANY),
        changes=True,
        secret=("current", "new", "client"),
        panel=True,
        first=True,
    ),
    Method(
        "BeginTotp",
        ACCOUNT,
        VIEWER,
        "Makes a secret for an authenticator app. The secret has no effect before `ConfirmTotp`.",
        answer=Totp,
        answer_name="totp",
        errors=(*LOGGED_IN, *ANY),
        panel=True,
    ),
    Method(
        "ConfirmTotp",
        ACCOUNT,
        VIEWER,
        "Confirms the secret of `BeginTotp` with a code. From now on, the user needs a code to log in. Ends the other"
        " sessions of the user.",
        ConfirmTotp,
        errors=(*LOGGED_IN, WrongPassword, TooManyTries, Conflict, *ANY),
        changes=True,
        secret=("code", "password"),
        panel=True,
    ),
    Method(
        "EndTotp",
        ACCOUNT,
        VIEWER,
        "Deletes the secret: the user no longer needs a code to log in. Ends the other sessions of the user.",
        EndTotp,
        errors=(*LOGGED_IN, WrongPassword, TooManyTries, *ANY),
        changes=True,
        secret=("password",),
        panel=True,
    ),
    Method(
        "ListSessions",
        MANAGE,
        VIEWER,
        "Returns the sessions of the user; an administrator gets all sessions.",
        answer=list[Session],
        answer_name="sessions",
        errors=(*LOGGED_IN, *ANY),
    ),
    Method(
        "EndSession",
        MANAGE,
        VIEWER,
        "Ends a session of the user; an administrator may end any session.",
        Id,
        errors=(*LOGGED_IN, UnknownAccount, *ANY),
        changes=True,
    ),
    Method(
        "ListTokens",
        MANAGE,
        VIEWER,
        "Returns the API tokens of the user; an administrator gets all tokens.",
        answer=list[Token],
        answer_name="tokens",
        errors=(*LOGGED_IN, *ANY),
    ),
    Method(
        "CreateToken",
        MANAGE,
        VIEWER,
        "Makes an API token of the user.",
        CreateToken,
        NewToken,
        "token",
        (*LOGGED_IN, InvalidArgument, Conflict, *ANY),
        changes=True,
        panel=True,
    ),
    Method(
        "RemoveToken",
        MANAGE,
        VIEWER,
        "Removes a token of the user; an administrator may remove any token.",
        Id,
        errors=(*LOGGED_IN, UnknownAccount, *ANY),
        changes=True,
    ),
    Method(
        "ListUsers",
        MANAGE,
        ADMIN,
        "Returns all users.",
        answer=list[User],
        answer_name="users",
        errors=(*LOGGED_IN, *ANY),
    ),
    Method(
        "AddUser",
        MANAGE,
        ADMIN,
        "Adds a user. Returns a first password.",
        UserRole,
        FirstPassword,
        "password",
        (*LOGGED_IN, InvalidArgument, Conflict, *ANY),
        changes=True,
    ),
    Method(
        "SetRole",
        MANAGE,
        ADMIN,
        "Sets the role of a user, and ends the sessions of the user.",
        UserRole,
        errors=(*LOGGED_IN, InvalidArgument, UnknownAccount, Conflict, *ANY),
        changes=True,
    ),
    Method(
        "ResetPassword",
        MANAGE,
        ADMIN,
        "Replaces the password of a user by a first password, ends the sessions of the user, and deletes the user's"
        " tokens and secret for codes.",
        UserName,
        FirstPassword,
        "password",
        (*LOGGED_IN, UnknownAccount, *ANY),
        changes=True,
    ),
    Method(
        "RemoveUser",
        MANAGE,
        ADMIN,
        "Removes a user with all sessions and tokens.",
        UserName,
        errors=(*LOGGED_IN, UnknownAccount, Conflict, *ANY),
        changes=True,
    ),
    Method(
        "ListAudit",
        MANAGE,
        ADMIN,
        "Returns rows of the audit log, newest first.",
        ListAudit,
        list[Entry],
        "entries",
        (*LOGGED_IN, InvalidArgument, *ANY),
    ),
    Method(
        "GetFirstPassword",
        MANAGE,
        ADMIN,
        "Returns the first-boot password of the user `admin`, for the console.",
        answer=FirstPassword,
        answer_name="password",
        local=True,
    ),
)
