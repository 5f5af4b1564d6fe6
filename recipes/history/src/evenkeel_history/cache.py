# SPDX-License-Identifier: Apache-2.0
"""Keeps what was computed from rows of the database. A row is never changed, so it stays true."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

BYTES = 4 << 20  # all charts from ten minutes to two years of 17 apps need 3.8 MB


class Cache:
    """Values by key, at most LIMIT bytes of them. The values that were not used for longest are dropped. Thread-safe."""

    def __init__(self, limit: int = BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()  # value, bytes; last used last
        self.bytes = 0

    def get(self, key: Hashable) -> Any:
        """The value of KEY; None if it is not kept. Nobody may change it."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep VALUE, which needs about SIZE bytes."""
        with self._lock:
            self.bytes -= self._values.pop(key, (None, 0))[1]
            if size > self._limit:
                return
            self.bytes += size
            self._values[key] = value, size
            while self.bytes > self._limit:
                self.bytes -= self._values.popitem(last=False)[1][1]
