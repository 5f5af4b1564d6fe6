# SPDX-License-Identifier: Apache-2.0
"""The methods about the page pool, with a fake ek-pool (recipes/pagepool has the real one)."""

import json
import posixpath
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_harness import ERROR, Harness, on_board
from evenkeel_agent import registry
from evenkeel_agent.cache import SERVICE, inspect
from evenkeel_agent.systemd import UNKNOWN, Unit
from evenkeel_api.features.cache import Cache, CacheMinute, HeldDirectory, PriorityDirectory
from evenkeel_api.messages import Message
from hypothesis import given
from hypothesis import strategies as st
from packet_helper import PacketHelper

CACHE = Cache(
    state="on",
    target_bytes=20_000_000,
    size_bytes=12_000_000,
    limit_bytes=500_000_000,
    memory_bytes=1_000_000_000,
    protected_ratio=98.76,
    normal_ratio=-1.0,
    normal_target=85.0,
    cost_bytes=12_000_000,
    normal_lack=2.5,
    minutes=[CacheMinute(0, 20_000_000, 12_000_000, 98.0, -1.0)],
    directories=[PriorityDirectory("web", "/srv/www/top", "protected")],
    held=[HeldDirectory("/data/x", "absent")],
)
PLAIN: dict[str, Any] = msgspec.to_builtins(CACHE)


def helper(board: Harness) -> PacketHelper:
    return PacketHelper(board.root / "run/evenkeel/pool", dict.fromkeys(("state", "add", "remove"), PLAIN))


