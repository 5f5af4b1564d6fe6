# SPDX-License-Identifier: Apache-2.0
"""Backups: the file, and a restore that is complete or does nothing. webui/tests/test_system.py has the pages."""

import asyncio
import json
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyotp
import pytest
from agent_harness import ERROR, FakeHelper, Harness, on_board
from evenkeel_agent import backup, passwords, registry, restorer, system_helper
from evenkeel_agent.accounts import Accounts
from evenkeel_agent.alerts import OFF, Alerts
from evenkeel_agent.backup import Content, Signed, Token, User
from evenkeel_agent.caller import Caller
from evenkeel_agent.network import changes
from evenkeel_agent.network_helper import APPLY_S
from evenkeel_agent.network_trial import TRIAL_S
from evenkeel_agent.recorder_config import Recorder
from evenkeel_agent.restorer import Restorer
from evenkeel_agent.settings import Settings
from evenkeel_agent.store import Store
from evenkeel_agent.wear import FlashWear
from evenkeel_api import errors
from evenkeel_api.features.accounts import CreateToken, Id, LogIn
from evenkeel_api.features.alerts import SetAlerts
from evenkeel_api.features.backup import MAX_BYTES, CheckBackup, GetBackup, RestoreBackup
from evenkeel_api.features.certificate import Certificate
from evenkeel_api.features.network import NetworkSettings
from evenkeel_api.features.system import System
from evenkeel_api.interface import METHODS
from evenkeel_api.method import Nothing
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from packet_helper import PoolHelper
from test_accounts import PASSWORD, PanelClient
from test_network import FIXED, Network

# of the password "sailing on an even keel"
HASH = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$" + "a" * 43
ADMIN = User("admin", "admin", HASH, False, "")
MAIL = SetAlerts("", "ops@example.org", "", "mail.example.org", 587, "tls", "board", "hunter2-hunter2")
ARM = "record_size = 64\nretain = 1GiB\n"
TOKEN = Token(64 * "1", "ci", "eve", "viewer", 1_800_000_000, 0)
FULL = Content(
    "press-7", "Europe/Berlin", ["192.0.2.7"], {"player": 300}, {"loader": 20}, MAIL,
    [ADMIN, User("eve", "viewer", HASH, True, "A" * 32)],
    {"cam": 'title = "Camera"\nunit = "cam.service"\nweight = 100\n'}, {"player": ["/data/clips"], "loader": []}, wear_limit=70,
    tokens=[TOKEN], recorder=Recorder("press", 0, {"arm": ARM}),
)  # fmt: skip
EMPTY = Content(
    "evenkeel", "Etc/UTC", [], {}, {}, OFF, [ADMIN], {}, {}, wear_limit=80, tokens=[], recorder=Recorder("ek-record", 0, {}),
)  # fmt: skip
ETH0 = NetworkSettings("fixed", "192.168.1.20/24", "192.168.1.1", ["192.168.1.2"])


def changed(text: str, **values: Any) -> str:
    """The backup TEXT with other values of its content, and the right checksum."""
    found = json.loads(text)
    found["content"] |= values
    found["checksum"] = backup._checksum(found)
    return json.dumps(found)


def refused(text: str) -> str:
    with pytest.raises(errors.InvalidArgument) as error:
        backup.load(text)
    return error.value.message.code


def test_a_file_has_what_was_saved() -> None:
    file = backup.load(backup.dump(FULL, 1_800_000_000))
    assert (file.content, file.made_at, file.version) == (FULL, 1_800_000_000, 4)
    # an editor may change the layout
    assert backup.load(json.dumps(json.loads(backup.dump(FULL, 5)), sort_keys=True)).content == FULL


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "7", "{}", '{"format": "other"}', "[" * 100_000, "{" * 100_000]
)
def test_another_file_is_no_backup(text: str) -> None:
    assert refused(text) == "backup-unknown"


def test_a_cut_file_is_no_backup() -> None:
    text = backup.dump(FULL, 5)
    for end in range(0, len(text.rstrip()) - 1, 37):
        assert refused(text[:end]) == "backup-unknown"


@given(st.data())
def test_no_changed_value_passes(data: st.DataObject) -> None:
    text = backup.dump(FULL, 1_800_000_000)
    at = data.draw(st.integers(0, len(text) - 1))
    other = text[:at] + data.draw(st.sampled_from("0a9Z")) + text[at + 1 :]
    try:
        found = backup.load(other).content
    except errors.InvalidArgument:
        return
    assert found == FULL  # only whitespace was replaced, or nothing


def test_a_newer_file_names_its_version() -> None:
    found = json.loads(backup.dump(FULL, 5)) | {"version": 5}
    with pytest.raises(
        errors.InvalidArgument, match="version 5, and this board reads up to version 4; update the board"
    ):
        backup.load(json.dumps(found))
    for version in (0, -1, "1", None, 1.5, True):
        assert refused(json.dumps(found | {"version": version})) == "backup-damaged"


def test_a_file_of_version_1_leaves_the_parts_that_it_does_not_have() -> None:
    found = json.loads(backup.dump(FULL, 5)) | {"version": 1}
    for part in ("directories", "network", "wear_limit", "tokens", "recorder"):
        del found["content"][part]
    found["content"]["panel"] = ""
    file = backup.load(json.dumps(found | {"checksum": backup._checksum(found)}))
    assert file.content == replace(FULL, directories=None, wear_limit=None, tokens=None, recorder=None)
    assert backup.differences(FULL, file.content) == []


def test_a_file_of_version_3_leaves_tokens_and_channels() -> None:
    found = json.loads(backup.dump(FULL, 5)) | {"version": 3}
    del found["content"]["tokens"], found["content"]["recorder"]
    file = backup.load(json.dumps(found | {"checksum": backup._checksum(found)}))
    assert file.content == replace(FULL, tokens=None, recorder=None)
    assert backup.differences(FULL, file.content) == []


def test_tokens_of_users_that_a_file_does_not_have_are_dropped() -> None:
    others = [replace(TOKEN, digest=64 * digit, user=user) for digit, user in (("3", "bob"), ("0", "admin"))]
    loaded = backup.load(backup.dump(replace(FULL, tokens=[TOKEN, *others]), 5)).content
    assert loaded.tokens == [others[1], TOKEN], "in the order of their digests"
    assert backup.load(backup.dump(replace(FULL, users=[]), 5)).content.tokens == []


@pytest.mark.parametrize(
    ("text", "limit"),
    [('{"wear_limit_percent": 40}', 40), ("", None), ("x", None), ("{}", None), ("[]", None)],
)
def test_a_file_of_version_2_has_the_wear_limit_in_the_text_of_the_panel(
    text: str, limit: int | None
) -> None:
    found = json.loads(backup.dump(FULL, 5)) | {"version": 2}
    del found["content"]["wear_limit"]
    found["content"]["panel"] = text
    file = backup.load(json.dumps(found | {"checksum": backup._checksum(found)}))
    assert file.content == replace(FULL, wear_limit=limit)


