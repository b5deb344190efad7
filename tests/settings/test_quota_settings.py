"""Settings of quotas: weights of replicas, and trusted creators of claims."""

from fractions import Fraction

import pytest

from policies.rules.settings import DEFAULTS, Quotas, parse_settings


def settings(quota):
    document = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
    }
    return parse_settings(document | {"spec": {"quota": quota}}).quota


def test_kubernetes_own_controllers_are_trusted_by_default():
    assert DEFAULTS.quota == Quotas()
    assert DEFAULTS.quota.trusted_creators == (
        "system:serviceaccount:kube-system:resource-claim-controller",
        "system:kube-controller-manager",
        "system:kube-scheduler",
    )


def test_list_of_creators_replaces_the_default():
    assert settings({"trustedCreators": ["eks:scheduler"]}).trusted_creators == ("eks:scheduler",)


def test_weight_is_kept_as_it_is_written():
    (weight,) = settings({"weights": [{"products": ["H100*"], "sharing": "mps", "gpus": "1/4"}]}).weights
    assert (weight.products, weight.sharing, weight.gpus) == (("H100*",), "mps", "1/4")


@pytest.mark.parametrize(
    "gpus", ["", "0", "0/4", "0.0", "3/2", "1.5", "1/0", "-1/4", " 1/4", "25%", "1e-1", "a quarter"]
)
def test_weight_is_above_0_and_at_most_1(problems_of, gpus):
    assert problems_of({"quota": {"weights": [{"products": ["*"], "sharing": "mps", "gpus": gpus}]}}) == [
        (
            "spec.quota.weights[0].gpus",
            f'is "{gpus}"; write how much of a GPU a replica is, above 0 and at most 1, such as "1/4"',
        )
    ]


@pytest.mark.parametrize("share", ["0", "0/4", "3/2", "1.5", "12%", "10", "10Ki", "0Gi", "-1Gi", "much"])
def test_share_of_unlimited_gpus_is_a_fraction_or_memory(problems_of, share):
    assert problems_of({"quota": {"unlimitedShare": share}}) == [
        (
            "spec.quota.unlimitedShare",
            f'is "{share}"; write a part of a GPU, above 0 and at most 1, such as "1/8", or memory such as "10Gi"',
        )
    ]


@pytest.mark.parametrize(
    ("share", "memory", "part"),
    [("1/8", None, "1/8"), ("0.5", 2**34, "1/2"), ("10G", 20 * 10**9, "1/2"), ("32Gi", 2**34, "1"), ("8Gi", None, "1")],
)
def test_share_of_unlimited_gpus_is_a_part_of_a_device(share, memory, part):
    assert settings({"unlimitedShare": share}).unlimited_part(memory) == Fraction(part)


@pytest.mark.parametrize(
    ("quota", "path", "sentence"),
    [
        ({"adminAccess": "deny"}, "adminAccess", 'is "deny"; write charge or free'),
        (
            {"trustedCreators": []},
            "trustedCreators",
            (
                "is empty, so the claims of pods would be charged a second time; remove it to mean Kubernetes' own "
                "controllers"
            ),
        ),
        (
            {"trustedCreators": [""]},
            "trustedCreators[0]",
            "is empty; write the name of a user, such as system:kube-scheduler",
        ),
        (
            {"weights": [{"products": [], "sharing": "mps", "gpus": "1/4"}]},
            "weights[0].products",
            'is empty, so it weighs nothing; write ["*"] to mean every product',
        ),
        (
            {"weights": [{"products": [""], "sharing": "mps", "gpus": "1/4"}]},
            "weights[0].products[0]",
            'is empty; write a product such as "Tesla-T4" or "H100*"',
        ),
        (
            {"weights": [{"products": ["*"], "sharing": "none", "gpus": "1/4"}]},
            "weights[0].sharing",
            'is "none"; write time-slicing or mps',
        ),
        ({"weights": [{"products": ["*"], "gpus": "1/4"}]}, "weights[0].sharing", "is missing; write it"),
        (
            {"weights": [{"products": ["*"], "sharing": "mps", "gpus": 1}]},
            "weights[0].gpus",
            "is 1; it must be text; put it in quotes",
        ),
        ({"replicas": 4}, "replicas", "is unknown; write a setting that docs/settings.md lists"),
    ],
)
def test_mistake_in_settings_of_quotas_is_reported(problems_of, quota, path, sentence):
    assert problems_of({"quota": quota}) == [(f"spec.quota.{path}", sentence)]
