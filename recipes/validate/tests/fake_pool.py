# SPDX-License-Identifier: Apache-2.0
"""A fake ek-pool on a socket: it has a state, and protects what open connections hold (recipes/pagepool has the real one)."""

import contextlib
import json
import os
import select
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from evenkeel_api.features.cache import Cache, HeldDirectory
from evenkeel_common.packets import CONTENT_BYTES, End, data, end

MB = 1 << 20


@dataclass
class Pool:
    """`state`: what it reports, without the held directories. `growth`: its target grows by this with each question.

    `refusal`: the answer to each `hold`, instead of holding. `lost`: it forgets what was held, as after a restart.
    """

    path: Path
    state: Cache = field(
        default_factory=lambda: Cache("on", target_bytes=64 * MB, size_bytes=40 * MB, cost_bytes=40 * MB)
    )
    growth: int = 0
    refusal: dict[str, Any] | None = None
    directory_state: str = "protected"
    lost: bool = False
    holders: dict[int, tuple[socket.socket, str]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def __enter__(self) -> "Pool":
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stop, b"x")
        self._thread.join(20)
        self._listener.close()
        self.path.unlink()
        for fd in (self._stop, self._stopped):
            os.close(fd)

    @property
    def held(self) -> list[str]:
        return [path for _, path in self.holders.values()]

    def _serve(self) -> None:
        waiting = select.poll()
        for one in (self._listener.fileno(), self._stopped):
            waiting.register(one, select.POLLIN)
        while True:
            ready = {number for number, _ in waiting.poll()}
            for number in ready & self.holders.keys():
                waiting.unregister(number)
                connection, path = self.holders.pop(number)
                connection.close()
                self.events.append(f"released {Path(path).name}")
            if self._stopped in ready:
                break
            if self._listener.fileno() in ready:
                connection, _ = self._listener.accept()
                if self._answer(connection):
                    waiting.register(connection, 0)
                else:
                    connection.close()
        for connection, _ in self.holders.values():
            connection.close()

    def _answer(self, connection: socket.socket) -> bool:
        """Whether the connection holds a directory."""
        request = json.loads(connection.recv(CONTENT_BYTES))
        holds = request["order"] == "hold" and self.refusal is None
        if holds:
            self.holders[connection.fileno()] = connection, request["directory"]
            self.events.append(f"held {Path(request['directory']).name}")
        held = [] if self.lost and not holds else [HeldDirectory(p, self.directory_state) for p in self.held]  # type: ignore[arg-type]
        target = self.state.target_bytes + self.growth
        self.state = msgspec.structs.replace(self.state, target_bytes=target)
        answer = self.refusal if request["order"] == "hold" and self.refusal else None
        content = (
            json.dumps(answer).encode()
            if answer
            else msgspec.json.encode(msgspec.structs.replace(self.state, held=held))
        )
        with contextlib.suppress(BrokenPipeError):  # a test has killed the program; poll() then reports it
            connection.sendall(data(content))
            connection.sendall(end(End(0)))
        return holds