USER = msgspec.to_builtins(ADMIN)
CAM = FULL.apps["cam"]
PLAIN_ETH0 = msgspec.to_builtins(ETH0)
PLAIN_RECORDER = msgspec.to_builtins(FULL.recorder)
PLAIN_TOKEN = msgspec.to_builtins(TOKEN)


@pytest.mark.parametrize(
    "values",
    [
        {"name": "a b"}, {"name": ""}, {"name": 7}, {"zone": "../etc"}, {"servers": ["-x"]}, {"servers": ["a"] * 9},
        {"weights": {"player": 0}}, {"weights": {"player": 10001}}, {"weights": {"../x": 5}}, {"weights": {"player": True}},
        {"apps": {"cam": "title = 1"}}, {"apps": {"../x": CAM}}, {"apps": {"cam": CAM + 'stats = "/etc/x"'}},
        {"apps": {"cam": 5}}, {"apps": {f"a{i}": CAM for i in range(65)}},
        {"fixed_shares": {"player": 101}}, {"fixed_shares": {"a": 60, "b": 41}}, {"alerts": {}},
        {"alerts": msgspec.to_builtins(MAIL) | {"smtp_port": 0}}, {"more": 1},
        {"wear_limit": -1}, {"wear_limit": 101}, {"wear_limit": True}, {"wear_limit": "70"},
        {"users": [USER | {"role": "root"}]}, {"users": [USER | {"name": "Admin"}]}, {"users": [USER | {"name": "root"}]},
        {"users": [USER | {"role": "viewer"}]}, {"users": [USER, USER]}, {"users": [USER] * 33},
        {"users": [USER | {"hash": None}]}, {"users": [USER | {"hash": "hunter2"}]}, {"users": [USER | {"more": 1}]},
        {"users": [USER | {"hash": HASH.replace("m=19456", "m=65537")}]},
        {"users": [USER | {"hash": HASH.replace("m=19456", "m=100000")}]},
        {"users": [USER | {"hash": HASH.replace("t=2", "t=6")}]}, {"users": [USER | {"hash": HASH.replace("t=2", "t=10")}]},
        {"users": [USER | {"hash": HASH.replace("p=1", "p=5")}]}, {"users": [USER | {"hash": HASH.replace("p=1", "p=0")}]},
        {"tokens": [PLAIN_TOKEN | {"digest": "x" * 64}]}, {"tokens": [PLAIN_TOKEN | {"digest": "1" * 63}]},
        {"tokens": [PLAIN_TOKEN | {"role": "root"}]}, {"tokens": [PLAIN_TOKEN | {"expires_at": -1}]},
        {"tokens": [PLAIN_TOKEN | {"created_at": 10**17}]}, {"tokens": [PLAIN_TOKEN | {"name": "x" * 65}]},
        {"tokens": [PLAIN_TOKEN, PLAIN_TOKEN]}, {"tokens": [PLAIN_TOKEN | {"more": 1}]}, {"tokens": {}},
        {"tokens": [PLAIN_TOKEN | {"digest": f"{i:064x}"} for i in range(33)]},
        {"certificate": {}}, {"certificate": {"subject": "x", "issuer": "y", "fingerprint": "z", "key": "-----BEGIN"}},
        {"recorder": {}}, {"recorder": []}, {"recorder": PLAIN_RECORDER | {"directory": "/srv"}},
        {"recorder": PLAIN_RECORDER | {"group": "a b"}}, {"recorder": PLAIN_RECORDER | {"priority": 99}},
        {"recorder": PLAIN_RECORDER | {"channels": {"../x": ARM}}}, {"recorder": PLAIN_RECORDER | {"channels": {"arm": ""}}},
        {"recorder": PLAIN_RECORDER | {"channels": {"arm": f"{ARM}schema = /root/x\nschema_name = a\nschema_encoding = b"}}},
        {"recorder": PLAIN_RECORDER | {"channels": {f"c{i}": ARM for i in range(65)}}},
        {"users": [USER | {"totp": "x"}]}, {"users": [USER | {"totp": "A" * 17}]}, {"users": [USER | {"totp": "A" * 8}]},
        {"directories": {"../x": []}}, {"directories": {"player": "/srv"}}, {"directories": {"player": ["srv"]}},
        {"directories": {"player": [f"/srv/{i}" for i in range(33)]}}, {"network": {"../x": PLAIN_ETH0}},
        {"network": {"lo": PLAIN_ETH0}}, {"network": {"eth0": PLAIN_ETH0 | {"mode": "other"}}}, {"network": []},
        {"network": {"eth0": PLAIN_ETH0 | {"gateway": "10.0.0.1"}}}, {"network": {f"e{i}": PLAIN_ETH0 for i in range(65)}},
    ],
)  # fmt: skip
def test_a_value_that_is_not_valid_is_refused_although_the_checksum_is_right(values: dict[str, Any]) -> None:
    assert refused(changed(backup.dump(FULL, 5), **values)) == "backup-invalid"


@pytest.mark.parametrize("made_at", [-1, backup.YEAR_9999 + 1, 10**17, 10**30, 1.5, "1"])
def test_a_time_that_cannot_be_shown_is_refused(made_at: Any) -> None:
    found = json.loads(backup.dump(FULL, 5)) | {"made_at": made_at}
    assert refused(json.dumps(found | {"checksum": backup._checksum(found)})) == "backup-invalid"
    assert time.gmtime(backup.YEAR_9999).tm_year == 9999
    assert backup.load(backup.dump(FULL, backup.YEAR_9999)).made_at == backup.YEAR_9999


@given(st.integers(1, 65536), st.integers(1, 5), st.integers(1, 4))
@example(65536, 5, 4)
@example(passwords.COST["memory_cost"], passwords.COST["time_cost"], passwords.COST["parallelism"])
def test_a_hash_of_common_cost_is_accepted(kib: int, passes: int, lanes: int) -> None:
    digest = HASH.replace("m=19456,t=2,p=1", f"m={kib},t={passes},p={lanes}")
    file = changed(backup.dump(FULL, 5), users=[USER | {"hash": digest}])
    assert backup.load(file).content.users[0].hash == digest


@given(st.from_regex(backup.TOTP))
def test_a_secret_that_is_accepted_gives_codes(secret: str) -> None:
    """Otherwise, its user could not log in."""
    file = changed(backup.dump(FULL, 5), users=[USER | {"totp": secret}])
    assert backup.load(file).content.users[0].totp == secret
    if secret:
        assert len(pyotp.TOTP(secret).at(0)) == 6


