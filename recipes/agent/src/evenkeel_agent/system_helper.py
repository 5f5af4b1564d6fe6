# SPDX-License-Identifier: Apache-2.0
"""ek-system: sets name and clock of the board, restarts it, orders a factory reset, and changes the configuration of the
recorder, for the agent.

Standard input is a connection of evenkeel-system.socket, to which only the agent may connect. The first packet is the
order, as JSON, and the answer is one packet. The helper runs as a user of its own. 50-evenkeel-agent.rules allows this user
exactly what commands() calls. The helper may write in the folder of the recorder's configuration, and nowhere else. It checks
each value itself, so a compromised agent can give these orders only.
"""

import json
import socket
import sys
from collections.abc import Callable, Sequence

import msgspec
from evenkeel_common.command import run

from . import recorder_config
from .recorder_config import BadFile
from .system_orders import CALL_S, EndSystem, Order, OrderReset, SaveName, SaveZone, SetRecorder, UseServers

PACKET = 128 * 1024
REQUEST_S = 5.0  # time that the agent may take to send its order
# By "--", no value becomes an option of busctl.
_BUSCTL = ("busctl", "--quiet", f"--timeout={CALL_S}", "--", "call")
_HOSTNAME = "org.freedesktop.hostname1"
_LOGIN = "org.freedesktop.login1"
_SYSTEMD = "org.freedesktop.systemd1"
_TIMEDATE = "org.freedesktop.timedate1"
_TIMESYNC = "org.freedesktop.timesync1"
_RECORDER = "ek-recorder.service"
_RESETS = ("keep", "all")
_END = {"restart": "Reboot", "power-off": "PowerOff"}


def commands(order: Order) -> list[list[str]]:
    """The commands that carry out ORDER, one after the other."""
    match order:
        case SaveName(name):
            return [_call(_HOSTNAME, "", "SetStaticHostname", "sb", name, "false")]
        case SaveZone(zone):
            return [_call(_TIMEDATE, "", "SetTimezone", "sb", zone, "false")]
        case UseServers(servers):
            return [_call(_TIMESYNC, ".Manager", "SetRuntimeNTPServers", "as", str(len(servers)), *servers)]
        case EndSystem(how):
            return [_call(_LOGIN, ".Manager", _END[how], "b", "false")]
        case OrderReset(what):
            stopped = [] if what in _RESETS else [_unit("StopUnit", reset) for reset in _RESETS]
            return [*stopped, _unit("StartUnit", what)]
        case SetRecorder():
            # nothing, if it does not run
            return [_call(_SYSTEMD, ".Manager", "ReloadOrTryRestartUnit", "ss", _RECORDER, "replace")]


def _unit(member: str, what: str) -> list[str]:
    return _call(_SYSTEMD, ".Manager", member, "ss", f"evenkeel-factory-reset@{what}.service", "replace")


def _call(service: str, interface: str, member: str, *body: str) -> list[str]:
    return [*_BUSCTL, service, "/" + service.replace(".", "/"), service + interface, member, *body]


def answer(
    packet: bytes,
    run: Callable[[Sequence[str], float], object] = run,
    folder: str = recorder_config.FOLDER,
) -> bytes:
    """The answer to the order PACKET. It never fails. After an error, the commands that follow are not run."""
    try:
        order = msgspec.json.decode(packet, type=Order)
        if isinstance(order, SetRecorder):
            recorder_config.write(folder, order.group, order.priority, order.channels)
        for command in commands(order):
            run(command, CALL_S + 1)
    except (msgspec.DecodeError, BadFile) as error:  # also of a value that breaks a rule
        return _refusal(f"the order is not valid: {error}")
    except OSError as error:
        return _refusal(str(error).removeprefix("Call failed: "))
    return b"{}"


def _refusal(text: str) -> bytes:
    return json.dumps({"error": "external", "parameters": {"text": text}, "kind": "Failed"}).encode()


def main() -> int:
    try:
        with socket.socket(fileno=0) as connection:
            connection.settimeout(REQUEST_S)
            connection.sendall(answer(connection.recv(PACKET)))
    except OSError as error:
        # the agent has closed the connection
        print(f"<6>ek-system: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
