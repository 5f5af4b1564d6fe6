# SPDX-License-Identifier: Apache-2.0
"""The files that are not Python agree with the code: systemd, D-Bus, polkit, README and D-Bus reference."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from evenkeel_agent import interface, reference
from evenkeel_agent.settings import Settings

COMPONENT = Path(__file__).resolve().parent.parent
DATA = COMPONENT / "data"
REFERENCE = COMPONENT.parents[1] / "docs/reference/dbus.md"


@pytest.mark.skipif(
    not REFERENCE.parent.is_dir(), reason="the folder docs/reference is not part of this package"
)
def test_the_dbus_reference_is_up_to_date() -> None:
    assert REFERENCE.read_text() == reference.page(), "docs/reference/dbus.md is old; run 'make docs'"


def test_every_fact_of_the_interface_has_a_meaning() -> None:
    for method in interface.METHODS.values():
        assert method.meaning
        assert method.action in interface.ACTIONS
        assert set(method.errors) <= set(interface.AgentError.__subclasses__())
    for fields in (interface.STATUS, interface.DEVICE, interface.APP):
        assert all(field.signature and field.meaning for field in fields.values())
        # a field whose name ends in a unit states that unit
        for suffix, unit in (("_s", "s"), ("_us", "µs"), ("_bps", "bytes/s"), ("_bytes", "bytes")):
            assert all(field.unit == unit for name, field in fields.items() if name.endswith(suffix))
    for error in interface.AgentError.__subclasses__():
        assert error.meaning
        assert error.remedy
        assert error.kind == error.__name__


def test_the_readme_has_every_source_file() -> None:
    readme = (COMPONENT / "README.md").read_text()
    for file in (COMPONENT / "src").rglob("*.[pc]*"):
        if file.suffix in (".py", ".c") and file.name != "__init__.py":
            assert f"`{file.name}`" in readme, file


def test_the_polkit_actions_are_those_of_the_interface_and_need_a_password() -> None:
    actions = ET.parse(DATA / "org.evenkeel.agent.policy").getroot().findall("action")  # noqa: S314  our own file
    assert {action.get("id"): action.findtext("description") for action in actions} == interface.ACTIONS
    for action in actions:
        text = str(action.findtext("description"))
        assert action.findtext("message") == f"Authentication is required to {text[0].lower()}{text[1:]}"
        assert [default.text for default in action.findall("defaults/*")] == ["auth_admin"] * 3


def test_the_polkit_rule_covers_every_action() -> None:
    rule = (DATA / "50-evenkeel-agent.rules").read_text()
    prefix = re.search(r'indexOf\("([^"]+)"\) === 0', rule)
    assert prefix
    assert all(action.startswith(prefix[1]) for action in interface.ACTIONS)
    assert set(re.findall(r'subject.user === "([^"]+)"', rule)) == {"evenkeel-panel", "root"}


def test_only_root_may_own_the_bus_name() -> None:
    policies = ET.parse(DATA / "org.evenkeel.Agent1.conf").getroot().findall("policy")  # noqa: S314  our own file
    assert [dict(p.attrib) for p in policies if p.find("allow[@own]") is not None] == [{"user": "root"}]
    assert not [p for p in policies if "context" in p.attrib], (
        "users of apps must not be able to call the agent"
    )


def test_only_root_sends_orders_and_only_the_helper_has_a_capability() -> None:
    socket = (DATA / "evenkeel-fixed-share.socket").read_text()
    assert f"ListenSequentialPacket={Settings().fixed_share_socket}\n" in socket
    assert "SocketMode=0600\n" in socket
    capabilities = {
        path.name: re.findall(r"^CapabilityBoundingSet=(.*)$", path.read_text(), re.MULTILINE)
        for path in DATA.glob("*.service")
        if "[Service]" in path.read_text()
    }
    assert capabilities == {"evenkeeld.service": [""], "evenkeel-fixed-share@.service": ["CAP_SYS_ADMIN"]}


def test_the_helper_can_use_openat2() -> None:
    """systemd's RestrictSUIDSGID= blocks openat2(), because a filter cannot see the mode of the new file."""
    lines = (DATA / "evenkeel-fixed-share@.service").read_text().splitlines()
    assert "RestrictSUIDSGID=yes" not in lines
    assert "openat2" in (COMPONENT / "src/ek_fixed_share.c").read_text()


@pytest.mark.parametrize("name", ["evenkeeld", "evenkeel-fixed-share@"])
def test_systemd_accepts_the_unit_and_rates_it_safe(tmp_path: Path, name: str) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for path in DATA.glob("evenkeel*.*"):
        text = re.sub(r"^ExecStart=.*", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE)
        (tmp_path / path.name).write_text(text)
    unit = tmp_path / f"{name}.service"
    if "@" in name:
        # an instance, as the socket starts it
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
