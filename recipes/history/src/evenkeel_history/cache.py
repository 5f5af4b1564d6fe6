# SPDX-License-Identifier: Apache-2.0
"""Keeps what was computed from rows of the database. A row is never changed, so it stays true.

Also keeps the last answers, for the moments in which the database cannot be read.
"""

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


class LastAnswers:
    """The last answers about spans that ended when they were asked for, at most KEPT. Thread-safe.

    An answer needs 0.2 MB in addition to what the Cache keeps.
    """

    def __init__(self, kept: int = 12) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()  # value, time; last used last

    def get(self, key: Hashable, oldest: float) -> tuple[Any, float] | None:
        """The value of KEY and its time; None if it is not kept, or from before OLDEST. Nobody may change it."""
        with self._lock:
            found = self._values.get(key)
            return found if found and found[1] >= oldest else None

    def put(self, key: Hashable, value: Any, at: float) -> None:
        with self._lock:
            self._values[key] = value, at
            self._values.move_to_end(key)
            if len(self._values) > self._kept:
                self._values.popitem(last=False)