def test_the_differences_have_a_sentence_each() -> None:
    assert backup.differences(FULL, FULL) == []
    found = {str(message) for message in backup.differences(EMPTY, FULL)}
    assert found == {
        "the name changes from evenkeel to press-7",
        "the time zone changes from Etc/UTC to Europe/Berlin",
        "the time servers change from those of the network to 192.0.2.7",
        "the app cam is added",
        "the weight of player changes from the default to 300",
        "the fixed share of loader changes from off to 20",
        "the priority directories of player change from those of its file to /data/clips",
        "the priority directories of loader change from those of its file to none",
        "the wear limit changes from 80 % to 70 %",
        "the receivers of alerts change",
        "the user eve is added, with the role viewer",
        "the group of all channels without a group of their own changes from ek-record to press at the next start of the"
        " recorder",
        "the channel arm of the recorder is added: record_size 64, retain 1GiB",
        "the API token ci of eve comes back: it is valid again, with the role viewer, without an end",
    }
    assert "the user eve is removed, with all sessions and tokens" in map(
        str, backup.differences(FULL, EMPTY)
    )
    assert "the app cam is removed" in map(str, backup.differences(FULL, EMPTY))
    other = replace(FULL, apps={"cam": CAM.replace("Camera", "Front")})
    assert [message.code for message in backup.differences(FULL, other)] == ["restore-app-changed"]
    other = replace(FULL, users=[replace(ADMIN, totp="B" * 16), FULL.users[1]])
    assert [message.code for message in backup.differences(FULL, other)] == ["restore-user-changed"]
    assert [str(message) for message in backup.differences(FULL, replace(FULL, wear_limit=0))] == [
        "the wear limit changes from 70 % to off"
    ]
    for message in backup.differences(FULL, replace(EMPTY, alerts=replace(MAIL, smtp_password="other"))):  # noqa: S106
        assert "hunter2" not in str(message.note())
    assert backup.differences(FULL, replace(FULL, users=[])) == []


def test_the_differences_name_each_value_of_a_channel() -> None:
    """Some values let other users read its recording, or delete old records."""

    def found(old: str, new: str) -> list[str]:
        before, after = (replace(FULL, recorder=Recorder("", 0, {"arm": text})) for text in (old, new))
        return [str(message) for message in backup.differences(before, after)]

    changed = "retain_time = 7d\nretain = 1GiB\nrecord_size = 65\nread_mode = all\n"
    assert found(ARM, changed) == [
        "the channel arm of the recorder changes: record_size from 64 to 65, retain_time from none to 7d,"
        " read_mode from none to all"
    ]
    assert found(ARM, f"# by hand\n{ARM}") == ["the comments in the file of the channel arm change"]
    gone = replace(FULL, recorder=Recorder("press", 5, {}))
    assert [str(message) for message in backup.differences(FULL, gone)] == [
        "the priority of the recorder changes from 0 to 5 at its next start",
        "the channel arm of the recorder is removed; its recording stays",
    ]
    assert backup.differences(replace(EMPTY, recorder=None), replace(EMPTY, recorder=gone.recorder)) == []


def test_the_differences_name_the_tokens() -> None:
    """Somebody may have revoked a token since the backup was made."""

    def found(old: list[Token] | None, new: list[Token] | None, users: list[User] = FULL.users) -> list[str]:
        before, after = replace(FULL, tokens=old), replace(FULL, tokens=new, users=users)
        return [str(message) for message in backup.differences(before, after)]

    until = replace(TOKEN, expires_at=1_900_000_000)
    assert found([TOKEN], [TOKEN]) == found([TOKEN], None) == found([TOKEN], [], users=[]) == []
    assert found([], [until]) == [
        "the API token ci of eve comes back: it is valid again, with the role viewer, until 2030-03-17"
    ]
    assert found([TOKEN], []) == ["the API token ci of eve is removed"]
    assert found([TOKEN], [until]) == [
        "the API token ci of eve gets the name, the role (viewer) and the expiry of the backup"
    ]
    assert found([TOKEN], [], users=[ADMIN]) == ["the user eve is removed, with all sessions and tokens"]


def test_the_differences_of_the_network_are_those_of_present_interfaces() -> None:
    def found(old: dict[str, NetworkSettings], new: dict[str, NetworkSettings]) -> list[str]:
        return [str(message) for message in backup.network_differences(old, new, ["eth0", "eth1"])]

    other = NetworkSettings("fixed", "fd00::20/64")
    assert found({"eth0": ETH0}, {"eth0": ETH0}) == []
    assert found({"eth1": other}, {"eth0": ETH0, "eth9": other}) == [
        "the network settings of eth0 change to 192.168.1.20/24, gateway 192.168.1.1, DNS 192.168.1.2",
        "the network settings of eth1 change to automatic settings (DHCP)",
        "this board has no network interface eth9, so its settings in the backup are not used",
    ]
    assert found({}, {"eth0": other}) == [
        "the network settings of eth0 change to fd00::20/64, gateway none, DNS none"
    ]


NETWORKS = st.dictionaries(
    st.sampled_from(["eth0", "eth1", "eth2"]), st.sampled_from([ETH0, NetworkSettings()])
)


@given(NETWORKS, NETWORKS, st.sets(st.sampled_from(["eth0", "eth1", "eth2"])))
def test_the_changes_of_the_network_make_the_present_interfaces_those_of_the_backup(
    old: dict[str, NetworkSettings], new: dict[str, NetworkSettings], present: set[str]
) -> None:
    after: dict[str, NetworkSettings | None] = {**old, **changes(old, new, present)}
    for name in ("eth0", "eth1", "eth2"):
        assert after.get(name) == (new if name in present else old).get(name)


class Pool:
    """ek-pool. FAILS: why it does not answer."""

    def __init__(self) -> None:
        self.directories: dict[str, list[str]] = {}
        self.fails = self.refuses = ""

    async def saved(self) -> dict[str, list[str]]:
        if self.fails:
            raise errors.Failed("external", text=self.fails)
        return self.directories

    async def restore(self, directories: dict[str, list[str]]) -> None:
        if self.refuses:
            raise errors.Failed("external", text=self.refuses)
        self.directories = directories


class Net:
    """The feature network with the interface eth0. TRIAL: the settings that wait for their confirmation."""

    def __init__(self) -> None:
        self.settings: dict[str, NetworkSettings] = {}
        self.trial: dict[str, NetworkSettings] | None = None
        self.silent = self.refuses = False

    async def saved(self) -> dict[str, NetworkSettings]:
        return self.settings

    async def present(self) -> list[str]:
        if self.silent:
            raise errors.Failed("networkd-silent", reason="no reply", unit="systemd-networkd")
        return ["eth0"]

    async def check_idle(self) -> None:
        if self.trial is not None:
            raise errors.Conflict("network-trial-runs", interface=["eth0"], seconds=30)

    async def restore(self, wanted: dict[str, NetworkSettings]) -> bool:
        if self.refuses:
            raise errors.Failed("external", text="network failed")
        self.trial = wanted
        return True

    async def revert_network(self, *_: Any) -> None:
        self.trial = None


