"""Every row of the table in docs/access.md is tried in each mode."""

from pathlib import Path

import pytest

from policies.rules.decision import Severity
from policies.rules.settings import Access, GPUAdmissionPolicy

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
HEAD = "| way | rule | `warn` | `deny` | `deny`, `legacyRuntime` |\n|---|---|---|---|---|\n"
ROWS = [
    tuple(cell.strip() for cell in row.strip("|").split("|"))
    for row in PAGE.read_text().split(HEAD)[1].partition("\n\n")[0].splitlines()
]
SETTINGS = [
    GPUAdmissionPolicy(access=access)
    for access in (Access(mode="warn"), Access(mode="deny"), Access(mode="deny", legacy_runtime=True))
]
WORDS = {Severity.DENY: "refused", Severity.WARN: "warned", Severity.AUDIT: "audited"}

CLUSTER = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fast}
spec:
  extendedResourceName: acme.com/accelerator
  selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim, namespace: team-a}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: fast}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: env, namespace: team-a}
data: {NVIDIA_VISIBLE_DEVICES: all}
"""
NRI = "{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {name: c}, spec: {cdi: {nriPluginEnabled: %s}}}"
CRIO = (
    "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {nodeInfo: {containerRuntimeVersion: cri-o://1.34.1}}}"
)
PLUGIN = {"limits": {"nvidia.com/gpu": "1"}}
CLASS = {"limits": {"acme.com/accelerator": "1"}}
CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]}
CUDA = {"name": "b", "image": "nvcr.io/nvidia/cuda:12"}
ASKING = {"name": "a", "image": "train", "resources": PLUGIN}


def env(name, value="all"):
    return {"env": [{"name": name, "value": value}]}


def pod(*containers, **spec):
    """A pod; a container is a dict of fields, which may leave out name and image."""
    listed = [{"name": "a", "image": "train", **each} for each in containers or ({},)]
    return {"spec": {"containers": listed, **spec}}


def mounting(path, *, read_only=False, **fields):
    mount = {"name": "node", "mountPath": "/x", "readOnly": read_only}
    return pod({"volumeMounts": [mount], **fields}, volumes=[{"name": "node", "hostPath": {"path": path}}])


def annotated(key, cluster):
    metadata = {"name": "p", "annotations": {key: "nvidia.com/gpu=all"}}
    return {**pod(), "metadata": metadata, "cluster": cluster}


def changed(before, after, cluster=CLUSTER):
    """An update of a pod."""
    return {"cluster": cluster, **after, "old_object": before, "operation": "UPDATE"}


VISIBLE, CUDA_VERSION, VOID = (
    env("NVIDIA_VISIBLE_DEVICES"),
    env("CUDA_VERSION", "12"),
    env("NVIDIA_VISIBLE_DEVICES", "void"),
)
FROM = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
RUNTIME = {"runtimeClassName": "nvidia"}
CLAIMED = {"resources": {"claims": [{"name": "gpu"}]}}
DEBUG = {"operation": "UPDATE", "subresource": "ephemeralcontainers"}

TRIED = {
    "`NVIDIA_VISIBLE_DEVICES` names GPUs, without a request": pod(VISIBLE),
    "`NVIDIA_VISIBLE_DEVICES` by `valueFrom`, without a request": pod(FROM),
    "`NVIDIA_VISIBLE_DEVICES` names GPUs, beside `nvidia.com/gpu`": pod({"resources": PLUGIN, **VISIBLE}),
    "`NVIDIA_VISIBLE_DEVICES` names GPUs, beside a claim": pod({**CLAIMED, **VISIBLE}, **CLAIM),
    "`NVIDIA_VISIBLE_DEVICES` names GPUs, beside the resource of a DeviceClass that gives a GPU": pod(
        {"resources": CLASS, **VISIBLE}
    ),
    "the same with `spec.nodeName`: no scheduler makes the claim": pod({"resources": CLASS, **VISIBLE}, nodeName="a"),
    "the same with a scheduler that makes no claims": pod({"resources": CLASS, **VISIBLE}, schedulerName="other"),
    "`NVIDIA_VISIBLE_DEVICES: void` or `none`": pod(VOID),
    "RuntimeClass of NVIDIA, no container requests a GPU": pod(**RUNTIME),
    "RuntimeClass of NVIDIA, beside a request: any container": pod(ASKING, {"name": "b"}, **RUNTIME),
    "RuntimeClass of NVIDIA, beside a request: an image of NVIDIA": pod(ASKING, CUDA, **RUNTIME),
    "RuntimeClass of NVIDIA, beside a request: `CUDA_VERSION`": pod(ASKING, {"name": "b", **CUDA_VERSION}, **RUNTIME),
    "RuntimeClass of NVIDIA: an ephemeral container with an image of NVIDIA": {
        **pod(ASKING, ephemeralContainers=[CUDA], **RUNTIME),
        "old_object": pod(ASKING, **RUNTIME),
        **DEBUG,
    },
    "RuntimeClass of NVIDIA: any ephemeral container in a pod that requests no GPU": {
        **pod(VOID, ephemeralContainers=[{"name": "b", "image": "tool"}], **RUNTIME),
        "old_object": pod(VOID, **RUNTIME),
        **DEBUG,
    },
    "RuntimeClass of NVIDIA: the image changes to one of NVIDIA": changed(
        pod(**RUNTIME), pod(CUDA | {"name": "a"}, **RUNTIME)
    ),
    "no RuntimeClass: an image of NVIDIA, without a request": pod(CUDA),
    "no RuntimeClass: `CUDA_VERSION`, without a request": pod(CUDA_VERSION),
    "the same, beside `NVIDIA_REQUIRE_CUDA` by `valueFrom`, which may be empty": pod(
        {"env": [*CUDA_VERSION["env"], {**FROM["env"][0], "name": "NVIDIA_REQUIRE_CUDA"}]}
    ),
    "no RuntimeClass: the image changes to one of NVIDIA": changed(pod(), pod(CUDA | {"name": "a"})),
    "no RuntimeClass: an ephemeral container with an image of NVIDIA": {
        **pod({}, ephemeralContainers=[CUDA]),
        "old_object": pod(),
        **DEBUG,
    },
    "an image of NVIDIA in a container that requests a GPU": pod(CUDA | {"resources": PLUGIN}),
    "mount of `/dev/nvidia0`, without a request": mounting("/dev/nvidia0"),
    "mount of `/dev/nvidia0`, beside `nvidia.com/gpu`": mounting("/dev/nvidia0", resources=PLUGIN),
    "mount of the driver's folders, without a request": mounting("/run/nvidia/driver"),
    "mount of `/dev/vfio`": mounting("/dev/vfio"),
    "mount of CDI specs, writable": mounting("/etc/cdi"),
    "mount of CDI specs, `readOnly: true`": mounting("/etc/cdi", read_only=True),
    "mount of the sockets of device plugins or of NVIDIA's DRA driver": mounting("/var/lib/kubelet/device-plugins"),
    "mount of the socket of a container runtime": mounting("/run/containerd/containerd.sock"),
    "mount at `/var/run/nvidia-container-devices/all`": pod(
        {"volumeMounts": [{"name": "x", "mountPath": "/var/run/nvidia-container-devices/all"}]}
    ),
    "`NVIDIA_VISIBLE_DEVICES` by `envFrom`, in files": pod({"envFrom": [{"configMapRef": {"name": "env"}}]}),
    "annotation `nvidia.cdi.k8s.io/...`, the NRI plugin runs": annotated("nvidia.cdi.k8s.io/pod", NRI % "true"),
    "annotation `nvidia.cdi.k8s.io/...`, unknown whether the NRI plugin runs": annotated("nvidia.cdi.k8s.io/pod", ""),
    "annotation `nvidia.cdi.k8s.io/...`, no NRI plugin runs": annotated("nvidia.cdi.k8s.io/pod", NRI % "false"),
    "annotation `cdi.k8s.io/...`, a node runs CRI-O": annotated("cdi.k8s.io/x", CRIO),
    "an update adds such an annotation": changed(pod(), annotated("cdi.k8s.io/x", CRIO), CRIO),
    "`privileged` or `hostPID`, beside a way that is refused": pod(
        {"securityContext": {"privileged": True}, **VISIBLE}
    ),
    "`privileged` or `hostPID` alone": pod({"securityContext": {"privileged": True}}),
}


def test_table_has_every_way_that_is_tried_here():
    assert [row[0] for row in ROWS] == list(TRIED)


@pytest.mark.parametrize(("way", "rule", "warn", "deny", "legacy"), ROWS, ids=[row[0] for row in ROWS])
def test_row_is_what_each_mode_says(found, way, rule, warn, deny, legacy):
    for settings, expected in zip(SETTINGS, (warn, deny, legacy), strict=True):
        tried = {"cluster": CLUSTER, **TRIED[way]}
        findings = found(tried.pop("spec"), settings=settings, **tried)
        worst = next(
            (word for severity, word in WORDS.items() if severity in {each.severity for each in findings}), "admitted"
        )
        assert worst == expected, [str(each.message) for each in findings]
        assert rule in {each.rule.id for each in findings} or (rule, findings) == ("", [])
