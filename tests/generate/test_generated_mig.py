"""MIG layouts for every product that MIG divides: no review finds anything, and the GPUs have room."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.analyses.generate.documents import GenerationError, Target
from policies.analyses.generate.node_configurations import generate_mig
from policies.nvidia.mig import Geometry, MIGProfile
from policies.nvidia.mig_layouts import find_layouts
from policies.nvidia.mig_products import PRODUCTS, product_named
from policies.nvidia.products import KNOWN_PRODUCTS
from testbed import libyaml
from tests.generate.applied_objects import commands
from tests.properties import examples

OPERATOR = Target("gpu-operator")
LABELS = [label for label in KNOWN_PRODUCTS if product_named(label)]
PROFILES = [
    (label, name, count)
    for label in {product_named(label): label for label in LABELS}.values()
    for match in Geometry(product_named(label).memory[0], product_named(label).layout).matches
    for name, count in ((str(match.profile), count) for count in range(1, match.most + 1))
]
FILTERED = {"nvidia.com/mig.capable": "true"}


def generated_config(generated):
    """The configuration that the label selects, and its name."""
    ((*_, pair),) = [command for command in commands(generated) if command[1] == "label"]
    name = pair.partition("=")[2]
    configs = libyaml.load(generated.document["data"]["config.yaml"])["mig-configs"]
    assert set(configs) == {"all-disabled", name}
    assert configs["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
    return configs[name], name


@pytest.mark.parametrize(("label", "name", "count"), PROFILES)
def test_review_finds_nothing_in_one_profile(applied, label, name, count):
    generated = generate_mig(label, f"{name}={count}", None, OPERATOR)
    assert not any(applied(generated, label, **FILTERED))


@pytest.mark.parametrize("label", LABELS)
def test_review_finds_nothing_in_two_profiles(applied, label):
    for one, other in itertools.combinations(product_named(label).profiles(), 2):
        geometry = Geometry(product_named(label).memory[0], product_named(label).layout)
        if find_layouts(geometry, {MIGProfile.parse(one): 1, MIGProfile.parse(other): 1}, 1):
            generated = generate_mig(label, f"{one}=1,{other}=1", None, OPERATOR)
            assert not any(applied(generated, label, **FILTERED)), (one, other)


wanted = st.sampled_from(LABELS).flatmap(
    lambda label: st.tuples(
        st.just(label),
        st.dictionaries(st.sampled_from(product_named(label).profiles()), st.integers(1, 9), min_size=1),
        st.one_of(st.none(), st.integers(1, 16)),
    )
)


def generated_or_refused(label, want, gpus):
    """What is generated, or the sentence that says why nothing is."""
    try:
        return generate_mig(label, want, gpus, OPERATOR), ""
    except GenerationError as error:
        return None, str(error)


@given(wanted)
@settings(max_examples=examples(150))
def test_configuration_has_exactly_what_was_wanted_or_the_sentence_says_what_fits(case):
    label, counts, gpus = case
    want = ",".join(f"{name}={count}" for name, count in counts.items())
    generated, sentence = generated_or_refused(label, want, gpus)
    if sentence:
        fits = sentence.partition("; ")[2].partition(" fits")[0]
        assert generate_mig(label, fits, gpus, OPERATOR)
    if generated is None or generated.document is None:
        return
    entries, _ = generated_config(generated)
    total = {}
    for entry in entries:
        number = 1 if entry["devices"] == "all" else len(entry["devices"])
        for name, count in entry.get("mig-devices", {}).items():
            total[name] = total.get(name, 0) + count * number
    assert total == counts
    if gpus is not None:
        assert sorted(number for entry in entries for number in entry["devices"]) == list(range(gpus))


@pytest.mark.parametrize("label", LABELS)
def test_review_would_find_a_mistake(applied, label):
    generated = generate_mig(label, f"{product_named(label).profiles()[0]}=2", None, OPERATOR)
    data = generated.document["data"]
    data["config.yaml"] = data["config.yaml"].replace('": 2', '": 9')
    assert all("[GA151]" in str(found) for found in applied(generated, label, **FILTERED)[:3])


def test_review_finds_nothing_in_layouts_over_several_gpus(applied):
    for gpus in range(2, 9):
        generated = generate_mig("H100-80GB-HBM3", f"1g.10gb={5 * gpus},2g.20gb=1,3g.40gb=1", gpus + 1, OPERATOR)
        assert not any(applied(generated, "NVIDIA-H100-80GB-HBM3", **FILTERED))


def test_layout_over_several_gpus_leaves_the_rest_whole():
    generated = generate_mig("A100-80GB", "1g.10gb=9,3g.40gb=1", 4, OPERATOR)
    entries, name = generated_config(generated)
    assert (entries, name) == (
        [
            {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.40gb": 1, "1g.10gb": 4}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 5}},
            {"devices": [2, 3], "mig-enabled": False},
        ],
        "1x3g.40gb-9x1g.10gb-on-4-gpus",
    )
    assert generated.remarks[0] == "4 A100 80GB of a node have 3g.40gb=1,1g.10gb=9 together; 2 GPUs stay whole."


@pytest.mark.parametrize(
    ("product", "want", "name"),
    [
        ("H100", "1g.10gb=7", "all-1g.10gb"),
        ("H100", "1g.10gb+me=1", "all-1g.10gb.me"),
        ("A30", "1g.6gb=2,2g.12gb=1", "all-balanced"),
        ("H200", "3g.71gb=1,2g.35gb=1,1g.18gb=2", "all-balanced"),
        ("RTX PRO 6000", "1g.24gb-me=4", "all-1g.24gb-me"),
        ("GB200", "3g.95gb=2", "all-3g.95gb"),
    ],
)
def test_shipped_configuration_needs_no_config_map(product, want, name):
    generated = generate_mig(product, want, None, OPERATOR)
    patch, label = commands(generated)
    assert generated.document is None
    assert (json.loads(patch[-1]), label[-1]) == (
        {"spec": {"mig": {"strategy": "mixed"}}},
        f"nvidia.com/mig.config={name}",
    )


def test_product_is_the_one_with_the_profiles():
    generated = generate_mig("GH200", "1g.18gb=1", None, OPERATOR)
    assert generated.remarks[0].startswith("Each GH200 144GB of a node has 1g.18gb=1.")


def test_names_of_other_drivers_are_corrected():
    generated = generate_mig("H100-NVL", "1g.11gb=3", None, OPERATOR)
    assert generated.remarks[1:] == ("1g.11gb is called 1g.12gb on H100 NVL.",)
    assert generated_config(generated)[0][0]["mig-devices"] == {"1g.12gb": 3}


@pytest.mark.parametrize("name", ["nvidia.com/mig-1g.10gb.me", "mig-1g.10gb.me", "1G.10GB+me"])
def test_names_of_resources_are_read(name):
    assert (
        generate_mig("H100", f"{name}=1,1g.10gb=1", None, OPERATOR)
        .remarks[0]
        .startswith("Each H100 80GB of a node has 1g.10gb=1,1g.10gb+me=1.")
    )


def test_too_many_ways_to_try_are_said(monkeypatch):
    monkeypatch.setattr("policies.nvidia.mig_layouts._MOST_STEPS", 1)
    with pytest.raises(GenerationError) as caught:
        generate_mig("H100", "4g.40gb=1,2g.20gb=5", 2, OPERATOR)
    assert str(caught.value) == (
        "can be distributed over 2 GPUs in too many ways to try them all; write fewer profiles, or fewer GPUs"
    )


def test_long_name_of_a_configuration_is_shortened():
    want = ",".join(f"{name}=1" for name in product_named("H200").profiles())
    assert generated_config(generate_mig("H200", want, 8, OPERATOR))[1] == "custom-h200"


@pytest.mark.parametrize(
    ("product", "want", "gpus", "option", "error"),
    [
        (
            "H100",
            "3g.40gb=1,1g.10gb=5",
            None,
            "--want",
            (
                "is 3g.40gb=1,1g.10gb=5, which does not fit on one H100 80GB: it needs 9 of 8 memory slices; "
                "3g.40gb=1,1g.10gb=4 fits, and all of it fits on 2 GPUs: --gpus 2"
            ),
        ),
        (
            "A30",
            "1g.6gb=40",
            8,
            "--want",
            (
                "is 1g.6gb=40, which does not fit on 8 A30: it needs 40 of 32 possible 1g.6gb; 1g.6gb=32 fits, and all of "
                "it fits on 10 GPUs: --gpus 10"
            ),
        ),
        (
            "A30",
            "4g.24gb=17",
            16,
            "--want",
            "is 4g.24gb=17, which does not fit on 16 A30: it needs 17 of 16 possible 4g.24gb; 4g.24gb=16 fits",
        ),
        (
            "H100-NVL",
            "1g.5gb=1",
            None,
            "--want",
            (
                "has 1g.5gb, which H100 NVL does not have; its profiles: "
                "1g.12gb, 1g.12gb+me, 1g.24gb, 2g.24gb, 3g.47gb, 4g.47gb, 7g.94gb"
            ),
        ),
        (
            "GH200",
            "1g.12gb=1,1g.18gb=1",
            None,
            "--want",
            (
                "has 1g.12gb and 1g.18gb, which no single one of these GPUs has: H100 96GB has 1g.12gb, 1g.12gb+me, "
                "1g.24gb, 2g.24gb, 3g.48gb, 4g.48gb, 7g.96gb; GH200 144GB has 1g.18gb, 1g.18gb+me, 1g.36gb, 2g.36gb, "
                "3g.72gb, 4g.72gb, 7g.144gb"
            ),
        ),
        (
            "H100,A100-80GB",
            "1g.10gb=1",
            None,
            "--product",
            (
                "can be A100 80GB (NVIDIA-A100-80GB-PCIe) or H100 80GB (NVIDIA-H100-PCIe); write one of the names in "
                "brackets"
            ),
        ),
        (
            "T4",
            "1g.10gb=1",
            None,
            "--product",
            (f"is Tesla-T4, which MIG does not divide; it divides {', '.join(product.name for product in PRODUCTS)}"),
        ),
        (
            "H100",
            "1g.10gb",
            None,
            "--want",
            'has "1g.10gb", which is not PROFILE=COUNT; write a list such as "1g.10gb=3,3g.40gb=1"',
        ),
        ("H100", "", None, "--want", 'has "", which is not PROFILE=COUNT; write a list such as "1g.10gb=3,3g.40gb=1"'),
        ("H100", "big=1", None, "--want", 'has "big", which is not a MIG profile; write one such as "1g.10gb"'),
        ("H100", "1g.10gb=0", None, "--want", "has 0 of 1g.10gb; write a number from 1 to 112"),
        ("H100", "1g.10gb=113", None, "--want", "has 113 of 1g.10gb; write a number from 1 to 112"),
        ("H100", "1g.10gb=1,1g.10gb=2", None, "--want", "has 1g.10gb twice; write it once, with the sum"),
        (
            "H100",
            "1c.3g.40gb=1",
            None,
            "--want",
            'has 1c.3g.40gb, which is a part of a GPU instance; write "3g.40gb"',
        ),
        ("H100", "1g.10gb=1", 0, "--gpus", "is 0; write a number from 1 to 16"),
        ("H100", "1g.10gb=1", 17, "--gpus", "is 17; write a number from 1 to 16"),
    ],
)
def test_what_is_impossible_is_refused_with_the_reason(product, want, gpus, option, error):
    with pytest.raises(GenerationError) as caught:
        generate_mig(product, want, gpus, OPERATOR)
    assert (caught.value.option, str(caught.value)) == (option, error)
