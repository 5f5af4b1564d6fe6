# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118
"""Serves the feature `backup`: collects the settings of all features, and restores them.

Guarantee: after a restore, all settings are those of the backup, or all are those of before. The settings are in several
files. So the plan is saved first, in restore.json, and removed at the end. If a step fails, the agent restores the
settings of before. If the board loses power, the agent completes the plan when it starts again; until this succeeds, the
board has a problem, and the agent tries again each RETRY_S.

The network settings come last, only on demand, and as a change that the board undoes unless somebody confirms it
(network.py). So a restore locks nobody out. A plan that the agent completes later leaves them out.

The plan and a backup have the password hashes of the users, the secrets of their authenticator apps, and the password of
the mail server: a board that replaces this one needs them. So the plan has mode 0600, and a user of the
panel must enter the password to get a backup.
"""

import asyncio
import logging
import os
import time

from evenkeel_api import errors
from evenkeel_api.features.backup import MAX_BYTES, CheckBackup, GetBackup, Restore, RestoreBackup
from evenkeel_api.features.system import SetHostName, SetTimeServers, SetTimeZone
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import read_small, replace, why
from msgspec.structs import replace as replace_fields

from . import alerts, backup
from .accounts import Accounts
from .agent import Agent
from .alerts import Alerts
from .backup import Content
from .cache import PagePool
from .caller import Caller
from .network import Network
from .settings import Settings
from .system import SystemSettings
from .wear import FlashWear

RETRY_S = 60.0
NOBODY = Caller("", None, "bus")
_log = logging.getLogger(__name__)


