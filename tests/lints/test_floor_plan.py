"""The lint that counts rooms, floors and arrows."""

import sys
from itertools import pairwise

import pytest

from lints.floor_plan import FloorPlan, measured_plan


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A package with two rooms: `low`, and `high`, which imports it inside a function."""
    files = {
        "__init__": "",
        "high/__init__": "",
        "high/top": "def answer():\n    from house_of_tests.low.inner.deep import fact\n    return fact\n",
        "low/__init__": "",
        "low/inner/__init__": "",
        "low/inner/deep": "fact = 42\n",
    }
    for name, text in files.items():
        path = tmp_path / "house_of_tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield "house_of_tests"
    for name in [each for each in sys.modules if each.startswith("house_of_tests")]:
        del sys.modules[name]


def test_rooms_are_folders_two_levels_deep(house):
    assert measured_plan([house]).rooms == {"house_of_tests.high", "house_of_tests.low"}


def test_import_inside_a_function_is_an_arrow(house):
    assert measured_plan([house]).arrows == {("house_of_tests.high", "house_of_tests.low")}


def test_room_stands_above_the_highest_that_it_imports():
    chain = FloorPlan(frozenset("abcd"), frozenset([*pairwise("abc"), ("a", "d")]))
    assert chain.floors == {"a": 3, "b": 2, "c": 1, "d": 1}


def test_circle_of_rooms_is_named():
    with pytest.raises(ValueError, match="a circle of rooms: a, b"):
        FloorPlan(frozenset("abc"), frozenset([("a", "b"), ("b", "a"), ("a", "c")])).floors  # noqa: B018 - it is computed when read
