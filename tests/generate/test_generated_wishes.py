"""Wishes: annotations that are read as they were meant, and no finding in a review of a pod with them."""

import pytest

from policies.analyses.generate.documents import GenerationError
from policies.analyses.generate.namespace_objects import generate_wish
from policies.nvidia.products import KNOWN_PRODUCTS
from policies.nvidia.wishes import Wish
from tests.generate.applied_objects import findings

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}


def pod(generated):
    resources = {"limits": {"nvidia.com/gpu": 1}}
    containers = [{"name": "main", "image": "train:1", "resources": resources}]
    metadata = {"name": "train", "namespace": "team-a", **generated.document["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def words(generated):
    annotations = generated.document["metadata"]["annotations"]
    return {key.removeprefix("gpu-admission.io/"): text for key, text in annotations.items()}


@pytest.mark.parametrize("product", KNOWN_PRODUCTS)
def test_review_finds_nothing_for_a_product(product):
    assert findings(pod(generate_wish({"product": product, "min-memory": "10G"})), NAMESPACE) == []


@pytest.mark.parametrize(
    "given",
    [
        {"product": "H100*,!*NVL"},
        {"min-memory": "40G", "max-memory": "80Gi"},
        {"family": "hopper,ada-lovelace"},
        {"min-compute-capability": "8.6"},
        {"min-driver": "580.95", "min-cuda": "12.4"},
        {"sharing": "exclusive"},
    ],
    ids=" ".join,
)
def test_words_are_printed_as_given_and_review_without_a_finding(given):
    generated = generate_wish(given)
    assert words(generated) == given
    assert Wish.of(words(generated))
    assert findings(pod(generated), NAMESPACE) == []


def test_product_of_people_becomes_a_pattern_that_selects_it():
    generated = generate_wish({"product": "A100-80GB"})
    assert words(generated) == {"product": "A100*80GB*"}
    assert generated.remarks[1] == "Known products that match: NVIDIA-A100-80GB-PCIe and NVIDIA-A100-SXM4-80GB."


def test_bound_in_gibibytes_is_explained():
    assert generate_wish({"min-memory": "80Gi"}).remarks[-1] == (
        "GPUs that are sold with 80 GB can have less than 80Gi; 80G includes them."
    )


@pytest.mark.parametrize(
    ("given", "option", "error"),
    [
        ({}, "", 'no wish is given; set an option such as --product "H100*"'),
        ({"product": " "}, "--product", 'is empty; write a product such as "T4" or "H100*"'),
        ({"sharing": "mps"}, "--sharing", 'is "mps", which is not one of exclusive, shared and any; write "shared"'),
        ({"family": "hoper"}, "--family", 'has "hoper", which is not a GPU family; write "hopper"'),
        (
            {"min-memory": "80Gi", "max-memory": "40Gi"},
            "",
            "no GPU meets all options: min-memory is 81920Mi and max-memory only 40960Mi",
        ),
    ],
)
def test_what_cannot_be_wished_is_refused(given, option, error):
    with pytest.raises(GenerationError) as caught:
        generate_wish(given)
    assert (caught.value.option, str(caught.value)) == (option, error)
