"""`gpu-admission preflight` of a running cluster with gpu-admission in it."""

import json
import os
from contextlib import ExitStack, contextmanager
from importlib.metadata import version

import pytest
import yaml

from testbed import deploy, manifests
from testbed.commands import run_command
from testbed.waiting import until
from webhook.cluster.resources import RESOURCES

ADMISSION = "admissionregistration.k8s.io/v1"
NAMESPACE = "gpu-admission"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture
def preflight_of(tmp_path):
    """Runs preflight of deploy/, by default as administrator; returns its JSON and exit code."""

    def preflight_of(cluster, file=None):
        path = tmp_path / "manifests.yaml"
        path.write_text(yaml.safe_dump_all(deploy.all_objects()))
        arguments = ["preflight", "-f", path, "--kubeconfig", file or cluster.kubeconfig, "-o", "json"]
        done = run_command(*arguments, cwd=tmp_path, environment=os.environ)
        assert done.returncode in (0, 1, 4), done.stderr
        return json.loads(done.stdout), done.returncode

    return preflight_of


def checks(report, name, status=None):
    """The checks of a name, if given with a status."""
    return [each for each in report["checks"] if each["name"] == name and status in (None, each["status"])]


@contextmanager
def stored(cluster, document, path=None):
    """Create an object, and delete it at the end."""
    namespace, name = document["metadata"].get("namespace", ""), document["metadata"]["name"]
    path = path or RESOURCES[document["kind"]].path(namespace)
    answer = cluster.api.request("POST", path, {}, document)
    assert answer.accepted, answer.message
    try:
        yield answer.object
    finally:
        cluster.api.request("DELETE", f"{path}/{name}")


@contextmanager
def refusing(cluster, preflight_of, by, *documents):
    """Store objects by which something named `by` refuses manifests; yields the first report that says so, and its exit code.

    API servers learn of changes from watches, so the wait at the end spares the next test the refusals of this one.
    """

    def refused():
        report, code = preflight_of(cluster)
        return (report, code) if refusals(report, by) else None

    with ExitStack() as stack:
        stack.callback(until, lambda: not refused(), f"{by} no longer refuses")
        for document in documents:
            stack.enter_context(stored(cluster, document))
        yield until(refused, f"{by} refuses")


def refusals(report, by):
    """The refusals by a policy, webhook or quota; others may still be in the caches of the API server."""
    return [each for each in checks(report, "objects", "failing") if f"would be refused by {by}" in each["what"]]


def test_installed_version_can_be_applied_again(cluster, preflight_of):
    report, code = preflight_of(cluster)
    assert code in (0, 4), checks(report, "objects", "failing")
    assert report["step"]["to"] == version("gpu-admission")
    (accepted,) = checks(report, "objects", "ok")
    assert "exist and would be applied again" in accepted["what"]
    assert checks(report, "rights")[0]["status"] == "ok"


def test_preflight_changes_nothing(cluster, preflight_of):
    kinds = ("MutatingWebhookConfiguration", "CustomResourceDefinition", "ClusterRole", "ServiceAccount", "Deployment")
    before = {kind: versions(cluster, kind) for kind in kinds}
    preflight_of(cluster)
    assert {kind: versions(cluster, kind) for kind in kinds} == before


def versions(cluster, kind):
    """The generations of objects, without those in namespaces of other tests, which may still be deleted."""
    return {
        each["metadata"]["uid"]: each["metadata"]["generation"]
        for each in cluster.list(kind)
        if "generation" in each["metadata"] and each["metadata"].get("namespace", NAMESPACE) == NAMESPACE
    }


def test_pods_are_counted_by_entry(cluster, preflight_of):
    team = cluster.namespace(dra="enabled")
    before = preflight_of(cluster)[0]["namespaces"]["entries"]["convert-pods"]["pods"]
    assert cluster.create(manifests.pod(team)).accepted
    report, _ = preflight_of(cluster)
    assert report["namespaces"]["entries"]["convert-pods"]["pods"] == before + 1
    assert team in report["namespaces"]["converting"]


def webhook(name, **spec):
    """A configuration with one mutating webhook, which does not answer."""
    hook = {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        **spec,
    }
    return {
        "apiVersion": ADMISSION,
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }


