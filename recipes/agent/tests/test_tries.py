# SPDX-License-Identifier: Apache-2.0
"""The limits of wrong passwords: no sequence of tries exceeds or resets them."""

import gc
import random
import tracemalloc

import pytest
from evenkeel_agent.accounts import MAX_HASHING, MAX_USERS
from evenkeel_agent.tries import (
    ACCOUNT_LIMITS,
    BROWSERS,
    LIMITS,
    PENDING,
    ROWS,
    Limits,
    Tries,
    network,
    wider,
)
from hypothesis import given, settings
from hypothesis import strategies as st

DAY_S = 86400


class Board:
    """Tries with a clock, and a list of the wrong ones that were checked, by what is limited."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.tries = Tries(lambda: self.now)
        self.checked: dict[tuple[str, ...], list[float]] = {}

    def guess(self, user: str, address: str = "192.0.2.1", device: str = "", right: bool = False) -> bool:
        """Whether the password was checked. RIGHT: it was right."""
        if self.tries.wait_s(user, address, device):
            return False
        begun = self.tries.begin(user, address, device)
        if right:
            begun.right()
            return True
        keys = [("known", user), ("browser", user, device)] if device else [("account", user)]
        if not device:
            keys += [("network", network(address)), ("wider", wider(address))]
        for key in keys:
            self.checked.setdefault(key, []).append(self.now)
        return True

    def until_allowed(self, user: str, address: str = "192.0.2.1", device: str = "") -> None:
        self.now += self.tries.wait_s(user, address, device)


def limits_of(key: tuple[str, ...]) -> Limits:
    return LIMITS if key[0] in ("network", "browser") else ACCOUNT_LIMITS


def exceeded(checked: dict[tuple[str, ...], list[float]]) -> list[object]:
    """What was checked more often in some period than its limits allow."""
    return [
        (key, seconds)
        for key, times in checked.items()
        for seconds, most in limits_of(key)
        for first, last in zip(times, times[most:], strict=False)
        if last - first < seconds
    ]


def test_the_networks_of_an_address() -> None:
    assert network("192.0.2.7") == "192.0.2.7"
    assert wider("192.0.2.7") == "192.0.2.0/24"
    assert network("2001:db8:1:2:3::4") == "2001:db8:1:2::/64"
    assert wider("2001:db8:1:2:3::4") == "2001:db8:1::/48"
    assert network("local") == wider("local") == "local"
    assert network("x" * 99) == "x" * 64


@pytest.mark.parametrize(("device", "most"), [("", 5), ("x", 5)])
def test_five_errors_cost_a_minute(device: str, most: int) -> None:
    board = Board()
    assert [board.guess("admin", device=device) for _ in range(7)] == [True] * most + [False] * (7 - most)
    assert board.tries.wait_s("admin", "192.0.2.1", device) == 60
    board.now += 59.5
    assert not board.guess("admin", device=device)
    board.now += 0.5
    assert board.guess("admin", device=device)


def test_a_right_password_does_not_count() -> None:
    board = Board()
    for _ in range(100):
        assert board.guess("admin", right=True)
    assert [board.guess("admin") for _ in range(6)] == [True] * 5 + [False]


def test_tries_that_are_checked_at_the_same_time_count() -> None:
    board = Board()
    begun = []
    while not board.tries.wait_s("admin", "192.0.2.1", ""):
        begun.append(board.tries.begin("admin", "192.0.2.1", ""))
    assert len(begun) == 5
    begun[2].right()
    assert [board.guess("admin") for _ in range(2)] == [True, False]


def test_a_try_that_turns_out_right_hides_no_older_one() -> None:
    """A count with the most times that its limits need still has them all when some are taken back."""
    board = Board()
    addresses = (f"10.{number % 200}.{number // 200}.1" for number in range(10**6))
    while len(board.checked.get(("account", "admin"), ())) < ACCOUNT_LIMITS[-1][1] - PENDING:
        board.guess("admin", next(addresses))
        board.now += 31
    begun = []
    while not board.tries.wait_s("admin", address := next(addresses), ""):
        begun.append(board.tries.begin("admin", address, ""))
        board.now += 31
    for one in begun:
        one.right()
    while board.guess("admin", next(addresses)):
        board.now += 31
    assert exceeded(board.checked) == []
    assert len(board.checked["account", "admin"]) == ACCOUNT_LIMITS[-1][1]


NAMES = ("admin", "eve", "no-such-user", "other")
ADDRESSES = (
    "192.0.2.1",
    "192.0.2.2",
    "198.51.100.1",
    "2001:db8:1:2::3",
    "2001:db8:1:3::4",
    "2001:db8:2::1",
    "local",
)
STEP = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from(ADDRESSES),
    st.sampled_from(("", "", "", *(f"browser {number}" for number in range(5)))),
    st.sampled_from((False, False, False, True)),
    st.sampled_from((0, 0.3, 1, 7, 61, 700, 3600, 40_000)),
    st.integers(1, 30),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(STEP, max_size=60))
def test_no_sequence_of_tries_exceeds_the_limits(steps: list[tuple[str, str, str, bool, float, int]]) -> None:
    board = Board()
    for user, address, device, right, pause, times in steps:
        board.now += pause
        for _ in range(times):
            board.guess(user, address, device, right)
    assert exceeded(board.checked) == []


def test_an_attacker_with_many_names_and_addresses_resets_no_limit() -> None:
    """The attacker guesses the password of admin, then fills the counts, again and again. The owner still gets in."""
    board, dice = Board(), random.Random(7)  # noqa: S311  (the attacker's dice)

    def address() -> str:
        return f"2001:{dice.randrange(1 << 16):x}:{dice.randrange(1 << 16):x}::1"

    for _ in range(10):
        while board.guess("admin", address()):
            pass
        for _ in range(2500):
            board.guess(f"user{dice.randrange(1 << 30)}", address())
            board.now += 0.03
    assert exceeded({key: times for key, times in board.checked.items() if key == ("account", "admin")}) == []
    assert board.guess("admin", device="the owner's browser")


def test_one_host_with_many_networks_locks_out_nobody_else() -> None:
    """A host may have all 65,536 networks of a /48, or all addresses of a /24."""
    board = Board()
    for number in range(5000):
        board.guess(f"user{number}", f"2001:db8:1:{number:x}::1")
        board.guess(f"user{number}", f"192.0.2.{number % 256}")
        board.now += 1
    assert len(board.checked["wider", "2001:db8:1::/48"]) <= 600
    assert len(board.checked["wider", "192.0.2.0/24"]) <= 600
    strangers = [
        board.tries.wait_s("admin", f"10.0.{number // 250}.{number % 250}", "") for number in range(5000)
    ]
    assert sum(bool(wait) for wait in strangers) < 50


def test_a_name_is_limited_alike_whether_it_exists_or_not() -> None:
    """Otherwise twenty guesses from some networks would tell which names exist. Here no name does."""
    board = Board()
    for name in ("admin", "nobody", "x" * 64, "\ud800"):
        allowed = sum(board.guess(name, f"10.{number}.0.1") for number in range(60))
        assert allowed == 20
        board.now += DAY_S


def test_known_browsers_share_the_limits_of_an_account() -> None:
    """Whoever has logged in a thousand times has a thousand known browsers, and may not know a code that is needed since."""
    board = Board()
    for number in range(1000):
        board.guess("admin", device=f"browser {number}")
        board.guess("eve", device=f"browser {number}")
        board.now += 30
    assert exceeded({key: times for key, times in board.checked.items() if key[0] == "known"}) == []
    assert len(board.tries._known["admin"]) <= BROWSERS
    board.until_allowed("admin", device="another")
    assert board.guess("admin", device="another")
    board.now += 2 * DAY_S
    assert all(board.guess("admin", device=f"browser {number}") for number in range(BROWSERS - 12))
    assert board.guess("ben", device="x")
    assert set(board.tries._known) == {"admin", "ben"}


def test_memory_is_bounded() -> None:
    """With all cells full, which takes days of an attack by thousands of hosts, and all known browsers of all users."""
    assert PENDING >= MAX_HASHING
    gc.collect()
    tracemalloc.start()
    try:
        tries = Tries(lambda: 0)
        for user in range(MAX_USERS):
            for browser in range(BROWSERS + 8):
                tries._browser(f"user{user}", f"browser{browser}")
        sketches = (tries._accounts, tries._networks, tries._wider)
        cells = 0
        for sketch in sketches:
            for number in range(20_000):
                sketch.cells(str(number))
            cells += ROWS * sketch._width
        counts = [count for sketch in sketches for count in sketch._cells.values()]
        assert len(counts) == cells
        for count in counts + [count for browsers in tries._known.values() for count in browsers.values()]:
            for at in range(700):
                count.add(at)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"{taken / 1e6:.2f} MB")
    assert taken < 5e6