class Parts:
    """The features apps, system and certificate. FAILS: the step that fails next. SILENT: why ek-certificate fails."""

    def __init__(self) -> None:
        self.system = System("evenkeel", 0, "Etc/UTC", 0, "unknown")
        self.weights: dict[str, int] = {}
        self.fixed_shares: dict[str, int] = {}
        self.files: dict[str, str] = {}
        self.certificate: Certificate | None = None
        self.fails = self.silent = ""
        self.forget: Callable[[], None] = lambda: None
        self.calls: list[str] = []

    def _step(self, name: str) -> None:
        self.calls.append(name)
        if self.fails == name:
            raise errors.Failed("external", text=f"{name} failed")

    def saved_weights(self) -> dict[str, int]:
        return self.weights

    def saved_fixed_shares(self) -> dict[str, int]:
        return self.fixed_shares

    async def restore_weights(self, weights: dict[str, int]) -> None:
        self._step("weights")
        self.weights = weights

    async def restore_fixed_shares(self, fixed_shares: dict[str, int]) -> None:
        self._step("shares")
        self.fixed_shares = fixed_shares

    def added(self) -> dict[str, str]:
        return self.files

    async def restore_added(self, files: dict[str, str]) -> None:
        """As the agent does, it writes the files itself, and forgets weights and directories of the apps that it removes."""
        self._step("apps")
        if removed := self.files.keys() - files.keys():
            self.weights = {app: weight for app, weight in self.weights.items() if app not in removed}
            self.forget()
        apps = [registry.parse(name, text.encode()) for name, text in files.items()]
        self.files = {
            app.name: registry.to_toml(app.title, app.description, app.unit, app.weight).decode()
            for app in apps
        }

    async def signed(self) -> Certificate | None:
        if self.silent:
            raise errors.Failed("external", text=self.silent)
        return self.certificate

    async def get_system(self, *_: Any) -> System:
        return self.system

    async def list_time_zones(self, *_: Any) -> list[str]:
        return ["Etc/UTC", "Europe/Berlin"]

    async def set_host_name(self, request: Any, _: Any) -> None:
        self._step("name")
        self.system = replace(self.system, name=request.hostname)

    async def set_time_zone(self, request: Any, _: Any) -> None:
        self._step("zone")
        self.system = replace(self.system, zone=request.zone)

    async def set_time_servers(self, request: Any, _: Any) -> None:
        self._step("servers")
        self.system = replace(self.system, servers=request.servers)


