# SPDX-License-Identifier: Apache-2.0
"""The paper's two pools, exactly, on a trace: LRU, the basic method, and the partition by hit ratio.

A cache holds `blocks` blocks. Each pool is an LRU list. A miss needs a free block, or a victim:

- `Lru`: one list; the victim is the oldest block, whoever owns it.
- `Basic` (section 2.1): the victim comes from the normal pool while that has a block.
- `Partition` (section 3.3.4): from the normal pool below S_target, from the protected pool above it, and at S_target
  from the pool that the new block joins. If the chosen pool is empty, from the other one.

A decision on S_target follows each `window` accesses, after the block of the last access was read. About a million
accesses per second, so traces need no compiled code.
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
    target: int  # S_target
    protected: int  # S_cur


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
    """Two pools. A subclass chooses the pool that gives up a block."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.protected: OrderedDict[Hashable, None] = OrderedDict()
        self.normal: OrderedDict[Hashable, None] = OrderedDict()
        self.totals = Totals()

    def victim_is_protected(self, joins_protected: bool) -> bool:
        raise NotImplementedError

    def access(self, block: Hashable, protected: bool) -> bool:
        """Access a block; True if it was a hit."""
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
    """One list for all files. The kinds of files differ only in the totals."""

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
    """The basic method: priority files never give way to others."""

    def victim_is_protected(self, joins_protected: bool) -> bool:
        return False


@dataclass(slots=True)
class _Since:
    """Totals at the last decision."""

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
    """The paper's method around the controller that also runs on the board."""

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
