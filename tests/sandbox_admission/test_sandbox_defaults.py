"""Defaults of the API server."""

import pytest

from webhook.cluster.resources import RESOURCES
from webhook.sandbox.defaults import canonical_quantity, with_defaults


def filled(document):
    return with_defaults(RESOURCES[document["kind"]], document)


def pod_of(container):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def container_of(pod):
    return pod["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (1, "1"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("2000", "2k"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("512Ki", "512Ki"),
        ("1Ki", "1Ki"),
        ("100n", "1m"),
        ("-1.0001", "-1001m"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("0Gi", "0"),
        ("12E", "12E"),
        ("many", "many"),
    ],
)
def test_a_quantity_is_written_as_the_api_server_writes_it(written, stored):
    assert canonical_quantity(written) == stored


def test_limits_of_a_pod_become_requests():
    pod = filled(
        pod_of({"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "0.5"}, "requests": {"cpu": "1"}}})
    )
    assert container_of(pod)["resources"] == {
        "limits": {"nvidia.com/gpu": "1", "cpu": "500m"},
        "requests": {"cpu": "1", "nvidia.com/gpu": "1"},
    }


def test_limits_of_a_template_do_not_become_requests():
    template = {"spec": pod_of({"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}})["spec"]}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": template}}
    resources = filled(document)["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": "1"}}


def test_a_pod_gets_what_every_pod_has():
    pod = filled(pod_of({"name": "c", "image": "train:1"}))
    assert {key: value for key, value in pod["spec"].items() if key != "containers"} == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    }


def test_what_is_written_stays():
    pod = pod_of({"name": "c"})
    pod["spec"]["schedulerName"] = "mine"
    assert filled(pod)["spec"]["schedulerName"] == "mine"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("h:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("a@sha256:1", "IfNotPresent"),
    ],
)
def test_the_pull_policy_goes_by_the_tag(image, policy):
    assert container_of(filled(pod_of({"name": "c", "image": image})))["imagePullPolicy"] == policy


def test_a_namespace_carries_its_true_name():
    metadata = {"name": "a", "labels": {"kubernetes.io/metadata.name": "forged", "x": "y"}}
    namespace = filled({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a", "x": "y"}


@pytest.mark.parametrize("request_", [{}, {"count": 0}, {"allocationMode": "ExactCount"}], ids=["none", "zero", "mode"])
def test_a_claim_requests_one_device_at_least(request_):
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **request_}}]}}
    claim = filled({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {}, "spec": spec})
    (asked,) = claim["spec"]["devices"]["requests"]
    assert asked["exactly"] == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}


def test_a_claim_for_all_devices_has_no_count():
    request = {"name": "r", "firstAvailable": [{"name": "s", "allocationMode": "All"}]}
    spec = {"spec": {"devices": {"requests": [request]}}}
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {}, "spec": spec}
    assert filled(document)["spec"] == spec


@pytest.mark.parametrize(
    ("kind", "reinvocation"),
    [
        ("MutatingWebhookConfiguration", {"reinvocationPolicy": "Never"}),
        ("ValidatingWebhookConfiguration", {}),
    ],
)
def test_webhooks_get_the_defaults_of_the_api(kind, reinvocation):
    webhook = {
        "name": "a",
        "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"resources": ["pods"]}],
    }
    document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {}, "webhooks": [webhook]}
    assert filled(document)["webhooks"] == [
        {
            "name": "a",
            "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "rules": [{"resources": ["pods"], "scope": "*"}],
            "timeoutSeconds": 10,
            **reinvocation,
        }
    ]


def test_a_validating_admission_policy_gets_the_defaults_of_the_api():
    spec = {"matchConstraints": {"resourceRules": [{"resources": ["namespaces"]}]}}
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {},
        "spec": spec,
    }
    assert filled(document)["spec"] == {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [{"resources": ["namespaces"], "scope": "*"}],
        },
    }


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, id="nothing to fill in"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": "text"}, id="a specification that is none"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, id="no specification"),
    ],
)
def test_what_has_nothing_to_fill_in_stays(document):
    assert filled(document) == document


def test_what_is_sent_to_a_subresource_stays():
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {}}
    assert with_defaults(RESOURCES["Pod"], binding) is binding
