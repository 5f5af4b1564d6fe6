# SPDX-License-Identifier: Apache-2.0
"""The cache keeps what was used last, within its limit."""

from evenkeel_history.cache import Cache
from hypothesis import given
from hypothesis import strategies as st


def test_a_value_is_kept_under_its_key() -> None:
    cache = Cache(100)
    cache.put("a", [1], 40)
    assert cache.get("a") == [1]
    assert cache.get("b") is None


def test_what_was_not_used_for_longest_is_dropped() -> None:
    cache = Cache(100)
    for key in "abc":
        cache.put(key, key, 30)
    assert cache.get("a") == "a"
    cache.put("d", "d", 30)
    assert [cache.get(key) for key in "abcd"] == ["a", None, "c", "d"]


def test_a_value_that_is_too_large_is_not_kept() -> None:
    cache = Cache(100)
    cache.put("a", "a", 50)
    cache.put("b", "b", 101)
    assert (cache.get("a"), cache.get("b"), cache.bytes) == ("a", None, 50)
    cache.put("a", "a", 101)
    assert (cache.get("a"), cache.bytes) == (None, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60))))
def test_the_limit_holds(puts: list[tuple[int, int]]) -> None:
    cache, sizes = Cache(100), {}
    for key, size in puts:
        cache.put(key, key, size)
        sizes[key] = size
        kept = [key for key in sizes if cache.get(key) is not None]
        assert cache.bytes == sum(sizes[key] for key in kept) <= 100
