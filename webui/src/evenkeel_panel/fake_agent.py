# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311  (random figures need no cryptography)
"""A fake agent in this process, for unit tests and the development server. Not installed on a board."""

from __future__ import annotations

import json
import math
import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .agent import AgentRefused, AgentUnreachable, App, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

FLASH_BPS = 82e6  # bandwidth of the fake flash, shared by all apps


def demo_apps() -> list[App]:
    return [
        App(
            name="player",
            title="Player",
            description="Plays a movie from flash and counts the stalls that a viewer would see",
            unit="evenkeel-player.service",
            active_state="active",
            sub_state="running",
            applied=True,
            window_s=3.0,
        ),
        App(
            name="loader",
            title="Loader",
            description="Reads without pause, 100 MB in one I/O",
            unit="evenkeel-loader.service",
            active_state="active",
            sub_state="running",
            applied=True,
            window_s=3.0,
        ),
    ]


@dataclass
class FakeAgent:
    """Stores weights and fixed shares. It does not answer while `dead` is set; `moving` makes live figures."""

    apps: list[App] = field(default_factory=demo_apps)
    board: Status = field(
        default_factory=lambda: Status("0.1.0", "6.12.48-evenkeel", "A", "evenkeel", "ok", (), True, 4242)
    )
    dead: str = ""  # why it does not answer
    refuse: AgentRefused | None = None  # the answer to every change
    obstacle: str = ""  # why no fixed share can be in force; may contain {app} and {percent}
    moving: bool = False
    calls: list[str] = field(default_factory=list)
    stalls: int = 3

    def status(self) -> Status:
        self._answer("GetStatus")
        return self.board

    def list_apps(self) -> Sequence[App]:
        self._answer("ListApps")
        if self.moving:
            self._move()
        return list(self.apps)

    def set_weight(self, name: str, weight: int) -> App:
        self._answer(f"SetWeight {name} {weight}")
        app = self._change(name)
        changed = replace(app, weight=weight, applied=app.active_state == "active")
        self._put(changed)
        return changed

    def set_fixed_share(self, name: str, percent: int) -> App:
        self._answer(f"SetFixedShare {name} {percent}")
        app = self._change(name)
        others = {a.name: a.fixed_share for a in self.apps if a.name != name and a.fixed_share}
        if percent and percent + sum(others.values()) > 100:
            taken = ", ".join(f"{other} {share} %" for other, share in others.items())
            left = 100 - sum(others.values())
            raise AgentRefused(
                "InvalidFixedShare",
                f"{percent} % for {name} is more than the {left} % that are left. Already set: {taken}.",
            )
        runs = app.active_state == "active"
        problem = self.obstacle.format(app=name, percent=percent) if percent and runs else ""
        changed = replace(
            app,
            fixed_share=percent,
            fixed_share_applied=not percent or (runs and not problem),
            fixed_share_problem=problem,
            fixed_share_used=-1.0,
        )
        self._put(changed)
        return changed

    def start_app(self, name: str) -> None:
        self._answer(f"StartApp {name}")
        self._put(
            replace(
                self._change(name),
                active_state="active",
                sub_state="running",
                applied=True,
                fixed_share_applied=True,
            )
        )

    def stop_app(self, name: str) -> None:
        self._answer(f"StopApp {name}")
        app = self._change(name)
        self._put(
            replace(
                app,
                active_state="inactive",
                sub_state="dead",
                applied=False,
                fixed_share_applied=not app.fixed_share,
                fixed_share_used=-1.0,
                read_bps=0.0,
                p99_us=-1.0,
            )
        )

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        if self.dead:
            raise AgentUnreachable(self.dead)

    def _change(self, name: str) -> App:
        if self.refuse is not None:
            raise self.refuse
        for app in self.apps:
            if app.name == name:
                return app
        raise AgentRefused("UnknownApp", f"There is no app {name!r}.")

    def _put(self, app: App) -> None:
        self.apps = [app if old.name == app.name else old for old in self.apps]

    def _move(self) -> None:
        now = time.time()
        total = FLASH_BPS * (1 + 0.06 * math.sin(now / 7) + random.uniform(-0.03, 0.03))
        runs = [app for app in self.apps if app.active_state == "active"]
        fixed = {a.name: a.fixed_share / 100 for a in runs if a.fixed_share and a.fixed_share_applied}
        left = 1.0 - sum(fixed.values())
        wants = {a.name: a.weight for a in runs if a.name not in fixed}
        wobble = random.uniform(-0.01, 0.01) if len(wants) > 1 else 0
        moved = []
        # without an app that uses its weight, the part outside the fixed shares is idle
        busy = sum(fixed.values()) + (left if wants else 0.0)
        for app in self.apps:
            part = fixed.get(app.name, wants.get(app.name, 0) / (sum(wants.values()) or 1) * left)
            share = part / busy if busy else 0.0
            has_fixed = app.name in fixed
            behind = has_fixed and part >= 0.8
            share += share * (1 - share) * (wobble if app.name == "player" else -wobble)
            stats = ""
            if app.name == "player" and share:
                self.stalls += share < 0.6 and random.random() < 0.3
                stats = json.dumps(
                    {
                        "state": "playing" if share > 0.6 else "stalling",
                        "stalls": self.stalls,
                        "stall_ms": self.stalls * 140,
                    }
                )
            elif share:
                stats = json.dumps({"rounds": int(now / 9) % 1000, "read_bytes": int(now % 9000 * 4.1e7)})
            moved.append(
                replace(
                    app,
                    read_bps=total * busy * share * 0.97,
                    write_bps=total * busy * share * 0.03,
                    share=share,
                    fixed_share_used=random.uniform(0.7, 0.8) + (0.22 if not behind else 0)
                    if has_fixed
                    else -1,
                    fixed_share_late=(0.62 if behind else 0.01) if has_fixed else -1,
                    fixed_share_behind=behind,
                    p99_us=(4200 / share * random.uniform(0.9, 1.2)) if share else -1.0,
                    stats=stats,
                )
            )
        self.apps = moved