class Restorer:
    """The handlers of the feature `backup`."""

    def __init__(
        self,
        settings: Settings,
        agent: Agent,
        accounts: Accounts,
        sender: Alerts,
        system: SystemSettings,
        pool: PagePool,
        network: Network,
        wear: FlashWear,
    ) -> None:
        self._path = os.path.join(settings.state_dir, "restore.json")
        self._agent = agent
        self._accounts = accounts
        self._alerts = sender
        self._system = system
        self._pool = pool
        self._network = network
        self._wear = wear
        self._restoring = asyncio.Lock()
        self._wake = asyncio.Event()
        self.problems: list[Message] = []

    async def watch(self) -> None:
        """Complete a plan that is left: a power cut has interrupted it, or going back to the settings of before has failed."""
        while True:
            try:
                await self._complete()
            except (errors.AgentError, OSError) as error:
                self._unfinished(error)
                await asyncio.sleep(RETRY_S)
            else:
                self._wake.clear()
                await self._wake.wait()
                await asyncio.sleep(RETRY_S)

    def _unfinished(self, error: errors.AgentError | OSError) -> None:
        reason = why(error) if isinstance(error, OSError) else str(error)
        self.problems = [Message("restore-unfinished", reason=reason)]
        _log.warning("%s", self.problems[0])

    async def _complete(self) -> None:
        async with self._restoring:
            try:
                text = (await asyncio.to_thread(read_small, self._path, 4 * MAX_BYTES)).decode(
                    "utf-8", "replace"
                )
            except FileNotFoundError:
                self.problems = []
                return
            try:
                plan = backup.load(text).content
            except errors.InvalidArgument:
                # It was never complete: replace() leaves the old file or the new one. Nothing can be done with it.
                _log.warning("%s is not a plan, so it is removed", self._path)
            else:
                await self._apply(await self._content(), plan)
            await asyncio.to_thread(os.unlink, self._path)
            self.problems = []

    # the methods

    async def get_backup(self, request: GetBackup, caller: Caller) -> str:
        if caller.via != "bus":
            await self._accounts.check_password(caller, request.password)
        try:
            content = replace_fields(await self._content(), network=await self._network.saved())
        except errors.AgentError as error:
            # A part that is missing would be noticed only when it is needed.
            raise errors.Failed("backup-not-made", reason=error.message) from error
        text = backup.dump(content, int(time.time()))
        if len(text) > MAX_BYTES:
            raise errors.Failed("backup-not-made", reason=Message("backup-too-large", limit=MAX_BYTES))
        return text

    async def check_backup(self, request: CheckBackup, _: Caller) -> Restore:
        return (await self._compare(request.backup))[2]

    async def restore_backup(self, request: RestoreBackup, _: Caller) -> Restore:
        async with self._restoring:
            old, new, answer = await self._compare(request.backup)
            with_network = request.network and new.network is not None
            if with_network:
                # Later, going back could not bring back the sessions that a restore has ended.
                await self._network.check_idle()
            code = "not-restored"
            try:
                await asyncio.to_thread(replace, self._path, backup.dump(new, int(time.time())).encode())
            except OSError as error:
                raise errors.Failed(code, reason=why(error)) from error
            try:
                await self._apply(old, new)
                if with_network:
                    await self._network.restore(new.network or {})
            except errors.AgentError as error:
                await self._undo(old)
                raise errors.Failed(code, reason=error.message) from error
            await asyncio.to_thread(os.unlink, self._path)
            return answer

    # internal

    async def _undo(self, old: Content) -> None:
        """After a failed step: restore the settings of before. If this fails as well, the plan for it stays."""
        try:
            await asyncio.to_thread(replace, self._path, backup.dump(old, int(time.time())).encode())
            await self._apply(await self._content(), old)
            await asyncio.to_thread(os.unlink, self._path)
        except (errors.AgentError, OSError) as error:
            self._unfinished(error)
            self._wake.set()

    async def _content(self) -> Content:
        """All settings but those of the network."""
        system = await self._system.get_system(Nothing(), NOBODY)
        weights, fixed_shares = self._agent.saved()
        return Content(
            name=system.name,
            zone=system.zone,
            servers=list(system.servers),
            weights=weights,
            fixed_shares=fixed_shares,
            alerts=self._alerts.saved,
            users=self._accounts.saved(),
            apps=self._agent.added(),
            directories=await self._pool.saved(),
            wear_limit=self._wear.limit,
        )

    async def _compare(self, text: str) -> tuple[Content, Content, Restore]:
        """The settings of before, those of the backup TEXT, and what differs. Raises AgentError if it cannot be restored."""
        file = backup.load(text)
        alerts.check(file.content.alerts)
        old, new = await self._content(), file.content
        if new.zone not in ("", old.zone) and new.zone not in await self._system.list_time_zones(
            Nothing(), NOBODY
        ):
            raise errors.InvalidArgument("unknown-time-zone", zone=new.zone)
        answer = Restore(
            board=new.name,
            made_at=file.made_at,
            changes=[message.note() for message in backup.differences(old, new)],
            network=[message.note() for message in await self._network_differences(new)],
        )
        return old, new, answer

    async def _network_differences(self, new: Content) -> list[Message]:
        """What a restore of the network settings of NEW changes, or why this is not known: other settings can be restored."""
        if new.network is None:
            return []
        try:
            old = await self._network.saved()
            present = await self._network.present() if old != new.network else []
        except errors.AgentError as error:
            return [error.message]
        return backup.network_differences(old, new.network, present)

    async def _apply(self, old: Content, new: Content) -> None:
        """Make NEW the settings of the board. The steps that depend on other services come first."""
        if new.name != old.name:
            await self._system.set_host_name(SetHostName(new.name), NOBODY)
        if new.zone not in ("", old.zone):
            await self._system.set_time_zone(SetTimeZone(new.zone), NOBODY)
        if new.servers != old.servers:
            await self._system.set_time_servers(SetTimeServers(new.servers), NOBODY)
        if new.alerts != old.alerts:
            await self._alerts.restore(new.alerts)
        if new.wear_limit is not None and new.wear_limit != old.wear_limit:
            await self._wear.restore(new.wear_limit)
        if new.apps != old.apps:
            # before the weights, because the removal of an app also deletes its weight
            await self._agent.restore_added(new.apps)
        if (new.weights, new.fixed_shares) != (old.weights, old.fixed_shares):
            await self._agent.restore(new.weights, new.fixed_shares)
        if new.directories is not None and new.directories != old.directories:
            await self._pool.restore(new.directories)
        if new.users and new.users != old.users:
            await self._accounts.restore(new.users)
