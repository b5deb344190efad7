"""MIG layouts: each device has a place, and where none is found, none exists."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.nvidia.mig import AMPERE, AMPERE_SMALL, BLACKWELL_GRAPHICS, Geometry, MIGProfile
from policies.nvidia.mig_layouts import (
    TooManyWaysError,
    excess,
    fewest_gpus,
    find_layouts,
    fitting_part,
    place,
    shortage,
)
from tests.properties import examples

H100 = Geometry(80, AMPERE)
A30 = Geometry(24, AMPERE_SMALL)
RTX = Geometry(96, BLACKWELL_GRAPHICS)

PLACES = {
    H100: {
        "1g.10gb": ((0, 1, 2, 3, 4, 5, 6), 1),
        "1g.10gb+me": ((0, 1, 2, 3, 4, 5, 6), 1),
        "1g.20gb": ((0, 2, 4, 6), 2),
        "2g.20gb": ((0, 2, 4), 2),
        "3g.40gb": ((0, 4), 4),
        "4g.40gb": ((0,), 4),
        "7g.80gb": ((0,), 8),
    },
    A30: {
        "1g.6gb": ((0, 1, 2, 3), 1),
        "1g.6gb+me": ((0, 1, 2, 3), 1),
        "2g.12gb": ((0, 2), 2),
        "2g.12gb+me": ((0, 2), 2),
        "4g.24gb": ((0,), 4),
    },
    RTX: {
        **{f"1g.24gb{attribute}": ((0, 1, 2, 3), 1) for attribute in ("", "+gfx", "-me", "+me.all", "+me")},
        **{f"2g.48gb{attribute}": ((0, 2), 2) for attribute in ("", "+gfx", "-me", "+me.all")},
        **{f"4g.96gb{attribute}": ((0,), 4) for attribute in ("", "+gfx")},
    },
}
"""What `nvidia-smi mig -lgipp` prints: where instances begin, and their size in memory slices.

