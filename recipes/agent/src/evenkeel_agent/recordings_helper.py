# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118, PTH208
"""ek-recordings: reads the recordings for the agent, and cannot change them. It runs as a user of its own.

Standard input is a connection of evenkeel-recordings.socket, to which only the agent may connect. The first packet is
the request, as JSON; the helper reads no other one. The answer is a file in the packets of evenkeel_common.packets:
the output of `ek-recorder export`, or a list of the recordings as JSON. The helper checks the request itself: it passes
names and times to ek-recorder, and no other option or path.
"""

import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from evenkeel_common.packets import CONTENT_BYTES, End, data, end

RECORDER = "/usr/bin/ek-recorder"
DIRECTORY = "/recorder"
KEPT = "kept"  # folder of a channel's incidents
MAX_INCIDENTS = 500  # in a list
MAX_REQUEST = 16 * 1024
# A receiver that takes nothing for this long has gone.
STALL_S = 60
FORMATS = {
    "mcap": ("--format", "mcap"),
    "csv-text": ("--format", "csv", "--payload", "text"),
    "csv-hex": ("--format", "csv", "--payload", "hex"),
}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class BadRequest(Exception):
    """The request is not valid. The agent sends no such request."""


def command(request: dict[str, Any], recorder: str = RECORDER, directory: str = DIRECTORY) -> list[str]:
    """The command for an export. Raises BadRequest."""
    channels = [_checked(_NAME, name) for name in request["channels"]]
    if not channels or request["format"] not in FORMATS:
        raise BadRequest("no channels, or an unknown format")
    options = [*FORMATS[request["format"]], "--directory", directory]
    for option, key in (("--from", "start"), ("--to", "end")):
        if request[key]:
            options += [option, _checked(_TIME, request[key])]
    if request["incident"]:
        incident = _checked(_NAME, request["incident"])
        channels = [f"{directory}/{name}/{KEPT}/{incident}" for name in channels]
    return [recorder, "export", "-o", "-", *options, "--", *channels]


def _checked(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadRequest(f"{value!r:.60} is not valid")
    return value


def export(arguments: Sequence[str], connection: socket.socket) -> None:
    """Run ARGUMENTS and send its output. If the receiver goes away, the command ends at once, also while it prints nothing."""
    with subprocess.Popen(
        arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        tail = bytearray()
        # The command reports each gap. Its messages must be read, or it would wait.
        reader = threading.Thread(target=_drain, args=(process.stderr, tail), daemon=True)
        reader.start()
        try:
            while content := _read(process.stdout.fileno(), connection):
                connection.sendall(data(content))
        except OSError:
            process.kill()
            return
        finally:
            reader.join()
    text = bytes(tail).decode("utf-8", "replace").strip().rpartition("\n")[2]
    connection.sendall(end(End(process.returncode if process.returncode in (0, 1) else 2, text)))


def _read(output: int, connection: socket.socket) -> bytes:
    """The next part of the command's output; empty at its end. Raises BrokenPipeError if the receiver has gone.

    A search in a large recording prints nothing for a long time. An event mask of 0 reports POLLHUP and POLLERR only.
    The agent ends its sending direction after the request, which is neither.
    """
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(connection, 0)
    if any(fd == connection.fileno() for fd, _ in poll.poll()):
        raise BrokenPipeError
    return os.read(output, CONTENT_BYTES)


def _drain(stream: Any, tail: bytearray) -> None:
    while chunk := stream.read1(4096):
        tail += chunk
        del tail[:-2000]


def listing(recorder: str = RECORDER, directory: str = DIRECTORY) -> dict[str, Any]:
    """What `ek-recorder ls` reports about all channels and incidents, and the channels that this user may not read."""
    names = sorted(name for name in os.listdir(directory) if _NAME.fullmatch(name))
    readable = [name for name in names if os.access(os.path.join(directory, name), os.R_OK | os.X_OK)]
    incidents = []
    for channel, found in _incidents(directory, readable):
        paths = [f"{directory}/{channel}/{KEPT}/{incident}" for incident in found]
        incidents += [{**row, "channel": channel} for row in _ls(recorder, directory, paths)]
    return {
        "channels": _ls(recorder, directory, readable),
        "incidents": incidents,
        "denied": [name for name in names if name not in readable],
    }


def _incidents(directory: str, channels: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    left = MAX_INCIDENTS
    for channel in channels:
        try:
            found = sorted(
                name for name in os.listdir(os.path.join(directory, channel, KEPT)) if _NAME.fullmatch(name)
            )
        except OSError:
            continue  # the channel has no incident
        if found and left:
            yield channel, found[:left]
            left -= len(found[:left])


def _ls(recorder: str, directory: str, channels: Sequence[str]) -> list[dict[str, Any]]:
    if not channels:
        return []
    # A channel without segments makes the status 2, although the others are listed.
    done = subprocess.run(
        [recorder, "ls", "--json", "--directory", directory, "--", *channels],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if not done.stdout:
        raise OSError(done.stderr.decode("utf-8", "replace").strip()[-500:] or "ek-recorder ls failed")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["channels"]
    return rows


def serve(connection: socket.socket, recorder: str = RECORDER, directory: str = DIRECTORY) -> None:
    """Answer the request on CONNECTION."""
    connection.settimeout(STALL_S)
    packet = connection.recv(MAX_REQUEST)
    try:
        request = json.loads(packet)
        if request == "list":
            found = json.dumps(listing(recorder, directory)).encode()
            for at in range(0, len(found), CONTENT_BYTES):
                connection.sendall(data(found[at : at + CONTENT_BYTES]))
            connection.sendall(end(End(0)))
        else:
            export(command(request, recorder, directory), connection)
    except (ValueError, LookupError, TypeError, BadRequest) as error:
        connection.sendall(end(End(2, f"the request is not valid: {error}")))
    except OSError as error:
        connection.sendall(end(End(2, error.strerror or str(error))))


def main() -> int:
    try:
        with socket.socket(fileno=0) as connection:
            serve(connection)
    except OSError as error:
        # the agent or the panel has closed the connection
        print(f"<6>ek-recordings: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
