# SPDX-License-Identifier: Apache-2.0
"""Orders to a helper that answers each connection with one packet of JSON: ek-network and ek-certificate."""

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any

from evenkeel_api import errors
from evenkeel_common.files import why

PACKET = 64 * 1024  # bytes of an answer, at most
_KINDS: dict[str, type[errors.AgentError]] = {
    "Conflict": errors.Conflict,
    "InvalidArgument": errors.InvalidArgument,
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
        late = not isinstance(error, OSError) or not error.strerror
        reason = "it did not answer in time" if late else why(error)
        code = unanswered if unanswered and sent.is_set() else unreachable
        raise errors.Failed(code, path=path, reason=reason, unit=unit) from error
    except (ValueError, LookupError, TypeError) as error:
        reason = "it ended without an answer"
        raise errors.Failed(unanswered or unreachable, path=path, reason=reason, unit=unit) from error


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
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as connection:
        connection.setblocking(False)
        async with asyncio.timeout(timeout_s):
            await loop.sock_connect(connection, path)
            await loop.sock_sendall(connection, packet)
            sent.set()
            return await loop.sock_recv(connection, PACKET)
