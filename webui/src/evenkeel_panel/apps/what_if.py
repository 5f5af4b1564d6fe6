# SPDX-License-Identifier: Apache-2.0
"""What each app gets when all apps want the flash at the same time. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Claim(NamedTuple):
    """The setting of an app: its weight, and its fixed share in percent (0: none, so the weight decides)."""

    name: str
    weight: int
    fixed_share: int


class TooMuch(ValueError):
    """The fixed shares together are more than 100 %."""


def parts(claims: Iterable[Claim]) -> dict[str, float]:
    """The part 0..1 of each app, in the order of CLAIMS. Raises TooMuch.

    An app with a fixed share gets that share. The weights of the other apps divide the rest. If every app has a
    fixed share, a rest stays unused, because a fixed share is also a limit.
    """
    claims = list(claims)
    fixed = sum(claim.fixed_share for claim in claims)
    if fixed > 100:
        raise TooMuch
    weights = sum(claim.weight for claim in claims if not claim.fixed_share)
    rest = (100 - fixed) / 100
    return {
        claim.name: claim.fixed_share / 100 if claim.fixed_share else claim.weight / weights * rest
        for claim in claims
    }