def test_webhook_that_could_stop_our_pods_is_named(cluster, preflight_of):
    by = "admission webhook preflight-sidecars.example.com, which fails closed"
    with refusing(cluster, preflight_of, by, webhook("preflight-sidecars")) as (report, code):
        (warned,) = checks(report, "webhooks", "warning")
    assert warned["what"] == (
        "mutating webhook preflight-sidecars.example.com (preflight-sidecars) is called for pods of namespace gpu-admission"
    )
    assert warned["why"] == "it fails closed: while it does not answer, no replica of gpu-admission can start"
    assert code == 1


@pytest.mark.parametrize(("name", "place"), [("a-first", "before ours"), ("z-last", "after ours")])
def test_order_of_mutating_webhooks_is_reported(cluster, preflight_of, name, place):
    team = cluster.namespace()
    selector = {"matchLabels": {"kubernetes.io/metadata.name": team}}
    document = webhook(name, namespaceSelector=selector, failurePolicy="Ignore", reinvocationPolicy="IfNeeded")
    with stored(cluster, document):
        report, _ = preflight_of(cluster)
    (order,) = checks(report, "order")
    assert f"{name}.example.com ({name}), reinvocationPolicy IfNeeded" in order["what"]
    assert order["what"].endswith(place)


def policy(expression, **rule):
    return {
        "apiVersion": ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "preflight-registries"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [{"apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], **rule}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            },
            "validations": [{"expression": expression, "message": "images must come from registry.example"}],
        },
    }


BINDING = {
    "apiVersion": ADMISSION,
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "preflight-registries"},
    "spec": {"policyName": "preflight-registries", "validationActions": ["Deny"]},
}


def test_policy_that_forbids_our_deployment_is_named(real, preflight_of):
    expression = "object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example/'))"
    document = policy(expression, apiGroups=["apps"], resources=["deployments"])
    by = "ValidatingAdmissionPolicy preflight-registries"
    with refusing(real, preflight_of, by, document, BINDING) as (report, _):
        (found,) = refusals(report, by)
    assert found == {
        "name": "objects",
        "status": "failing",
        "what": "Deployment gpu-admission/gpu-admission would be refused by ValidatingAdmissionPolicy preflight-registries",
        "why": "images must come from registry.example",
        "remedy": "exclude namespace gpu-admission in the binding of the policy, or change the manifests as it asks",
    }


def test_quota_that_our_pods_exceed_is_named(real, preflight_of):
    if not real.makes_pods:
        pytest.skip("no kube-controller-manager runs here, which counts for quotas")
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "preflight-small", "namespace": NAMESPACE},
        "spec": {"hard": {"requests.cpu": "10m"}},
    }
    by = "ResourceQuota preflight-small"
    with refusing(real, preflight_of, by, quota) as (report, _):
        (found,) = refusals(report, by)
    assert found["what"] == "Pod gpu-admission/gpu-admission would be refused by ResourceQuota preflight-small"
    assert found["why"] == "requested: requests.cpu=100m, used: requests.cpu=0, limited: requests.cpu=10m"


def test_aggregated_api_that_is_not_available_is_named(real, preflight_of):
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.preflight.example.com"},
        "spec": {
            "group": "preflight.example.com",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "none", "namespace": "default"},
        },
    }
    with stored(real, service, API_SERVICES):
        found = until(
            lambda: checks(preflight_of(real)[0], "apis", "warning"), "the API server has looked for the service"
        )
    assert found[0]["what"] == "aggregated API v1beta1.preflight.example.com is not available"
    assert found[0]["why"].startswith('ServiceNotFound: service/none in "default" is not present')


def test_upgrade_by_one_release_is_supported(cluster, preflight_of):
    (found,) = (each for each in deploy.all_objects() if each["kind"] == "Deployment")
    found["spec"]["replicas"] = 0
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/gpu-admission:0.0.3"
    with stored(cluster, found):
        report, _ = preflight_of(cluster)
    assert report["step"] == {"verb": "upgrade", "from": "0.0.3", "to": "0.1.0"}
    assert [each["what"] for each in checks(report, "version")] == ["upgrading from 0.0.3 to 0.1.0 is supported"]