class RecorderHelper(FakeHelper):
    """ek-system: its real code, in the folder ROOT. `commands`: what it has run; `refuses`: the error of the next one."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "etc/ek-recorder"
        (self.folder / "channels.d").mkdir(parents=True, exist_ok=True)
        self.commands: list[str] = []
        self.refuses = ""
        path = root / "run/evenkeel/system"
        path.unlink(missing_ok=True)
        super().__init__(path)

    def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
        connection.sendall(system_helper.answer(json.dumps(order).encode(), self._run, str(self.folder)))

    def _run(self, command: Sequence[str], _: float) -> None:
        self.commands.append(" ".join(command))
        if self.refuses:
            refusal, self.refuses = self.refuses, ""
            raise OSError(refusal)


class Board:
    """A board with real accounts and alerts in FOLDER, and with the real files of a recorder if RECORDER is set."""

    def __init__(self, folder: Path, *, recorder: bool = True) -> None:
        self.settings = Settings(root=str(folder))
        self.helper = RecorderHelper(folder) if recorder else None
        self.state = Path(self.settings.state_dir)
        self.state.mkdir(parents=True, exist_ok=True)
        self.parts: Any = Parts()
        self.accounts = Accounts(str(self.state), "evenkeel")
        self.alerts = Alerts(self.settings, "evenkeel")
        self.pool: Any = Pool()
        self.network: Any = Net()
        self.wear = FlashWear(self.settings, lambda: None)
        self.restorer = Restorer(
            self.settings,
            self.parts,
            self.accounts,
            self.alerts,
            self.parts,
            self.pool,
            self.network,
            self.wear,
            self.parts,
        )

    async def start(self) -> "Board":
        await self.accounts.start()
        await self.accounts.restore([ADMIN])
        return self

    async def content(self) -> Content:
        return await self.restorer._content()

    async def restore(self, content: Content = FULL, *, network: bool = False) -> Any:
        return await self.restorer.restore_backup(
            RestoreBackup(backup.dump(content, 5), network), Caller("admin", "admin", "panel")
        )

    @property
    def plan(self) -> Path:
        return self.state / "restore.json"


def test_a_restore_on_another_board(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        answer = await board.restorer.check_backup(
            CheckBackup(backup.dump(FULL, 5)), Caller("", None, "panel")
        )
        assert (answer.board, answer.made_at, len(answer.changes)) == ("press-7", 5, 14)
        assert board.parts.calls == [], "a check changes nothing"
        assert await board.restore() == answer
        assert await board.content() == FULL
        assert not board.plan.exists()
        # after a restart as well
        assert board.accounts._db
        board.accounts._db.close()
        again = Board(tmp_path)
        await again.accounts.start()
        assert (again.accounts.saved(), again.accounts.saved_tokens()) == (FULL.users, FULL.tokens)
        assert again.alerts.saved == MAIL
        assert again.wear.limit == 70

    asyncio.run(run())


def test_a_backup_needs_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel_agent.passwords.matches", lambda digest, password: password == "right")  # noqa: S105

    async def run() -> None:
        board = await Board(tmp_path).start()
        stranger = Caller("", None, "panel", "192.0.2.1")
        login = await board.accounts.log_in(LogIn("admin", "right", "", "", "test"), stranger)
        admin = board.accounts.caller(METHODS["GetBackup"], login.session, stranger.address)
        with pytest.raises(errors.WrongPassword, match="not the present password"):
            await board.restorer.get_backup(GetBackup("wrong"), admin)
        text = await board.restorer.get_backup(GetBackup("right"), admin)
        assert backup.load(text).content == replace(EMPTY, network={})
        # an administrator on the board has no password of the panel
        text = await board.restorer.get_backup(GetBackup(""), Caller("root", "admin", "bus"))
        assert backup.load(text).content == replace(EMPTY, network={})
        for _ in range(12):
            with pytest.raises((errors.WrongPassword, errors.TooManyTries)) as error:
                await board.restorer.get_backup(GetBackup("wrong"), admin)
        assert error.type is errors.TooManyTries

    asyncio.run(run())


@pytest.mark.parametrize(
    "step", ["name", "zone", "servers", "recorder", "alerts", "apps", "weights", "shares", "pool", "users"]
)
def test_a_step_that_fails_leaves_all_settings_as_they_were(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        before = await board.content()
        board.parts.fails = step

        async def fail(*_: Any, **__: Any) -> None:
            raise errors.Failed("external", text=f"{step} failed")

        if step == "alerts":
            monkeypatch.setattr(board.alerts, "restore", fail)
        if step == "recorder":
            assert board.helper
            board.helper.refuses = "recorder failed"
        if step == "pool":
            board.pool.refuses = "pool failed"
        if step == "users":
            monkeypatch.setattr(board.accounts, "_write", fail)
        with pytest.raises(errors.Failed, match=f"the settings were not restored: .*{step} failed"):
            await board.restore(replace(FULL, apps={"cam": f"# by hand\n{CAM}"}))
        assert await board.content() == before
        assert not board.plan.exists()
        assert board.restorer.problems == []

    asyncio.run(run())


@pytest.mark.parametrize("silent", ["before", "after"])
def test_a_zone_that_is_not_known_for_a_moment_does_not_keep_a_restore_from_going_back(
    tmp_path: Path, silent: str
) -> None:
    """systemd-timedated does not answer before or after the time zone is set."""

    async def run() -> None:
        board = await Board(tmp_path).start()
        real, calls = board.parts.get_system, []

        async def get_system(*_: Any) -> System:
            calls.append(board.parts.calls.count("zone"))
            unknown = calls[-1] == 0 if silent == "before" else calls[-1] == 1 and calls.count(1) == 1
            return replace(await real(), zone="") if unknown else await real()

        board.parts.get_system = get_system
        board.parts.fails = "weights"
        with pytest.raises(errors.Failed, match="weights failed"):
            await board.restore()
        assert board.restorer.problems == []
        assert not board.plan.exists()
        assert (await real()).zone == ("Europe/Berlin" if silent == "before" else "Etc/UTC")

    asyncio.run(run())


@pytest.mark.parametrize("weights", [{}, {"cam": 200}])
@pytest.mark.parametrize("directories", [{}, None])
def test_an_app_that_is_removed_and_comes_back_has_its_weight_and_directories(
    tmp_path: Path, weights: dict[str, int], directories: dict[str, list[str]] | None
) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        board.parts.files, board.parts.weights = FULL.apps, {"cam": 200}
        board.pool.directories = {"cam": ["/data/cam"]}
        board.parts.forget = lambda: setattr(board.pool, "directories", {})
        before, content = (
            await board.content(),
            replace(FULL, apps={}, weights=weights, directories=directories),
        )
        board.network.refuses = True
        with pytest.raises(errors.Failed, match="network failed"):
            await board.restore(replace(content, network={"eth0": ETH0}), network=True)
        assert await board.content() == before
        await board.restore(content)
        assert await board.content() == replace(content, directories={})

    asyncio.run(run())


BOB = replace(FULL.users[1], name="bob")


@pytest.mark.parametrize("step", ["pool", "network", "users"])
def test_going_back_leaves_what_others_have_changed_meanwhile(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a restore runs, somebody removes a user, revokes a token, and changes a password and the weight of another app."""
    changed_admin = replace(ADMIN, hash=HASH.replace("a" * 43, "b" * 43))
    kept, revoked = (replace(TOKEN, user="admin", digest=64 * digit) for digit in "34")

    async def run() -> None:
        board = await Board(tmp_path).start()
        await board.accounts.restore([ADMIN, BOB], [kept, revoked])
        board.parts.weights = {"player": 50}
        before = await board.content()

        async def fail(*_: Any, **__: Any) -> None:
            await real([changed_admin], [kept])
            board.parts.weights = {**board.parts.weights, "other": 7}
            raise errors.Failed("external", text=f"{step} failed")

        real = board.accounts.restore
        part = {"pool": board.pool, "network": board.network, "users": board.accounts}[step]
        monkeypatch.setattr(part, "restore", fail)
        content = replace(FULL, network={"eth0": ETH0})
        with pytest.raises(errors.Failed, match=f"the settings were not restored: {step} failed"):
            await board.restore(content, network=True)
        monkeypatch.undo()
        expected = replace(before, users=[changed_admin], tokens=[kept], weights={"player": 50, "other": 7})
        assert await board.content() == expected
        assert board.network.trial is None
        assert not board.plan.exists()

    asyncio.run(run())


