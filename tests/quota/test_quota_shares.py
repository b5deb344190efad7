"""Shares: the part of a GPU that a MIG device or a replica counts for."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.offers.shown import ShownSharing
from policies.nvidia.mig import Geometry, MIGProfile
from policies.nvidia.mig_products import PRODUCTS
from policies.nvidia.products import KNOWN_PRODUCTS, Product
from policies.quota.demands.device_kinds import (
    GIB,
    any_profile,
    largest_memory_named,
    mig_share,
    replica_kind,
    unseen_gpu,
    unseen_slice,
)
from policies.rules.charges import DeviceKind
from policies.rules.settings import ReplicaWeight

A100 = "NVIDIA-A100-SXM4-40GB"
T4 = "Tesla-T4"


@pytest.mark.parametrize(
    ("product", "profile", "share"),
    [
        (A100, "1g.5gb", "1/7"),
        (A100, "1g.10gb", "1/4"),
        (A100, "2g.10gb", "2/7"),
        (A100, "3g.20gb", "1/2"),
        (A100, "4g.20gb", "4/7"),
        (A100, "7g.40gb", "1"),
        ("NVIDIA A100-SXM4-80GB", "1g.10gb", "1/7"),
        ("NVIDIA-H100-80GB-HBM3", "1g.20gb", "1/4"),
        ("NVIDIA-H100-80GB-HBM3", "1g.10gb+me", "1/7"),
        ("NVIDIA-GB200", "3g.95gb", "1/2"),
        ("NVIDIA-A30", "1g.6gb", "1/4"),
        ("NVIDIA-A30", "2g.12gb", "1/2"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "2g.48gb+gfx", "1/2"),
        (A100, "1c.3g.20gb", "1/6"),
        (A100, "2c.7g.40gb", "2/7"),
    ],
)
def test_share_is_the_larger_of_compute_and_memory(product, profile, share):
    assert mig_share(product, MIGProfile.parse(profile)) == Fraction(share)


@pytest.mark.parametrize(
    ("profile", "share"),
    [
        ("1g.5gb", "1/7"),
        ("1g.10gb", "1/4"),  # of an A100 with 40 GB
        ("1g.6gb", "1/4"),  # only an A30 has it
        ("2g.48gb", "1/2"),  # only an RTX PRO 6000
        ("1g.99gb", "1/7"),
        ("3g.99gb", "1/2"),
        ("5g.99gb", "5/7"),
        ("9g.99gb", "1"),
    ],
)
def test_share_of_an_unknown_gpu_is_the_most_that_such_a_profile_is(profile, share):
    assert mig_share("", MIGProfile.parse(profile)) == Fraction(share)


def test_gpu_of_an_unknown_name_is_cut_by_its_memory():
    assert mig_share("NVIDIA-X100", MIGProfile.parse("1g.10gb"), 80 * GIB) == Fraction(1, 7)


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_slices_that_fit_on_a_gpu_are_never_more_than_it_by_memory_alone(product):
    """A share is at least the part of either kind of slices, so what quotas count is never less than what is taken."""
    name = {"A100 40GB": A100, "RTX PRO 6000": "RTX-PRO-6000-Blackwell"}.get(product.name, product.name)
    for match in Geometry(product.memory[0], product.layout).matches:
        share = mig_share(name, match.profile)
        assert share >= Fraction(match.shape.memory_slices, product.layout.memory_slices)
        assert share >= Fraction(match.shape.compute_slices, product.layout.compute_slices)
        assert mig_share("", match.profile) >= share


def test_replica_is_an_even_part():
    shared = replica_kind(DeviceKind(T4, memory=15 * GIB), ShownSharing(4, "time-slicing"))
    assert shared == DeviceKind(T4, gpus=Fraction(1, 4), memory=15 * GIB // 4)


def test_replica_of_a_mig_device_is_a_part_of_its_share():
    slice_ = DeviceKind(A100, "1g.5gb", Fraction(1, 7))
    assert replica_kind(slice_, ShownSharing(2, "time-slicing")).gpus == Fraction(1, 14)


@pytest.mark.parametrize("replicas", [0, 1])
def test_what_is_not_shared_is_whole_whatever_weights_say(replicas):
    weights = (ReplicaWeight(("*",), "mps", "1/4"),)
    assert replica_kind(DeviceKind(T4), ShownSharing(replicas, "mps"), weights) == DeviceKind(T4)


@pytest.mark.parametrize(
    ("weights", "gpus"),
    [
        ([("tesla-*", "time-slicing", "1/2")], "1/2"),
        ([("*", "mps", "1/2")], "1/8"),
        ([("A100*", "time-slicing", "1/2")], "1/8"),
        ([("*", "time-slicing", "1/2"), ("Tesla-T4", "time-slicing", "0.25")], "1/4"),
    ],
    ids=["glob", "other sharing", "other product", "last one"],
)
def test_administrators_weight_takes_the_place_of_replicas(weights, gpus):
    chosen = tuple(ReplicaWeight((product,), sharing, weight) for product, sharing, weight in weights)
    shared = replica_kind(DeviceKind(T4, memory=800), ShownSharing(8, "time-slicing"), chosen)
    assert (shared.gpus, shared.memory) == (Fraction(gpus), 100)


def test_weights_know_products_without_their_brand():
    weights = (ReplicaWeight(("H100*",), "mps", "1/2"),)
    assert replica_kind(DeviceKind("NVIDIA-H100-NVL"), ShownSharing(9, "mps"), weights).gpus == Fraction(1, 2)


@given(st.sampled_from(PRODUCTS), st.data())
def test_memory_of_a_profile_is_never_more_than_its_name_allows(product, data):
    geometry = Geometry(data.draw(st.sampled_from(product.memory)), product.layout)
    match = data.draw(st.sampled_from(geometry.matches))
    real = geometry.memory * GIB * match.shape.memory_slices // product.layout.memory_slices
    assert real <= largest_memory_named(match.profile)


@pytest.mark.parametrize(
    ("product", "gib"),
    [
        ("NVIDIA-GB200", 189),
        ("NVIDIA-GH200-480GB", 96),
        ("NVIDIA-A100-SXM4-40GB", 40),
        ("Tesla-V100-SXM2-16GB", 16),
        (T4, 16),
        ("Tesla T4", 16),
        ("nvidia-l40s", 48),
    ],
)
def test_unseen_product_has_the_memory_it_is_sold_with(product, gib):
    assert unseen_gpu(product) == DeviceKind(product, memory=gib * GIB)


@pytest.mark.parametrize("product", KNOWN_PRODUCTS)
def test_memory_of_every_known_product_is_known(product):
    assert unseen_gpu(product).memory is not None


@pytest.mark.parametrize("product", ["", "NVIDIA-X900", "A100GB"])
def test_memory_of_an_unknown_product_is_unknown(product):
    assert unseen_gpu(product) == DeviceKind(product)


@pytest.mark.parametrize("fixture", ["f1", "f4", "f5", "f6"])
def test_product_is_never_sold_with_less_than_a_node_reports(node, fixture):
    labels = node(fixture)["metadata"]["labels"]
    product = Product.parse(labels["nvidia.com/gpu.product"]).name
    assert unseen_gpu(product).memory >= int(labels["nvidia.com/gpu.memory"]) * 2**20


def test_unseen_slices_have_the_share_and_size_of_their_profile():
    assert unseen_slice(MIGProfile.parse("3g.20gb"), A100) == DeviceKind(
        A100, "3g.20gb", Fraction(1, 2), 20 * GIB + GIB // 2
    )


def test_unseen_slice_has_no_more_memory_than_its_gpu():
    assert unseen_slice(MIGProfile.parse("7g.40gb"), A100).memory == 40 * GIB


def test_any_profile_is_one_of_the_product():
    assert {kind.profile for kind in any_profile("NVIDIA-A30")} == {
        "1g.6gb",
        "1g.6gb+me",
        "2g.12gb",
        "2g.12gb+me",
        "4g.24gb",
    }
    assert {kind.profile for kind in any_profile("NVIDIA-A30")} < {kind.profile for kind in any_profile()}


def test_memory_of_any_profile_of_an_unknown_product_is_unknown():
    assert {(kind.product, kind.memory) for kind in any_profile()} == {("", None)}
