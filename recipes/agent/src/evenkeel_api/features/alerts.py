# SPDX-License-Identifier: Apache-2.0
"""Alerts: messages about problems of the board, to a webhook and by mail."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN
from ..schema import Struct
from .accounts import Time

ALERTS = "org.evenkeel.agent.alerts"
ACTIONS = {ALERTS: "See and change where the board sends alerts"}

Security = Literal["tls", "starttls", "none"]
State = Literal["off", "ready", "sent", "failed"]
Line = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
Address = Annotated[str, Meta(max_length=200, pattern=r"^([!-?A-~]+@[A-Za-z0-9.-]+)?$(?!\n)")]
Webhook = Annotated[
    str,
    Meta(
        max_length=1000,
        # No @ in the host: the URL is shown, so it must have no password. A port has at most 65535.
        pattern=r"^(https?://(\[[0-9A-Fa-f:.]+\]|[!-\"$-.0-9;->A-Z^-~]+)"
        r"(:([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
        r"([/?#][!-~]*)?)?$(?!\n)",
        description="`http://` or `https://` URL, without a user, to which the board sends a JSON object; empty: none",
    ),
]
MailTo = Annotated[Address, Meta(description="mail address to which the board sends alerts; empty: none")]
MailFrom = Annotated[Address, Meta(description="sender of the mails; empty: the same as `mail_to`")]
Server = Annotated[
    str,
    Meta(
        max_length=253,
        pattern=r"^[A-Za-z0-9.:-]*$(?!\n)",
        description="host name of the mail server (SMTP)",
    ),
]
Port = Annotated[int, Meta(ge=1, le=65535, description="port of the mail server", extra={"dbus": "u"})]
Encryption = Annotated[
    Security,
    Meta(description="encryption: `tls` from the start, `starttls`, or `none`; a password needs encryption"),
]
User = Annotated[Line, Meta(description="user at the mail server; empty: no log-in")]


class Alerts(Struct, frozen=True):
    """Where the board sends alerts, and what became of the last one."""

    webhook: Webhook
    mail_to: MailTo
    mail_from: MailFrom
    smtp_server: Server
    smtp_port: Port
    smtp_security: Encryption
    smtp_user: User
    password_set: Annotated[bool, Meta(description="whether a password for the mail server is saved")]
    state: Annotated[
        State,
        Meta(
            description="`off`: no receiver is set; `ready`: nothing was sent since the agent started; `sent` or"
            " `failed`: the result of the last attempt"
        ),
    ]
    at: Annotated[Time, Meta(description="when the last attempt ended; 0: never")]
    testing: Annotated[
        bool,
        Meta(description="whether a test is running; `state` and `problem` are then older than the test"),
    ] = False
    problem: Annotated[
        list[Note],
        Meta(description="one [message](#message) for each receiver that the last attempt did not reach"),
    ] = msgspec.field(default_factory=list)


class SetAlerts(Struct, frozen=True):
    webhook: Webhook
    mail_to: MailTo
    mail_from: MailFrom
    smtp_server: Server
    smtp_port: Port
    smtp_security: Encryption
    smtp_user: User
    smtp_password: Annotated[
        Line,
        Meta(
            description="password at the mail server; empty: the saved one stays if server and user are the same"
        ),
    ]


METHODS = (
    Method(
        "GetAlerts",
        ALERTS,
        ADMIN,
        "Returns [where the board sends alerts](#alerts).",
        answer=Alerts,
        answer_name="alerts",
    ),
    Method(
        "SetAlerts",
        ALERTS,
        ADMIN,
        "Saves where the board sends alerts. Empty receivers switch alerts off.",
        SetAlerts,
        Alerts,
        "alerts",
        (InvalidArgument, *ANY),
        changes=True,
        secret=("webhook", "smtp_password"),
    ),
    Method(
        "SendTestAlert",
        ALERTS,
        ADMIN,
        "Sends a test to all receivers. Returns the result, or after 5 s the state before it, with `testing` true.",
        answer=Alerts,
        answer_name="alerts",
        errors=(Conflict, *ANY),
        changes=True,
    ),
)
