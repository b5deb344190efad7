"""Claims: selectors that select the wanted devices, and no finding in a review."""

import pytest

from policies.analyses.generate.documents import GenerationError
from policies.analyses.generate.namespace_objects import ClaimWords, generate_claim
from policies.cel import compile_selector
from policies.nvidia.mig_products import PRODUCTS
from policies.nvidia.products import KNOWN_PRODUCTS
from testbed import libyaml
from tests.generate.applied_objects import findings

PROFILES = sorted({name for product in PRODUCTS for name in product.profiles()})


def request(document):
    spec = document["spec"]["spec"] if document["kind"] == "ResourceClaimTemplate" else document["spec"]
    (found,) = spec["devices"]["requests"]
    return found["exactly"]


def selects(document, product, **attributes):
    device = {
        "driver": "gpu.nvidia.com",
        "attributes": {
            "productName": {"string": product},
            **{name: {"string": text} for name, text in attributes.items()},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }
    expressions = [each["cel"]["expression"] for each in request(document).get("selectors", [])]
    return all(compile_selector(each).matches(device) for each in expressions)


@pytest.mark.parametrize("product", KNOWN_PRODUCTS)
@pytest.mark.parametrize("is_template", [False, True])
def test_review_finds_nothing_for_a_product(product, is_template):
    words = ClaimWords({"product": product, "min-memory": "10G"}, count=2, namespace="team-a", is_template=is_template)
    document = generate_claim(words).document
    assert findings(document) == []
    assert selects(document, product.replace("-", " "))
    assert not selects(document, "NVIDIA Other")


@pytest.mark.parametrize("profile", PROFILES)
def test_review_finds_nothing_for_a_profile(profile):
    document = generate_claim(ClaimWords({}, mig=profile, namespace="team-a")).document
    assert findings(document) == []
    assert request(document)["deviceClassName"] == "mig.nvidia.com"
    assert selects(document, "NVIDIA A100", profile=profile)
    assert not selects(document, "NVIDIA A100", profile="9g.9gb")


def test_review_finds_nothing_for_all_words():
    wish = {
        "product": "H100*,A100*,!*40GB",
        "min-memory": "40G",
        "max-memory": "90Gi",
        "family": "hopper,ampere",
        "min-compute-capability": "8.0",
        "min-driver": "580.95",
        "min-cuda": "12.4",
    }
    document = generate_claim(ClaimWords(wish, count=32, namespace="team-a", is_template=True)).document
    assert findings(document) == []
    assert len(request(document)["selectors"]) == 6


def test_claim_without_words_is_for_any_gpu():
    document = generate_claim(ClaimWords({})).document
    assert document == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1},
                    }
                ]
            }
        },
    }


@pytest.mark.parametrize("count", [1, 2])
def test_claim_for_parts_of_gpus_is_a_list_of_different_shares_or_mig_devices(count):
    document = generate_claim(ClaimWords({"gpu-memory": "20G"}, count=count, namespace="team-a")).document
    devices = document["spec"]["devices"]
    (parts,) = (each["firstAvailable"] for each in devices["requests"])
    assert [(each["name"], each["count"]) for each in parts] == [("share", count), ("mig", count)]
    assert parts[0]["capacity"] == {"requests": {"memory": "19074Mi"}}
    different = [{"requests": ["gpu/share"], "distinctAttribute": "gpu.nvidia.com/uuid"}]
    assert devices.get("constraints", []) == (different if count > 1 else [])
    assert findings(document) == []


def test_selectors_read_nothing_unguarded():
    document = generate_claim(ClaimWords({"product": "H100", "min-memory": "40Gi"})).document
    bare = {"driver": "gpu.nvidia.com", "attributes": {}, "capacity": {}}
    expressions = [each["cel"]["expression"] for each in request(document)["selectors"]]
    assert [compile_selector(each).matches(bare) for each in expressions] == [False, False]


@pytest.mark.parametrize(
    ("words", "option", "error"),
    [
        (ClaimWords({}, count=0), "--count", "is 0; a claim has 1 to 32 devices"),
        (ClaimWords({}, count=33), "--count", "is 33; a claim has 1 to 32 devices"),
        (ClaimWords({}, name="GPU"), "--name", 'is "GPU"; write at most 63 lower-case letters, digits and dashes'),
        (
            ClaimWords({"min-memory": "40 Gigs"}),
            "--min-memory",
            'is "40 Gigs", which is not a Kubernetes quantity; write one such as "40Gi"',
        ),
        (
            ClaimWords({"gpu-memory": "20G"}, mig="1g.10gb"),
            "--gpu-memory",
            "is said by the profile 1g.10gb; leave out --mig, or this option",
        ),
        (ClaimWords({"min-memory": "80"}), "--min-memory", 'is "80", which is 80 bytes; write "80G"'),
        (
            ClaimWords({"product": "T4"}, mig="1g.10gb"),
            "--mig",
            "has 1g.10gb, which none of these GPUs has",
        ),
        (
            ClaimWords({"product": "A30"}, mig="1g.10gb"),
            "--mig",
            "has 1g.10gb, which none of these GPUs has: A30 has 1g.6gb, 1g.6gb+me, 2g.12gb, 2g.12gb+me, 4g.24gb",
        ),
        (
            ClaimWords({"family": "ampere", "min-compute-capability": "9.0"}),
            "",
            "no GPU meets all options: no GPU of the family ampere has compute capability 9.0 or newer",
        ),
    ],
)
def test_what_cannot_be_claimed_is_refused(words, option, error):
    with pytest.raises(GenerationError) as caught:
        generate_claim(words)
    assert (caught.value.option, str(caught.value)) == (option, error)


@pytest.mark.parametrize("name", ["gpu", "no", "1", "null", "1e3"])
def test_lines_of_the_pod_name_the_claim_as_text(name):
    (step,) = generate_claim(ClaimWords({}, name=name)).steps
    assert libyaml.load("\n".join(step.lines))["resourceClaims"] == [{"name": "gpu", "resourceClaimName": name}]
