# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH108, PTH110, PTH118, PTH208
"""ek-network: changes the network settings for the agent. It runs as a user of its own, and undoes what nobody confirms.

evenkeel-network.socket starts it, and only the agent may connect. Each connection has one request and one answer, as
JSON. The process ends when nothing waits. If it is killed while a change waits, systemd starts it again, and it goes on
from its file. `ek-network --boot` runs before systemd-networkd, and drops a change that waited when the board stopped.

Guarantees:

- The confirmed settings and the deadline are on the medium before a change is in force (network_trial has the rules).
- The files for systemd-networkd are in /run. So after a power cut, no file of a change that was not confirmed is left.
- While MARK exists, systemd-networkd may not have read the files yet. A new process then makes it read them again.
"""

import contextlib
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evenkeel_common.command import run
from evenkeel_common.files import read_line, read_small, replace, why

from . import network_trial
from .network_config import BadConfig, checked, file_name, interface_name, render
from .network_trial import Refused, State, fields

STATE = "/var/lib/evenkeel-network/state.json"
FILES = "/run/systemd/network"
MARK = ".evenkeel-reload"  # in FILES; systemd-networkd ignores this name
DAMAGED = ".damaged"
LIMIT = 64 * 1024
PACKET = 16 * 1024
# Not "networkctl reload": it refuses to run in another network namespace than that of systemd-networkd, and the helper has a
# namespace of its own, without devices.
_NETWORKD = "org.freedesktop.network1"
RELOAD = (
    "busctl",
    "--quiet",
    "call",
    _NETWORKD,
    "/org/freedesktop/network1",
    f"{_NETWORKD}.Manager",
    "Reload",
)
RELOAD_S = 20.0  # time limit for RELOAD
APPLY_S = 2.0  # a change comes into force so long after the answer, because the answer needs the old address
RETRY_S = 5.0  # time until the next attempt, if systemd-networkd does not read the files
IDLE_S = 20.0  # the process ends after this time without a request
REQUEST_S = 5.0  # time that the agent may take to send its request


@dataclass(frozen=True, slots=True)
class Clock:
    """The time since the boot in seconds, also while the board slept, and the identifier of the boot."""

    now_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    boot: str = ""


def boot_id() -> str:
    return read_line("/proc/sys/kernel/random/boot_id")


def reload() -> None:
    """Make systemd-networkd read its files again. Raises OSError."""
    run(RELOAD, RELOAD_S)


