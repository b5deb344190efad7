"""mig-parted on a layout: its parse errors, its apply errors, the MIG devices and modes of each GPU."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.mig import AMPERE, AMPERE_SMALL, BLACKWELL_GRAPHICS, Geometry, MIGProfile
from policies.nvidia.mig_configs import Entry
from policies.nvidia.mig_layouts import gpu_instances, place
from policies.nvidia.mig_parted import GPUModel, GPUState, apply_entries, entry_errors
from tests.mig_parted_runs import GPUS, HARDWARE, PREFIX, measured_runs

A100, A30, T4 = (HARDWARE[name].model for name in ("A100-SXM4-40GB", "A30-PCIE-24GB", "NONE"))
ORDERINGS = "error attempting multiple config orderings: all orderings failed"
DISABLED = "unable to apply MIG config with MIG mode disabled"
ENABLED = "MIG mode is currently enabled, but the configuration specifies it should be disabled"


def entries(*fields):
    return [Entry("mine", index, each) for index, each in enumerate(fields)]


def on(devices="all", **counts):
    return {"devices": devices, "mig-enabled": True, "mig-devices": counts}


def off(devices="all"):
    return {"devices": devices, "mig-enabled": False}


def state(is_mig_enabled=True, **counts):
    return GPUState(is_mig_enabled, {MIGProfile.parse(name): count for name, count in counts.items()})


def made(applied):
    """The devices of each GPU by name, or None where MIG is disabled."""
    return [
        {str(profile): count for profile, count in each.devices.items()} if each.is_mig_enabled else None
        for each in applied.states
    ]


@pytest.mark.parametrize("run", measured_runs())
def test_layout_is_read_as_by_mig_parted(run):
    words = [error.words for fields in run.document for error in entry_errors(fields)]
    assert (run.parse.removeprefix(PREFIX) in words) if run.parse else (words == [])


@pytest.mark.parametrize("run", measured_runs(lambda run: not run.parse and run.apply))
def test_layout_fails_as_in_mig_parted(run):
    applied = apply_entries(entries(*run.document), [run.hardware.model] * GPUS)
    assert applied.error is not None
    assert run.apply.endswith(applied.error.words)


@pytest.mark.parametrize("run", measured_runs(lambda run: not run.parse and not run.apply))
def test_layout_is_applied_as_by_mig_parted(run):
    applied = apply_entries(entries(*run.document), [run.hardware.model] * GPUS)
    assert applied.error is None
    assert [each.is_mig_enabled for each in applied.states] == [mode == 1 for mode in run.modes]
    assert [each or {} for each in made(applied)] == run.devices


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("1g5gb", "cannot parse fields of '1g5gb': parsed wrong number of fields, expected 2 or 3"),
        ("1g.5gb.me", "cannot parse fields of '1g.5gb.me': missing 'c' from '%dc'"),
        ("1G.5GB", "cannot parse fields of '1G.5GB': missing 'g' from '%dg'"),
        (" 1g.5gb", "cannot parse fields of ' 1g.5gb': leading or trailing spaces on '%dg'"),
        ("xg.5gb", "cannot parse fields of 'xg.5gb': malformed number in '%dg'"),
        ("", "profile is the empty string"),
        ("1g.5gb+me-gfx", "profile '1g.5gb+me-gfx' contains both '+/-' attributes"),
        ("1g.5gb+", "cannot parse attributes of '1g.5gb+': empty attribute in list"),
        ("1g.5gb+me,me", "cannot parse attributes of '1g.5gb+me,me': non unique attribute in list"),
        ("1g.5gb+1", "cannot parse attributes of '1g.5gb+1': attribute begins with a number"),
        ("1g.5gb+me.", "cannot parse attributes of '1g.5gb+me.': attribute begins/ends with a dot"),
        ("1g.5gb+m e", "cannot parse attributes of '1g.5gb+m e': non alpha-numeric character or digit in attribute"),
        ("1g.5gb+me, gfx", "cannot parse attributes of '1g.5gb+me, gfx': leading or trailing spaces in attribute"),
    ],
)
def test_text_without_the_form_of_a_profile_is_refused(profile, words):
    (error,) = entry_errors(on(**{profile: 1}))
    assert error.words == f"error validating values in 'mig-devices' field: invalid format for '{profile}': {words}"


@pytest.mark.parametrize(
    "fields",
    [
        on(),
        on(**{"1g.5gb": 2, "2g.10gb": 0}),
        on(**{"1g.5gb": 7.0, "2g.10gb": None}),
        on(**{"01g.5gb": 1, "0c.3g.20gb": 1, "1g.5gb+ME": 1, "9g.99999gb": 1}),
        on([0, None, 2.0], **{"1g.5gb": 1}),
        {**off(), "mig-enabled": None, "device-filter": None},
        {**off(), "device-filter": [None, "T4"]},
        {**off(), "mig-devices": {}},
    ],
)
def test_what_mig_parted_can_read_has_no_error(fields):
    assert list(entry_errors(fields)) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([on(**{"1g.5gb": 7}), on([1], **{"2g.10gb": 3})], [{"1g.5gb": 7}, {"2g.10gb": 3}, {"1g.5gb": 7}]),
        ([on([1], **{"2g.10gb": 3}), on(**{"1g.5gb": 7})], [{"1g.5gb": 7}] * 3),
        ([on([0, 0, 8], **{"1g.5gb": 7})], [{"1g.5gb": 7}, None, None]),
        ([on([], **{"1g.5gb": 7})], [None] * 3),
        ([on([-1], **{"1g.5gb": 7})], [None] * 3),
        ([on()], [{}] * 3),
        ([off(), on([0])], [{}, None, None]),
        ([on(**{"1g.5gb": 2, "1g.99gb": 1})], [{}] * 3),
        ([on(**{"1g.5gb": 2, "1g.99gb": 0})], [{}] * 3),
        ([on(**{"3g.21gb": 2})], [{}] * 3),
        ([on(**{"01g.5gb": 2, "1c.1g.5gb": 1})], [{"1g.5gb": 3}] * 3),
        ([on(**{"1c.3g.20gb": 2, "2c.3g.20gb": 2})], [{"1c.3g.20gb": 2, "2c.3g.20gb": 2}] * 3),
        ([on(**{"3c.4g.20gb": 1})], [{}] * 3),
        ([{**on(**{"1g.5gb": 7}), "device-filter": ["0x20b010de"]}], [{"1g.5gb": 7}] * 3),
        ([{**on(**{"1g.5gb": 7}), "device-filter": "A100"}], [None] * 3),
        ([{**on(**{"1g.5gb": 7}), "device-filter": ""}], [{"1g.5gb": 7}] * 3),
        ([{**on(**{"1g.5gb": 7}), "device-filter": [""]}], [None] * 3),
    ],
)
def test_devices_are_made_as_the_entries_say(fields, expected):
    applied = apply_entries(entries(*fields), [A100] * 3)
    assert (applied.error, made(applied)) == (None, expected)


@pytest.mark.parametrize(
    ("fields", "gpu", "words", "shortage"),
    [
        ([on(**{"1g.5gb": 8})], 0, ORDERINGS, "8 of 7 possible 1g.5gb"),
        ([on(**{"3g.20gb": 2, "1g.5gb": 1})], 0, ORDERINGS, "9 of 8 memory slices"),
        ([on([2], **{"1g.5gb+me": 2})], 2, ORDERINGS, "2 of 1 possible 1g.5gb+me"),
        ([on(**{"1c.3g.20gb": 7})], 0, ORDERINGS, "3 of 2 possible 3g.20gb"),
        ([on(**{"1g.5gb": 7}), off([1])], 1, DISABLED, ""),
        ([off([1]), on(**{"1g.5gb": 7})], 1, ENABLED, ""),
        ([off([0]), on([0])], 0, ENABLED, ""),
    ],
)
def test_failure_has_the_words_of_mig_parted(fields, gpu, words, shortage):
    error = apply_entries(entries(*fields), [A100] * 3).error
    assert (error.gpu, error.words, error.shortage) == (gpu, words, shortage)


def test_profile_that_no_gpu_has_is_ignored_with_its_entry():
    applied = apply_entries(entries(on([0], **{"1g.5gb": 2, "1g.9gb": 1}), on([1], **{"1g.5gb": 7})), [A100] * 2)
    assert (applied.ignored, made(applied)) == ({0: ("1g.9gb",)}, [{}, {"1g.5gb": 7}])


def test_profile_that_no_gpu_has_is_not_reported_if_a_later_entry_counts():
    applied = apply_entries(entries(on(**{"1g.9gb": 1}), on(**{"1g.5gb": 7})), [A100] * 2)
    assert (applied.ignored, made(applied)) == ({}, [{"1g.5gb": 7}] * 2)


def test_profile_that_only_another_gpu_has_makes_it_fail():
    applied = apply_entries(entries(on(**{"1g.5gb": 7})), [A100, A30])
    assert (applied.error.gpu, applied.error.shortage, made(applied)) == (1, "the profile 1g.5gb", [{"1g.5gb": 7}, {}])


def test_filters_tell_the_gpus_of_a_node_apart():
    layouts = [{**on(**{profile: 4}), "device-filter": device} for profile, device in FILTERED.items()]
    assert made(apply_entries(entries(*layouts), [A100, A30, A30])) == [{"1g.5gb": 4}, {"1g.6gb": 4}, {"1g.6gb": 4}]


FILTERED = {"1g.5gb": ["0x20B010DE", "0x20B110DE"], "1g.6gb": "0x20B710DE"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (on(**{"1g.5gb": 7}), None),
        (off([0]), None),
        (on([0], **{"1g.5gb": 7}), "cannot set MIG mode on non MIG-capable GPU"),
    ],
)
def test_gpu_that_mig_cannot_cut_is_skipped_unless_it_is_named(fields, words):
    applied = apply_entries(entries(fields), [T4, A100])
    assert (applied.error and applied.error.words, applied.states[0]) == (words, GPUState())


def test_gpus_that_no_entry_is_for_keep_what_they_have():
    before = [state(**{"3g.20gb": 2}), state(**{"1g.5gb": 7}), state(False)]
    applied = apply_entries(entries(on([1], **{"2g.10gb": 3})), [A100] * 3, before)
    assert made(applied) == [{"3g.20gb": 2}, {"2g.10gb": 3}, None]


def test_failure_leaves_the_other_gpus_as_they_are():
    before = [state(**{"3g.20gb": 2}), state(**{"1g.5gb": 7})]
    applied = apply_entries(entries(on(**{"3g.20gb": 3})), [A100] * 2, before)
    assert made(applied) == [{}, {"1g.5gb": 7}]


def test_configuration_that_is_applied_already_changes_nothing():
    before = [state(**{"1g.5gb": 7}), state(False)]
    contradicting = entries(on([0], **{"1g.5gb": 7}), off([1]))
    assert apply_entries(contradicting, [A100] * 2, before).states == tuple(before)


geometries = st.builds(Geometry, st.integers(16, 300), st.sampled_from([AMPERE, AMPERE_SMALL, BLACKWELL_GRAPHICS]))


@st.composite
def layouts(draw):
    """A geometry and some of its profiles, GPU instances and compute instances, with small counts."""
    geometry = draw(geometries)
    names = [str(match.profile) for match in geometry.matches]
    names += [f"{c}c.{name}" for name, c in itertools.product(names, (1, 2, 3)) if 2 * c <= int(name[0]) + 1]
    return geometry, draw(st.dictionaries(st.sampled_from(names), st.integers(0, 4), min_size=1, max_size=4))


@given(layouts())
def test_what_is_applied_is_what_is_written_and_has_a_place(case):
    geometry, counts = case
    applied = apply_entries(entries(on(**counts)), [GPUModel(geometry)])
    (result,) = applied.states
    wanted = entries(on(**counts))[0].counts
    assert dict(result.devices) == ({} if applied.error else wanted)
    assert (place(geometry, gpu_instances(geometry, wanted)) is None) == (applied.error is not None)


@given(layouts(), st.randoms())
def test_order_of_profiles_does_not_matter(case, random):
    geometry, counts = case
    shuffled = dict(random.sample(list(counts.items()), len(counts)))
    first, second = (apply_entries(entries(on(**each)), [GPUModel(geometry)]) for each in (counts, shuffled))
    assert (first.states, first.error is None) == (second.states, second.error is None)


@given(layouts())
def test_applying_again_changes_nothing(case):
    geometry, counts = case
    first = apply_entries(entries(on(**counts)), [GPUModel(geometry)])
    again = apply_entries(entries(on(**counts)), [GPUModel(geometry)], first.states)
    assert again.states == first.states
