"""MIG geometry: the profiles of every known product, and combinations that fit on one GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.mig import AMPERE, AMPERE_SMALL, BLACKWELL_GRAPHICS, Geometry, MIGProfile
from policies.nvidia.mig_layouts import excess

SEVEN = "1g.{}gb:7 1g.{}gb+me:1 1g.{}gb:4 2g.{}gb:3 3g.{}gb:2 4g.{}gb:1 7g.{}gb:1"


def counts(**profiles):
    return {MIGProfile.parse(name): count for name, count in profiles.items()}


@pytest.mark.parametrize(
    ("memory", "layout", "profiles"),
    [
        (40, AMPERE, SEVEN.format(5, 5, 10, 10, 20, 20, 40)),
        (80, AMPERE, SEVEN.format(10, 10, 20, 20, 40, 40, 80)),
        (24, AMPERE_SMALL, "1g.6gb:4 1g.6gb+me:1 2g.12gb:2 2g.12gb+me:1 4g.24gb:1"),
        (94, AMPERE, SEVEN.format(12, 12, 24, 24, 47, 47, 94)),
        (96, AMPERE, SEVEN.format(12, 12, 24, 24, 48, 48, 96)),
        (141, AMPERE, SEVEN.format(18, 18, 35, 35, 71, 71, 141)),
        (144, AMPERE, SEVEN.format(18, 18, 36, 36, 72, 72, 144)),
        (180, AMPERE, SEVEN.format(23, 23, 45, 45, 90, 90, 180)),
        (186, AMPERE, SEVEN.format(23, 23, 47, 47, 93, 93, 186)),
        (189, AMPERE, SEVEN.format(24, 24, 47, 47, 95, 95, 189)),
        (269, AMPERE, SEVEN.format(34, 34, 67, 67, 135, 135, 269)),
        (278, AMPERE, SEVEN.format(35, 35, 70, 70, 139, 139, 278)),
        (
            96,
            BLACKWELL_GRAPHICS,
            (
                "1g.24gb:4 1g.24gb+gfx:4 1g.24gb-me:4 1g.24gb+me.all:1 1g.24gb+me:1 "
                "2g.48gb:2 2g.48gb+gfx:2 2g.48gb-me:2 2g.48gb+me.all:1 4g.96gb:1 4g.96gb+gfx:1"
            ),
        ),
    ],
)
def test_profiles_of_a_gpu_follow_from_its_memory(memory, layout, profiles):
    found = [f"{match.profile}:{match.most}" for match in Geometry(memory, layout).matches]
    assert sorted(found) == sorted(profiles.split())


@pytest.mark.parametrize(
    ("memory", "name", "meant"),
    [
        (80, "7g.79gb", "7g.80gb"),
        (40, "3g.21gb", "3g.20gb"),
        (186, "1g.24gb", "1g.23gb"),
        (186, "3g.95gb", "3g.93gb"),
        (186, "7g.189gb", "7g.186gb"),
    ],
)
def test_names_of_other_drivers_are_understood_but_not_exact(memory, name, meant):
    match = Geometry(memory).match(MIGProfile.parse(name))
    assert (str(match.profile), match.exact) == (meant, False)


def test_name_of_this_driver_is_exact():
    assert Geometry(80).match(MIGProfile.parse("3g.40gb")).exact


@pytest.mark.parametrize(
    "name", ["1g.5gb", "3g.20gb", "1g.10gb+gfx", "5g.40gb", "2c.1g.10gb", "3c.4g.40gb", "5c.7g.80gb", "7g.76gb"]
)
def test_what_the_gpu_lacks_matches_nothing(name):
    assert Geometry(80).match(MIGProfile.parse(name)) is None


def test_compute_instance_stands_for_the_gpu_instance_that_it_is_made_in():
    match = Geometry(40).match(MIGProfile.parse("1c.3g.20gb"))
    assert (str(match.profile), match.exact) == ("3g.20gb", True)


@pytest.mark.parametrize(
    ("memory", "layout", "wanted", "lacking"),
    [
        (80, AMPERE, {"3g.40gb": 2, "1g.10gb": 1}, "9 of 8 memory slices"),
        (80, AMPERE, {"4g.40gb": 1, "3g.40gb": 1, "1g.10gb": 1}, "9 of 8 memory slices"),
        (80, AMPERE, {"1g.10gb": 8}, "8 of 7 possible 1g.10gb"),
        (80, AMPERE, {"1g.10gb+me": 2}, "2 of 1 possible 1g.10gb+me"),
        (80, AMPERE, {"4g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, "8 of 7 compute slices"),
        (24, AMPERE_SMALL, {"2g.12gb": 2, "1g.6gb": 1}, "5 of 4 memory slices"),
        (96, BLACKWELL_GRAPHICS, {"1g.24gb": 3, "2g.48gb": 1}, "5 of 4 memory slices"),
        (40, AMPERE, {"1c.3g.20gb": 7}, "3 of 2 possible 3g.20gb"),
        (40, AMPERE, {"2c.3g.20gb": 2, "1c.3g.20gb": 3}, "3 of 2 possible 3g.20gb"),
        (40, AMPERE, {"1c.3g.20gb": 3000}, "1000 of 2 possible 3g.20gb"),
        (40, AMPERE, {"3c.7g.40gb": 2, "2c.7g.40gb": 1}, "2 of 1 possible 7g.40gb"),
    ],
)
def test_what_does_not_fit_is_reported(memory, layout, wanted, lacking):
    assert excess(Geometry(memory, layout), counts(**wanted)) == lacking


@pytest.mark.parametrize(
    ("memory", "layout", "wanted"),
    [
        (80, AMPERE, {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
        (80, AMPERE, {"4g.40gb": 1, "3g.40gb": 1}),
        (80, AMPERE, {"4g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}),
        (80, AMPERE, {"3g.40gb": 2}),
        (24, AMPERE_SMALL, {"1g.6gb": 2, "2g.12gb": 1}),
        (96, BLACKWELL_GRAPHICS, {"1g.24gb": 2, "2g.48gb": 1}),
        (40, AMPERE, {"1c.3g.20gb": 6}),
        (40, AMPERE, {"2c.3g.20gb": 2, "1c.3g.20gb": 2}),
        (40, AMPERE, {"1c.7g.40gb": 2, "2c.7g.40gb": 1, "3c.7g.40gb": 1}),
        (80, AMPERE, {}),
    ],
)
def test_what_fits_lacks_nothing(memory, layout, wanted):
    assert excess(Geometry(memory, layout), counts(**wanted)) is None


@given(st.integers(8, 500), st.sampled_from([AMPERE, AMPERE_SMALL, BLACKWELL_GRAPHICS]), st.data())
def test_as_many_as_there_is_room_for_fit_and_one_more_does_not(memory, layout, data):
    geometry = Geometry(memory, layout)
    match = data.draw(st.sampled_from(geometry.matches))
    assert excess(geometry, {match.profile: match.most}) is None
    assert excess(geometry, {match.profile: match.most + 1}) is not None


@given(st.integers(0, 50), st.integers(0, 9999))
def test_any_profile_has_an_answer(slices, memory):
    geometry = Geometry(80)
    match = geometry.match(MIGProfile(slices, memory))
    assert match is None or match in geometry.matches or not match.exact
