"""Wishes become conditions on the labels of GPU Feature Discovery."""

import pytest

from policies.kubernetes.selectors import NodeRequirement
from policies.nvidia.mig import parse_resource
from policies.nvidia.products import KNOWN_PRODUCTS
from policies.nvidia.wishes import Wish
from policies.placement.wish_labels import alternatives, seen_products

GPU, MIG, SHARED_GPU = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"
PRODUCT = "nvidia.com/gpu.product"
H100 = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-NVL", "NVIDIA-H100-PCIe")


def conditions(words, resource=GPU, seen=()):
    """The alternatives for a wish, each as the texts of its requirements."""
    key = f"{resource.removesuffix('.shared')}.product"
    branches = alternatives(Wish.of(words), parse_resource(resource), {key: frozenset(seen)})
    return [[str(requirement) for requirement in branch] for branch in branches]


def values(words, resource=GPU, seen=()):
    """The values of the only requirement that a wish for products becomes."""
    key = f"{resource.removesuffix('.shared')}.product"
    ((requirement,),) = alternatives(Wish.of(words), parse_resource(resource), {key: frozenset(seen)})
    assert (requirement.key, requirement.operator) == (key, "In")
    return requirement.values


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, [[]]),
        ({"sharing": "any"}, [[]]),
        ({"product": "NVIDIA-GB200"}, [["nvidia.com/gpu.product In [NVIDIA-GB200]"]]),
        ({"min-memory": "40Gi"}, [["nvidia.com/gpu.memory Gt 40959"]]),
        ({"max-memory": "40Gi"}, [["nvidia.com/gpu.memory Lt 40961"]]),
        (
            {"min-memory": "40Gi", "max-memory": "80Gi"},
            [["nvidia.com/gpu.memory Gt 40959", "nvidia.com/gpu.memory Lt 81921"]],
        ),
        ({"family": "hopper,ada-lovelace"}, [["nvidia.com/gpu.family In [ada-lovelace, hopper]"]]),
        ({"min-compute-capability": "9"}, [["nvidia.com/gpu.compute.major Gt 8"]]),
        (
            {"min-compute-capability": "8.6"},
            [
                ["nvidia.com/gpu.compute.major Gt 8"],
                ["nvidia.com/gpu.compute.major In [8]", "nvidia.com/gpu.compute.minor Gt 5"],
            ],
        ),
        ({"min-driver": "580"}, [["nvidia.com/cuda.driver-version.major Gt 579"]]),
        (
            {"min-driver": "550.05.15"},
            [
                ["nvidia.com/cuda.driver-version.major Gt 550"],
                ["nvidia.com/cuda.driver-version.major In [550]", "nvidia.com/cuda.driver-version.minor Gt 5"],
                [
                    "nvidia.com/cuda.driver-version.major In [550]",
                    "nvidia.com/cuda.driver-version.minor In [05, 5]",
                    "nvidia.com/cuda.driver-version.revision Gt 14",
                ],
            ],
        ),
        (
            {"min-cuda": "12.4"},
            [
                ["nvidia.com/cuda.runtime-version.major Gt 12"],
                ["nvidia.com/cuda.runtime-version.major In [12]", "nvidia.com/cuda.runtime-version.minor Gt 3"],
            ],
        ),
        ({"sharing": "exclusive"}, [["nvidia.com/gpu.sharing-strategy In [none]"]]),
        ({"sharing": "shared"}, [["nvidia.com/gpu.sharing-strategy In [mps, time-slicing]"]]),
        ({"min-memory": "80Gi", "max-memory": "40Gi"}, []),
    ],
    ids=lambda value: ",".join(f"{word}={text}" for word, text in value.items()) if isinstance(value, dict) else "",
)
def test_words_become_conditions(words, expected):
    assert conditions(words) == expected


def test_words_are_all_required():
    assert conditions({"family": "hopper", "min-compute-capability": "9.1", "sharing": "exclusive"}) == [
        [
            "nvidia.com/gpu.family In [hopper]",
            "nvidia.com/gpu.compute.major Gt 9",
            "nvidia.com/gpu.sharing-strategy In [none]",
        ],
        [
            "nvidia.com/gpu.family In [hopper]",
            "nvidia.com/gpu.compute.major In [9]",
            "nvidia.com/gpu.compute.minor Gt 0",
            "nvidia.com/gpu.sharing-strategy In [none]",
        ],
    ]


def test_mig_device_by_profile_is_described_by_labels_of_its_own():
    words = {"product": "A100*", "min-memory": "4Gi", "family": "ampere", "sharing": "exclusive"}
    assert conditions(words, MIG) == [
        [
            "nvidia.com/mig-1g.5gb.product In [NVIDIA-A100-PCIE-40GB-MIG-1g.5gb, NVIDIA-A100-SXM4-40GB-MIG-1g.5gb]",
            "nvidia.com/gpu.family In [ampere]",
            "nvidia.com/mig-1g.5gb.memory Gt 4095",
            "nvidia.com/mig-1g.5gb.sharing-strategy In [none]",
        ]
    ]