class Helper:
    """Keeps the state file STATE and the files in FILES. The constructor reads the state; it never fails."""

    def __init__(
        self, clock: Clock, state: str = STATE, files: str = FILES, reload: Callable[[], None] = reload
    ) -> None:
        self._clock, self._path, self._files, self._reload = clock, state, files, reload
        self._apply_s = 0.0  # when the files may be changed
        self._in_force = False  # whether systemd-networkd has read the files of the present state
        self._state = State()
        try:
            self._state = network_trial.decode(read_small(state, LIMIT))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            print(f"<3>ek-network: {state} cannot be used: {error}", file=sys.stderr)
            with contextlib.suppress(OSError):
                os.replace(state, state + DAMAGED)

    # the requests

    def answer(self, packet: bytes) -> bytes:
        """The answer to the request PACKET. It never fails."""
        try:
            request = json.loads(packet)
            self._order(request)
            found = self._report()
        except Refused as error:
            found = {"error": error.code, "parameters": error.parameters, "kind": "Conflict"}
        except BadConfig as error:
            message = error.message
            found = {"error": message.code, "parameters": message.parameters, "kind": "InvalidArgument"}
        except OSError as error:
            found = {
                "error": "network-not-saved",
                "parameters": {"path": self._path, "reason": why(error)},
                "kind": "Failed",
            }
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            found = {
                "error": "external",
                "parameters": {"text": f"the request is not valid: {error}"},
                "kind": "Failed",
            }
        return json.dumps(found).encode()

    def _order(self, request: Any) -> None:
        now_s, boot, order = self._clock.now_s(), self._clock.boot, request["order"]
        if order == "state":
            return
        if order == "set":
            name = interface_name(request["interface"])
            config = checked(request["mode"], request["address"], request["gateway"], request["dns"])
            changed = network_trial.begin(self._state, {name: config}, now_s, boot)
        elif order == "restore":
            changes = network_trial.checked_changes(request["changes"])
            if not changes:
                raise ValueError("no interface changes")
            changed = network_trial.begin(self._state, changes, now_s, boot)
        elif order == "confirm":
            changed = network_trial.confirm(self._state, now_s, boot)
            if not self._in_force:
                # The caller still uses the old settings, so the call does not show that the new ones work.
                raise Refused("network-too-early")
        elif order == "revert":
            changed = network_trial.revert(self._state, now_s, boot)
        else:
            raise ValueError(f"unknown order {order!r:.40}")
        self._save(changed)
        if order == "confirm":
            with contextlib.suppress(OSError):
                os.unlink(self._path + DAMAGED)
        else:
            self._apply_s, self._in_force = now_s + APPLY_S, False

    def _save(self, state: State) -> None:
        replace(self._path, network_trial.encode(state))
        self._state = state

    def _report(self) -> dict[str, Any]:
        now_s = self._clock.now_s()
        state = network_trial.settle(self._state, now_s, self._clock.boot)
        trial = state.trial
        settings = {name: fields(config) for name, config in network_trial.effective(state).items()}
        return {
            "settings": settings,
            "saved": {name: fields(config) for name, config in state.saved.items()},
            "trial": trial
            and {"interfaces": sorted(trial.changes), "left_s": max(int(trial.deadline_s - now_s), 0)},
            "last": state.last,
            "damaged": self._path + DAMAGED if os.path.exists(self._path + DAMAGED) else "",
        }

    # the work

    def work(self) -> float | None:
        """Do what is due. Returns the seconds until the next work, or None if nothing waits."""
        now_s = self._clock.now_s()
        self._settle(now_s)
        if now_s < self._apply_s:
            return self._apply_s - now_s
        try:
            self._apply()
        except OSError as error:
            print(f"<3>ek-network: the settings are not in force yet: {error}", file=sys.stderr)
            return RETRY_S
        return self._state.trial.deadline_s - now_s if self._state.trial else None

    def boot(self) -> None:
        """Drop a change that waited, and write the files. systemd-networkd has not started yet. Raises OSError."""
        self._settle(self._clock.now_s())
        self._write_files()

    def _settle(self, now_s: float) -> None:
        settled = network_trial.settle(self._state, now_s, self._clock.boot)
        if settled is self._state:
            return
        print(f"<5>ek-network: a change of the network settings was undone ({settled.last})", file=sys.stderr)
        self._in_force = False
        try:
            self._save(settled)
        except OSError as error:
            # The file still has the change. The next process or the next boot drops it again.
            print(f"<3>ek-network: {self._path} cannot be saved: {why(error)}", file=sys.stderr)
            self._state = settled

    def _apply(self) -> None:
        mark = os.path.join(self._files, MARK)
        if self._differs():
            with open(mark, "wb"):  # noqa: PTH123
                pass
            self._write_files()
        if os.path.exists(mark):
            self._reload()
            os.unlink(mark)
        self._in_force = True

    def _differs(self) -> bool:
        wanted = self._wanted()
        return self._present() != set(wanted) or any(
            self._content(name) != text for name, text in wanted.items()
        )

    def _wanted(self) -> dict[str, bytes]:
        found = network_trial.effective(self._state)
        return {file_name(name): render(name, config).encode() for name, config in found.items()}

    def _present(self) -> set[str]:
        return {name for name in os.listdir(self._files) if name.startswith(file_name("").partition(".")[0])}

    def _content(self, name: str) -> bytes:
        return read_small(os.path.join(self._files, name), LIMIT)

    def _write_files(self) -> None:
        """Make the files in FILES those of the state."""
        wanted = self._wanted()
        for name, text in wanted.items():
            path = os.path.join(self._files, name)
            with open(path + ".new", "wb") as file:  # noqa: PTH123
                file.write(text)
            os.chmod(path + ".new", 0o644)  # noqa: PTH101  systemd-networkd has a user of its own
            os.replace(path + ".new", path)
        for name in self._present() - set(wanted):
            os.unlink(os.path.join(self._files, name))


def serve(listener: socket.socket, helper: Helper) -> None:
    """Serve requests until nothing waits and none came for IDLE_S."""
    while True:
        wait_s = helper.work()
        ready, _, _ = select.select([listener], [], [], IDLE_S if wait_s is None else wait_s)
        if ready:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):  # the agent may close the connection
                connection.settimeout(REQUEST_S)
                connection.sendall(helper.answer(connection.recv(PACKET)))
        elif wait_s is None:
            return


def main() -> int:
    if sys.argv[1:] == ["--boot"]:
        # No boot has this identifier, so a change that waited is dropped.
        Helper(Clock(boot="-")).boot()
        return 0
    with socket.socket(fileno=3) as listener:
        serve(listener, Helper(Clock(boot=boot_id())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
