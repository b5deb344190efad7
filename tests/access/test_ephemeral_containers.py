"""Ephemeral containers that are added to a running pod."""

import pytest

from policies.access import validate
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
ALL = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
VOID = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
DEBUG = {"name": "debug", "image": "ubuntu", "env": ALL}


def pod(*ephemeral, **spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a"}], "ephemeralContainers": list(ephemeral), **spec},
    }


def findings(new, old, *, settings=DEFAULTS, **fields):
    request = {"operation": "UPDATE", "subresource": "ephemeralcontainers", "namespace": "team-a", **fields}
    return list(validate(Request(new, old_object=old, **request), ManifestsView(), settings))


def rules(*args, **fields):
    return [finding.rule.id for finding in findings(*args, **fields)]


def test_new_container_is_reported_with_a_remedy_that_it_can_follow():
    (finding,) = findings(pod({"name": "old"}, DEBUG), pod({"name": "old"}))
    assert plain_text(finding) == (
        'spec.ephemeralContainers[1].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in ephemeral container "debug", '
        "which requests no GPU: NVIDIA's container runtime gives it every GPU of the node; set NVIDIA_VISIBLE_DEVICES to void: an ephemeral "
        "container cannot request GPUs"
    )


def test_container_that_was_there_is_nothing():
    assert rules(pod(DEBUG, {"name": "new"}), pod(DEBUG)) == []


def test_container_that_changed_is_reported():
    assert rules(pod(DEBUG), pod({**DEBUG, "env": []})) == ["GA601"]


def test_containers_that_run_are_nothing():
    spec = {"containers": [{"name": "a", "env": ALL}]}
    assert rules(pod({"name": "new"}, **spec), pod(**spec)) == []


@pytest.mark.parametrize(
    ("container", "severity"),
    [
        ({"env": VOID}, Severity.DENY),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, Severity.AUDIT),
    ],
    ids=["no-container-requests-a-gpu", "another-container-requests-one"],
)
def test_image_of_a_new_container_may_choose_gpus_under_nvidias_runtime(container, severity):
    spec = {"containers": [{"name": "a", **container}], "runtimeClassName": "nvidia"}
    (finding,) = findings(pod({"name": "new"}, **spec), pod(**spec), settings=DENY)
    assert (finding.rule.id, finding.severity) == ("GA603", severity)
    assert "set NVIDIA_VISIBLE_DEVICES to void" in finding.remedy
    assert findings(pod({"name": "new", "env": VOID}, **spec), pod(**spec), settings=DENY) == []


def test_mount_of_the_node_is_reported():
    volumes = [{"name": "node", "hostPath": {"path": "/run/nvidia/driver"}}]
    debug = {"name": "debug", "volumeMounts": [{"name": "node", "mountPath": "/x"}]}
    assert rules(pod(debug, volumes=volumes), pod(volumes=volumes)) == ["GA604"]


def test_privileges_of_the_pod_and_of_new_containers_add_to_it():
    containers = [{"name": "a", "securityContext": {"privileged": True}}]
    debug = {**DEBUG, "securityContext": {"privileged": True}}
    new = findings(pod(debug, hostPID=True, containers=containers), pod(hostPID=True, containers=containers))
    assert [str(finding.path) for finding in new if finding.rule.id == "GA609"] == [
        "spec.hostPID",
        "spec.ephemeralContainers[0].securityContext.privileged",
    ]


def test_remedy_for_privileges_is_possible_on_a_pod_that_runs():
    volumes = [{"name": "node", "hostPath": {"path": "/dev"}}]
    context = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
    debug = {**DEBUG, "securityContext": context, "volumeMounts": [{"name": "node", "mountPath": "/x"}]}
    new = findings(pod(debug, hostPID=True, volumes=volumes), pod(hostPID=True, volumes=volumes))
    start_without = "start the debug container without it, or recreate the pod where it runs already"
    assert [(str(finding.path), finding.remedy) for finding in new if finding.rule.id == "GA609"] == [
        (
            "spec.hostPID",
            "start the debug container without what the other findings name, or recreate the pod without hostPID",
        ),
        ("spec.ephemeralContainers[0].securityContext.privileged", start_without),
        ("spec.ephemeralContainers[0].securityContext.capabilities.add[0]", start_without),
        ("spec.ephemeralContainers[0].volumeMounts[0]", start_without),
    ]


@pytest.mark.parametrize("old", [None, {}, {"spec": None}, {"spec": {"ephemeralContainers": "x"}}], ids=repr)
def test_every_container_is_new_where_the_old_pod_is_not_known(old):
    assert rules(pod(DEBUG), old) == ["GA601"]


@pytest.mark.parametrize(
    "fields",
    [
        {"subresource": ""},
        {"subresource": "status"},
        {"subresource": "resize"},
        {"operation": "CREATE"},
        {"operation": "CREATE", "subresource": "binding"},
        {"operation": "DELETE", "subresource": ""},
        {"operation": "CREATE", "subresource": "", "kind": "Deployment", "group": "apps"},
        {"operation": "CREATE", "subresource": "", "group": "example.com"},
    ],
    ids=str,
)
def test_other_requests_are_nothing(fields):
    assert rules(pod(DEBUG), pod(), **fields) == []
