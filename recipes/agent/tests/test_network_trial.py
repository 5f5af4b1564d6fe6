# SPDX-License-Identifier: Apache-2.0
"""The state machine of a change of the network settings: it always ends in settings that somebody has confirmed."""

import json
from typing import Any

import pytest
from evenkeel_agent import network_trial
from evenkeel_agent.network_config import Config, checked
from evenkeel_agent.network_trial import (
    TRIAL_S,
    Refused,
    State,
    begin,
    confirm,
    decode,
    effective,
    encode,
    revert,
    settle,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

ONE = checked("fixed", "192.168.1.20/24", "192.168.1.1", ["192.168.1.1"])
TWO = checked("fixed", "10.0.0.5/8", "", [])


def test_a_confirmed_change_stays() -> None:
    state = begin(State(), {"eth0": ONE}, 5, "a")
    assert effective(state) == {"eth0": ONE}
    state = confirm(state, 5 + TRIAL_S - 1, "a")
    assert (state.saved, state.trial, state.last) == ({"eth0": ONE}, None, "confirmed")
    assert settle(state, 1e9, "b") is state


def test_a_change_is_undone_after_its_time() -> None:
    saved = State({"eth0": ONE})
    state = begin(saved, {"eth0": TWO}, 5, "a")
    assert settle(state, 5 + TRIAL_S - 1, "a") is state
    state = settle(state, 5 + TRIAL_S, "a")
    assert effective(state) == {"eth0": ONE}
    assert (state.trial, state.last) == (None, "expired")


def test_a_change_does_not_survive_a_boot() -> None:
    state = begin(State({"eth0": ONE}), {"eth1": TWO}, 5, "a")
    state = settle(state, 6, "b")
    assert effective(state) == {"eth0": ONE}
    assert state.last == "restarted"


def test_a_deadline_that_is_too_far_away_does_not_count() -> None:
    state = begin(State(), {"eth0": ONE}, 5000, "a")
    assert settle(state, 5000 - 1, "a").trial is None


def test_settings_of_other_interfaces_stay() -> None:
    state = begin(State({"eth0": ONE}), {"eth1": TWO}, 5, "a")
    assert confirm(state, 6, "a").saved == {"eth0": ONE, "eth1": TWO}


def test_a_late_confirmation_is_refused() -> None:
    state = begin(State(), {"eth0": ONE}, 5, "a")
    for function in (confirm, revert):
        with pytest.raises(Refused) as refused:
            function(state, 5 + TRIAL_S, "a")
        assert refused.value.code == "network-too-late"
        with pytest.raises(Refused) as refused:
            function(State(), 5, "a")
        assert refused.value.code == "network-no-trial"


def test_one_change_at_a_time() -> None:
    state = begin(State(), {"eth0": ONE}, 5, "a")
    with pytest.raises(Refused) as refused:
        begin(state, {"eth1": TWO}, 6, "a")
    assert (refused.value.code, refused.value.parameters) == (
        "network-trial-runs",
        {"interface": ["eth0"], "seconds": 60},
    )
    assert begin(state, {"eth1": TWO}, 5 + TRIAL_S, "a").trial
    state = revert(state, 6, "a")
    assert (state.trial, state.last, effective(state)) == (None, "reverted", {})


def test_a_damaged_file_is_no_state() -> None:
    good = encode(begin(State({"eth0": ONE}), {"eth1": TWO}, 5, "a"))
    assert decode(good) == begin(State({"eth0": ONE}), {"eth1": TWO}, 5, "a")
    for bad in (
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        good[:-9],
        good.replace(b"192.168.1.20/24", b"192.168.1.20"),
    ):
        with pytest.raises(ValueError):
            decode(bad)
    for name in (b"../eth0", b"lo", b""):
        with pytest.raises(ValueError):
            decode(good.replace(b'"eth0"', b'"%s"' % name))


def test_a_change_of_several_interfaces_is_confirmed_or_undone_as_a_whole() -> None:
    before = State({"eth0": ONE, "eth1": TWO})
    state = begin(before, {"eth0": None, "eth2": TWO}, 5, "a")
    assert effective(state) == {"eth1": TWO, "eth2": TWO}
    assert decode(encode(state)) == state
    assert effective(settle(state, 5 + TRIAL_S, "a")) == before.saved
    assert confirm(state, 6, "a").saved == {"eth1": TWO, "eth2": TWO}


def test_a_change_that_an_earlier_version_began_loses_no_saved_settings() -> None:
    """The update restarts the board, and the change must be dropped like any other."""
    saved = encode(State({"eth0": ONE}))
    earlier = json.loads(saved) | {
        "trial": {"interface": "eth0", "deadline_s": 65.0, "boot": "a", **network_trial.fields(TWO)}
    }
    state = decode(json.dumps(earlier).encode())
    assert state == begin(State({"eth0": ONE}), {"eth0": TWO}, 5, "a")
    assert effective(settle(state, 3, "b")) == {"eth0": ONE}


class AnyOrder(RuleBasedStateMachine):
    """Users, time, crashes and boots in any order. A crash loses everything but the file; it may come before a write."""

    @initialize()
    def new_board(self) -> None:
        self.file = encode(State())
        self.state = State()
        self.now_s, self.boot = 10.0, 0
        self.confirmed: dict[str, Config] = {}  # what users have confirmed
        self.began_s: float | None = None  # when the change that waits began

    def _do(self, function: Any, *arguments: Any, crash: bool = False) -> bool:
        try:
            changed = function(self.state, *arguments, self.now_s, str(self.boot))
        except Refused:
            return False
        if crash:
            self.state = decode(self.file)  # killed before the write
            return False
        self.file = encode(changed)
        self.state = changed
        return True

    @rule(
        changes=st.dictionaries(
            st.sampled_from(["eth0", "eth1"]), st.sampled_from([ONE, TWO, Config(), None]), min_size=1
        ),
        crash=st.booleans(),
    )
    def set(self, changes: dict[str, Config | None], crash: bool) -> None:
        if self._do(begin, changes, crash=crash):
            self.began_s = self.now_s

    @rule(crash=st.booleans())
    def confirm(self, crash: bool) -> None:
        waiting = self.state.trial
        if self._do(confirm, crash=crash):
            assert waiting
            assert self.began_s is not None
            assert self.now_s - self.began_s < TRIAL_S
            for name, config in waiting.changes.items():
                self.confirmed.pop(name, None)
                if config:
                    self.confirmed[name] = config
            self.began_s = None

    @rule(crash=st.booleans())
    def revert(self, crash: bool) -> None:
        if self._do(revert, crash=crash):
            self.began_s = None

    @rule(seconds=st.sampled_from([0.5, 30.0, 59.0, 60.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def look(self) -> None:
        self._do(settle)

    @rule()
    def kill(self) -> None:
        self.state = decode(self.file)

    @rule(now_s=st.sampled_from([0.0, 9.0, 30.0]))
    def power_cut(self, now_s: float) -> None:
        self.now_s, self.boot, self.began_s = now_s, self.boot + 1, None
        self.state = decode(self.file)
        self._do(settle)
        assert effective(self.state) == self.confirmed

    @precondition(lambda self: self.began_s is not None)
    @rule()
    def nobody_confirms(self) -> None:
        assert self.began_s is not None
        self.now_s = max(self.now_s, self.began_s + TRIAL_S)
        self._do(settle)
        assert effective(self.state) == self.confirmed

    @invariant()
    def only_confirmed_settings_are_saved(self) -> None:
        assert decode(self.file).saved == self.confirmed
        if (trial := settle(self.state, self.now_s, str(self.boot)).trial) is None:
            assert effective(settle(self.state, self.now_s, str(self.boot))) == self.confirmed
        else:
            assert 0 < trial.deadline_s - self.now_s <= TRIAL_S
        assert network_trial.TRIAL_S == 60


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(deadline=None, max_examples=100, stateful_step_count=30)
