# SPDX-License-Identifier: Apache-2.0
"""The state of the network settings: what is saved, and a change that waits for its confirmation. Pure code.

Invariants, for any order of the functions, crashes and boots:

- A configuration is saved only by confirm(), so SAVED is always a configuration that somebody has confirmed, or empty.
- A change is in force for at most TRIAL_S. Then, or after a boot, settle() drops it, and effective() is SAVED again.

Times are of the clock that counts from the boot, which no time server changes. The identifier of the boot tells the
times of two boots apart.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .network_config import BadConfig, Config, checked, interface_name

TRIAL_S = 60.0  # a change is undone after this time
LAST = ("none", "confirmed", "expired", "reverted", "restarted")


class Refused(Exception):
    """The state does not allow the call. CODE: of the message."""

    def __init__(self, code: str, /, **parameters: Any) -> None:
        super().__init__(code)
        self.code = code
        self.parameters = parameters


@dataclass(frozen=True, slots=True)
class Trial:
    """A change that waits for its confirmation. BOOT: the boot to which DEADLINE_S belongs.

    CHANGES: by interface; None: the interface gets the settings of the image again.
    """

    changes: Mapping[str, Config | None]
    deadline_s: float
    boot: str


@dataclass(frozen=True, slots=True)
class State:
    """SAVED: by interface; an interface without an entry has the settings of the image. LAST: of the last change."""

    saved: Mapping[str, Config] = field(default_factory=dict)
    trial: Trial | None = None
    last: str = "none"


def settle(state: State, now_s: float, boot: str) -> State:
    """Drop a change whose time is over, or that an earlier boot began."""
    trial = state.trial
    if trial is None:
        return state
    if trial.boot != boot:
        return replace(state, trial=None, last="restarted")
    # A deadline that is too far away cannot be from this boot either.
    if not 0 < trial.deadline_s - now_s <= TRIAL_S:
        return replace(state, trial=None, last="expired")
    return state


def begin(state: State, changes: Mapping[str, Config | None], now_s: float, boot: str) -> State:
    """Begin a change of one or more interfaces. Raises Refused while another one waits."""
    state = settle(state, now_s, boot)
    if state.trial is not None:
        left = int(state.trial.deadline_s - now_s) + 1
        raise Refused("network-trial-runs", interface=sorted(state.trial.changes), seconds=left)
    return replace(state, trial=Trial(dict(changes), now_s + TRIAL_S, boot))


def confirm(state: State, now_s: float, boot: str) -> State:
    """Save the change that waits. Raises Refused if there is none, also if its time is over."""
    _waiting(state, now_s, boot)
    return State(effective(state), None, "confirmed")


def revert(state: State, now_s: float, boot: str) -> State:
    """Drop the change that waits. Raises Refused if there is none."""
    _waiting(state, now_s, boot)
    return replace(state, trial=None, last="reverted")


def _waiting(state: State, now_s: float, boot: str) -> Trial:
    trial = settle(state, now_s, boot).trial
    if trial is None:
        raise Refused("network-too-late" if state.trial else "network-no-trial")
    return trial


def effective(state: State) -> dict[str, Config]:
    """The settings that should be in force, by interface."""
    wanted = {**state.saved, **(state.trial.changes if state.trial else {})}
    return {name: config for name, config in wanted.items() if config is not None}


def encode(state: State) -> bytes:
    trial = state.trial
    waiting = trial and {
        "deadline_s": trial.deadline_s,
        "boot": trial.boot,
        "changes": {name: config and fields(config) for name, config in sorted(trial.changes.items())},
    }
    saved = {name: fields(config) for name, config in sorted(state.saved.items())}
    return json.dumps({"saved": saved, "trial": waiting, "last": state.last}, indent=1).encode() + b"\n"


def fields(config: Config) -> dict[str, Any]:
    """CONFIG as JSON carries it."""
    return {
        "mode": config.mode,
        "address": config.address,
        "gateway": config.gateway,
        "dns": list(config.dns),
    }


def decode(content: bytes) -> State:
    """The state in a file. Raises ValueError: each value is checked as if somebody had typed it."""
    try:
        document = json.loads(content)
        saved = {interface_name(name): _config(entry) for name, entry in document["saved"].items()}
        found, last = document["trial"], document["last"]
        trial = found and Trial(_changes(found), float(found["deadline_s"]), str(found["boot"]))
    except (BadConfig, LookupError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error
    return State(saved, trial or None, last if last in LAST else "none")


def _changes(found: Any) -> dict[str, Config | None]:
    # Before the update to this version, a change had one interface.
    listed = found["changes"] if "changes" in found else {found["interface"]: found}
    return checked_changes(listed)


def checked_changes(listed: Any) -> dict[str, Config | None]:
    """The changes in LISTED, which JSON has carried. Raises BadConfig, LookupError, TypeError or AttributeError."""
    return {interface_name(name): None if entry is None else _config(entry) for name, entry in listed.items()}


def _config(entry: Any) -> Config:
    return checked(entry["mode"], entry["address"], entry["gateway"], entry["dns"])
