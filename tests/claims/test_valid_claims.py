"""Claims that Kubernetes and the driver accept give no finding, in any version of the API."""

from pathlib import Path

import pytest
import yaml

from testbed import libyaml

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster" / "deviceclasses.yaml"
HEAD = "apiVersion: resource.k8s.io/{version}\nkind: {kind}\nmetadata: {{{metadata}}}\nspec: {spec}"
TUNED = """
deviceClassName: gpu.nvidia.com
allocationMode: ExactCount
count: 2
selectors:
- cel: {expression: 'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H100")'}
- cel: {expression: 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'}
tolerations:
- {key: gpu.nvidia.com/xid, operator: Exists, effect: NoSchedule}
- {operator: Exists, effect: NoExecute, tolerationSeconds: 60}
capacity: {requests: {memory: 10Gi}}
"""
AROUND = """
constraints:
- {requests: [gpus], matchAttribute: resource.kubernetes.io/pcieRoot}
- {distinctAttribute: gpu.nvidia.com/uuid}
config:
- requests: [gpus]
  opaque:
    driver: gpu.nvidia.com
    parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig}
"""
LISTED = {
    "name": "any",
    "firstAvailable": [
        {"name": "whole", "deviceClassName": "gpu.nvidia.com"},
        {"name": "slice", "deviceClassName": "mig.nvidia.com", "allocationMode": "All"},
    ],
}


def devices(version):
    tuned = libyaml.load(TUNED)
    first = {"name": "gpus", **(tuned if version == "v1beta1" else {"exactly": tuned})}
    return {"devices": {"requests": [first, LISTED], **libyaml.load(AROUND)}}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_claim_with_everything_gives_no_finding(examined, version, kind):
    spec = (
        devices(version) if kind == "ResourceClaim" else {"metadata": {"labels": {"a": "b"}}, "spec": devices(version)}
    )
    metadata = "name: gpus, namespace: team-a, labels: {team: a}, annotations: {a: b}"
    assert (
        examined(
            HEAD.format(
                version=version, kind=kind, metadata=metadata, spec=yaml.safe_dump(spec, default_flow_style=True)
            )
        )
        == ()
    )


@pytest.mark.parametrize("spec", ["{}", "{devices: {}}", "{devices: {requests: []}}", "null"])
def test_claim_for_nothing_gives_no_finding(examined, spec):
    assert examined(HEAD.format(version="v1", kind="ResourceClaim", metadata="generateName: gpu-", spec=spec)) == ()


@pytest.mark.parametrize(
    "document", list(libyaml.load_all(EXAMPLES.read_text())), ids=lambda document: document["kind"]
)
def test_shipped_classes_give_no_finding(examined, document):
    for item in document.get("items", [document]):
        whole = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **item}
        assert examined(yaml.safe_dump(whole)) == ()


def test_compute_domain_gives_no_finding(examined):
    text = "apiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\nmetadata: {name: imex, namespace: team-a}\n"
    assert examined(text + "spec: {numNodes: 0, channel: {resourceClaimTemplate: {name: imex-channel}}}") == ()