@pytest.mark.parametrize("text", ["H100*", "h100*", "NVIDIA-H100*", "nvidia h100*", "*H100-*,H100*"])
def test_glob_becomes_the_products_known(text):
    assert values({"product": text}) == H100


def test_glob_becomes_the_products_seen_too():
    seen = ["NVIDIA-H100-Custom", "NVIDIA-H100-80GB-HBM3-SHARED", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "Tesla-T4"]
    assert values({"product": "H100*"}, seen=seen) == tuple(sorted([*H100, *seen[:3]]))


def test_product_without_brand_is_the_product_of_older_drivers():
    assert values({"product": "NVIDIA-A100-SXM4-40GB"}, seen=["A100-SXM4-40GB"]) == (
        "A100-SXM4-40GB",
        "NVIDIA-A100-SXM4-40GB",
    )


def test_excluded_products_are_left_out():
    assert values({"product": "H100*,!*PCIe,!*MIG*"}, seen=["NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"]) == H100[:2]


def test_mig_devices_of_an_excluded_gpu_are_left_out():
    seen = ["NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"]
    assert values({"product": "A100-SXM4*,!*40GB"}, seen=seen) == ("NVIDIA-A100-SXM4-80GB", seen[1])
    assert values({"product": "A100-SXM4-?0GB-MIG*,!*40GB"}, seen=seen) == (seen[1],)
    ((_, excluded),) = alternatives(
        Wish.of({"product": "!*SXM4-40GB"}), parse_resource(GPU), {PRODUCT: frozenset(seen)}
    )
    assert seen[0] in excluded.values
    assert seen[1] not in excluded.values


def test_node_with_misconfigured_mig_devices_is_never_wanted():
    assert values({"product": "H100*"}, seen=["NVIDIA-H100-80GB-HBM3-MIG-INVALID"]) == H100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R100", ("NVIDIA-R100", "R100")),
        ("R100*", ("NVIDIA-R100", "R100")),
        ("A30?", ("A30x", "NVIDIA-A30x")),
        ("R100,H100-PCIe", ("NVIDIA-H100-PCIe", "NVIDIA-R100", "R100")),
    ],
)
def test_pattern_that_nothing_is_known_of_is_waited_for_by_its_own_name(text, expected):
    assert values({"product": text}) == expected


def test_pattern_of_mig_devices_is_waited_for_by_the_known_ones():
    assert values({"product": "A100-SXM4-40GB-MIG-1g*"}) == (
        "NVIDIA-A100-SXM4-40GB-MIG-1g.10gb",
        "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb.me",
    )


def test_mig_pattern_that_nothing_is_known_of_is_waited_for_by_its_own_name():
    assert values({"product": "R100"}, MIG) == ("NVIDIA-R100-MIG-1g.5gb", "R100-MIG-1g.5gb")


def test_name_that_no_label_can_have_is_never_found():
    assert conditions({"product": "R100_"}) == []


def test_excluded_names_are_not_waited_for():
    assert conditions({"product": "R100,!R*"}) == []


@pytest.mark.parametrize(
    ("sharing", "resource", "expected"),
    [
        ("exclusive", GPU, ("Tesla-T4",)),
        ("shared", GPU, ("Tesla-T4-SHARED",)),
        ("any", GPU, ("Tesla-T4", "Tesla-T4-SHARED")),
        ("shared", SHARED_GPU, ("Tesla-T4",)),
        ("any", SHARED_GPU, ("Tesla-T4",)),
    ],
)
def test_product_has_the_suffix_of_shared_gpus_as_the_wish_has_it(sharing, resource, expected):
    wish = Wish.of({"product": "Tesla-T4", "sharing": sharing})
    seen = {PRODUCT: frozenset({"Tesla-T4", "Tesla-T4-SHARED"})}
    requirement = alternatives(wish, parse_resource(resource), seen)[0][0]
    assert (requirement.key, requirement.values) == (PRODUCT, expected)


def test_shared_gpus_of_known_products_are_waited_for():
    wish = Wish.of({"product": "Tesla-T4", "sharing": "shared"})
    assert alternatives(wish, parse_resource(GPU), {})[0][0].values == ("Tesla-T4-SHARED",)


def test_unseen_shared_gpus_are_admitted_if_sharing_does_not_matter():
    any_t4 = {"product": "*T4*", "sharing": "any"}
    assert values(any_t4) == ("Tesla-T4", "Tesla-T4-SHARED")
    assert values(any_t4, seen=["Tesla-T4G"]) == ("Tesla-T4", "Tesla-T4-SHARED", "Tesla-T4G", "Tesla-T4G-SHARED")
    assert values({"product": "*T4*"}, seen=["Tesla-T4G"]) == ("Tesla-T4", "Tesla-T4G")
    assert values({"product": "R100", "sharing": "any"}) == (
        "NVIDIA-R100",
        "NVIDIA-R100-SHARED",
        "R100",
        "R100-SHARED",
    )
    assert values({"product": "A30", "sharing": "any"}, "nvidia.com/mig-1g.6gb") == (
        "NVIDIA-A30-MIG-1g.6gb",
        "NVIDIA-A30-MIG-1g.6gb-SHARED",
    )


