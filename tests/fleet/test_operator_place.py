"""Where the GPU Operator looks for ConfigMaps: what the cluster shows, the settings, the defaults."""

import pytest

from policies.fleet.operands import operator_place, unnamed_namespaces_remark
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


def deployment(name="gpu-operator", image="nvcr.io/nvidia/gpu-operator:v26.3.0", namespace="nvidia"):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"containers": [{"name": "gpu-operator", "image": image}]}}},
    }


def settings(*namespaces):
    spec = {"configuration": {"operatorNamespaces": list(namespaces)}}
    head = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    return parse_settings({**head, "spec": spec})


@pytest.mark.parametrize("shown", [POLICY, DRIVER], ids=lambda each: each["kind"])
def test_status_of_its_resources_goes_before_the_settings(shown):
    assert operator_place(ManifestsView([shown]), settings("other")) == (("nvidia",), False, ())


@pytest.mark.parametrize("shown", [deployment(), SUBSCRIPTION], ids=lambda each: each["kind"])
def test_deployment_or_subscription_goes_before_the_settings_and_excludes_none_of_them(shown):
    assert operator_place(ManifestsView([shown]), settings("other")) == (("nvidia",), False, ("other",))


@pytest.mark.parametrize("others", [[POLICY], [deployment(namespace="gpus")]], ids=["status", "Deployment"])
def test_deployment_of_a_tenant_adds_no_place_where_the_operator_is_known(others):
    view = ManifestsView([*others, deployment(namespace="team-a")])
    assert "team-a" not in operator_place(view, settings("nvidia", "gpus")).namespaces


@pytest.mark.parametrize("name", ["", 7, {}, "team-a/../nvidia", "\x1b[31mnvidia", "a" * 64])
def test_name_that_no_namespace_has_shows_nothing(name):
    policy = {**POLICY, "status": {"namespace": name}}
    assert operator_place(ManifestsView([policy]), settings("gpus")) == (("gpus",), False, ())


def test_status_of_a_policy_counts_that_a_manifest_without_status_replaces():
    manifest = {key: value for key, value in POLICY.items() if key != "status"}
    assert operator_place(ManifestsView([POLICY], [manifest]), DEFAULTS).namespaces == ("nvidia",)


@pytest.mark.parametrize(
    "other",
    [
        deployment(name="train"),
        deployment(image="registry.example/train:1"),
        {**deployment(), "apiVersion": "apps.example.com/v1"},
        {**SUBSCRIPTION, "apiVersion": "messaging.knative.dev/v1"},
    ],
)
def test_objects_of_others_show_nothing(other):
    assert operator_place(ManifestsView([other]), DEFAULTS).is_guess


def test_settings_count_where_nothing_is_shown():
    assert operator_place(ManifestsView(), settings("gpus")) == (("gpus",), False, ())


def test_defaults_are_a_guess():
    assert operator_place(ManifestsView(), DEFAULTS) == (("gpu-operator", "nvidia-gpu-operator"), True, ())


def test_namespace_that_the_settings_do_not_name_is_remarked_with_the_line_to_write():
    said = unnamed_namespaces_remark(ManifestsView([POLICY]), settings("gpus"))
    assert said.startswith("the GPU Operator runs in nvidia, which configuration.operatorNamespaces does not name")
    assert said.endswith("write configuration: {operatorNamespaces: [nvidia, gpus]}")


def test_what_looks_like_the_operator_is_to_be_trusted_only_after_a_look():
    said = unnamed_namespaces_remark(ManifestsView([deployment(namespace="team-a")]), settings("gpus"))
    assert said == (
        "a Deployment or Subscription in team-a looks like the GPU Operator's, and configuration.operatorNamespaces does not "
        "name it; if it is the operator's, write configuration: {operatorNamespaces: [team-a, gpus]}, which also trusts the "
        "accounts there"
    )


@pytest.mark.parametrize("view", [ManifestsView([POLICY]), ManifestsView()], ids=["shown", "not shown"])
def test_namespace_that_the_settings_name_is_not_remarked(view):
    assert unnamed_namespaces_remark(view, settings("nvidia")) == ""
