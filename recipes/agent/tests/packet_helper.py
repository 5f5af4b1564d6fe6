# SPDX-License-Identifier: Apache-2.0
"""A fake of a helper that answers with the packets of evenkeel_common.packets."""

import json
import socket
from pathlib import Path
from typing import Any

from agent_harness import FakeHelper, Harness
from evenkeel_common.packets import CONTENT_BYTES, End, data, end


class PacketHelper(FakeHelper):
    """Answers from `answers`, by order, and the order `open` with FILE. `cut`: it ends before the end of an answer."""

    def __init__(self, path: Path, answers: dict[str, Any], file: bytes = b"") -> None:
        self.answers = dict(answers)
        self.cut = False
        self._file = file
        super().__init__(path)

    def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
        content = (
            self._file if order["order"] == "open" else json.dumps(self.answers[order["order"]]).encode()
        )
        for at in range(0, len(content), CONTENT_BYTES):
            connection.sendall(data(content[at : at + CONTENT_BYTES]))
        if not self.cut:
            connection.sendall(end(End(0)))


class PoolHelper(PacketHelper):
    """ek-pool, with the orders about the chosen directories of all apps. `saved`: the directories, by app."""

    def __init__(self, board: Harness) -> None:
        self.saved: dict[str, list[str]] = {}
        super().__init__(board.root / "run/evenkeel/pool", {})

    def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
        if order["order"] == "restore":
            self.saved = order["directories"]
        elif order["order"] == "forget":
            self.saved.pop(order["name"], None)
        self.answers[order["order"]] = {"saved": self.saved}
        super().reply(connection, order)
