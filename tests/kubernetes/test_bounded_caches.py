"""Caches are bounded by the total weight of their entries."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.bounds import LONGEST_KEY, BoundedCache, remember, remember_short


def test_least_recently_used_entry_is_dropped_first():
    cache = BoundedCache(3)
    for key in "abc":
        cache.put(key, key, 1)
    assert cache.get("a") == "a"
    cache.put("d", "d", 1)
    assert [cache.get(key) for key in "abcd"] == ["a", None, "c", "d"]


def test_entry_heavier_than_the_cache_is_not_kept():
    cache = BoundedCache(3)
    cache.put("a", "a", 1)
    cache.put("b", "b", 4)
    assert (cache.get("a"), cache.get("b"), cache.weight) == ("a", None, 1)


def test_replaced_entry_counts_once():
    cache = BoundedCache(3)
    cache.put("a", 1, 2)
    cache.put("a", 2, 3)
    assert (cache.get("a"), cache.weight, len(cache)) == (2, 3, 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12))))
def test_weight_is_that_of_the_entries_and_within_the_bound(puts):
    cache = BoundedCache(20)
    weights = {}
    for key, weight in puts:
        cache.put(key, key, weight)
        weights[key] = weight
        assert cache.weight <= 20
    assert cache.weight == sum(weights[key] for key in weights if cache.get(key) is not None)


def test_threads_leave_the_weight_right():
    cache = BoundedCache(50)

    def put_many(number):
        for index in range(500):
            cache.put((number, index % 40), index, 1 + index % 3)
            cache.get((number, index % 7))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(put_many, range(4)))
    cache.put("last", 0, 0)
    assert 0 <= cache.weight <= 50
    assert cache.weight == sum(weight for _, weight in cache._entries.values())


def test_function_is_called_once_for_an_argument_even_if_it_returns_none():
    calls = []

    @remember(10, lambda text, _: len(text))
    def nothing(text):
        calls.append(text)

    assert (nothing("a"), nothing("a")) == (None, None)
    assert calls == ["a"]


def test_long_texts_and_tuples_are_not_kept():
    calls = []

    @remember_short(8)
    def size(argument):
        calls.append(argument)
        return len(argument)

    for argument in ("x" * LONGEST_KEY, "x" * (LONGEST_KEY + 1), ("x" * (LONGEST_KEY + 1),), ("x",) * 65):
        assert size(argument) == size(argument) == len(argument)
    assert len(calls) == 7