def test_shared_gpus_of_products_that_were_seen_alone_are_waited_for():
    wish = Wish.of({"product": "*T4G", "sharing": "shared"})
    seen = {PRODUCT: frozenset({"Tesla-T4G"})}
    assert alternatives(wish, parse_resource(GPU), seen)[0][0].values == ("Tesla-T4G-SHARED",)


def test_what_is_only_excluded_is_listed():
    assert conditions({"product": "!*T4*"}, seen=["Tesla-T4-Custom"]) == [
        [
            "nvidia.com/gpu.product Exists",
            ("nvidia.com/gpu.product NotIn [Tesla-T4, Tesla-T4-Custom, Tesla-T4-Custom-SHARED, Tesla-T4-SHARED]"),
        ]
    ]


def test_star_beside_exclusions_includes_everything_else():
    assert conditions({"product": "*,!*T4*"}) == conditions({"product": "!*T4*"})


def test_exclusive_wish_need_not_list_shared_gpus():
    ((_, excluded, _),) = alternatives(
        Wish.of({"product": "!*T4*", "sharing": "exclusive"}), parse_resource(GPU), {PRODUCT: frozenset({"Tesla-T4"})}
    )
    assert excluded == NodeRequirement(PRODUCT, "NotIn", ("Tesla-T4",))


def test_all_mig_devices_are_excluded_by_the_label_that_only_they_have():
    assert conditions({"product": "!*MIG*"}, seen=["NVIDIA-A30-MIG-1g.6gb", "NVIDIA-A30"]) == [
        ["nvidia.com/gpu.product Exists", "nvidia.com/gpu.slices.gi DoesNotExist"]
    ]


def test_some_mig_devices_are_excluded_by_listing_them():
    assert conditions({"product": "!A30-MIG*"}, seen=["NVIDIA-A30-MIG-1g.6gb", "NVIDIA-A30"]) == [
        [
            "nvidia.com/gpu.product Exists",
            "nvidia.com/gpu.product NotIn [NVIDIA-A30-MIG-1g.6gb, NVIDIA-A30-MIG-1g.6gb-SHARED]",
        ]
    ]


def test_everything_excluded_is_never_met():
    assert conditions({"product": "!*"}) == []
    assert conditions({"product": "!*MIG*"}, MIG) == []


def test_seen_products_are_those_of_all_product_labels(cluster):
    assert seen_products(cluster("f1", "f2", "f4")) == {
        PRODUCT: {"NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3-SHARED"},
        "nvidia.com/mig-1g.5gb.product": {"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
        "nvidia.com/mig-2g.10gb.product": {"NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"},
        "nvidia.com/mig-3g.20gb.product": {"NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"},
    }


def test_nothing_is_seen_while_nodes_are_unknown(cluster):
    assert seen_products(cluster()) == {}


@pytest.mark.parametrize("known", KNOWN_PRODUCTS)
def test_known_product_is_selected_by_its_exact_name(known):
    assert values({"product": known}) == (known,)


@pytest.mark.parametrize(
    ("words", "selected"),
    [
        ({"product": "A100*"}, ["f1", "f3"]),
        ({"product": "A100*,!*MIG*"}, ["f1"]),
        ({"product": "!*MIG*"}, ["f1", "f4", "f5", "f6"]),
        ({"product": "*MIG*"}, ["f3"]),
        ({"product": "!A100*", "sharing": "shared"}, ["f4", "f5"]),
        ({"min-memory": "30Gi"}, ["f1", "f4", "f6"]),
        ({"max-memory": "16Gi"}, ["f3", "f5"]),
        ({"family": "ampere,turing"}, ["f1", "f3", "f5"]),
        ({"min-compute-capability": "8"}, ["f1", "f3", "f4", "f6"]),
        ({"min-compute-capability": "7.6"}, ["f1", "f3", "f4", "f6"]),
        ({"min-driver": "550.54.16"}, ["f6"]),
        ({"min-driver": "550.54.15"}, ["f1", "f3", "f4", "f5", "f6"]),
        ({"sharing": "exclusive"}, ["f1", "f3", "f6"]),
    ],
    ids=lambda value: ",".join(f"{word}={text}" for word, text in value.items()) if isinstance(value, dict) else "",
)
def test_wish_selects_of_real_nodes_with_whole_gpus(cluster, node, words, selected):
    names = ["f1", "f3", "f4", "f5", "f6"]
    branches = alternatives(Wish.of(words), parse_resource(GPU), seen_products(cluster(*names)))
    labels = {name: node(name)["metadata"]["labels"] for name in names}
    assert [
        name for name in names if any(all(item.holds(labels[name]) for item in branch) for branch in branches)
    ] == selected
