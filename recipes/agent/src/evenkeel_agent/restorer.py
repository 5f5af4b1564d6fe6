# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118
"""Serves the feature `backup`: collects the settings of all features, and restores them.

Guarantee: after a restore, all settings are those of the backup, or all are those of before. The settings are in several
files. So the plan is saved first, in restore.json, and removed at the end. If a step fails, the agent goes back. If the
board loses power, the agent completes the plan when it starts again; until this succeeds, the board has a problem, and the
agent tries again each RETRY_S.

Going back undoes only what the restore itself has changed: other people may have changed settings meanwhile. So each step
remembers the values before and after it, and only a value that is still the later one goes back.

The network settings change only on demand, and as a change that the board undoes unless somebody confirms it
(network.py). So a restore locks nobody out. A plan that the agent completes later leaves them out.

The users come last, in one transaction. So going back never touches them: it could bring back neither the sessions that
the restore has ended, nor may it bring back a user whom somebody has removed.

The plan and a backup have the password hashes of the users, the secrets of their authenticator apps, and the password of
the mail server: a board that replaces this one needs them. So the plan has mode 0600, and a user of the
panel must enter the password to get a backup. The private key of the certificate is in no backup: it never leaves
ek-certificate, so that a compromised agent cannot read it (docs/explanation/architecture.md).
"""

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from evenkeel_api import errors
from evenkeel_api.features.backup import MAX_BYTES, CheckBackup, GetBackup, Restore, RestoreBackup
from evenkeel_api.features.system import SetHostName, SetTimeServers, SetTimeZone
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import read_small, remove, replace, why
from msgspec.structs import replace as replace_fields

from . import alerts, backup, recorder_config, system_orders
from .accounts import Accounts
from .agent import Agent
from .alerts import Alerts
from .backup import Content, Signed, Undo
from .cache import PagePool
from .caller import Caller
from .certificate import Certificates
from .network import Network
from .recorder_config import BadFile, Recorder
from .settings import Settings
from .system import SystemSettings
from .system_orders import SetRecorder
from .wear import FlashWear

