# SPDX-License-Identifier: Apache-2.0
"""The identity of the user or program that calls the agent."""

from dataclasses import dataclass

from evenkeel_api.roles import Role


@dataclass(frozen=True, slots=True)
class Caller:
    """A user and its role. VIA: `bus` for a Unix user on D-Bus, `panel` for a session, `token` for an API token.

    ROLE is None for a caller that is not logged in. ADDRESS is the address of the browser, "" for a Unix user.
    SESSION is the digest of the session's secret, or the public id of the token; "" if there is neither.
    """

    user: str
    role: Role | None
    via: str
    address: str = ""
    session: str = ""
