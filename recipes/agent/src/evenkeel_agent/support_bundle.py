# SPDX-License-Identifier: Apache-2.0
"""Packs a support bundle in ek-journal: the facts of the agent, and the journal, as a .tar.gz file in packets.

Memory: the facts (MAX_FACTS), and one output of journalctl (MAX_OUTPUT). The file is sent while it is packed.
"""

import io
import json
import re
import socket
import subprocess
import tarfile
import time
from collections.abc import Sequence
from typing import Any

from evenkeel_common.packets import CONTENT_BYTES, PACKET_BYTES, End, Truncated, data, end, parse

from .time_limit import time_limit

MAX_FACTS = 5 << 20
MAX_FILES = 32
MAX_OUTPUT = 16 << 20
# Time for each output of journalctl. The panel waits 50 s for the first packet.
OUTPUT_S = 12.0
# A receiver that takes nothing for this long has gone.
STALL_S = 60.0
FACT = re.compile(r"[a-z][a-z-]{0,30}\.(json|txt)")
# name of a file → what it has, and the options of journalctl; at most so many lines, the newest ones
JOURNAL = {
    "journal.txt": (
        "the newest 20000 lines of the journal since the board started",
        ("--boot", "--lines=20000"),
    ),
    "kernel.txt": (
        "the newest 5000 lines of the kernel log since the board started",
        ("--dmesg", "--lines=5000"),
    ),
    "journal-before.txt": (
        "the newest 2000 warnings and errors from before the board started",
        ("--boot=-1", "--priority=warning", "--lines=2000"),
    ),
}
README = """\
Support bundle of an Evenkeel board, made at {time}

{files}

Times are in UTC. A file that begins with "(" could not be made in full; the line has the reason.

The board put no password, password hash, API token or secret of an authenticator app into this file. But programs may
log anything: read journal.txt before you pass the file on. It has names of users and programs, host names and mail
addresses.
"""
MEANINGS = {
    "status.json": "state of the board, its flash devices and its problems",
    "apps.json": "apps with weights, fixed shares, rates and latencies",
    "update.json": "slots, versions and the state of updates",
    "recorder.json": "channels of the recorder, their losses and latencies",
    "system.json": "name of the board, and its clock",
    "scheduler.txt": "scheduler and tunables of each flash device, and the counters of each app in the kernel",
}


class Sender(io.RawIOBase):
    """A file whose content goes to CONNECTION in data packets."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        view = memoryview(content)
        for at in range(0, len(view), CONTENT_BYTES):
            self._connection.sendall(data(bytes(view[at : at + CONTENT_BYTES])))
        return len(view)


def receive_facts(connection: socket.socket) -> dict[str, str]:
    """The facts of the agent, by name of a file. Raises ValueError or Truncated."""
    content = bytearray()
    while not isinstance(part := parse(connection.recv(PACKET_BYTES)), End):
        content += part
        if len(content) > MAX_FACTS:
            raise ValueError("the facts are too long")
    found = json.loads(content)
    if not isinstance(found, dict) or len(found) > MAX_FILES:
        raise ValueError("the facts are not valid")
    for name, text in found.items():
        if not FACT.fullmatch(name) or not isinstance(text, str):
            raise ValueError(f"{name!r:.40} is not a file of facts")
    return found


def output(arguments: Sequence[str], limit_s: float = OUTPUT_S, most: int = MAX_OUTPUT) -> bytes:
    """What ARGUMENTS print, at most MOST bytes. A first line in parentheses says that something is missing."""
    try:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        return f"({arguments[0]} does not run: {error.strerror})\n".encode()
    with process, time_limit(process, limit_s) as late:
        assert process.stdout
        content = process.stdout.read(most + 1)
        process.kill()  # it has ended, unless it prints more
        process.wait()
    if late.is_set():
        return f"(incomplete: journalctl took more than {limit_s:g} s)\n".encode() + content[:most]
    if len(content) > most:
        return f"(incomplete: more than {most} bytes)\n".encode() + content[:most]
    return content


def send(connection: socket.socket, facts: dict[str, str], journalctl: str) -> None:
    """Pack and send the file. Raises OSError if the receiver has gone."""
    now = int(time.time())
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    top = f"support-{made.replace(':', '')}"
    meanings = {name: MEANINGS.get(name, "facts of the agent") for name in facts}
    meanings |= {name: meaning for name, (meaning, _) in JOURNAL.items()}
    lines = "\n".join(f"{name:20} {meaning}" for name, meaning in meanings.items())
    connection.settimeout(STALL_S)
    target: Any = Sender(connection)
    with tarfile.open(fileobj=target, mode="w|gz", bufsize=CONTENT_BYTES) as tar:

        def add(name: str, content: bytes) -> None:
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), now, 0o644
            tar.addfile(entry, io.BytesIO(content))

        add("README.txt", README.format(time=made, files=lines).encode())
        for name, text in facts.items():
            add(name, text.encode("utf-8", "replace"))
        fixed = ("--quiet", "--no-pager", "--system", "--utc", "--output=short-iso-precise")
        for name, (_, options) in JOURNAL.items():
            add(name, output([journalctl, *fixed, *options]))
    connection.sendall(end(End(0)))


def serve(connection: socket.socket, journalctl: str) -> None:
    """Answer a request for a bundle, whose first packet was received."""
    try:
        facts = receive_facts(connection)
    except (ValueError, RecursionError, Truncated) as error:
        connection.sendall(end(End(2, f"the request is not valid: {error}")))
        return
    send(connection, facts, journalctl)
