# SPDX-License-Identifier: Apache-2.0
"""What is not Python: the files for systemd, D-Bus and polkit, and the README, against the code."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from evenkeel_agent import interface
from evenkeel_agent.settings import Settings

ROOM = Path(__file__).resolve().parent.parent
DATA = ROOM / "data"
README = (ROOM / "README.md").read_text()
ACTIONS = {interface.READ, interface.SET_WEIGHT, interface.SET_PERFORMANCE, interface.CONTROL_APP}


def rows(text: str) -> list[list[str]]:
    """The cells of each table line, without backquotes."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def test_the_readme_lists_the_methods() -> None:
    table = {row[0]: row[1:] for row in rows(README) if row[0] in interface.METHODS}
    assert table == {
        name: [method.signature, "".join(kind for _, kind in method.gives), method.action]
        for name, method in interface.METHODS.items()
    }


@pytest.mark.parametrize(
    ("title", "keys"), [("`GetStatus`:", interface.STATUS), ("`ListApps`, by", interface.APP)]
)
def test_the_readme_lists_what_answers_hold(title: str, keys: dict[str, str]) -> None:
    listed = {}
    for row in rows(README.split(title)[1].split("\n\n")[1])[2:]:
        listed.update(dict.fromkeys(row[0].split(", "), row[1]))
    assert listed == keys


def test_the_readme_lists_the_errors_and_files() -> None:
    for error in interface.AgentError.__subclasses__():
        assert f"`{error.kind}`" in README
    for file in (ROOM / "evenkeel_agent").glob("*.py"):
        assert file.name == "__init__.py" or file.name in README


def test_polkit_knows_every_action_and_asks_for_a_password() -> None:
    actions = ET.parse(DATA / "org.evenkeel.agent.policy").getroot().findall("action")  # noqa: S314  our own file
    assert {action.get("id") for action in actions} == ACTIONS
    for action in actions:
        assert [default.text for default in action.findall("defaults/*")] == ["auth_admin"] * 3


def test_the_polkit_rule_covers_every_action() -> None:
    rule = (DATA / "50-evenkeel-agent.rules").read_text()
    prefix = re.search(r'indexOf\("([^"]+)"\) === 0', rule)
    assert prefix
    assert all(action.startswith(prefix[1]) for action in ACTIONS)
    assert set(re.findall(r'subject.user === "([^"]+)"', rule)) == {"evenkeel-panel", "root"}


def test_only_root_may_be_the_agent() -> None:
    policies = ET.parse(DATA / "org.evenkeel.Agent1.conf").getroot().findall("policy")  # noqa: S314  our own file
    assert [dict(p.attrib) for p in policies if p.find("allow[@own]") is not None] == [{"user": "root"}]
    assert not [p for p in policies if "context" in p.attrib], "apps' users must not get through"


def test_only_root_gives_orders_and_only_one_file_of_it_has_a_capability() -> None:
    socket = (DATA / "evenkeel-regulate.socket").read_text()
    assert f"ListenSequentialPacket={Settings().regulate_socket}\n" in socket
    assert "SocketMode=0600\n" in socket
    held = {
        path.name: re.findall(r"^CapabilityBoundingSet=(.*)$", path.read_text(), re.MULTILINE)
        for path in DATA.glob("*.service")
        if "[Service]" in path.read_text()
    }
    assert held == {"evenkeeld.service": [""], "evenkeel-regulate@.service": ["CAP_SYS_ADMIN"]}


def test_what_confines_orders_to_the_cgroup_tree_is_not_taken_away() -> None:
    """systemd's RestrictSUIDSGID= makes openat2() fail, for it cannot see what mode a file is to have."""
    lines = (DATA / "evenkeel-regulate@.service").read_text().splitlines()
    assert "RestrictSUIDSGID=yes" not in lines
    assert "openat2" in (ROOM / "src/ek_regulate.c").read_text()


@pytest.mark.parametrize("name", ["evenkeeld", "evenkeel-regulate@"])
def test_systemd_accepts_the_unit_and_finds_it_safe(tmp_path: Path, name: str) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for path in DATA.glob("evenkeel*.*"):
        text = re.sub(r"^ExecStart=.*", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
    unit = tmp_path / f"{name}.service"
    if "@" in name:
        # an instance, as the socket starts them
        unit = unit.rename(tmp_path / f"{name}1.service")
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    if "Failed to initialize manager" in checked.stderr:
        pytest.skip(f"systemd-analyze cannot run here: {checked.stderr.strip()}")
    assert (checked.returncode, checked.stderr) == (0, "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(unit)],
        capture_output=True,
        text=True,
    )
    assert rated.returncode == 0, rated.stdout