RETRY_S = 60.0
# Groups of fields of Content, in the order of their steps. Those that depend on other services come first. The removal of an
# app also deletes its weight, its fixed share and its directories, so these follow the apps, and are read together with them.
STEPS = (
    ("name",),
    ("zone",),
    ("servers",),
    ("recorder",),
    ("alerts",),
    ("wear_limit",),
    ("apps", "weights", "fixed_shares", "directories"),
)
FIELDS = tuple(field for group in STEPS for field in group)
SYSTEM = ("name", "zone", "servers")
NOBODY = Caller("", None, "bus")
Changes = dict[str, tuple[Any, Any]]  # by field of Content: its values before and after its step
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
        certificates: Certificates,
    ) -> None:
        self._settings = settings
        self._path = os.path.join(settings.state_dir, "restore.json")
        self._recorder_folder = settings.path(recorder_config.FOLDER)
        self._agent = agent
        self._accounts = accounts
        self._alerts = sender
        self._system = system
        self._pool = pool
        self._network = network
        self._wear = wear
        self._certificates = certificates
        self._restoring = asyncio.Lock()
        self._wake = asyncio.Event()
        self._left: Changes = {}  # what still has to go back
        self._only_plan_left = False  # all is done, but the plan could not be removed
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
        """Complete the plan, if there is one. Raises AgentError or OSError."""
        async with self._restoring:
            if self._left:
                await self._go_back()
            elif not self._only_plan_left:
                try:
                    content = await asyncio.to_thread(read_small, self._path, 8 * MAX_BYTES)
                except FileNotFoundError:
                    self.problems = []
                    return
                try:
                    plan = backup.load_plan(content.decode("utf-8", "replace"))
                except errors.InvalidArgument:
                    # It was never complete: replace() leaves the old file or the new one. Nothing can be done with it.
                    _log.warning("%s is not a plan, so it is removed", self._path)
                else:
                    if isinstance(plan, Undo):
                        self._left = plan.changes()
                        await self._go_back()
                    else:
                        await self._apply(plan, {})
                        await self._restore_users(plan)
            await self._remove_plan()
            self.problems = []

    # the methods

    async def get_backup(self, request: GetBackup, caller: Caller) -> str:
        if caller.via != "bus":
            await self._accounts.check_password(caller, request.password)
        try:
            content = replace_fields(
                await self._content(),
                network=await self._network.saved(),
                certificate=await self._certificate(),
            )
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
                # Otherwise, the board would change and go back.
                await self._network.check_idle()
            code = "not-restored"
            try:
                await asyncio.to_thread(replace, self._path, backup.dump(new, int(time.time())).encode())
            except OSError as error:
                raise errors.Failed(code, reason=why(error)) from error
            self._left, self._only_plan_left = {}, False  # whatever an earlier restore has left
            changes: Changes = {}
            trial = False
            try:
                await self._apply(new, changes)
                if with_network:
                    trial = await self._network.restore(new.network or {})
                await self._restore_users(new)
            except errors.AgentError as error:
                if trial:
                    with suppress(errors.AgentError):  # then it ends by itself, because nobody confirms it
                        await self._network.revert_network(Nothing(), NOBODY)
                await self._undo(old, changes)
                raise errors.Failed(code, reason=error.message) from error
            try:
                await self._remove_plan()
            except OSError as error:
                self._unfinished(error)
                self._wake.set()
            return answer

    # internal

    async def _remove_plan(self) -> None:
        """The plan is complete. If its file stays, the next call removes it, and applies nothing. Raises OSError."""
        self._only_plan_left = True
        with suppress(FileNotFoundError):
            await asyncio.to_thread(remove, self._path)
        self._only_plan_left = False

    async def _undo(self, old: Content, changes: Changes) -> None:
        """After a failed step: take CHANGES back. If this fails as well, the plan for it stays. OLD: the settings of before."""
        self._left = changes
        try:
            # Without space for this plan, that of the restore stays. It would be completed after a power cut.
            with suppress(OSError):
                await self._save_undo(old)
            try:
                await self._go_back()
            except errors.AgentError:
                await self._save_undo(old)
                raise
            await self._remove_plan()
        except (errors.AgentError, OSError) as error:
            self._unfinished(error)
            self._wake.set()

    async def _save_undo(self, old: Content) -> None:
        await asyncio.to_thread(replace, self._path, backup.dump_undo(old, self._left).encode())

    async def _go_back(self) -> None:
        """Undo the changes that are left. Raises AgentError after it has tried all of them."""
        failed: errors.AgentError | None = None
        for field, (before, after) in list(self._left.items()):
            try:
                now = await self._value(field)
                wanted = backup.without(before, after, now)
                if wanted not in ("", now):  # "": it was not known
                    await self._set(field, wanted)
            except errors.AgentError as error:
                failed = failed or error
            else:
                del self._left[field]
        if failed:
            raise failed

    async def _content(self, fields: Sequence[str] = FIELDS) -> Content:
        """The settings FIELDS, and the users."""
        system = await self._system.get_system(Nothing(), NOBODY)
        found = {field: getattr(system, field) for field in SYSTEM}
        found |= {field: await self._value(field) for field in fields if field not in found}
        return Content(**found, users=self._accounts.saved(), tokens=self._accounts.saved_tokens())

    async def _compare(self, text: str) -> tuple[Content, Content, Restore]:
        """The settings of before, those of the backup TEXT, and what differs. Raises AgentError if it cannot be restored."""
        file = backup.load(text)
        alerts.check(file.content.alerts)
        new = file.content
        # A part that the backup does not have is not read: it may have an error.
        old = await self._content([field for field in FIELDS if getattr(new, field) is not None])
        if new.zone not in ("", old.zone) and new.zone not in await self._system.list_time_zones(
            Nothing(), NOBODY
        ):
            raise errors.InvalidArgument("unknown-time-zone", zone=new.zone)
        answer = Restore(
            board=new.name,
            made_at=file.made_at,
            changes=[message.note() for message in backup.differences(old, new)],
            left_out=[message.note() for message in await self._left_out(old, new)],
            network=[message.note() for message in await self._network_differences(new)],
        )
        return old, new, answer

    async def _left_out(self, old: Content, new: Content) -> list[Message]:
        """What a restore of NEW leaves out, and what to do."""
        found = [Message("restore-recorder-absent")] if new.recorder and old.recorder is None else []
        present: Signed | None = None
        with suppress(errors.AgentError):
            present = await self._certificate()
        if (wanted := new.certificate) and wanted != present:
            found.append(Message("restore-certificate", subject=wanted.subject, issuer=wanted.issuer))
        return found

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

    async def _apply(self, new: Content, changes: Changes) -> None:
        """Make NEW the settings of the board, but for network and users. What has changed goes to CHANGES, also on an error."""
        for group in STEPS:
            if all(getattr(new, field) is None for field in group):
                continue
            before = {field: await self._value(field) for field in group}
            for field in group:
                now = before[field] if field == group[0] else await self._value(field)
                wanted = getattr(new, field)
                if wanted in (None, ""):  # not in the backup
                    wanted = now
                if before[field] == now == wanted:
                    continue
                changes[field] = before[field], wanted
                if now != wanted:
                    await self._set(field, wanted)
                    # A feature may save another form of the value.
                    after = await self._value(field)
                    changes[field] = before[field], wanted if after == "" else after

    async def _restore_users(self, new: Content) -> None:
        """Make users and tokens of NEW those of the board; without any users, the present ones stay."""
        same = new.users == self._accounts.saved() and new.tokens in (None, self._accounts.saved_tokens())
        if new.users and not same:
            await self._accounts.restore(new.users, new.tokens)

    async def _value(self, field: str) -> Any:
        """The present value of FIELD of Content. Raises AgentError."""
        match field:
            case "name" | "zone" | "servers":
                return getattr(await self._system.get_system(Nothing(), NOBODY), field)
            case "recorder":
                return await self._recorder()
            case "alerts":
                return self._alerts.saved
            case "wear_limit":
                return self._wear.limit
            case "apps":
                return self._agent.added()
            case "weights":
                return self._agent.saved_weights()
            case "fixed_shares":
                return self._agent.saved_fixed_shares()
            case "directories":
                return await self._pool.saved()
        raise ValueError(field)

    async def _set(self, field: str, value: Any) -> None:
        """Make VALUE the present value of FIELD of Content. Raises AgentError."""
        match field:
            case "name":
                await self._system.set_host_name(SetHostName(value), NOBODY)
            case "zone":
                await self._system.set_time_zone(SetTimeZone(value), NOBODY)
            case "servers":
                await self._system.set_time_servers(SetTimeServers(value), NOBODY)
            case "recorder":
                await self._set_recorder(value)
            case "alerts":
                await self._alerts.restore(value)
            case "wear_limit":
                await self._wear.restore(value)
            case "apps":
                await self._agent.restore_added(value)
            case "weights":
                await self._agent.restore_weights(value)
            case "fixed_shares":
                await self._agent.restore_fixed_shares(value)
            case "directories":
                await self._pool.restore(value)
            case _:
                raise ValueError(field)

    async def _certificate(self) -> Signed | None:
        found = await self._certificates.signed()
        return Signed(found.subject[:1000], found.issuer[:1000], found.fingerprint) if found else None

    async def _recorder(self) -> Recorder | None:
        try:
            return await asyncio.to_thread(recorder_config.read, self._recorder_folder)
        except BadFile as error:
            raise errors.Failed(
                "recorder-not-in-backup", reason=str(error), folder=recorder_config.FOLDER
            ) from error

    async def _set_recorder(self, wanted: Recorder) -> None:
        present = await self._recorder()
        if present is None:  # the channels are left out
            return
        changes = recorder_config.changes(present, wanted)
        try:
            await system_orders.carry_out(SetRecorder(wanted.group, wanted.priority, changes), self._settings)
        except errors.AgentError as error:
            raise errors.Failed("recorder-not-set", reason=error.message) from error
