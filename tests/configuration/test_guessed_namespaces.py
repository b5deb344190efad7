"""Where only defaults say in which namespace the operator runs, nothing is refused for it."""

from __future__ import annotations

from policies.admission import review
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, Configuration, GPUAdmissionPolicy
from tests.configuration.conftest import completed
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "gpu-operator", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}
NO_CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMapList", "items": []}
KNOWN = GPUAdmissionPolicy(configuration=Configuration(operator_namespaces=("gpu-operator",)))


def found(rule, settings=DEFAULTS):
    document = completed(
        {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy"},
            "spec": {"migManager": {"config": {"name": "ours"}}},
        }
    )
    request = Request(document, group="nvidia.com", kind="ClusterPolicy", name="cluster-policy")
    findings = review(request, ManifestsView([NAMESPACE, NO_CONFIG_MAPS]), settings).findings
    (one,) = (each for each in findings if each.rule.id == rule)
    return one


def test_config_map_that_is_not_found_is_a_warning_that_names_the_setting():
    assert found("GA146", KNOWN).severity is Severity.DENY
    assert found("GA146").severity is Severity.WARN
    assert plain_text(found("GA146")) == (
        'spec.migManager.config.name: ConfigMap "ours" not found in gpu-operator or nvidia-gpu-operator; these are only the '
        'defaults of configuration.operatorNamespaces; the MIG manager could cut no GPU; create ConfigMap "ours" in '
        "gpu-operator first, with the key config.yaml, or name the operator's namespace in that setting"
    )


def test_pod_security_of_the_namespace_is_a_warning():
    assert found("GA185", KNOWN).severity is Severity.DENY
    assert found("GA185").severity is Severity.WARN
