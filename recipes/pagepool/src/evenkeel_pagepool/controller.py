# SPDX-License-Identifier: Apache-2.0
"""Computes S_target: how many blocks the protected pool should have.

Source: Tsuchiya, Yamauchi and Taniguchi, *Implementation and Evaluation of Partitioning Method of I/O Buffer Based on
Cache Hit Ratio*, section 3.3 (equations 1 to 3) and section 3.4 (guideline). The paper's symbols are in brackets.

Pure functions on integers. A block is the unit of the cache: a page on Linux, a buffer of 8 KB in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

PERCENT = 100


class SettingsError(ValueError):
    """A setting is out of range. The text names the setting and its limits."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The five parameters of the method, and the size of the cache."""

    blocks: int  # [B] blocks that both pools have together
    window: int  # [omega] number of accesses between two decisions
    protected_percent: int  # [T_protected] hit ratio that the protected pool must reach, in percent
    normal_percent: int  # [T_normal] hit ratio that the normal pool should reach, in percent
    protected_min: int  # [B_pmin] a decrease never sets S_target below this number of blocks
    normal_min: int  # [B_nmin] an increase of S_target leaves at least this many blocks to the normal pool

    def __post_init__(self) -> None:
        for name in ("blocks", "window"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}. Set it to 1 or more.")
        for name in ("protected_percent", "normal_percent"):
            if not 0 <= getattr(self, name) <= PERCENT:
                raise SettingsError(
                    f"{name} is {getattr(self, name)}. Set it to a percentage from 0 to {PERCENT}."
                )
        for name in ("protected_min", "normal_min"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} is {getattr(self, name)}. Set it to 0 or more.")
        if self.protected_min + self.normal_min > self.blocks:
            raise SettingsError(
                f"protected_min {self.protected_min} and normal_min {self.normal_min} together exceed the cache of "
                f"{self.blocks} blocks. Lower one of them."
            )


@dataclass(frozen=True, slots=True)
class Window:
    """The accesses and hits of both pools since the last decision."""

    protected_accesses: int = 0  # [A_protected]
    protected_hits: int = 0  # [H_protected times A_protected]
    normal_accesses: int = 0  # [A_normal]
    normal_hits: int = 0  # [H_normal times A_normal]


def missing_hits(percent: int, accesses: int, hits: int) -> int:
    """How many more hits a pool needed to reach its hit ratio: [(T - H) * A], rounded up; 0 if it reached the ratio.

    The hit ratio of a pool without accesses counts as 100 %, so the result is 0.
    """
    return max(0, -((PERCENT * hits - percent * accesses) // PERCENT))


def decide(settings: Settings, target: int, window: Window) -> int:
    """The next S_target, in blocks.

    If the protected pool misses its hit ratio, S_target increases. Otherwise, if the normal pool misses its hit ratio,
    S_target decreases. As in the paper, only the upper bound limits an increase, and only the lower bound a decrease.
    So a start value outside the bounds, such as the paper's 0, stays until a decision changes S_target.
    """
    if short := missing_hits(settings.protected_percent, window.protected_accesses, window.protected_hits):
        return min(target + short, settings.blocks - settings.normal_min)
    if short := missing_hits(settings.normal_percent, window.normal_accesses, window.normal_hits):
        return max(target - short, settings.protected_min)
    return target


def mixed(blocks: int, readahead: int, *, larger: bool = True) -> Settings:
    """The paper's recommended settings (section 3.4) for a job that also reads files outside the priority directories.

    `larger`: whether the priority files are at least as large as the cache. T_protected is then 95 %, otherwise 100 %.
    `readahead`: the largest readahead in blocks, which becomes B_nmin.
    """
    return _profile(blocks, readahead, 95 if larger else 100, 85, 30)


def exclusive(blocks: int, readahead: int) -> Settings:
    """The paper's recommended settings (section 3.4) for a job that reads only priority files.

    The paper gives ranges: 60 to 70 % for T_normal, and 70 to 80 % of the blocks for B_pmin. This function takes the
    lower end of both ranges, as the paper did for its web server.
    """
    return _profile(blocks, readahead, 100, 60, 70)


PROFILES = {"mixed": mixed, "exclusive": exclusive}


def _profile(blocks: int, readahead: int, protected: int, normal: int, protected_min: int) -> Settings:
    return Settings(
        blocks=blocks,
        window=blocks,
        protected_percent=protected,
        normal_percent=normal,
        protected_min=-(-blocks * protected_min // PERCENT),
        normal_min=readahead,
    )
