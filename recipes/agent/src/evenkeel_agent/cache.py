# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `cache`. The agent may not open the device of the page pool: ek-pool does, and keeps the directories."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.cache import Cache, DirectoryOfApp
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing

from . import helper
from .caller import Caller
from .settings import Settings
from .systemd import Unit

HELPER_UNIT = "evenkeel-pool"
SERVICE = f"{HELPER_UNIT}.service"
UNITS = (SERVICE,)
POLL_S = 30.0
ANSWER_S = 7.0  # systemd may be slow to set memory.low; less than the panel waits
T = TypeVar("T")


class Saved(msgspec.Struct, frozen=True):
    """The answer to an order about the chosen directories of all apps."""

    saved: dict[str, list[str]]


def inspect(unit: Unit, cache: Cache | None, *, named: bool) -> list[Message]:
    """Why directories are not protected. UNIT: of ek-pool. CACHE: its last answer. NAMED: whether an app's file names one."""
    wanted = bool(cache.directories) if cache else named
    restarting = unit.sub_state.startswith("auto-restart")
    if unit.active_state == "unknown":  # systemd does not answer, which is a problem of its own
        return []
    if not unit.exists:
        return [Message("pool-not-installed", unit=SERVICE)] if wanted else []
    if unit.active_state == "failed" or restarting:
        # Before the first answer, nobody knows whether somebody has chosen directories.
        return [Message("pool-failed", unit=SERVICE)] if wanted or cache is None else []
    if unit.active_state == "inactive":
        return [Message("pool-stopped", unit=SERVICE)] if wanted else []
    if unit.active_state != "active" or cache is None:  # it starts
        return []
    # A choice that was lost is a problem also if no directory is left.
    shown = (note for note in cache.problem if wanted or note.code.startswith("directories-"))
    return [Message(note.code, **note.parameters) for note in shown]


class PagePool:
    """The handlers of the feature `cache`."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.pool_socket
        self._known: Cache | None = None

    async def watch(self, unit: Callable[[], Awaitable[Unit]]) -> None:
        """Follow the state of the pool for as long as the agent runs. UNIT returns the unit of ek-pool.

        A call to the socket would start a service that somebody has stopped. So only a service that runs is asked.
        """
        while True:
            if (await unit()).active_state == "active":
                with contextlib.suppress(errors.AgentError):  # systemd ends a service that does not answer
                    await self._ask("state")
            await asyncio.sleep(POLL_S)

    def problems(self, unit: Unit, *, named: bool) -> list[Message]:
        """Those of inspect() for the last known state."""
        return inspect(unit, self._known, named=named)

    async def get_cache(self, _: Nothing, __: Caller) -> Cache:
        return await self._ask("state")

    async def add_priority_directory(self, request: DirectoryOfApp, _: Caller) -> Cache:
        return await self._ask("add", request)

    async def remove_priority_directory(self, request: DirectoryOfApp, _: Caller) -> Cache:
        return await self._ask("remove", request)

    # for backups, and for apps that are removed

    async def saved(self) -> dict[str, list[str]]:
        """The directories that somebody has chosen, by app. Raises AgentError."""
        return await self._settings({"order": "saved"})

    async def restore(self, directories: dict[str, list[str]]) -> None:
        """Make DIRECTORIES the chosen ones. On an AgentError nothing has changed."""
        await self._settings({"order": "restore", "directories": directories})

    async def forget(self, app: str) -> None:
        """Remove the chosen directories of APP. Raises AgentError."""
        await self._settings({"order": "forget", "name": app})

    # internal

    async def _ask(self, order: str, request: DirectoryOfApp | None = None) -> Cache:
        fields = {"order": order}
        if request:
            fields |= {"name": request.name, "directory": request.directory}
        self._known = await self._send(fields, Cache)
        return self._known

    async def _settings(self, fields: dict[str, Any]) -> dict[str, list[str]]:
        return (await self._send(fields, Saved)).saved

    async def _send(self, fields: dict[str, Any], wanted: type[T]) -> T:
        found = await helper.ask(self._path, fields, ANSWER_S, "pool-unreachable", HELPER_UNIT)
        try:
            return msgspec.convert(found, wanted)
        except msgspec.ValidationError as error:
            reason = str(error)
            raise errors.Failed(
                "pool-unreachable", path=self._path, reason=reason, unit=HELPER_UNIT
            ) from error
