# SPDX-License-Identifier: Apache-2.0
"""Orders to a helper that answers each connection with JSON: ek-network, ek-certificate and ek-system with one packet,
ek-journal, ek-validation and ek-pool with the packets of evenkeel_common.packets.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any

from evenkeel_api import errors
from evenkeel_common.files import why
from evenkeel_common.packets import PACKET_BYTES, End, Truncated, parse

LIMIT = 8 << 20  # bytes of an answer in several packets: more than each helper sends
PACKET = 64 * 1024  # bytes of an answer in one packet, at most
_ENDED = "it ended without an answer"
_KINDS: dict[str, type[errors.AgentError]] = {
    "Conflict": errors.Conflict,
    "InvalidArgument": errors.InvalidArgument,
    "UnknownApp": errors.UnknownApp,
}


async def order(
    path: str, request: Mapping[str, Any], timeout_s: float, unreachable: str, unit: str, unanswered: str = ""
) -> dict[str, Any]:
    """The answer to REQUEST from the socket PATH. Raises AgentError.

    UNREACHABLE: the code of the error if the helper gives no answer. Its parameters are path, reason and UNIT.
    UNANSWERED: the code instead of UNREACHABLE if the helper may have executed REQUEST.
    """
    sent = asyncio.Event()
    try:
        return result(await _send(path, json.dumps(request).encode(), timeout_s, sent))
    except (OSError, TimeoutError) as error:
        reason = _reason(error)
        code = unanswered if unanswered and sent.is_set() else unreachable
        raise errors.Failed(code, path=path, reason=reason, unit=unit) from error
    except (ValueError, LookupError, TypeError) as error:
        raise errors.Failed(unanswered or unreachable, path=path, reason=_ENDED, unit=unit) from error


async def ask(
    path: str, request: Mapping[str, Any], timeout_s: float, unreachable: str, unit: str, unanswered: str = ""
) -> Any:
    """The answer in several packets to REQUEST, an object or a list. Raises AgentError, as order() does."""
    connection, found = await keep(path, request, timeout_s, unreachable, unit, unanswered)
    connection.close()
    return found


async def keep(
    path: str, request: Mapping[str, Any], timeout_s: float, unreachable: str, unit: str, unanswered: str = ""
) -> tuple[socket.socket, Any]:
    """The connection, which stays open, and the answer as of ask(). Raises AgentError, and then the connection is closed."""
    sent = False
    try:
        with contextlib.ExitStack() as stack:
            async with asyncio.timeout(timeout_s):
                connection = stack.enter_context(await _connected(path, json.dumps(request).encode()))
                sent = True
                content = await receive(connection)
            found = json.loads(content)
            answer = found if isinstance(found, list) else result(content)
            stack.pop_all()
            return connection, answer
    except (OSError, TimeoutError) as error:
        code = unanswered if unanswered and sent else unreachable
        raise errors.Failed(code, path=path, reason=_reason(error), unit=unit) from error
    except (ValueError, LookupError, TypeError, Truncated) as error:
        raise errors.Failed(unanswered or unreachable, path=path, reason=_ENDED, unit=unit) from error


async def connect(
    path: str, request: Mapping[str, Any], timeout_s: float, unreachable: str, unit: str
) -> socket.socket:
    """A connection on which the helper sends the answer to REQUEST. Nobody can send a second request on it."""
    try:
        async with asyncio.timeout(timeout_s):
            connection = await _connected(path, json.dumps(request).encode())
    except (OSError, TimeoutError) as error:
        raise errors.Failed(unreachable, path=path, reason=_reason(error), unit=unit) from error
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


def result(packet: bytes) -> dict[str, Any]:
    """The answer in PACKET. Raises AgentError if the helper refused the order.

    If PACKET is no answer, it raises ValueError, LookupError or TypeError.
    """
    answer = json.loads(packet)
    if "error" not in answer:
        return dict(answer)
    raise _KINDS.get(answer["kind"], errors.Failed)(answer["error"], **answer["parameters"])


async def _send(path: str, packet: bytes, timeout_s: float, sent: asyncio.Event) -> bytes:
    """The answer to PACKET. SENT is set as soon as the helper has the packet. Raises OSError or TimeoutError."""
    async with asyncio.timeout(timeout_s):
        with await _connected(path, packet) as connection:
            sent.set()
            return await asyncio.get_running_loop().sock_recv(connection, PACKET)


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


def _reason(error: Exception) -> str:
    return why(error) if isinstance(error, OSError) and error.strerror else "it did not answer in time"
