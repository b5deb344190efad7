"""Admission policies and webhooks in the files of a real API server, with gpu-admission absent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from policies.admission import compile_policies, policy_refusals
from policies.rules.request import Request, UserInfo
from policies.rules.settings import parse_settings
from testbed.connection import connect
from testbed.control_plane import ControlPlane
from testbed.ports import free_ports
from testbed.waiting import until
from webhook.cli.user_files import replace_file
from webhook.cluster.manifests import ManifestsView

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {
        "access": {
            "mode": "deny",
            "legacyRuntime": True,
            "exemptNamespaces": ["monitor?ng"],
            "exemptServiceAccounts": ["team-*/dcgm-*"],
        },
        "rules": [{"rule": "GA606", "severity": "warn", "namespaces": ["team-b*"]}],
        "exemptions": [{"from": ["GA604", "GA605"], "groups": ["[!x]*-admins"]}],
    },
}
MASTERS = ("system:masters", "system:authenticated")
GATE = "ManifestBasedAdmissionControlConfig"
MOST_CONTAINERS = 703
"""Of a pod whose containers all request GPUs: the cost of one more exceeds what an API server allows for one expression."""
RELOAD_SECONDS = 70
"""An API server watches the folder, and looks once a minute as well."""
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/team-a"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """The file with the policies."""
    return tmp_path_factory.mktemp("static") / "admission" / "policies" / "gpu-admission.yaml"


@pytest.fixture(scope="module")
def server(background, manifest):
    """An API server with the files that deploy/render.py writes, for an address where nothing answers."""
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        pytest.skip("an API server has to be started with files of its own: set KUBEBUILDER_ASSETS")
    folder = manifest.parents[2]
    (folder / "settings.yaml").write_text(yaml.safe_dump(SETTINGS))
    (port,) = free_ports(1)
    options = [
        "--static",
        folder / "admission",
        "--url",
        f"https://127.0.0.1:{port}",
        "--settings",
        folder / "settings.yaml",
    ]
    subprocess.run([sys.executable, ROOT / "deploy" / "render.py", *options], check=True)
    plane = ControlPlane(
        Path(os.environ["KUBEBUILDER_ASSETS"]),
        feature_gates=[GATE],
        admission_configuration=folder / "admission" / "admission-configuration.yaml",
    )
    try:
        (folder / "admin").write_text(plane.start())
        api = connect(background, folder / "admin")
        for name, labels in {
            "team-a": {},
            "team-b": {},
            "monitoring": {},
            "converts": {"gpu-admission.io/dra": "enabled"},
        }.items():
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            assert api.request("POST", "/api/v1/namespaces", {}, body).code == 201
            path = f"/api/v1/namespaces/{name}/serviceaccounts"
            for account in ("default", "dcgm-exporter"):
                body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
                until(
                    lambda path=path, body=body: api.request("POST", path, {}, body).code in (201, 409),
                    "the account exists",
                )
        handler = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        }
        assert api.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", {}, handler).code == 201
        yield api
        api.close()
    finally:
        plane.stop()


def visible(value):
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]}


def mount(path, target="/x", **fields):
    mounts = [{"name": "v", "mountPath": target, **fields}]
    return {"volumeMounts": mounts}, {"volumes": [{"name": "v", "hostPath": {"path": path}}]}


def requests(name, amount):
    return {"resources": {"limits": {name: amount}}}


PODS = {
    "plain": ({}, {}),
    "all GPUs": (visible("all"), {}),
    "void in a list": (visible("all, void"), {}),
    "none first": (visible("none,all"), {}),
    "blanks": (visible(" ,\u2003, "), {}),
    "composed": ({"env": [{"name": "A", "value": "all"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "$(A)"}]}, {}),
    "from a field": (
        {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {},
    ),
    "last entry counts": ({"env": [*visible("all")["env"], *visible("void")["env"]]}, {}),
    "requested": (visible("GPU-1") | requests("nvidia.com/gpu", "1"), {}),
    "requested, on a node": (visible("GPU-1") | requests("nvidia.com/gpu", "1"), {"nodeName": "n"}),
    "requested none": (visible("GPU-1") | requests("nvidia.com/gpu", "0"), {}),
    "runtime class": ({}, {"runtimeClassName": "nvidia"}),
    "runtime class, sees nothing": (visible("void"), {"runtimeClassName": "nvidia"}),
    "device node": mount("//dev/./nvidia0"),
    "device node by sub-path": mount("/proc/1/root/dev", subPath="nvidia0"),
    "unknown sub-path": mount("/usr/local/nvidia", subPathExpr="x/$(A)"),
    "logs": mount("/var/log"),
    "CDI specs": mount("/var/run/cdi"),
    "CDI specs to read": mount("/var/run/cdi", readOnly=True),
    "kubelet's sockets": mount("/var/lib/kubelet/device-plugins"),
    "device list": mount("/dev/null", "/var/run/nvidia-container-devices/all"),
    "CUDA image": ({"image": "NVCR.io/nvidia/cuda:12"}, {}),
    "old CUDA image": ({"env": [{"name": "CUDA_VERSION", "value": "10"}]}, {}),
    "exempt account": (visible("all"), {"serviceAccountName": "dcgm-exporter"}),
}


def pod(container, spec, name="p"):
    containers = [{"name": "main", "image": "train", **container}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def expected(document, namespace, **asked):
    """The messages of the compiled policies, by our CEL."""
    policies = compile_policies(parse_settings(SETTINGS), ManifestsView([]))
    request = Request(document, namespace=namespace, user=UserInfo("system:admin", MASTERS), **asked)
    return [each.message for each in policy_refusals(policies, request)]


@pytest.mark.parametrize("namespace", ["team-a", "team-b", "monitoring"])
@pytest.mark.parametrize("name", PODS)
def test_pods_are_refused_as_our_cel_says(server, name, namespace):
    document = pod(*PODS[name])
    answer = server.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}, document)
    messages = expected(document, namespace)
    assert answer.accepted is not bool(messages), answer.message
    # The API server shows the first refusal.
    assert not messages or answer.message.endswith(f"denied request: {messages[0]}")


def test_some_pods_are_refused_and_some_are_not():
    refused = {name for name in PODS if expected(pod(*PODS[name]), "team-a")}
    assert {"plain", "logs", "void in a list", "CDI specs to read", "requested", "exempt account"}.isdisjoint(refused)
    assert len(refused) > len(PODS) / 2


@pytest.mark.parametrize(("count", "accepted"), [(32, True), (33, False)])
def test_claim_of_more_devices_than_it_can_hold_is_refused(server, count, accepted):
    requests = [
        {"name": "a", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count - 3}},
        {"name": "b", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}},
        {
            "name": "c",
            "firstAvailable": [
                {"name": "x", "deviceClassName": "gpu.nvidia.com", "count": 40},
                {"name": "y", "deviceClassName": "gpu.nvidia.com", "count": 2},
            ],
        },
    ]
    spec = {"devices": {"requests": requests}}
    base = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "c"}}
    for kind, body in (("ResourceClaim", spec), ("ResourceClaimTemplate", {"spec": spec})):
        path = f"{_CLAIMS}/{kind.lower()}s"
        answer = server.request("POST", path, {"dryRun": "All"}, {**base, "kind": kind, "spec": body})
        assert answer.accepted is accepted, answer.message
        assert accepted or f"; number of devices {count} [GA227]" in answer.message


def test_label_with_an_unknown_value_is_refused(server):
    metadata = {"name": "team-c", "labels": {"gpu-admission.io/dra": "yes"}}
    answer = server.request(
        "POST", "/api/v1/namespaces", {}, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )
    assert "the label gpu-admission.io/dra must be enabled, preview or disabled" in answer.message


def test_webhooks_of_files_fail_closed_where_they_must(server):
    document = pod(requests("nvidia.com/gpu", "1"), {})
    in_dra = server.request("POST", "/api/v1/namespaces/converts/pods", {"dryRun": "All"}, document)
    assert 'failed calling webhook "convert-pods.gpu-admission.io"' in in_dra.message
    assert server.request("POST", "/api/v1/namespaces/team-a/pods", {"dryRun": "All"}, document).accepted


def test_file_that_is_removed_guards_no_longer(server, manifest):
    def is_accepted():
        return server.request("POST", "/api/v1/namespaces/team-a/pods", {"dryRun": "All"}, document).accepted

    document, text = pod(visible("all"), {}), manifest.read_bytes()
    manifest.unlink()
    try:
        until(is_accepted, "the API server reads the folder", RELOAD_SECONDS)
    finally:
        replace_file(str(manifest), text)
    until(lambda: not is_accepted(), "the API server reads the file", RELOAD_SECONDS)


def test_names_of_files_cannot_be_taken_through_the_api(server):
    name = "access.gpu-admission.static.k8s.io"
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    assert server.request("DELETE", f"{path}/{name}").code == 404
    (policy,) = (
        each for each in compile_policies(parse_settings(SETTINGS), ManifestsView([])) if each.name == "access"
    )
    assert (
        "are reserved for static manifest-based configurations"
        in server.request("POST", path, {}, policy.documents(static=True)[0]).message
    )


def test_pod_beyond_the_cost_limit_is_refused(server):
    """A policy that fails open could be passed by a pod of many containers."""
    accepted, refused = (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "containers": [
                    {"name": f"c{index}", "image": "a", **visible("void"), **requests("nvidia.com/gpu", "1")}
                    for index in range(count)
                ]
            },
        }
        for count in (MOST_CONTAINERS, MOST_CONTAINERS + 1)
    )
    path = "/api/v1/namespaces/team-a/pods"
    answer = server.request("POST", path, {"dryRun": "All"}, accepted)
    assert answer.accepted
    answer = server.request("POST", path, {"dryRun": "All"}, refused)
    assert answer.message.endswith('"ga601_ga602" fails to evaluate: operation cancelled: actual cost limit exceeded')
