"""Where the GPU Operator looks for ConfigMaps: what the cluster shows, the settings, the defaults."""

import pytest

from policies.fleet.operator_place import operator_place, unnamed_places
from policies.rules.settings import DEFAULTS, parse_settings
from webhook.cluster.manifests import ManifestsView

POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "status": {"namespace": "nvidia"},
}
DRIVER = {**POLICY, "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver"}
SUBSCRIPTION = {
    "apiVersion": "operators.coreos.com/v1alpha1",
    "kind": "Subscription",
    "metadata": {"name": "gpu", "namespace": "nvidia"},
    "spec": {"name": "gpu-operator-certified"},
}


def deployment(name="gpu-operator", image="nvcr.io/nvidia/gpu-operator:v26.3.0"):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "nvidia"},
        "spec": {"template": {"spec": {"containers": [{"name": "gpu-operator", "image": image}]}}},
    }


def settings(*namespaces):
    spec = {"configuration": {"operatorNamespaces": list(namespaces)}}
    head = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    return parse_settings({**head, "spec": spec})


@pytest.mark.parametrize("shown", [POLICY, DRIVER, deployment(), SUBSCRIPTION], ids=lambda each: each["kind"])
def test_place_that_the_cluster_shows_goes_before_the_settings(shown):
    assert operator_place(ManifestsView([shown]), settings("other")) == (("nvidia",), True, False)


def test_status_of_a_policy_counts_that_a_manifest_without_status_replaces():
    manifest = {key: value for key, value in POLICY.items() if key != "status"}
    assert operator_place(ManifestsView([POLICY], [manifest]), DEFAULTS).namespaces == ("nvidia",)


@pytest.mark.parametrize("other", [deployment(name="train"), deployment(image="registry.example/train:1")])
def test_deployment_of_others_shows_nothing(other):
    assert not operator_place(ManifestsView([other]), DEFAULTS).is_shown


def test_settings_count_where_nothing_is_shown():
    assert operator_place(ManifestsView(), settings("gpus")) == (("gpus",), False, False)


def test_defaults_are_a_guess():
    assert operator_place(ManifestsView(), DEFAULTS) == (("gpu-operator", "nvidia-gpu-operator"), False, True)


def test_namespace_that_the_settings_do_not_name_is_remarked_with_the_line_to_write():
    said = unnamed_places(ManifestsView([POLICY]), settings("gpus"))
    assert said.startswith("the GPU Operator runs in nvidia, which configuration.operatorNamespaces does not name")
    assert said.endswith("write configuration: {operatorNamespaces: [nvidia, gpus]}")


@pytest.mark.parametrize("view", [ManifestsView([POLICY]), ManifestsView()], ids=["shown", "not shown"])
def test_namespace_that_the_settings_name_is_not_remarked(view):
    assert unnamed_places(view, settings("nvidia")) == ""
