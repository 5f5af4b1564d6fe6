# SPDX-License-Identifier: Apache-2.0
"""A value that many pages show, loaded seldom, and never while all pages wait for it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Cached(Generic[T]):
    """A value that is loaded again when it is AGE_S old, or when its key changes.

    Loading may take seconds, if a service hangs. Only one thread waits for it: the others get the previous
    value at once. Only before the first value they wait, too.
    """

    def __init__(self, age_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._age_s = age_s
        self._clock = clock
        self._lock = threading.Lock()
        self._value: list[T] = []  # empty, or the value
        self._key: object = None
        self._expires = 0.0

    def _old(self, key: object) -> bool:
        return not self._value or key != self._key or self._clock() >= self._expires

    def get(self, load: Callable[[], T], key: object = None) -> T:
        if self._old(key) and self._lock.acquire(blocking=not self._value):
            try:
                if self._old(key):
                    self._value = [load()]
                    self._key, self._expires = key, self._clock() + self._age_s
            finally:
                self._lock.release()
        return self._value[0]
