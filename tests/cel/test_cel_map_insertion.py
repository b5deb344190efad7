"""Maps that `transformMap` and `transformMapEntry` build."""

from __future__ import annotations

import pytest

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.lists import MAP_LIBRARY
from policies.cel.values import Growing, Map, UInt

OVERLOADS = {overload.id: overload for overload in MAP_LIBRARY}


def run(overload_id, *arguments):
    return OVERLOADS[overload_id].implementation(*arguments)


def mapping(**entries):
    return Map(dict(entries))


def test_entry_is_put_into_a_map_that_grows():
    growing = Growing({})
    assert run("@mapInsert_map_key_value", growing, "a", 1) is growing
    assert growing.find("a") == 1


def test_entry_is_put_into_a_copy_of_any_other_map():
    given = mapping(a=1)
    assert list(run("@mapInsert_map_key_value", given, "b", 2).items()) == [("a", 1), ("b", 2)]
    assert len(given) == 1


def test_all_entries_of_a_map_are_put_in():
    inserted = run("@mapInsert_map_map", Growing({}), mapping(a=1, b=2))
    assert list(inserted.items()) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(("key", "shown"), [("a", "a"), (1, "1"), (UInt(2), "2"), (True, "true"), (1.5, "1.5")])
def test_key_that_is_there_already_fails(key, shown):
    growing = run("@mapInsert_map_key_value", Growing({}), key, 1)
    with pytest.raises(CelRuntimeError) as failed:
        run("@mapInsert_map_key_value", growing, key, 2)
    assert failed.value.message == f"insert failed: key {shown} already exists"


def test_key_that_equals_one_of_another_type_is_there_already():
    growing = run("@mapInsert_map_key_value", Growing({}), 1, 1)
    with pytest.raises(CelRuntimeError):
        run("@mapInsert_map_map", growing, Map({Map.key(UInt(1)): 2}))
