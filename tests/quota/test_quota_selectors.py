"""Selectors of limits: which devices count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.limits.selectors import EVERYTHING, GLOBS, Match, Selector
from policies.rules.charges import DeviceKind

H100 = DeviceKind("NVIDIA-H100-80GB-HBM3")
T4 = DeviceKind("Tesla-T4")
SLICE = DeviceKind("NVIDIA-H100-80GB-HBM3", "1g.10gb")
MEDIA = DeviceKind("NVIDIA-H100-80GB-HBM3", "1g.10gb+me")
ANY = DeviceKind("")
ANY_SLICE = DeviceKind("", "1g.10gb")
YES, PERHAPS, NO = Match


def selector(**lists):
    """A selector of globs as administrators write them."""
    read = {field: tuple(sorted({GLOBS[field].read(text) for text in lists.get(field, ())})) for field in GLOBS}
    return Selector(read["products"], read["profiles"], read["priorityClasses"])


@pytest.mark.parametrize("kind", [H100, SLICE, ANY])
@pytest.mark.parametrize("priority_class", ["", "batch", None])
def test_without_lists_everything_counts(kind, priority_class):
    assert EVERYTHING.match(kind, priority_class) is YES


@pytest.mark.parametrize(
    ("globs", "kind", "expected"),
    [
        (["NVIDIA-H100-*"], H100, YES),
        (["H100-*"], H100, YES),
        (["nvidia h100 80gb hbm3"], H100, YES),
        (["H100"], H100, NO),
        (["*H100*"], T4, NO),
        (["A100*", "Tesla-T4"], T4, YES),
        (["NVIDIA-Tesla-T4"], T4, YES),
        (["H???-*"], SLICE, YES),
        (["H100-*"], ANY, PERHAPS),
        (["*"], ANY, PERHAPS),
    ],
)
def test_products_match_by_globs(globs, kind, expected):
    assert selector(products=globs).match(kind, "") is expected


@pytest.mark.parametrize(
    ("globs", "kind", "expected"),
    [
        (["1g.*"], SLICE, YES),
        (["1g.*"], MEDIA, YES),
        (["1g.10gb"], SLICE, YES),
        (["1g.10gb"], MEDIA, NO),
        (["1g.10gb+me"], MEDIA, YES),
        (["1g.10gb.me"], MEDIA, YES),
        (["1G.10GB+ME"], MEDIA, YES),
        (["*+me"], SLICE, NO),
        (["2g.*", "1g.*"], SLICE, YES),
        (["1g.*"], ANY_SLICE, YES),
        (["*"], H100, NO),
        (["*"], ANY, NO),
    ],
)
def test_profiles_match_slices_only(globs, kind, expected):
    assert selector(profiles=globs).match(kind, "") is expected


@pytest.mark.parametrize(
    ("globs", "name", "expected"),
    [
        (["batch"], "batch", YES),
        (["batch-*"], "batch", NO),
        (["batch"], "", NO),
        (["*"], "", YES),
        (["?*"], "", NO),
        (["batch"], None, PERHAPS),
    ],
)
def test_priority_classes_match_by_globs(globs, name, expected):
    assert selector(priorityClasses=globs).match(H100, name) is expected


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (SLICE, "batch", YES),
        (SLICE, "high", NO),
        (SLICE, None, PERHAPS),
        (H100, "batch", NO),
        (ANY_SLICE, "batch", PERHAPS),
        (ANY_SLICE, "high", NO),
        (ANY, None, NO),
    ],
)
def test_all_lists_must_match(kind, name, expected):
    chosen = selector(products=["H100*"], profiles=["1g.*"], priorityClasses=["batch"])
    assert chosen.match(kind, name) is expected


KINDS = st.builds(DeviceKind, st.sampled_from(["NVIDIA-H100-80GB-HBM3", "Tesla-T4"]), st.sampled_from(["", "1g.10gb"]))
LISTS = st.fixed_dictionaries(
    {},
    optional={
        "products": st.lists(st.sampled_from(["*", "H100*", "T4", "Tesla-?4"]), min_size=1),
        "profiles": st.lists(st.sampled_from(["*", "1g.*", "2g.*"]), min_size=1),
        "priorityClasses": st.lists(st.sampled_from(["*", "batch", "b*"]), min_size=1),
    },
)


@given(LISTS, KINDS, st.sampled_from(["", "batch", "high"]))
def test_what_is_not_known_is_never_ruled_out_by_mistake(lists, kind, name):
    """Whoever knows less may say "perhaps", but no other answer than who knows all."""
    chosen = selector(**lists)
    known = chosen.match(kind, name)
    assert known is not PERHAPS
    for less, unsure in ((kind, None), (DeviceKind("", kind.profile), name), (DeviceKind("", kind.profile), None)):
        assert chosen.match(less, unsure) in (known, PERHAPS)
