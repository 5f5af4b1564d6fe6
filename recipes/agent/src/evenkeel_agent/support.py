# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH208
"""Serves OpenSupportBundle: one .tar.gz file with the facts that help to find the reason of a problem.

The agent collects the facts that it knows, as texts. ek-journal adds the journal and packs the file. The agent then passes
the connection to the panel, as for a recording: the last packet says that the file is complete.

No secret is in the facts: they are answers that each viewer may read, and files that all users of the board may read.
Accounts and the settings of alerts are left out.
"""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from evenkeel_api import errors
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing
from evenkeel_common.files import read_line, read_small, why
from evenkeel_common.packets import CONTENT_BYTES, End, data, end

from .caller import Caller
from .health import flash_devices
from .journal import HELPER_UNIT, SOCKET_UNIT
from .settings import Settings

# Both together are less than the panel waits.
QUERY_S = 4.0  # time that each query may take; they run at the same time
SEND_S = 8.0  # time that ek-journal may take to start and to read the facts
FILE_LIMIT = 256 * 1024  # bytes of a file of the kernel; a longer one is left out
FACTS_LIMIT = 4 << 20  # bytes of all facts; journal_helper.MAX_FACTS is more
CGROUP_FILES = (
    "io.weight",
    "io.evenkeel.weight",
    "io.evenkeel.fixed",
    "io.evenkeel.stat",
    "io.stat",
    "io.pressure",
)
Query = Callable[[Nothing, Caller], Awaitable[Any]]


class Support:
    """The handler of OpenSupportBundle. QUERIES: by name of a file, the handler whose answer it has."""

    def __init__(self, settings: Settings, queries: Mapping[str, Query]) -> None:
        self._settings = settings
        self._queries = queries

    async def open_support_bundle(self, _: Nothing, caller: Caller) -> int:
        """Returns the descriptor of a connection, from which the caller reads the packets of the file."""
        answers = await asyncio.gather(*(_answer(query, caller) for query in self._queries.values()))
        facts = {f"{name}.json": text for name, text in zip(self._queries, answers, strict=True)}
        facts["scheduler.txt"] = await asyncio.to_thread(scheduler, self._settings)
        content = json.dumps(facts).encode()
        if len(content) > FACTS_LIMIT:
            raise errors.Failed("bundle-not-made", reason=Message("bundle-too-large", limit=FACTS_LIMIT))
        loop, path = asyncio.get_running_loop(), self._settings.journal_socket
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            connection.setblocking(False)
            async with asyncio.timeout(SEND_S):
                await loop.sock_connect(connection, path)
                await loop.sock_sendall(connection, b'"bundle"')
                for at in range(0, len(content), CONTENT_BYTES):
                    await loop.sock_sendall(connection, data(content[at : at + CONTENT_BYTES]))
                await loop.sock_sendall(connection, end(End(0)))
            # Nobody can send a second request on this connection.
            connection.shutdown(socket.SHUT_WR)
        except (OSError, TimeoutError) as error:
            connection.close()
            if isinstance(error, ConnectionError | TimeoutError) and not isinstance(
                error, ConnectionRefusedError
            ):
                problem = Message("journal-ended", unit=HELPER_UNIT)
            else:
                problem = Message("journal-unreachable", path=path, reason=why(error), unit=SOCKET_UNIT)
            raise errors.Failed("bundle-not-made", reason=problem) from error
        except BaseException:
            connection.close()
            raise
        return connection.detach()


async def _answer(query: Query, caller: Caller) -> str:
    """The answer of QUERY as JSON, or the reason why there is none: a fault must not prevent the report about it."""
    try:
        answer = await asyncio.wait_for(query(Nothing(), caller), QUERY_S)
    except errors.AgentError as error:
        return json.dumps({"error": str(error)}, indent=1)
    except TimeoutError:
        return json.dumps({"error": f"there was no answer within {QUERY_S:g} s"}, indent=1)
    return msgspec.json.format(msgspec.json.encode(answer), indent=1).decode("utf-8", "replace")


def scheduler(settings: Settings) -> str:
    """What the kernel tells all users about the flash devices, and about the cgroups of the apps. Blocks."""
    parts = []
    block = settings.path("/sys/block")
    for device in flash_devices(block):
        queue = f"{block}/{device.name}/queue"
        parts.append(f"# {device.name} ({device.number}), {device.model}, {device.size_bytes} bytes\n")
        parts.append(f"scheduler: {read_line(f'{queue}/scheduler')}\n")
        parts += [
            f"iosched/{name}: {read_line(f'{queue}/iosched/{name}')}\n" for name in _names(f"{queue}/iosched")
        ]
    for folder, _, files in os.walk(settings.apps_cgroup):
        for name in CGROUP_FILES:
            if name in files:
                shown = os.path.relpath(f"{folder}/{name}", settings.cgroup_dir)
                parts.append(f"\n# {shown}\n{_content(f'{folder}/{name}')}\n")
        if len(parts) > 1000:
            parts.append("\n# further cgroups are left out\n")
            break
    return "".join(parts)[: FACTS_LIMIT // 2]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _content(path: str) -> str:
    try:
        return read_small(path, FILE_LIMIT).decode("utf-8", "replace").rstrip()
    except OSError as error:
        return f"(cannot be read: {why(error)})"
