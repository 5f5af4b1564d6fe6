# SPDX-License-Identifier: Apache-2.0
"""A fake ek-recorder, and the real ek-recordings behind a socket, as systemd starts it."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

from evenkeel_agent import recordings_helper
from evenkeel_common.packets import PACKET_BYTES, End, parse

# `ls` prints a row for each channel; `export` prints its arguments, then what the file `content` next to it says.
FAKE = """#!/usr/bin/python3
import json, os, sys, time
here = os.path.dirname(sys.argv[0])
mode = open(here + "/mode").read() if os.path.exists(here + "/mode") else ""
names = sys.argv[sys.argv.index("--") + 1:]
if sys.argv[1] == "ls":
    rows = [{"name": n.rpartition("/")[2], "bytes": 4096, "first": "2026-11-25T10:00:00.500000000Z",
             "last": "2026-11-25T11:00:00.000000000Z"} for n in names]
    print(json.dumps({"channels": rows}))
    sys.exit(0)
if mode == "refuse":
    print("ek-recorder export: arm: there are no segments of a recording", file=sys.stderr)
    sys.exit(2)
if mode == "slow":
    time.sleep(30)
print(" ".join(sys.argv[1:]), flush=True)
if mode == "large":
    sys.stdout.write("x" * 3_000_000)
if mode == "killed":
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
if mode == "noisy":
    sys.stderr.write("arm: 7 records lost\\n" * 20000)
    sys.exit(1)
"""


class FakeRecordings:
    """Serves `path` like evenkeel-recordings.socket. FOLDER gets a fake ek-recorder, and the channels `arm` and `can0`."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.recorder = folder / "ek-recorder"
        self.recorder.write_text(FAKE)
        self.recorder.chmod(0o755)
        self.directory = folder / "recorder"
        (self.directory / "arm/kept/brake-failure").mkdir(parents=True)
        (self.directory / "can0").mkdir()
        (self.directory / "lost+found").mkdir()
        self.full = False  # systemd closes each connection at once
        self.served = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(path))
        path.chmod(0o666)
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def mode(self, name: str) -> None:
        (self.recorder.parent / "mode").write_text(name)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # ends accept()
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.served += 1
            if self.full:
                connection.close()
            else:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the receiver may close its end
            recordings_helper.serve(connection, str(self.recorder), str(self.directory))


def receive(connection: socket.socket) -> tuple[bytes, End]:
    """The file on CONNECTION, and its end. Raises Truncated."""
    connection.setblocking(True)
    content = b""
    while not isinstance(part := parse(connection.recv(PACKET_BYTES)), End):
        content += part
    return content, part
