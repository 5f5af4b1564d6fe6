# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `cache`. The agent may not open the device of the page pool: ek-pool does, and keeps the directories."""

from typing import Any, TypeVar

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.cache import Cache, DirectoryOfApp
from evenkeel_api.method import Nothing

from . import helper
from .caller import Caller
from .settings import Settings

HELPER_UNIT = "evenkeel-pool"
ANSWER_S = 7.0  # systemd may be slow to set memory.low; less than the panel waits
T = TypeVar("T")


class Saved(msgspec.Struct, frozen=True):
    """The answer to an order about the chosen directories of all apps."""

    saved: dict[str, list[str]]


class PagePool:
    """The handlers of the feature `cache`."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.pool_socket

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
        return await self._send(fields, Cache)

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
