# SPDX-License-Identifier: Apache-2.0
"""/healthz: the health of the board, for boot checks and monitoring programs. It needs no log-in."""

from __future__ import annotations

from typing import Annotated

import msgspec
from evenkeel_api.schema import Struct
from flask import Response
from msgspec import UNSET, Meta, UnsetType

from .. import __version__
from ..context import client, panel
from ..twins import JSON, Feature

blueprint = Feature("health", __name__)


class BoardHealth(Struct, frozen=True):
    """The answer of /healthz. It does not list the problems of a degraded board, because anybody may read it."""

    health: Annotated[
        str, Meta(description="`ok` or `degraded`; `agent-unreachable` if the agent does not answer")
    ]
    version: Annotated[str, Meta(description="version of the board")]
    kernel: Annotated[str | UnsetType, Meta(description="release of the running kernel")] = UNSET
    scheduler: Annotated[str | UnsetType, Meta(description="scheduler of the flash devices")] = UNSET
    slot: Annotated[str | UnsetType, Meta(description="slot from which the board booted")] = UNSET
    reason: Annotated[str | UnsetType, Meta(description="why the agent does not answer: a sentence")] = UNSET


@blueprint.twin("/healthz", BoardHealth, "GetHealth", role=None, states=True)
def healthz() -> Response:
    """The health of the board, from a cache: frequent requests do not load the agent."""
    address = client()
    found, reason = panel().board.health(lambda: panel().agent.call("GetHealth", "", address))
    if found is None:
        made, status = BoardHealth("agent-unreachable", __version__, reason=reason), 503
    else:
        version = found.version or __version__
        made, status = BoardHealth(found.health, version, found.kernel, found.scheduler, found.slot), 200
    return Response(msgspec.json.encode(made), status, mimetype=JSON)
