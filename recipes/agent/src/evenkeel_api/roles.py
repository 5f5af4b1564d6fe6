# SPDX-License-Identifier: Apache-2.0
"""Roles of users. Each role includes the lower roles."""

from typing import Literal

Role = Literal["viewer", "operator", "admin"]
VIEWER: Role = "viewer"
OPERATOR: Role = "operator"
ADMIN: Role = "admin"
# role -> what its users may do, lowest role first
ROLES: dict[Role, str] = {
    VIEWER: "see the board, its apps and their figures",
    OPERATOR: "also set weights and fixed shares, start and stop apps, download recordings, read the journal",
    ADMIN: "also update the board, name it, set its clock, switch it off, measure its flash, set up alerts and the"
    " network, manage users, sessions and tokens, and read the audit log",
}
_ORDER = list(ROLES)


def includes(role: str, needed: str) -> bool:
    """Whether ROLE is NEEDED or a higher role. An unknown ROLE includes nothing."""
    return role in ROLES and _ORDER.index(role) >= _ORDER.index(needed)  # type: ignore[arg-type]