@on_board
async def test_each_method_is_an_order_and_changes_are_in_the_audit_log(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        assert await board.call("GetCache") == PLAIN
        assert await board.call("AddPriorityDirectory", "web", "/srv/new") == PLAIN
        assert await board.call("RemovePriorityDirectory", "web", "/srv/new") == PLAIN
        assert fake.orders == [
            {"order": "state"},
            {"order": "add", "name": "web", "directory": "/srv/new"},
            {"order": "remove", "name": "web", "directory": "/srv/new"},
        ]
        rows = await board.call("ListAudit", 0, 10)
        assert [row["action"] for row in rows] == ["RemovePriorityDirectory", "AddPriorityDirectory"]
        assert "/srv/new" in rows[0]["detail"]


@on_board
async def test_a_refusal_has_its_reason_and_kind(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        for kind, code, parameters, text in (
            ("UnknownApp", "unknown-app", {"app": "x"}, "there is no app 'x' in apps.d"),
            (
                "Conflict",
                "directory-listed",
                {"app": "web", "path": "/a"},
                "/a already is a priority directory of web",
            ),
            ("InvalidArgument", "directory-path", {"path": "a"}, "'a' is not an absolute path"),
        ):
            fake.answers["add"] = {"error": code, "parameters": parameters, "kind": kind}
            error = await board.refused("AddPriorityDirectory", "web", "/a")
            assert error.name == ERROR + kind
            assert error.text.startswith(text)
        fake.answers["state"] = {"state": "sleeping"}
        assert "ek-pool cannot be reached" in (await board.refused("GetCache")).text


@on_board
async def test_without_the_service_the_error_names_it(board: Harness) -> None:
    await board.agent_up()
    text = (await board.refused("GetCache")).text
    assert "systemctl status evenkeel-pool" in text
    assert await board.call("ListApps") is not None  # everything else works


@on_board
async def test_ekctl(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        answer = await board.ekctl("cache")
        assert answer.out.splitlines() == [
            "page pool  on",
            "target     20.0 MB, at most 500.0 MB",
            "size       12.0 MB",
            "hit ratio  98.8 % of priority files, no accesses of other files (last 15 s)",
            "cost       12.0 MB of memory; other files lack 2.5 points to 85 % (last 10 min)",
            "held       /data/x (absent), until a program ends",
            "APP  PATH          STATE      REASON",
            "web  /srv/www/top  protected  -",
        ]
        assert json.loads((await board.ekctl("cache", "--json")).out) == PLAIN
        off = Cache(state="off", problem=[Message("pool-no-module").note()])
        fake.answers["add"] = msgspec.to_builtins(off)
        answer = await board.ekctl("add-directory", "web", "relative/x/")
        assert fake.orders[-1]["directory"] == str(Path.cwd() / "relative/x")
        lines = answer.out.splitlines()
        assert lines[0] == "page pool  off"
        assert "run 'modprobe evenkeel_pagepool'" in lines[1]
        assert lines[2:] == ["none"]
        await board.ekctl("remove-directory", "web", "/srv/x")
        assert fake.orders[-1] == {"order": "remove", "name": "web", "directory": "/srv/x"}


# the problems of the board

RUNS = Unit("loaded", "active", "running")
OFF = msgspec.structs.replace(CACHE, state="off", problem=[Message("pool-no-module").note()])
NONE = msgspec.structs.replace(CACHE, directories=[])


@pytest.mark.parametrize(
    ("unit", "cache", "named", "codes"),
    [
        (RUNS, CACHE, True, []),
        (RUNS, OFF, False, ["pool-no-module"]),
        (RUNS, msgspec.structs.replace(OFF, directories=[]), True, []),
        (RUNS, None, True, []),
        (UNKNOWN, OFF, True, []),
        (Unit("loaded", "activating", "start"), None, True, []),
        (Unit("loaded", "inactive", "dead"), None, True, ["pool-stopped"]),
        (Unit("loaded", "inactive", "dead"), CACHE, False, ["pool-stopped"]),
        (Unit("loaded", "inactive", "dead"), NONE, True, []),
        (Unit("loaded", "inactive", "dead"), None, False, []),
        (Unit("loaded", "failed", "failed"), NONE, False, []),
        (Unit("loaded", "failed", "failed"), None, False, ["pool-failed"]),
        (Unit("loaded", "activating", "auto-restart"), CACHE, False, ["pool-failed"]),
        (Unit("not-found", "inactive", "dead"), None, True, ["pool-not-installed"]),
        (Unit("not-found", "inactive", "dead"), None, False, []),
    ],
)
def test_a_pool_that_is_off_is_a_problem_if_a_directory_is_chosen(
    unit: Unit, cache: Cache | None, named: bool, codes: list[str]
) -> None:
    assert [message.code for message in inspect(unit, cache, named=named)] == codes


def test_a_choice_that_was_lost_is_a_problem_without_a_directory() -> None:
    lost = [Message("pool-not-limited", reason="x").note(), Message("directories-damaged", path="x").note()]
    found = inspect(RUNS, msgspec.structs.replace(NONE, problem=lost), named=False)
    assert [message.code for message in found] == ["directories-damaged"]


@on_board
async def test_the_status_reports_a_pool_that_is_off_and_asks_no_stopped_service(board: Harness) -> None:
    with helper(board) as fake:
        fake.answers["state"] = msgspec.to_builtins(OFF)
        board.systemd.add(SERVICE)
        await board.agent_up()

        async def problem() -> str:
            found = (await board.call("GetStatus"))["problems"]
            return next((note["code"] for note in found if note["code"].startswith("pool-")), "")

        async def reported() -> bool:
            return await problem() == "pool-no-module"

        await board.until(reported)
        assert "the kernel module evenkeel_pagepool is not loaded" in (await board.ekctl("status")).out
        assert await board.call("GetCache")
        fake.answers["remove"] = msgspec.to_builtins(NONE)
        await board.call("RemovePriorityDirectory", "web", "/srv/www/top")
        assert await problem() == "", "a change counts at once"

        # after a restart of the agent, only the apps' files say which directories are wanted
        board.systemd.stop(SERVICE)
        text = 'title = "Web"\nunit = "web.service"\npriority_directories = ["/srv/a"]\n'
        (board.root / "etc/evenkeel/apps.d/web.toml").write_text(text)
        await board.agent_down()
        fake.orders.clear()
        await board.agent_up()
        assert await problem() == "pool-stopped"
        assert fake.orders == []


# the app's file


def parse(value: str) -> registry.App:
    text = f'title = "Web"\nunit = "web.service"\npriority_directories = {value}\n'
    return registry.parse("web", text.encode())


def test_an_app_names_directories() -> None:
    assert parse('["/srv/b", "/srv/a", "/srv/b"]').directories == ("/srv/b", "/srv/a")
    assert parse("[]").directories == ()
    assert registry.parse("web", b'title = "W"\nunit = "w.service"\n').directories == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"/srv/a"', "must be a list of paths"),
        ("[1]", "must be a list of paths"),
        ('["srv/a"]', "'srv/a' is not an absolute path"),
        ('["/srv/../a"]', "not an absolute path"),
        ('["/srv/a/"]', "not an absolute path"),
        ('["//srv"]', "not an absolute path"),
        ('["/srv\\na"]', "not an absolute path"),
        ('["/' + "a" * 4095 + '"]', "longer than 4095 bytes"),
        (json.dumps([f"/srv/{i}" for i in range(33)]), "has 33 paths, and an app may have 32"),
    ],
)
def test_bad_directories_are_refused_with_a_reason(value: str, text: str) -> None:
    with pytest.raises(registry.AppError, match=text.replace("[", r"\[")):
        parse(value)


@given(st.lists(st.text("abc./ é", max_size=8)).map("/".join))
def test_an_accepted_directory_is_absolute_and_has_one_form(path: str) -> None:
    if registry.directory_problem(path) is None:
        assert path == posixpath.normpath(f"/{path.lstrip('/')}")