An RTX PRO 6000 counts twelve units of which a slice is three.
"""
ENGINES = {"": (1, 0), "+gfx": (1, 0), "-me": (0, 0), "+me": (1, 1), "+me.all": (4, 1)}
"""Decoders of each compute slice and engines for optical flow, of four and one that an RTX PRO 6000 has."""


def parsed(text):
    pairs = (item.split("=") for item in text.split(","))
    return {MIGProfile.parse(name): int(count) for name, count in pairs}


def text_of(layout):
    return ",".join(f"{profile}={count}" for profile, count in layout.items())


def has_engines(geometry, names):
    if geometry is A30:
        return sum("+me" in name for name in names) <= 1
    if geometry is not RTX:
        return True
    profiles = [MIGProfile.parse(name) for name in names if not name.startswith("4g")]
    decoders = sum(
        ENGINES[each.attributes][0] * (1 if each.attributes == "+me.all" else each.gpu_slices) for each in profiles
    )
    return decoders <= 4 and sum(ENGINES[each.attributes][1] for each in profiles) <= 1


def can_be_placed(geometry, names):
    """Tries every place of every instance; an independent oracle."""

    def tried(rest, taken):
        if not rest:
            return True
        starts, size = PLACES[geometry][rest[0]]
        spans = [set(range(start, start + size)) for start in starts]
        return any(tried(rest[1:], taken | span) for span in spans if not span & taken)

    most = {name: geometry.match(MIGProfile.parse(name)).most for name in set(names)}
    large_first = sorted(names, key=lambda name: -PLACES[geometry][name][1])
    return (
        all(names.count(name) <= count for name, count in most.items())
        and has_engines(geometry, names)
        and tried(large_first, set())
    )


def counted(names):
    return {MIGProfile.parse(name): names.count(name) for name in names}


@pytest.mark.parametrize("geometry", PLACES, ids=["H100", "A30", "RTX PRO 6000"])
def test_instance_alone_begins_only_where_the_driver_allows(geometry):
    for name, (starts, size) in PLACES[geometry].items():
        (placed,) = place(geometry, counted([name]))
        assert (placed.start in starts, placed.size) == (True, size)


@pytest.mark.parametrize("geometry", PLACES, ids=["H100", "A30", "RTX PRO 6000"])
def test_places_are_found_exactly_where_some_exist(geometry):
    longest = {H100: 8, A30: 5, RTX: 4}[geometry]
    for length in range(1, longest + 1):
        for names in itertools.combinations_with_replacement(PLACES[geometry], length):
            found = place(geometry, counted(names))
            assert (found is not None) == can_be_placed(geometry, names), names


@pytest.mark.parametrize("geometry", PLACES, ids=["H100", "A30", "RTX PRO 6000"])
def test_places_do_not_overlap_and_are_possible(geometry):
    for names in itertools.combinations_with_replacement(PLACES[geometry], 3):
        placed = place(geometry, counted(names)) or ()
        slices = [slice_ for each in placed for slice_ in range(each.start, each.start + each.size)]
        assert len(slices) == len(set(slices))
        assert all(each.start in PLACES[geometry][str(each.profile)][0] for each in placed)


wanted = st.sampled_from(list(PLACES)).flatmap(
    lambda geometry: st.tuples(
        st.just(geometry),
        st.dictionaries(st.sampled_from(list(PLACES[geometry])), st.integers(1, 30), min_size=1, max_size=5),
        st.integers(1, 16),
    )
)


@given(wanted)
@settings(max_examples=examples(100))
def test_layouts_have_exactly_the_wanted_devices_and_fit(case):
    geometry, names, gpus = case
    counts = {MIGProfile.parse(name): count for name, count in names.items()}
    layouts = find_layouts(geometry, counts, gpus)
    if layouts is None:
        assert shortage(geometry, counts, gpus)
        part = fitting_part(geometry, counts, gpus)
        assert all(count <= counts[profile] for profile, count in part.items())
        assert part
        assert find_layouts(geometry, part, gpus)
        return
    assert len(layouts) <= gpus
    assert {profile: sum(layout.get(profile, 0) for layout in layouts) for profile in counts} == counts
    for layout in layouts:
        assert excess(geometry, layout) is None
        assert can_be_placed(geometry, [str(profile) for profile, count in layout.items() for _ in range(count)])


def splits(names, gpus):
    """Whether the instances can be divided over GPUs, by trying all ways."""
    if not names:
        return True
    if not gpus:
        return False
    first, *others = names
    for chosen in itertools.product((True, False), repeat=len(others)):
        taken = [first, *itertools.compress(others, chosen)]
        rest = list(itertools.compress(others, (not each for each in chosen)))
        if can_be_placed(H100, taken) and splits(rest, gpus - 1):
            return True
    return False


@given(st.lists(st.sampled_from(list(PLACES[H100])), min_size=1, max_size=8), st.integers(1, 3))
@settings(max_examples=examples(40))
def test_no_layout_is_found_only_where_none_exists(names, gpus):
    assert (find_layouts(H100, counted(names), gpus) is not None) == splits(names, gpus)


@pytest.mark.parametrize(
    ("wanted", "gpus", "layouts"),
    [
        ("1g.10gb=3,3g.40gb=1", 1, ["3g.40gb=1,1g.10gb=3"]),
        ("3g.40gb=1,1g.10gb=5", 2, ["3g.40gb=1,1g.10gb=4", "1g.10gb=1"]),
        ("7g.80gb=2", 8, ["7g.80gb=1", "7g.80gb=1"]),
        ("4g.40gb=2,3g.40gb=2", 8, ["4g.40gb=1,3g.40gb=1", "4g.40gb=1,3g.40gb=1"]),
    ],
)
def test_fewest_gpus_are_divided(wanted, gpus, layouts):
    assert [text_of(layout) for layout in find_layouts(H100, parsed(wanted), gpus)] == layouts


@pytest.mark.parametrize(
    ("geometry", "wanted", "gpus", "needs", "part"),
    [
        (H100, "3g.40gb=1,1g.10gb=5", 1, "9 of 8 memory slices", "3g.40gb=1,1g.10gb=4"),
        (H100, "3g.40gb=2,1g.10gb=1", 1, "9 of 8 memory slices", "3g.40gb=2"),
        (H100, "4g.40gb=1,2g.20gb=2", 1, "8 of 7 compute slices", "4g.40gb=1,2g.20gb=1"),
        (H100, "7g.80gb=1,1g.10gb=1", 1, "9 of 8 memory slices", "7g.80gb=1"),
        (H100, "1g.10gb=15", 2, "15 of 14 possible 1g.10gb", "1g.10gb=14"),
        (H100, "1g.10gb=9,3g.40gb=2", 2, "17 of 16 memory slices", "3g.40gb=2,1g.10gb=8"),
        (
            H100,
            "4g.40gb=1,2g.20gb=5",
            2,
            "slices in one piece that would be left on different GPUs",
            "4g.40gb=1,2g.20gb=4",
        ),
        (A30, "1g.6gb+me=1,2g.12gb+me=1", 1, "more media engines than there are", "2g.12gb+me=1"),
        (RTX, "1g.24gb+me.all=2,1g.24gb=1", 2, "more media engines than there are", "1g.24gb+me.all=2"),
        (RTX, "1g.24gb+me.all=1,1g.24gb=1", 1, "more media engines than there are", "1g.24gb+me.all=1"),
    ],
)
def test_shortage_says_what_is_missing_and_the_part_fits(geometry, wanted, gpus, needs, part):
    counts = parsed(wanted)
    assert find_layouts(geometry, counts, gpus) is None
    assert shortage(geometry, counts, gpus) == needs
    assert fitting_part(geometry, counts, gpus) == parsed(part)


def test_search_that_is_given_up_is_not_taken_for_a_lack_of_room(monkeypatch):
    counts = parsed("4g.40gb=1,2g.20gb=5")
    monkeypatch.setattr("policies.nvidia.mig_layouts._MOST_STEPS", 1)
    with pytest.raises(TooManyWaysError):
        find_layouts(H100, counts, 2)
    assert fewest_gpus(H100, counts) is None
    assert fitting_part(H100, counts, 2)


def test_wanted_devices_need_a_number_of_gpus():
    assert [fewest_gpus(H100, parsed(text)) for text in ("1g.10gb=7", "1g.10gb=8", "7g.80gb=17")] == [1, 2, None]
