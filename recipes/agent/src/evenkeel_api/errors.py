# SPDX-License-Identifier: Apache-2.0
"""Errors of the agent. An error has a kind, which is the last part of its D-Bus name, and a message.

docs/reference/dbus.md shows `meaning` and `remedy`: one line of Markdown each, with links relative to docs/reference/.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from .messages import Message

NAME = "org.evenkeel.Agent1"


class AgentError(Exception):
    """A call was refused. str() is one sentence without a full stop: what failed and why."""

    kind: ClassVar[str] = "Failed"
    meaning: ClassVar[str] = ""
    remedy: ClassVar[str] = ""
    http: ClassVar[int] = 503  # HTTP status with which the panel answers

    def __init__(self, code: str, /, **parameters: Any) -> None:
        self.message = Message(code, **parameters)
        super().__init__(self.message)

    def __str__(self) -> str:
        return str(self.message)

    @property
    def name(self) -> str:
        """The D-Bus error name."""
        return f"{NAME}.Error.{self.kind}"


class UnknownApp(AgentError):
    kind = "UnknownApp"
    meaning = "No app of this name is listed, or its file is bad."
    remedy = "Run `ekctl apps` to list the apps, and `ekctl status` to list the bad files."
    http = 404


class InvalidWeight(AgentError):
    kind = "InvalidWeight"
    meaning = "The weight is not a whole number from 1 to 10000, or not of D-Bus type `u`."
    remedy = "Correct the value."
    http = 422


class InvalidFixedShare(AgentError):
    kind = "InvalidFixedShare"
    meaning = (
        "The fixed share is not a whole number from 0 to 100, or not of D-Bus type `u`; or all apps together"
        " would have more than 100 %."
    )
    remedy = "Correct the value. The message says how much is left, and which apps have the rest."
    http = 422


class InvalidArgument(AgentError):
    kind = "InvalidArgument"
    meaning = "An argument has a value that the method does not accept."
    remedy = "Correct the value that the message names."
    http = 422


class NotAuthorized(AgentError):
    kind = "NotAuthorized"
    meaning = (
        "The role of the user does not include the action, or polkit does not allow the caller to perform it."
    )
    remedy = "Log in as a user with the needed role, call as root, or add a polkit rule for `org.evenkeel.agent.*`."
    http = 403


class NotLoggedIn(AgentError):
    kind = "NotLoggedIn"
    meaning = "The session or token does not exist, has expired or was ended."
    remedy = "Log in again."
    http = 401


class PasswordMustChange(AgentError):
    kind = "PasswordMustChange"
    meaning = "The user has logged in with a first password. With it, the user can only set a new password."
    remedy = "Set a new password."
    http = 403


class WrongPassword(AgentError):
    kind = "WrongPassword"
    meaning = "There is no such user, or the password or the code is wrong."
    remedy = "Try again. If the password is lost, [reset it](../howto/reset-a-password.md)."
    http = 401


class CodeRequired(AgentError):
    kind = "CodeRequired"
    meaning = "The password is right, and this user also needs a code."
    remedy = "Call again with the present code of the authenticator app."
    http = 401


class TooManyTries(AgentError):
    kind = "TooManyTries"
    meaning = "There were too many wrong passwords or codes. The parameter `seconds` says how long to wait."
    remedy = "Wait that long, then try again."
    http = 429


class PasswordRefused(AgentError):
    kind = "PasswordRefused"
    meaning = "The new password is too short, too long, easy to guess, or the same as before."
    remedy = "Choose another password."
    http = 422


class UnknownAccount(AgentError):
    kind = "UnknownAccount"
    meaning = "There is no such user, session or token."
    remedy = "List them again."
    http = 404


class Conflict(AgentError):
    kind = "Conflict"
    meaning = "The present state does not allow the change: the name is taken, no administrator would remain, and so on."
    remedy = "Read the message, which has the reason."
    http = 409


class UnitNotFound(AgentError):
    kind = "UnitNotFound"
    meaning = "The app's unit is not installed."
    remedy = "Install the unit, or correct `unit` in the app's file."
    http = 409


class UnitOutsideSlice(AgentError):
    kind = "UnitOutsideSlice"
    meaning = "The app's unit is not below `evenkeel-apps.slice`, so it is not an app."
    remedy = (
        "Put `Slice=evenkeel-apps.slice` into the unit's `[Service]` section, then `systemctl daemon-reload`."
    )
    http = 409


class Failed(AgentError):
    kind = "Failed"
    meaning = (
        "The value could not be saved, systemd did not do what was asked, a condition of the unit is not met,"
        " or the agent has a bug."
    )
    remedy = "Read the message, then `journalctl -u evenkeeld` and the unit's own log."
    http = 503


@dataclass(frozen=True, slots=True)
class StandardError:
    """The error org.freedesktop.DBus.Error.`kind`. `source` says who reports it: agent, bus or client."""

    kind: str
    source: str
    meaning: str
    remedy: str


STANDARD_ERRORS = (
    StandardError("UnknownMethod", "agent", "The interface has no such method.", "See [methods](#methods)."),
    StandardError(
        "InvalidArgs",
        "agent",
        "The arguments do not have the method's D-Bus types.",
        "See [methods](#methods).",
    ),
    StandardError(
        "LimitsExceeded",
        "agent",
        "The agent is serving 64 calls, its limit.",
        "Wait for answers, then try again.",
    ),
    StandardError(
        "AccessDenied", "bus", "The bus policy does not let this user call the agent.", "Call as root."
    ),
    StandardError("ServiceUnknown", "bus", "The agent does not run.", "See `systemctl status evenkeeld`."),
    StandardError("NameHasNoOwner", "bus", "The agent does not run.", "See `systemctl status evenkeeld`."),
    StandardError(
        "Spawn.*", "bus", "systemd could not start the agent.", "See `systemctl status evenkeeld`."
    ),
    StandardError(
        "NoReply", "bus, client", "The agent did not answer in time.", "See `journalctl -u evenkeeld`."
    ),
)
