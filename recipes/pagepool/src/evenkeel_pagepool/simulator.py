# SPDX-License-Identifier: Apache-2.0
"""Simulates the paper's cache on a trace of accesses: with LRU, the basic method, and the partition by hit ratio.

A cache holds `blocks` blocks in two pools. Each pool is an LRU list. A miss needs a free block, or a victim:

- `Lru`: there is one list for all files. The victim is the least recently used block.
- `Basic` (section 2.1): the victim comes from the normal pool, as long as the normal pool has a block.
- `Partition` (section 3.3.4): the size of the protected pool decides. Below S_target, the victim comes from the normal
  pool. Above S_target, it comes from the protected pool. At S_target, it comes from the pool that the new block joins.
  If the chosen pool is empty, the victim comes from the other pool.

`Partition` decides on S_target after every `window` accesses, when the block of the last access is in the cache. Python
is fast enough: it simulates about a million accesses per second.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from .controller import Settings, Window, decide

Access = tuple[Hashable, bool]  # block, whether its file is a priority file


@dataclass(frozen=True, slots=True)
class Decision:
    """State of `Partition` after one window."""

    window: Window
    target: int  # [S_target] in blocks
    protected: int  # [S_cur] blocks in the protected pool


@dataclass(slots=True)
class Totals:
    """Accesses and hits of a whole trace, by kind of file."""

    protected_accesses: int = 0
    protected_hits: int = 0
    normal_accesses: int = 0
    normal_hits: int = 0

    @property
    def accesses(self) -> int:
        return self.protected_accesses + self.normal_accesses

    @property
    def hits(self) -> int:
        return self.protected_hits + self.normal_hits

    @property
    def misses(self) -> int:
        return self.accesses - self.hits

    def window(self) -> Window:
        return Window(self.protected_accesses, self.protected_hits, self.normal_accesses, self.normal_hits)


class Cache:
    """A cache with two pools. A subclass chooses the pool from which the victim comes."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.protected: OrderedDict[Hashable, None] = OrderedDict()
        self.normal: OrderedDict[Hashable, None] = OrderedDict()
        self.totals = Totals()

    def victim_is_protected(self, joins_protected: bool) -> bool:
        raise NotImplementedError

    def access(self, block: Hashable, protected: bool) -> bool:
        """Access BLOCK of a file that is PROTECTED (a priority file) or not. Returns whether it was a hit."""
        pool = self.protected if protected else self.normal
        hit = block in pool
        if hit:
            pool.move_to_end(block)
        else:
            if len(self.protected) + len(self.normal) >= self.blocks:
                victims, others = self.protected, self.normal
                if not self.victim_is_protected(protected):
                    victims, others = others, victims
                (victims or others).popitem(last=False)
            pool[block] = None
        totals = self.totals
        if protected:
            totals.protected_accesses += 1
            totals.protected_hits += hit
        else:
            totals.normal_accesses += 1
            totals.normal_hits += hit
        return hit

    def replay(self, trace: Iterable[Access]) -> Totals:
        for block, protected in trace:
            self.access(block, protected)
        return self.totals


class Lru(Cache):
    """One list for all files. Priority files are counted separately, but treated like other files."""

    def access(self, block: Hashable, protected: bool) -> bool:
        hit = super().access((block, protected), False)
        if protected:
            totals = self.totals
            totals.normal_accesses -= 1
            totals.normal_hits -= hit
            totals.protected_accesses += 1
            totals.protected_hits += hit
        return hit

    def victim_is_protected(self, joins_protected: bool) -> bool:
        return False


class Basic(Cache):
    """The basic method: a block of a priority file is a victim only if the normal pool is empty."""

    def victim_is_protected(self, joins_protected: bool) -> bool:
        return False


@dataclass(slots=True)
class _Since:
    """Remembers the totals at the last decision, and computes the window since then."""

    at: Window = field(default_factory=Window)

    def window(self, now: Window) -> Window:
        last, self.at = self.at, now
        return Window(
            now.protected_accesses - last.protected_accesses,
            now.protected_hits - last.protected_hits,
            now.normal_accesses - last.normal_accesses,
            now.normal_hits - last.normal_hits,
        )


class Partition(Cache):
    """The paper's method, with decide() of controller.py. WATCH is called after each decision."""

    def __init__(
        self, settings: Settings, target: int = 0, watch: Callable[[Decision], None] | None = None
    ) -> None:
        super().__init__(settings.blocks)
        self.settings = settings
        self.target = target
        self._watch = watch
        self._since = _Since()
        self._next = settings.window

    def victim_is_protected(self, joins_protected: bool) -> bool:
        size = len(self.protected)
        return joins_protected if size == self.target else size > self.target

    def access(self, block: Hashable, protected: bool) -> bool:
        hit = super().access(block, protected)
        self._next -= 1
        if self._next == 0:
            self._next = self.settings.window
            window = self._since.window(self.totals.window())
            self.target = decide(self.settings, self.target, window)
            if self._watch:
                self._watch(Decision(window, self.target, len(self.protected)))
        return hit
