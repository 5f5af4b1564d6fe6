# SPDX-License-Identifier: Apache-2.0
"""The I/O since the board booted, as counters that never decrease, for programs that monitor the board.

Guarantee: a reader never sees a smaller total than before, until the board boots again. To keep it over a restart of the
service, publish() first writes the totals to a file in RAM, and only then returns them. While the file cannot be written,
the published totals stay as they are, and the sum goes on in memory.

The I/O while the service does not run is not counted. If the service is killed, the I/O since the last publish() is not
counted either. All numbers are exact: unlike a Period, the totals have no rounded counts.
"""

import logging
import os
from pathlib import Path

import msgspec

from .period import Sum, encode

FILE = "totals"  # in the folder of the socket, which the boot empties
_log = logging.getLogger(__name__)
_decoder = msgspec.msgpack.Decoder(Sum)


def decode(data: bytes) -> Sum:
    """The totals that Totals.data contains. Raises ValueError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, TypeError) as error:
        raise ValueError(f"the totals cannot be read: {error}") from error


class Totals:
    """Adds up the I/O, from the values in the file PATH on. Without PATH, the totals are in memory only. Not thread-safe."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._sum = Sum()
        try:
            if path is not None:
                self._sum = decode(path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            _log.warning("the totals begin at 0, because %s cannot be read: %s", path, error)
        self._written = True  # whether the last write succeeded
        self._data = encode(self._sum)  # the published totals

    def add(self, part: Sum) -> None:
        self._sum.add(part)

    def publish(self, running: Sum) -> bytes:
        """The totals with RUNNING, a part that add() will get later, for decode()."""
        found = Sum()
        found.add(self._sum)
        found.add(running)
        data = encode(found)
        try:
            if self._path is not None:
                new = self._path.with_suffix(".new")
                new.write_bytes(data)
                os.replace(new, self._path)
        except OSError as error:
            if self._written:
                _log.warning(
                    "the totals stay as they are, because %s cannot be written: %s", self._path, error
                )
            self._written = False
        else:
            self._written, self._data = True, data
        return self._data
