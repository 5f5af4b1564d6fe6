# SPDX-License-Identifier: Apache-2.0
"""ek-validation: plans, starts, watches and cancels validations for the agent, and sends it their reports.

evenkeel-validate.socket starts it as root, and only the agent may connect. Each connection has one request, as JSON. The
answer is JSON, or a report, in the packets of evenkeel_common.packets. The process ends when no request came for IDLE_S.

Guarantees:

- A caller chooses from closed lists only: a profile, a topic, whether to compare, whether to pause the apps, and the id of
  a report. No path, program or option comes from outside.
- A validation is a unit of its own (RUN_UNIT), so it goes on when this process, the agent or the panel ends.
- Only one validation runs at a time, also if a user starts ek-validate in a shell. The lock of ek-validate ensures this.
- An agent that waits no longer for the answer to `start` learns from `state` what is true: either it is `starting` or runs,
  or it was not started and will not be.

A page in a browser asks again and again, also on a slow board, so what most requests do not need is imported late: planning
and report_page.

Memory: at most 1 + MOST_EARLIER reports for each of WORKERS connections, however many the board has.
"""

import contextlib
import itertools
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenkeel_common.command import run
from evenkeel_common.files import replace, why
from evenkeel_common.packets import CONTENT_BYTES, End, data, end
from evenkeel_report import compare as comparison
from evenkeel_report.names import wanted, with_unit

from . import lock, report, runs, summary
from .errors import ValidateError
from .report import Report
from .runs import Places

if TYPE_CHECKING:
    from .planning import FindTarget

RUN_UNIT = "evenkeel-validate-run.service"
# The cgroup of RUN_UNIT, below Places.sys. systemd makes it before the first process of the unit, and removes it after the
# last one. Pages ask often whether a validation runs, and to start systemctl takes longer than all else that they ask.
RUN_CGROUP = f"fs/cgroup/system.slice/{RUN_UNIT}"
ORDER = "order"  # in Places.run: the environment file of RUN_UNIT
PROFILES = ("quick", "full", "soak")
TOPICS = ("", "device", "latency", "fair", "promise", "stall", "rec", "regulate", "channel", "pool")
MOST_TEXT = 500  # characters of a reason in the list
WORKERS = 4
PACKET = 4096
REQUEST_S = 5.0  # time that the agent may take to send its request
STALL_S = 60.0  # a receiver that takes nothing for this long has gone
SYSTEMCTL_S = 15.0  # time limit for systemctl
BEGIN_S = 4.0  # the answer to `start` waits this long for the validation to begin
POLL_S = 0.1
IDLE_S = 20.0
ABSENT = "validation-unknown"


class Refused(Exception):
    """The request is refused, and nothing has changed: the code and the parameters of a message, and the kind of error."""

    def __init__(self, code: str, kind: str = "Conflict", **parameters: Any) -> None:
        super().__init__(code)
        self.code, self.kind, self.parameters = code, kind, parameters


def systemctl(*arguments: str) -> str:
    """What systemctl prints. Raises OSError."""
    # `is-active` prints the state and ends with 3 if the unit is not active.
    return run(("systemctl", *arguments), SYSTEMCTL_S, success=(0, 3)).strip()


