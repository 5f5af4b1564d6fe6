# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311  (make-believe figures)
"""An agent in this process, for unit tests and the development server; not installed on a board."""

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

FLASH_BPS = 82e6  # what the make-believe flash moves in all


def demo_apps() -> list[App]:
    return [
        App(
            name="player",
            title="Player",
            description="Plays a stream from flash and counts the times it stutters",
            unit="evenkeel-player.service",
            active_state="active",
            sub_state="running",
            applied=True,
            window_s=3.0,
        ),
        App(
            name="loader",
            title="Loader",
            description="Reads 100 MB at a time, as fast as it may",
            unit="evenkeel-loader.service",
            active_state="active",
            sub_state="running",
            applied=True,
            window_s=3.0,
        ),
    ]


@dataclass
class FakeAgent:
    """Keeps the weights that it is given. `dead` makes it silent, `moving` makes its figures live."""

    apps: list[App] = field(default_factory=demo_apps)
    board: Status = field(
        default_factory=lambda: Status("0.1.0", "6.12.48-evenkeel", "A", "evenkeel", "ok", (), True, 4242)
    )
    dead: str = ""  # the reason
    refuse: AgentRefused | None = None  # the answer to the next changes
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

    def start_app(self, name: str) -> None:
        self._answer(f"StartApp {name}")
        self._put(replace(self._change(name), active_state="active", sub_state="running", applied=True))

    def stop_app(self, name: str) -> None:
        self._answer(f"StopApp {name}")
        self._put(
            replace(
                self._change(name),
                active_state="inactive",
                sub_state="dead",
                applied=False,
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
        wants = {a.name: a.weight if a.active_state == "active" else 0 for a in self.apps}
        weights = sum(wants.values()) or 1
        wobble = random.uniform(-0.01, 0.01) if sum(map(bool, wants.values())) > 1 else 0
        moved = []
        for app in self.apps:
            share = wants[app.name] / weights
            share += share * (1 - share) * (wobble if app.name == "player" else -wobble)
            own = ""
            if app.name == "player" and share:
                self.stalls += share < 0.6 and random.random() < 0.3
                own = json.dumps(
                    {
                        "state": "playing" if share > 0.6 else "stalling",
                        "stalls": self.stalls,
                        "stall_ms": self.stalls * 140,
                    }
                )
            elif share:
                own = json.dumps({"rounds": int(now / 9) % 1000, "read_bytes": int(now % 9000 * 4.1e7)})
            moved.append(
                replace(
                    app,
                    read_bps=total * share * 0.97,
                    write_bps=total * share * 0.03,
                    share=share,
                    p99_us=(4200 / share * random.uniform(0.9, 1.2)) if share else -1.0,
                    stats=own,
                )
            )
        self.apps = moved
