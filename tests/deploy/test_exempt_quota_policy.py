"""The policy that warns of GPUQuotas in namespaces for which no webhook is called, inside the API server."""

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from policies.rules.settings.exemptions import NEVER_MATCHED, exemption
from tests.deploy.match_conditions import holds
from webhook.cluster.manifests import ManifestsView

NAME = "exempt-quotas.gpu-admission.io"


@pytest.fixture(scope="module")
def policy(one):
    return one("ValidatingAdmissionPolicy", NAME)["spec"]


def quota(namespace):
    metadata = {"name": "gpu", "namespace": namespace}
    spec = {"limits": [{"name": "all", "gpus": 8}]}
    return {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota", "metadata": metadata, "spec": spec}


def test_policy_is_for_quotas_of_the_namespaces_that_no_webhook_is_called_for(policy):
    constraints = policy["matchConstraints"]
    assert constraints["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(NEVER_MATCHED)}
    ]
    (rule,) = constraints["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["gpuquotas"], ["CREATE", "UPDATE"])


def test_policy_warns_and_refuses_nothing(policy, one):
    binding = one("ValidatingAdmissionPolicyBinding", NAME)["spec"]
    assert binding == {"policyName": NAME, "validationActions": ["Warn"]}
    assert policy["failurePolicy"] == "Ignore"
    assert [each["expression"] for each in policy["validations"]] == ["false"]


@pytest.mark.parametrize("namespace", NEVER_MATCHED)
def test_warning_says_what_the_rule_says_of_other_namespaces(policy, namespace):
    (validation,) = policy["validations"]
    elsewhere = Request(quota("gpu-operator"), group="gpu-admission.io", kind="GPUQuota", namespace="gpu-operator")
    (finding,) = review(elsewhere, ManifestsView(), DEFAULTS).findings
    reasons = [exemption("quota", each, DEFAULTS) for each in ("gpu-operator", namespace)]
    said = finding.message.replace("gpu-operator", namespace).replace(*reasons)
    assert finding.rule.id == "GA507"
    assert holds(f"({validation['messageExpression']}) == '{said}; delete it [GA507]'", quota(namespace), None)
    assert said.endswith(validation["message"].removeprefix("the namespace ").removesuffix("; delete it [GA507]"))