@dataclass
class Service:
    """Answers requests. FIND_TARGET says where a validation writes, SYSTEMCTL gives orders to systemd."""

    places: Places
    version: str
    systemctl: Callable[..., str] = systemctl
    find_target: "FindTarget | None" = None
    begin_s: float = BEGIN_S

    def __post_init__(self) -> None:
        self._starting = threading.Lock()
        self._ordered = False  # `start` has ordered a validation, and waits for it to begin

    def serve(self, connection: socket.socket) -> None:
        """Answer the request on CONNECTION."""
        with connection, contextlib.suppress(OSError):  # the agent may close the connection
            connection.settimeout(REQUEST_S)
            packet = connection.recv(PACKET)
            content = self.answer(packet, lambda: _waits(connection))
            connection.settimeout(STALL_S)
            for at in range(0, len(content), CONTENT_BYTES):
                connection.sendall(data(content[at : at + CONTENT_BYTES]))
            connection.sendall(end(End(0)))

    def answer(self, packet: bytes, waits: Callable[[], bool] = lambda: True) -> bytes:
        """The answer to the request PACKET. It never fails. WAITS: whether the sender still waits for the answer."""
        try:
            request = json.loads(packet)
            order = request["order"]
            if order == "open":
                return self._file(request)
            if order == "start":
                return json.dumps(self._start(request, waits)).encode()
            found = getattr(self, f"_{_one_of(order, ORDERS)}")(request)
        except Refused as error:
            found = _error(error.code, error.kind, **error.parameters)
        except ValidateError as error:
            found = _error("validation-impossible", "Conflict", reason=str(error))
        except OSError as error:
            found = _error("validation-failed", "Failed", reason=why(error))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            found = _error("external", "Failed", text=f"the request is not valid: {error}")
        return json.dumps(found).encode()

    # the orders

    def _plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        found = self._planned(*_options(request))
        return {**found, "left_out": _left_out(found["left_out"])}

    def _start(self, request: Mapping[str, Any], waits: Callable[[], bool]) -> dict[str, Any]:
        options = profile, topic, compares, exclusive = _options(request)
        with self._starting:
            present = self._present()
            if present["state"] == "running" and not present["id"]:
                raise ValidateError(lock.BUSY.format(what=f"`{present['about']}`"))
            if present["state"] != "idle":
                raise Refused("validation-runs")
            self._planned(*options)
            words = ["--profile", profile, *(["--only", f"{topic}."] if topic else [])]
            words += [] if compares else ["--no-compare"]
            words += ["--exclusive"] if exclusive else []
            self.places.run.mkdir(parents=True, exist_ok=True)
            runs.forget_end(self.places)
            replace(str(self.places.run / ORDER), f"OPTIONS={' '.join(words)}\n".encode())
            try:
                self._ordered = True
                # The sender has told its user by now that nothing was started.
                found = self._begun() if waits() else {"state": "idle"}
            finally:
                self._ordered = False
        if found["state"] == "idle":
            raise Refused("validation-not-begun", "Failed", unit=RUN_UNIT)
        return found

    def _begun(self) -> dict[str, Any]:
        """Order the validation, and wait for it to begin. Returns the state."""
        try:
            self.systemctl("start", "--no-block", RUN_UNIT)
        except OSError:
            # systemctl may have given the order before its time was over
            if self._present()["state"] == "idle":
                raise
        deadline = time.monotonic() + self.begin_s
        while True:
            found = self._present()
            if found["state"] == "running" or time.monotonic() > deadline:
                return found
            time.sleep(POLL_S)

    def _state(self, _: Mapping[str, Any]) -> dict[str, Any]:
        ordered = self._ordered
        found = self._present()
        return {"state": "starting"} if ordered and found["state"] == "idle" else found

    def _present(self) -> dict[str, Any]:
        running = runs.progress(self.places)
        if running is None:
            if not (self.places.sys / RUN_CGROUP).is_dir():
                return {"state": "idle"}
            active = self.systemctl("is-active", RUN_UNIT)
            if active == "deactivating" or (active == "active" and runs.has_ended(self.places)):
                return {"state": "ending"}
            return {"state": "starting" if active in ("active", "activating") else "idle"}
        id_ = str(running["id"])
        if "ending" not in running and not runs.RUN_ID.fullmatch(id_):
            return {"state": "running", "about": f"ek-validate {id_}", "id": ""}
        return {
            "state": "ending" if "ending" in running else "running",
            "id": id_ if runs.RUN_ID.fullmatch(id_) else "",
            "index": running.get("index", 0),
            "count": running.get("count", 0),
            "about": running.get("about", ""),
            "scheduler": running.get("scheduler", ""),
            "ran_s": running.get("seconds", 0),
            "left_s": running.get("seconds_left", 0),
            "written_bytes": running.get("written", 0),
            "exclusive": running.get("exclusive", False),
            "groups": running.get("groups", False),
        }

    def _cancel(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            lock.stop(self.places.lock)
        except ValidateError:
            # A start that is being ordered comes first. Otherwise systemd would get its order after the one to stop.
            with self._starting:
                present = self._present()["state"]
                if present == "idle":
                    raise Refused("validation-none") from None
                if present == "starting":  # it has not taken the lock yet
                    self.systemctl("stop", "--no-block", RUN_UNIT)
        return self._state(request)

    def _list(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [_row(found) for found in itertools.islice(runs.each_report(self.places), runs.MOST_KEPT)]

    def _show(self, request: Mapping[str, Any]) -> dict[str, Any]:
        found = self._report(request["id"])
        return {
            "row": _row(found),
            "kernel": found.kernel,
            "written_bytes": found.written,
            "announced_bytes": int(found.announced.get("written", 0)),
            "sentences": summary.sentences(found),
            "promises": [
                {"title": p.title, "verdict": _verdict(p.held), "words": p.verdict, "evidence": p.evidence}
                for p in found.promises()
            ],
            "figures": [
                {
                    "id": row.id,
                    "value": with_unit(row.value, row.unit),
                    "wanted": wanted(row) if row.target is not None else "",
                    "verdict": _verdict(row.holds() if row.must else None),
                }
                for row in found.rows
            ],
            "notes": [{"case": case, "text": note[:MOST_TEXT]} for case, note in found.notes.items()],
            "left_out": _left_out(found.skipped),
            "not_restored": found.not_restored,
        }

    def _compare(self, request: Mapping[str, Any]) -> dict[str, Any]:
        before, after = (self._report(request[side]) for side in ("first", "second"))
        found = comparison.compare(before.rows, after.rows, by_kernel=False)
        return {
            "notes": report.differences(before, after),
            "changed": [
                {"id": c.name, "before": c.before, "after": c.after, "change": c.share, "verdict": c.verdict}
                for c in found.changed
            ],
            "only_before": found.only_before,
            "only_after": found.only_after,
            "same": found.compared - len(found.changed),
            "worse": len(found.worse) + len(found.gone),
        }

    def _file(self, request: Mapping[str, Any]) -> bytes:
        """A whole report, as JSON or as a page. Raises Refused."""
        found = self._report(request["id"])
        if _one_of(request["format"], ("json", "html")) == "json":
            return json.dumps(found.as_json()).encode()
        from . import report_page

        earlier = (one for one in runs.each_report(self.places) if report.is_earlier(one, found))
        return report_page.html(found, list(itertools.islice(earlier, report_page.MOST_EARLIER))).encode()

    # internal

    def _report(self, id_: Any) -> Report:
        if not isinstance(id_, str) or not runs.RUN_ID.fullmatch(id_):
            raise Refused(ABSENT, "InvalidArgument", id=str(id_)[:40])
        folder = self.places.runs / id_
        if not (folder / "report.json").exists():
            raise Refused(ABSENT, "InvalidArgument", id=id_)
        return runs.settled(report.read(folder), self.places)

    def _planned(self, profile: str, topic: str, compares: bool, exclusive: bool) -> dict[str, Any]:
        """What a validation would do. Raises Refused if no case could run, or ValidateError."""
        from . import planning
        from .loads import Scopes

        find_target = self.find_target or planning.data_folder
        launcher = Scopes(self.places.sys / "fs/cgroup", self.systemctl) if exclusive else None
        try:
            return planning.plan_of(
                self.places, find_target, profile, topic, compares, self.version, launcher
            )
        except planning.NothingToMeasure as error:
            raise Refused("validation-no-case", reason=str(error)) from None


ORDERS = ("plan", "start", "state", "cancel", "list", "show", "compare")


def _waits(connection: socket.socket) -> bool:
    """Whether the other side of CONNECTION has not closed it."""
    closed = select.poll()
    closed.register(connection, 0)  # a closed connection is always reported
    return not closed.poll(0)


def _one_of(value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{value!r:.40} is not one of {', '.join(map(repr, allowed))}")
    return str(value)


def _options(request: Mapping[str, Any]) -> tuple[str, str, bool, bool]:
    """Profile, topic, whether to compare, and whether to pause the apps.

    Raises ValueError for anything that is not in the closed lists.
    """
    for name in ("compare", "exclusive"):
        if not isinstance(request[name], bool):
            raise ValueError(f"{name} is {request[name]!r:.40}")
    profile, topic = _one_of(request["profile"], PROFILES), _one_of(request["topic"], TOPICS)
    return profile, topic, request["compare"], request["exclusive"]


def _error(code: str, kind: str, **parameters: Any) -> dict[str, Any]:
    return {"error": code, "parameters": parameters, "kind": kind}


def _verdict(held: bool | None) -> str:
    return {True: "held", False: "broken", None: "open"}[held]


def _left_out(skipped: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"case": case, "reason": reason[:MOST_TEXT]} for case, reason in skipped.items()]


def _row(found: Report) -> dict[str, Any]:
    held = [promise.held for promise in found.promises()]
    return {
        "id": found.id,
        "profile": found.profile,
        "state": found.state,
        "reason": found.reason[:MOST_TEXT],
        "subject": found.subject,
        "started": found.started,
        "ended": found.ended,
        "where": str(found.target.get("where", ""))[:MOST_TEXT],
        "model": str(found.target.get("model", ""))[:MOST_TEXT],
        "held": held.count(True),
        "broken": held.count(False),
    }


def serve(listener: socket.socket, service: Service, idle_s: float = IDLE_S) -> None:
    """Serve requests until none came for IDLE_S. A download that still runs is completed."""
    with ThreadPoolExecutor(WORKERS) as workers:
        while select.select([listener], [], [], idle_s)[0]:
            connection, _ = listener.accept()
            workers.submit(service.serve, connection)


def main(version: str) -> int:
    with socket.socket(fileno=3) as listener:
        serve(listener, Service(Places(), version))
    return 0