def test_the_network_changes_only_on_demand_and_then_waits_for_its_confirmation(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        content = replace(FULL, network={"eth0": ETH0, "eth7": ETH0})
        answer = await board.restore(content)
        assert [note.code for note in answer.network] == ["restore-network", "restore-network-absent"]
        assert board.network.trial is None
        await board.restore(content, network=True)
        assert board.network.trial == content.network
        assert board.network.settings == {}, "only a confirmation saves them"
        # a file without network settings changes nothing, also on demand
        board.network.trial = None
        await board.restore(FULL, network=True)
        assert board.network.trial is None

    asyncio.run(run())


def test_a_network_that_cannot_change_leaves_all_settings_as_they_were(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        before, content = await board.content(), replace(FULL, network={"eth0": ETH0})
        board.network.trial = {}
        with pytest.raises(errors.Conflict, match="confirm or undo it first"):
            await board.restore(content, network=True)
        assert board.parts.calls == [], "a session that a restore ends would not come back"
        board.network.trial, board.network.refuses = None, True
        with pytest.raises(errors.Failed, match="the settings were not restored: network failed"):
            await board.restore(content, network=True)
        assert await board.content() == before
        assert not board.plan.exists()
        # other settings can be restored
        board.network.silent = True
        answer = await board.restore(content)
        assert [note.code for note in answer.network] == ["networkd-silent"]
        assert await board.content() == FULL

    asyncio.run(run())


def test_a_plan_that_is_completed_later_leaves_the_network_alone(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        board.plan.write_text(backup.dump(replace(FULL, network={"eth0": ETH0}), 5))
        await board.restorer._complete()
        assert await board.content() == FULL
        assert board.network.trial is None

    asyncio.run(run())


def test_a_backup_is_complete_or_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        board, root = await Board(tmp_path).start(), Caller("root", "admin", "bus")
        board.pool.fails = "ek-pool cannot be reached"
        with pytest.raises(errors.Failed, match="the backup was not made: ek-pool cannot be reached"):
            await board.restorer.get_backup(GetBackup(""), root)
        board.pool.fails = ""
        monkeypatch.setattr(restorer, "MAX_BYTES", 500)
        with pytest.raises(errors.Failed, match="more than 500 characters; remove apps"):
            await board.restorer.get_backup(GetBackup(""), root)

    asyncio.run(run())


def test_a_power_cut_in_the_middle_is_completed_at_the_next_start(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()

        async def cut(*_: Any) -> None:
            raise KeyboardInterrupt

        board.parts.restore_weights = cut
        with pytest.raises(KeyboardInterrupt):
            await board.restore()
        assert board.plan.stat().st_mode & 0o777 == 0o600
        assert board.accounts.saved() == [ADMIN], "the board is between two sets of settings"
        assert board.accounts._db
        board.accounts._db.close()
        again = Board(tmp_path)
        again.parts.system = board.parts.system
        assert board.pool.directories == {}
        await again.accounts.start()
        await again.restorer._complete()
        assert await again.content() == FULL
        assert not again.plan.exists()

    asyncio.run(run())


def test_a_plan_that_fails_is_a_problem_until_it_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restorer, "RETRY_S", 0.05)

    async def run() -> None:
        board = await Board(tmp_path).start()
        board.plan.write_text(backup.dump(FULL, 5))
        board.parts.fails = "name"
        task = asyncio.create_task(board.restorer.watch())
        await asyncio.sleep(0.2)
        assert [problem.code for problem in board.restorer.problems] == ["restore-unfinished"]
        board.parts.fails = ""
        for _ in range(100):
            await asyncio.sleep(0.02)
            if not board.restorer.problems:
                break
        assert await board.content() == FULL
        assert not board.plan.exists()
        assert not task.done()
        task.cancel()

    asyncio.run(run())


def test_channels_are_restored_and_the_recorder_reads_them(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        assert board.helper
        assert (await board.restore()).left_out == []
        assert (board.helper.folder / "channels.d/arm.conf").read_text() == ARM
        assert (board.helper.folder / "recorder.conf").read_text() == "group = press\n"
        assert len(board.helper.commands) == 1
        await board.restore(replace(FULL, name="press-8"))
        assert len(board.helper.commands) == 1, "the same channels"
        await board.restore(replace(FULL, recorder=Recorder("press", 0, {})))
        assert not (board.helper.folder / "channels.d/arm.conf").exists()

    asyncio.run(run())


def test_a_board_without_a_recorder_leaves_the_channels_out_and_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path, recorder=False).start()
        assert (await board.content()).recorder is None
        answer = await board.restore()
        assert [note.code for note in answer.left_out] == ["restore-recorder-absent"]
        assert not [note for note in answer.changes if "channel" in note.code]
        assert await board.content() == replace(FULL, recorder=None)

    asyncio.run(run())


def test_a_backup_names_the_certificate_and_a_restore_asks_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        root = Caller("root", "admin", "bus")
        board = await Board(tmp_path / "old").start()
        board.parts.certificate = Certificate(
            "CN=press", "CN=Example CA", False, [], 1, 2, "AB:CD", hsts=True
        )
        text = await board.restorer.get_backup(GetBackup(""), root)
        assert backup.load(text).content.certificate == Signed("CN=press", "CN=Example CA", "AB:CD")
        check = CheckBackup(text)
        assert (await board.restorer.check_backup(check, root)).left_out == [], "it is the same one"
        board.parts.silent = "ek-certificate cannot be reached"
        with pytest.raises(errors.Failed, match="the backup was not made: ek-certificate cannot be reached"):
            await board.restorer.get_backup(GetBackup(""), root)

        new = await Board(tmp_path / "new").start()
        for certificate in (None, replace(board.parts.certificate, fingerprint="00:11")):
            new.parts.certificate = certificate
            answer = await new.restorer.restore_backup(RestoreBackup(text, False), root)
            assert [note.text for note in answer.left_out] == [
                "the certificate for CN=press, signed by CN=Example CA, is left out: a backup has no private keys;"
                " install it again with its key, on the page System"
            ]
            assert answer.changes == [], "and nothing else differs"
        new.parts.silent = "ek-certificate cannot be reached"
        assert len((await new.restorer.check_backup(check, root)).left_out) == 1

    asyncio.run(run())


def test_a_channel_that_cannot_be_in_a_backup_is_named_and_nothing_changes(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        assert board.helper
        (board.helper.folder / "channels.d/eye.conf").write_text("retain = 1GiB\n")
        text = "the configuration of the recorder cannot be in a backup: channels.d/eye.conf: record_size is missing; correct"
        with pytest.raises(errors.Failed, match=f"the backup was not made: {text}"):
            await board.restorer.get_backup(GetBackup(""), Caller("root", "admin", "bus"))
        with pytest.raises(errors.Failed, match=text):
            await board.restore()
        assert board.parts.calls == []
        await board.restore(replace(FULL, recorder=None))
        assert board.parts.system.name == "press-7", "a file without channels can be restored"

    asyncio.run(run())


def test_going_back_leaves_a_channel_that_somebody_has_changed_meanwhile(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        assert board.helper
        folder = board.helper.folder / "channels.d"
        for name in ("eye", "leg"):
            (folder / f"{name}.conf").write_text(ARM)

        async def fail(*_: Any) -> None:
            assert [path.name for path in folder.iterdir()] == ["arm.conf"]
            (folder / "eye.conf").write_text(f"# new\n{ARM}")
            raise errors.Failed("external", text="weights failed")

        board.parts.restore_weights = fail
        with pytest.raises(errors.Failed, match="weights failed"):
            await board.restore()
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            "eye.conf": f"# new\n{ARM}",
            "leg.conf": ARM,
        }
        assert (board.helper.folder / "recorder.conf").read_text() == ""

    asyncio.run(run())


def test_a_damaged_plan_is_removed_and_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        board.plan.write_text(backup.dump(FULL, 5)[:-40])
        await board.restorer._complete()
        assert not board.plan.exists()
        assert board.parts.calls == []

    asyncio.run(run())


def test_what_the_board_cannot_take_is_refused_before_anything_changes(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        bad_mail = replace(MAIL, smtp_server="")
        for content in (replace(FULL, zone="Mars/Base"), replace(FULL, alerts=bad_mail)):
            with pytest.raises(errors.InvalidArgument):
                await board.restore(content)
        plain = replace(MAIL, smtp_security="none")
        with pytest.raises(errors.InvalidArgument, match="needs encryption"):
            await board.restore(replace(FULL, alerts=plain))
        assert board.parts.calls == []
        assert not board.plan.exists()

    asyncio.run(run())


def test_sessions_and_tokens_of_users_that_stay_the_same_go_on(tmp_path: Path) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        accounts = board.accounts
        await accounts.restore(FULL.users, FULL.tokens)

        def tokens() -> list[Token]:
            assert accounts._db
            rows = [Token(*row) for row in accounts._db.rows("SELECT * FROM tokens")]
            assert rows == accounts.saved_tokens()
            return rows

        for user in ("admin", "eve"):
            await accounts._open_session(accounts._users[user], "", "", "")
        ended: list[int] = []
        accounts.changed = lambda: ended.append(1)
        await accounts.restore([ADMIN, replace(FULL.users[1], role="operator")])
        assert [session.user for session in accounts._sessions.values()] == ["admin"]
        assert ended
        assert accounts._db
        assert accounts._db.rows("SELECT user FROM sessions") == [("admin",)]
        assert tokens() == [TOKEN], "a file without tokens leaves them, also if the user changes"
        await accounts.restore([ADMIN])
        assert tokens() == []
        assert list(accounts._users) == ["admin"]
        assert accounts._db.rows("SELECT name FROM users") == [("admin",)]
        assert accounts._db.rows("SELECT user FROM sessions") == [("admin",)]

    asyncio.run(run())


def test_a_restored_token_is_valid_again_and_a_newer_one_is_not(tmp_path: Path) -> None:
    async def run() -> None:
        first = await Board(tmp_path / "first").start()
        accounts = first.accounts
        await accounts._open_session(accounts._users["admin"], "", "", "")
        (session,) = accounts._sessions
        admin = Caller("admin", "admin", "panel", "", session)

        async def token(name: str, days: int) -> str:
            return (await accounts.create_token(CreateToken(name, "operator", days), admin)).token

        secrets = [await token("revoked", 0), await token("short", 1)]
        text = backup.dump(await first.content(), 5)
        assert not any(secret in text for secret in secrets)
        await accounts.remove_token(Id((await accounts.list_tokens(Nothing(), admin))[0].id), admin)
        newer = await token("newer", 0)

        other = await Board(tmp_path / "other").start()
        for board in (first, other):
            found = await board.restorer.restore_backup(RestoreBackup(text, False), admin)
            codes = [note.code for note in found.changes]
            assert codes.count("restore-token-added") == (1 if board is first else 2)
            assert codes.count("restore-token-removed") == (1 if board is first else 0)
            for secret in secrets:
                caller = board.accounts.caller(METHODS["ListApps"], secret, "")
                assert (caller.user, caller.role, caller.via) == ("admin", "operator", "token")
            with pytest.raises(errors.NotLoggedIn):
                board.accounts.caller(METHODS["ListApps"], newer, "")
            board.accounts._clock = lambda: time.time() + 2 * 86400
            with pytest.raises(errors.NotLoggedIn):
                board.accounts.caller(METHODS["ListApps"], secrets[1], "")
        assert list(first.accounts._sessions) == [session], "the user has not changed"

    asyncio.run(run())


def test_numbers_are_replaced_as_a_whole(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "weight", lambda _: None)
    store.save("a", 5)
    store.save_all({"b": 7})
    assert store.all() == Store(str(tmp_path), "weight", lambda _: None).all() == {"b": 7}


async def fails_to_go_back(board: Board) -> Any:
    """A restore fails at the time zone, and the name cannot go back. Returns the function that sets the name."""
    real, board.parts.fails = board.parts.set_host_name, "zone"

    async def fail(*_: Any) -> None:
        raise errors.Failed("external", text="hostnamed hangs")

    async def once(*arguments: Any) -> None:
        await real(*arguments)
        board.parts.set_host_name = fail

    board.parts.set_host_name = once
    with pytest.raises(errors.Failed, match="zone failed"):
        await board.restore()
    assert [problem.code for problem in board.restorer.problems] == ["restore-unfinished"]
    assert (await board.content()).name == "press-7"
    return real


def test_going_back_is_tried_again_until_it_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restorer, "RETRY_S", 0.05)

    async def run() -> None:
        board = await Board(tmp_path).start()
        before = await board.content()
        task = asyncio.create_task(board.restorer.watch())
        await asyncio.sleep(0.02)
        board.parts.set_host_name = await fails_to_go_back(board)
        for _ in range(100):
            await asyncio.sleep(0.02)
            if not board.plan.exists():
                break
        assert await board.content() == before
        assert board.restorer.problems == []
        assert not task.done()
        task.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("restart", [False, True])
def test_going_back_later_leaves_what_others_have_changed_meanwhile(tmp_path: Path, restart: bool) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        await board.accounts.restore([ADMIN, BOB])
        before = await board.content()
        real = await fails_to_go_back(board)
        assert board.plan.stat().st_mode & 0o777 == 0o600
        await board.accounts.restore([ADMIN])
        board.parts.weights = {"other": 7}
        if restart:
            assert board.accounts._db
            board.accounts._db.close()
            again = Board(tmp_path)
            again.parts.system, again.parts.weights = board.parts.system, board.parts.weights
            board = again
            await board.accounts.start()
        else:
            board.parts.set_host_name = real
        await board.restorer._complete()
        assert await board.content() == replace(before, users=[ADMIN], weights={"other": 7})
        assert not board.plan.exists()
        assert board.restorer.problems == []

    asyncio.run(run())


def test_going_back_needs_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        board = await Board(tmp_path).start()
        before = await board.content()
        board.parts.fails = "weights"

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(board.restorer, "_save_undo", full)
        with pytest.raises(errors.Failed, match="weights failed"):
            await board.restore()
        assert await board.content() == before
        assert not board.plan.exists()

    asyncio.run(run())


def test_a_plan_that_cannot_be_removed_is_not_carried_out_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a user who was removed since then would come back."""

    async def run() -> None:
        board = await Board(tmp_path).start()

        def fail(_: str) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(restorer, "remove", fail)
        await board.restore()
        assert [problem.code for problem in board.restorer.problems] == ["restore-unfinished"]
        await board.accounts.restore([ADMIN])
        with pytest.raises(OSError, match="Input/output error"):
            await board.restorer._complete()
        monkeypatch.undo()
        await board.restorer._complete()
        assert await board.content() == replace(FULL, users=[ADMIN], tokens=[])
        assert board.restorer.problems == []
        assert not board.plan.exists()

    asyncio.run(run())


VALUES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2))


@given(VALUES, VALUES, VALUES)
def test_going_back_undoes_a_change_and_no_other(
    before: dict[str, int], after: dict[str, int], now: dict[str, int]
) -> None:
    assert backup.without(before, after, after) == before
    found = backup.without(before, after, now)
    for key in "abcd":
        others = now.get(key) != after.get(key)
        assert found.get(key) == (now if others else before).get(key)
    assert backup.without(1, 2, 2) == 1
    assert backup.without(1, 2, 3) == 3


@asynccontextmanager
async def helpers(board: Harness) -> AsyncIterator[tuple[PoolHelper, Network]]:
    """ek-pool and ek-network of BOARD."""
    network = await Network(board).up()
    with PoolHelper(board) as pool:
        yield pool, network
    network.down()


@on_board
async def test_the_panel_saves_and_restores_a_board(board: Harness) -> None:
    async with helpers(board) as (pool, network):
        await panel_saves_and_restores(board, pool, network)


async def panel_saves_and_restores(board: Harness, pool: PoolHelper, network: Network) -> None:
    unit, other = board.app("player"), board.app("loader", active=False)
    await board.agent_up()
    panel = PanelClient(board)
    await panel.log_in()
    await panel.call("SetWeight", "player", 300)
    await panel.call("SetFixedShare", "loader", 20)
    assert (await panel.refused("GetBackup", "wrong")).name == ERROR + "WrongPassword"
    pool.saved = {"player": ["/data/clips"]}
    channel = board.root / "etc/ek-recorder/channels.d/arm.conf"
    channel.parent.mkdir(parents=True)
    channel.write_text(ARM)
    text = await panel.call("GetBackup", PASSWORD)
    channel.unlink()
    await panel.call("SetWearLimit", 40)
    await panel.call("SetWeight", "player", 50)
    await panel.call("SetWeight", "loader", 70)
    await panel.call("SetFixedShare", "loader", 0)
    pool.saved = {"player": ["/data/other"], "loader": []}
    found = await panel.call("CheckBackup", text)
    assert [note["code"] for note in found["changes"]] == [
        "restore-weight",
        "restore-weight",
        "restore-fixed-share",
        "restore-directories",
        "restore-directories",
        "restore-wear-limit",
        "restore-channel-added",
    ]
    assert not channel.exists()
    assert (await panel.call("RestoreBackup", text, False))["changes"] == found["changes"]
    assert pool.saved == {"player": ["/data/clips"]}
    assert channel.read_text() == ARM
    assert board.systemd.count("ReloadOrTryRestartUnit") == 1
    apps = await board.apps()
    assert (apps["player"]["weight"], apps["loader"]["weight"], apps["loader"]["fixed_share"]) == (
        300,
        100,
        20,
    )
    assert (await panel.call("CheckBackup", text))["changes"] == []

    async def in_force() -> bool:
        weight = (board.systemd.directory(unit) / "io.weight").read_text()
        return weight == "default 300\n" and board.systemd.units[other].weight == 100

    await board.until(in_force)
    assert (await panel.refused("RestoreBackup", text[:-9], False)).name == ERROR + "InvalidArgument"
    rows = {(row["action"], row["detail"], row["outcome"]) for row in await panel.call("ListAudit", 0, 20)}
    assert {("GetBackup", "", ""), ("RestoreBackup", "network False", "")} < rows
    assert "argon2" not in board.log.read_text()


@on_board
async def test_network_settings_of_a_backup_wait_for_their_confirmation(board: Harness) -> None:
    async with helpers(board) as (_, network):
        await board.agent_up()
        await board.call("SetNetwork", *FIXED)
        network.now_s += APPLY_S
        assert json.loads(await board.call("GetBackup", "", ""))["content"]["network"] == {}, (
            "not confirmed yet"
        )
        await board.call("ConfirmNetwork")
        text = await board.call("GetBackup", "", "")
        assert list(json.loads(text)["content"]["network"]) == ["eth0"]
        await board.call("SetNetwork", "eth0", "dhcp", "", "", [])
        assert "confirm or undo it first" in (await board.refused("RestoreBackup", text, True)).text
        network.now_s += APPLY_S
        await board.call("ConfirmNetwork")

        found = await board.call("RestoreBackup", text, False)
        assert [note["code"] for note in found["network"]] == ["restore-network"]
        assert (await board.call("GetNetwork"))["trial"] == []
        await board.call("RestoreBackup", text, True)
        state = await board.call("GetNetwork")
        assert state["trial"][0]["settings"]["address"] == FIXED[2]
        network.now_s += TRIAL_S
        state = await board.call("GetNetwork")
        assert (state["trial"], state["last"]) == ([], "expired")
        assert state["interfaces"][0]["settings"]["mode"] == "dhcp", "nobody is locked out"


@on_board
async def test_ekctl_saves_a_backup_as_a_new_file_and_restores_it(board: Harness) -> None:
    board.app("player")
    file = board.top / "backup.json"
    async with helpers(board) as (_, network):
        await board.agent_up()
        await board.call("SetWeight", "player", 300)
        await board.call("SetNetwork", *FIXED)
        network.now_s += APPLY_S
        await board.call("ConfirmNetwork")
        answer = await board.ekctl("backup", str(file))
        assert (answer.status, answer.err) == (0, "")
        assert answer.out == f"{file}: {file.stat().st_size} bytes\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        before = file.read_text()
        answer = await board.ekctl("backup", str(file))
        assert (answer.status, answer.out, answer.err) == (
            1,
            "",
            f"ekctl: {file} cannot be written: File exists\n",
        )
        assert file.read_text() == before

        await board.call("SetWeight", "player", 50)
        await board.call("SetNetwork", "eth0", "dhcp", "", "", [])
        network.now_s += APPLY_S
        await board.call("ConfirmNetwork")
        answer = await board.ekctl("restore", str(file), "--check")
        lines = answer.out.splitlines()
        assert lines[0].endswith(", would change:")
        assert lines[1:] == [
            "  the weight of player changes from 50 to 300",
            "network settings, only with --network:",
            "  the network settings of eth0 change to 10.0.2.77/24, gateway 10.0.2.2, DNS 10.0.2.3",
        ]
        assert (await board.apps())["player"]["weight"] == 50
        answer = await board.ekctl("restore", str(file), "--network")
        assert answer.out.splitlines()[-1].endswith("to keep them, run 'ekctl confirm-network'.")
        assert (await board.apps())["player"]["weight"] == 300
        assert (await board.call("GetNetwork"))["trial"]
        assert json.loads((await board.ekctl("restore", str(file), "--check", "--json")).out)["changes"] == []

        content = backup.load(file.read_text()).content
        (board.top / "channels").write_text(backup.dump(replace(content, recorder=FULL.recorder), 5))
        lines = (await board.ekctl("restore", str(board.top / "channels"), "--check")).out.splitlines()
        absent = "  this board has no recorder, so the channels of the backup are left out"
        assert lines[1:4] == ["  nothing", "left out:", absent]

        for path, reason in ((board.top / "none", "No such file"), (board.log, "not a backup")):
            answer = await board.ekctl("restore", str(path))
            assert (answer.status, answer.out) == (1, "")
            assert reason in answer.err
        (board.top / "long").write_text("x" * (MAX_BYTES + 1))
        assert "longer than" in (await board.ekctl("restore", str(board.top / "long"))).err
        rows = {
            (row["action"], row["detail"], row["outcome"], row["via"])
            for row in await board.call("ListAudit", 0, 20)
        }
        assert {
            ("GetBackup", "", "", "bus"),
            ("RestoreBackup", "network True", "", "bus"),
            ("RestoreBackup", "network False", "InvalidArgument", "bus"),
        } <= rows

    # a part that cannot be read: no file is left
    answer = await board.ekctl("backup", str(board.top / "other"))
    assert answer.status == 1
    assert "the backup was not made: the page pool" in answer.err
    assert not (board.top / "other").exists()
