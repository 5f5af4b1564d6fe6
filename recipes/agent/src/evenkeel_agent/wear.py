# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118
"""Serves the feature `wear`: watches what the flash devices report about their life, and keeps the wear limit.

The limit is saved. What the devices report is not: they are asked at the start, and then each POLL_S.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable

from evenkeel_api import errors
from evenkeel_api.features.wear import DEFAULT, SetWearLimit
from evenkeel_api.messages import Message
from evenkeel_common.files import read_small, replace, why
from evenkeel_common.wear import Wear, wear

from .caller import Caller
from .health import flash_devices
from .settings import Settings

FILE_LIMIT = 1024
POLL_S = 300.0  # the reports change within weeks
USED_UP = 100  # a device reports 110 if it has used more than its whole life
SPARE = {"warning": 80, "urgent": 90}  # used part of the spare blocks in percent, JEDEC JESD84-B51, 7.4.43
_log = logging.getLogger(__name__)


def warnings(states: Iterable[Wear], limit: int) -> list[Message]:
    """What an administrator must know about the devices with STATES. LIMIT in percent of the life; 0: none."""
    found = []
    for state in states:
        used = state.life_used
        if used is not None and used > USED_UP:
            found.append(Message("wear-used-up", device=state.device))
        elif limit and used is not None and used >= limit:
            found.append(Message("wear-limit", device=state.device, used=used, limit=limit))
        if state.pre_eol in SPARE:
            found.append(Message("wear-spare", device=state.device, part=SPARE[state.pre_eol]))
    return found


class FlashWear:
    """The handler of the feature `wear`."""

    def __init__(self, settings: Settings, changed: Callable[[], None]) -> None:
        """Read the saved limit. Blocks. CHANGED is called after each change of the limit."""
        self._changed = changed
        self._path = os.path.join(settings.state_dir, "wear.json")
        self._sys_block = settings.path("/sys/block")
        self._saving = asyncio.Lock()
        self._states: list[Wear] = []
        self._load_problem: Message | None = None
        self.limit = DEFAULT
        try:
            self.limit = _parse(read_small(self._path, FILE_LIMIT))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:
            reason = why(error) if isinstance(error, OSError) else str(error)
            self._load_problem = Message(
                "wear-limit-unreadable", path=self._path, limit=DEFAULT, reason=reason
            )
            _log.warning("%s", self._load_problem)

    @property
    def problems(self) -> list[Message]:
        own = [self._load_problem] if self._load_problem else []
        return [*own, *warnings(self._states, self.limit)]

    async def watch(self) -> None:
        """Ask the devices for as long as the agent runs."""
        while True:
            self._states = await asyncio.to_thread(self._read)
            await asyncio.sleep(POLL_S)

    def _read(self) -> list[Wear]:
        return [wear(self._sys_block, device.name) for device in flash_devices(self._sys_block)]

    async def set_wear_limit(self, request: SetWearLimit, _: Caller) -> None:
        await self.restore(request.percent)

    async def restore(self, percent: int) -> None:
        """Save the limit PERCENT. On an AgentError nothing has changed."""
        async with self._saving:
            content = json.dumps({"percent": percent}).encode() + b"\n"
            try:
                await asyncio.to_thread(replace, self._path, content)
            except OSError as error:
                raise errors.Failed("wear-limit-not-saved", path=self._path, reason=why(error)) from error
            self.limit, self._load_problem = percent, None
            self._changed()


def _parse(content: bytes) -> int:
    found = json.loads(content.decode("utf-8"))
    percent = found.get("percent") if isinstance(found, dict) else None
    if type(percent) is not int or not 0 <= percent <= 100:
        raise ValueError("it has no percentage from 0 to 100")
    return percent
