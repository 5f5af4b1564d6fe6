# SPDX-License-Identifier: Apache-2.0
"""Who makes a call."""

from dataclasses import dataclass

from evenkeel_api.roles import Role


@dataclass(frozen=True, slots=True)
class Caller:
    """A user and its role. VIA: `bus` for a Unix user on D-Bus, `panel` for a session, `token` for an API token.

    ROLE is None for a caller that is not logged in. SESSION is the id of the session or token, "" without one.
    """

    user: str
    role: Role | None
    via: str
    address: str = ""
    session: str = ""
