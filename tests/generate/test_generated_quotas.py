"""Quotas: limits as they are read back, and no finding in a review."""

import pytest

from policies.analyses.generate.documents import GenerationError
from policies.analyses.generate.namespace_objects import QuotaWords, generate_quota
from policies.nvidia.mig_products import PRODUCTS
from policies.nvidia.products import KNOWN_PRODUCTS
from policies.quota.limits.quota import parse_quota
from tests.generate.applied_objects import commands, findings

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
PROFILES = sorted({name for product in PRODUCTS for name in product.profiles()})


def limits(**words):
    return generate_quota("team-a", QuotaWords(**words), "Enforce").document["spec"]["limits"]


@pytest.mark.parametrize("product", KNOWN_PRODUCTS)
def test_review_finds_nothing_for_a_product(product):
    words = QuotaWords("8", [f"{product}=1/2"], "", "320Gi")
    assert findings(generate_quota("team-a", words, "Enforce").document, NAMESPACE) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_review_finds_nothing_for_a_profile(profile):
    words = QuotaWords(mig=f"{profile}=4")
    assert findings(generate_quota("team-a", words, "Warn").document, NAMESPACE) == []


def test_each_amount_is_a_limit():
    assert limits(gpus="8", products=["H100*=4", "T4=1/2"], mig="1g.10gb=4,3g.40gb=1", memory="320Gi") == [
        {"name": "gpus", "gpus": 8},
        {"name": "h100", "selector": {"products": ["H100*"]}, "gpus": 4},
        {"name": "tesla-t4", "selector": {"products": ["Tesla-T4"]}, "gpus": "1/2"},
        {"name": "mig-3g-40gb", "selector": {"profiles": ["3g.40gb"]}, "devices": 1},
        {"name": "mig-1g-10gb", "selector": {"profiles": ["1g.10gb"]}, "devices": 4},
        {"name": "memory", "memory": "320Gi"},
    ]


def test_quota_is_read_back():
    generated = generate_quota("team-a", QuotaWords("0.5"), "Warn")
    quota = parse_quota(generated.document)
    assert (quota.mode, quota.limits[0].hard * 2, generated.steps) == ("Warn", 1, ())


def test_command_labels_the_namespace():
    (command,) = commands(generate_quota("team-a", QuotaWords("8"), "Enforce"))
    assert command == ["kubectl", "label", "namespace", "team-a", "gpu-admission.io/quota=enforced"]


@pytest.mark.parametrize(
    ("words", "option", "error"),
    [
        ({}, "", "no limit is given; set --gpus, --product, --mig or --memory"),
        ({"gpus": "many"}, "--gpus", 'is "many"; write a number of GPUs such as 8, or a part of one such as "1/2"'),
        ({"gpus": "-1"}, "--gpus", 'is "-1"; write 0 or more'),
        (
            {"gpus": "9" * 30},
            "--gpus",
            f'is "{"9" * 30}"; write a number of GPUs such as 8, or a part of one such as "1/2"',
        ),
        ({"memory": "80"}, "--memory", 'is "80", less memory than any GPU has; write a unit, such as "80Gi"'),
        ({"products": ["H100"]}, "--product", 'has "H100", which is not PRODUCT=GPUS; write one such as "H100*=8"'),
        ({"products": ["=8"]}, "--product", 'is empty; write a product such as "T4" or "H100*"'),
        (
            {"products": ["H1000=8"]},
            "--product",
            'names an unknown product "H1000"; write "H100*"',
        ),
        ({"products": ["H100,!*NVL=8"]}, "--product", "excludes *NVL; a limit only names what it counts"),
        (
            {"products": ["T4=x"]},
            "--product",
            'is "x"; write a number of GPUs such as 8, or a part of one such as "1/2"',
        ),
        (
            {"products": ["T4=1", "T4=2"]},
            "--product",
            'is "tesla-t4", as that of limits[0] is; give each limit its own name',
        ),
        (
            {"mig": "1g.11gb=x"},
            "--mig",
            'has "1g.11gb=x", which is not PROFILE=COUNT; write a list such as "1g.10gb=3,3g.40gb=1"',
        ),
    ],
)
def test_what_cannot_be_read_is_refused(words, option, error):
    with pytest.raises(GenerationError) as caught:
        generate_quota("team-a", QuotaWords(**words), "Enforce")
    assert (caught.value.option, str(caught.value)) == (option, error)
