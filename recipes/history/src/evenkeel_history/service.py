# SPDX-License-Identifier: Apache-2.0
"""The service. One thread samples every second. Another thread saves, so that slow flash does not delay a sample."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from evenkeel_agent.settings import Settings
from evenkeel_api.messages import Message
from evenkeel_common.notify import Watchdog, notify
from evenkeel_common.wear import wear

from . import live, schema, totals
from .live import Live, Server
from .minutes import MinuteLog
from .sampler import Sampler
from .store import Store, StoreError
from .totals import Totals

INTERVAL_S = 1.0  # time between two samples
# The time between two saves. A power cut loses at most the complete minutes since the last save, and the current
# minute: 240 s + 60 s = 5 min.
SAVE_S = 240.0
# Of 30 saves, 29 go to the log (minutes.py), and one goes to the database: every two hours.
LOGGED = 29
RETRY_S = 30.0  # the time until the next attempt if the database could not be opened
REPORT_S = 5.0  # the time between two writes of status.json if the problems have not changed
WEAR_S = 86400.0  # the time between two saved states of wear of a device whose state has not changed
_log = logging.getLogger(__name__)


class History:
    """The service. Call run() once."""

    def __init__(self, settings: Settings, save_s: float = SAVE_S) -> None:
        self._settings = settings
        self._save_s = save_s
        self._socket = Path(settings.path(live.SOCKET))
        self._live = Live(Totals(self._socket.with_name(totals.FILE)))
        self._sampler = Sampler(settings)
        folder = Path(settings.path(schema.FOLDER))
        self._store = Store(folder)
        self._log = MinuteLog(folder / schema.MINUTES)
        self._restored = False  # whether the minutes of the log are in RAM
        # The number of saves in the log since the last one in the database. The first save is in the database.
        self._logged = LOGGED
        self._ended = threading.Event()  # set after the last sample; the saving thread then saves the rest
        self._devices: list[str] = []
        self._saver = threading.Thread(target=self._save_always, name="save")
        self._problems: list[Message] = []  # of the saving thread; the list is replaced, never changed
        # by device: the monotonic time of the last save of its wear, and the saved state
        self._wear: dict[str, tuple[float, tuple[object, ...]]] = {}
        # the problems in status.json, and the monotonic time of its last write
        self._reported: tuple[list[Message], float] = [], -REPORT_S

    def run(self, wait: Callable[[float], bool]) -> None:
        """Sample every second until WAIT returns True.

        WAIT(seconds) waits for at most that long. It returns True as soon as the service must stop, else False.
        """
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        server = Server(self._socket, self._live)
        watchdog = Watchdog()
        self._sampler.sample(0)
        self._devices = self._sampler.devices
        last_s = due_s = time.monotonic()
        self._saver.start()
        # status.json survives a stop. An old one would make the agent report that the service does not respond.
        self._report()
        notify("READY=1")
        while not wait(max(due_s + INTERVAL_S - time.monotonic(), 0.0)):
            now_s = time.monotonic()
            due_s = max(due_s + INTERVAL_S, now_s - INTERVAL_S)
            step = self._sampler.sample(round((now_s - last_s) * 1000))
            self._live.add(int(time.time()), step)
            self._devices = self._sampler.devices
            last_s = now_s
            self._report()
            if not self._saver.is_alive():
                raise RuntimeError("the thread that saves has ended")
            watchdog.progress(now_s)
        notify("STOPPING=1")
        self._live.close_minute()
        self._ended.set()
        self._saver.join()
        server.close()

    # ---- the thread that saves ----

    def _save_always(self) -> None:
        while True:
            last_time = self._ended.wait(self._save_s if self._store.is_open else 0)
            self._try_to_save(last_time)
            if last_time:
                self._store.close()
                self._log.close()
                return
            if not self._store.is_open:
                self._ended.wait(min(self._save_s, RETRY_S))

    def _try_to_save(self, last_time: bool) -> None:
        """As _save(), but a failure becomes a problem to report."""
        try:
            if not self._store.is_open:
                self._open()
            self._save(last_time)
            problems = self._store.problems
        except StoreError as error:
            self._append()  # so that a power cut does not lose what only RAM has
            problems = [*self._store.problems, error.message]
            if error.message not in self._problems:
                _log.error("%s", error)
        self._problems = problems

    def _open(self) -> None:
        self._store.open()
        if not self._store.last():  # the database is new, so it has none of the minutes in RAM
            self._live.replaced()
        if not self._restored:
            self._live.restore(self._log.read(self._store.generation()))
            self._restored = True

    def _save(self, last_time: bool) -> None:
        """Save the minutes in the log or in the database, and the wear in the database.

        LAST_TIME: save all in the database, also the wear if it is not due. Its counter of written bytes begins at 0 with each
        boot, and what it counted after the last save would be lost.
        """
        now_s = time.monotonic()
        states = []
        for device in self._devices:
            state = wear(self._settings.path("/sys/block"), device)
            saved = self._wear.get(device)
            if saved is None or saved[1] != state.state or now_s - saved[0] >= WEAR_S or last_time:
                states.append(state)
        if not (states or last_time or self._logged >= LOGGED) and self._append():
            self._logged += 1
            return
        generation = self._log.seal()
        minutes = self._live.unsaved(self._store.last())
        if self._store.write(minutes, states, int(time.time()), generation):
            # The database was damaged and has been replaced by an empty one. The minutes of the last hour are still in
            # RAM, so save them again.
            self._live.replaced()
            minutes = self._live.unsaved(self._store.last())
            if self._store.write(minutes, states, int(time.time()), generation):
                raise StoreError(Message("history-not-saved", reason="the new database is damaged, too"))
        self._live.saved(len(minutes))
        self._log.restart()
        self._logged = 0
        self._wear |= {state.device: (now_s, state.state) for state in states}

    def _append(self) -> bool:
        """Append the new minutes to the log. Returns whether they survive a power cut."""
        minutes = self._live.unlogged()
        if not self._log.append(minutes):
            return False
        self._live.logged(len(minutes))
        return True

    # ---- what the agent reports ----

    def _report(self) -> None:
        """Write status.json, a file in RAM, if it is due. It tells the agent that the service works, and its problems."""
        problems = list(self._problems)
        if self._sampler.problem:
            problems.append(self._sampler.problem)
        if self._live.lost:
            problems.append(Message("history-lost", minutes=self._live.lost))
        now_s = time.monotonic()
        reported, at_s = self._reported
        if problems == reported and now_s - at_s < REPORT_S:
            return
        notes = [{"code": note.code, "parameters": note.parameters} for note in (p.note() for p in problems)]
        path = self._socket.parent / "status.json"
        text = json.dumps({"monotonic_ns": time.monotonic_ns(), "problems": notes})
        try:
            new = path.with_suffix(".new")
            new.write_text(text)
            new.chmod(0o644)
            os.replace(new, path)
        except OSError as error:
            _log.debug("%s cannot be written: %s", path, error)
        else:
            self._reported = problems, now_s
