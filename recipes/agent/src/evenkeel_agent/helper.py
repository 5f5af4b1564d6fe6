# SPDX-License-Identifier: Apache-2.0
"""Orders to a helper that answers each connection with JSON: ek-network and ek-certificate with one packet, ek-journal and
ek-validation with the packets of evenkeel_common.packets.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from evenkeel_api import errors
from evenkeel_common.files import why
from evenkeel_common.packets import PACKET_BYTES, End, Truncated, parse

LIMIT = 8 << 20  # bytes of an answer in several packets: more than each helper sends
PACKET = 64 * 1024  # bytes of an answer, at most
_KINDS: dict[str, type[errors.AgentError]] = {
    "Conflict": errors.Conflict,
    "InvalidArgument": errors.InvalidArgument,
}


async def order(
    path: str, request: Mapping[str, Any], timeout_s: float, unreachable: str, unit: str
) -> dict[str, Any]:
    """The answer to REQUEST from the socket PATH. Raises AgentError.

    UNREACHABLE: the code of the error if the helper gives no answer. Its parameters are path, reason and UNIT.
    """

    async def one(connection: socket.socket) -> bytes:
        return await asyncio.get_running_loop().sock_recv(connection, PACKET)

    found = await _answer(path, request, timeout_s, unreachable, unit, one)
    assert isinstance(found, dict)
    return found


async def ask(
    path: str, request: Mapping[str, Any], timeout_s: float, unreachable: str, unit: str
) -> dict[str, Any] | list[Any]:
    """The same for an answer in several packets, which may also be a list."""
    return await _answer(path, request, timeout_s, unreachable, unit, receive, lists=True)


async def connect(
    path: str, request: Mapping[str, Any], timeout_s: float, unreachable: str, unit: str
) -> socket.socket:
    """A connection on which the helper sends the answer to REQUEST. Nobody can send a second request on it."""
    try:
        async with asyncio.timeout(timeout_s):
            connection = await _connected(path, json.dumps(request).encode())
    except (OSError, TimeoutError) as error:
        raise _unreachable(error, path, unreachable, unit) from error
    connection.shutdown(socket.SHUT_WR)
    return connection


async def receive(connection: socket.socket) -> bytes:
    """The content of all packets on CONNECTION. Raises OSError, Truncated, or ValueError with the reason of the helper."""
    loop, content = asyncio.get_running_loop(), bytearray()
    while not isinstance(part := parse(await loop.sock_recv(connection, PACKET_BYTES)), End):
        content += part
        if len(content) > LIMIT:
            raise ValueError(f"the answer is longer than {LIMIT} bytes")
    if part.status:
        raise ValueError(part.text)
    return bytes(content)


async def _answer(
    path: str,
    request: Mapping[str, Any],
    timeout_s: float,
    unreachable: str,
    unit: str,
    read: Callable[[socket.socket], Awaitable[bytes]],
    lists: bool = False,
) -> dict[str, Any] | list[Any]:
    try:
        async with asyncio.timeout(timeout_s):
            with await _connected(path, json.dumps(request).encode()) as connection:
                answer: Any = json.loads(await read(connection))
        if not isinstance(answer, dict) and not (lists and isinstance(answer, list)):
            raise TypeError(f"the answer is a {type(answer).__name__}")
        if isinstance(answer, list) or "error" not in answer:
            return answer
        code, parameters, kind = answer["error"], answer["parameters"], answer["kind"]
    except (OSError, TimeoutError) as error:
        raise _unreachable(error, path, unreachable, unit) from error
    except (ValueError, LookupError, TypeError, Truncated) as error:
        reason = "it ended without an answer"
        raise errors.Failed(unreachable, path=path, reason=reason, unit=unit) from error
    raise _KINDS.get(kind, errors.Failed)(code, **parameters)


def _unreachable(error: Exception, path: str, code: str, unit: str) -> errors.AgentError:
    text = why(error) if isinstance(error, OSError) and error.strerror else "it did not answer in time"
    return errors.Failed(code, path=path, reason=text, unit=unit)


async def _connected(path: str, packet: bytes) -> socket.socket:
    """A connection to the socket PATH, on which PACKET was sent. Raises OSError."""
    loop = asyncio.get_running_loop()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        connection.setblocking(False)
        await loop.sock_connect(connection, path)
        await loop.sock_sendall(connection, packet)
    except BaseException:
        connection.close()
        raise
    return connection
