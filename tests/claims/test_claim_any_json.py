"""Any JSON in a claim gets an answer."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.claims.parts import places, with_part
from tests.findings import labelled_text
from tests.properties import examples
from webhook.cluster.manifests import ManifestsView

DEVICES = """
  requests:
  - name: gpu
    exactly:
      deviceClassName: gpu.nvidia.com
      allocationMode: ExactCount
      count: 2
      adminAccess: true
      selectors: [{cel: {expression: 'device.attributes["gpu.nvidia.com"].type == "gpu"'}}]
      tolerations: [{key: gpu.nvidia.com/xid, operator: Equal, value: "79", effect: NoExecute, tolerationSeconds: 30}]
      capacity: {requests: {memory: 10Gi}}
  - name: slice
    firstAvailable:
    - {name: large, deviceClassName: mig.nvidia.com, count: 1}
    - {name: small, deviceClassName: mig.nvidia.com, allocationMode: All}
  constraints:
  - {requests: [gpu, slice/large], matchAttribute: gpu.nvidia.com/parentUUID}
  - {distinctAttribute: gpu.nvidia.com/uuid}
  config:
  - requests: [gpu]
    opaque:
      driver: gpu.nvidia.com
      parameters:
        apiVersion: resource.nvidia.com/v1beta1
        kind: GpuConfig
        sharing: {strategy: MPS, mpsConfig: {defaultActiveThreadPercentage: 50, defaultPinnedDeviceMemoryLimit: 4Gi}}
"""
CLASS = """
selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]
config: [{opaque: {driver: gpu.nvidia.com, parameters: {kind: GpuConfig}}}]
extendedResourceName: nvidia.com/gpu
"""


def made(kind, spec, version="resource.k8s.io/v1"):
    metadata = {"name": "gpu", "namespace": "team-a"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": {"devices": []}}


CLAIM = {"devices": libyaml.load(DEVICES)}
FLAT = copy.deepcopy(CLAIM)
FLAT["devices"]["requests"][0] |= FLAT["devices"]["requests"][0].pop("exactly")
TEMPLATE = {"metadata": {"labels": {"team": "a"}}, "spec": CLAIM}
DOMAIN = {"numNodes": 2, "channel": {"allocationMode": "All", "resourceClaimTemplate": {"name": "channel"}}}
OBJECTS = {
    "claim": made("ResourceClaim", CLAIM),
    "flat-claim": made("ResourceClaim", FLAT, "resource.k8s.io/v1beta1"),
    "template": made("ResourceClaimTemplate", TEMPLATE),
    "class": made("DeviceClass", libyaml.load(CLASS)),
    "domain": made("ComputeDomain", DOMAIN, "resource.nvidia.com/v1beta1"),
}
CLUSTER = [
    made("DeviceClass", libyaml.load(CLASS)),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}},
    {"serverVersion": {"gitVersion": "v1.36.2"}},
]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
words = st.sampled_from(
    ["gpu", "gpu.nvidia.com", "All", "name", "exactly", "cel", "requests", "opaque", "1Gi", "a/b/c", "?!", ""]
)
anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def answered(document, old=None, entry=""):
    group = str(document["apiVersion"]).rpartition("/")[0]
    request = Request(
        document,
        old_object=old,
        operation="CREATE" if old is None else "UPDATE",
        group=group,
        kind=document["kind"],
        namespace="team-a",
        entry=entry,
    )
    decision = review(request, ManifestsView(CLUSTER, [document]), DEFAULTS)
    assert all(labelled_text(finding) for finding in decision.findings)
    return decision


@pytest.mark.parametrize("document", OBJECTS.values(), ids=OBJECTS.keys())
@given(data=st.data())
def test_any_json_in_the_place_of_a_part_is_answered(document, data):
    path = data.draw(st.sampled_from(sorted(places(document), key=str)))
    changed = with_part(document, path, data.draw(anything))
    answered(changed, entry=data.draw(st.sampled_from(["", "claims"])))


@pytest.mark.parametrize("document", OBJECTS.values(), ids=OBJECTS.keys())
@given(data=st.data())
@settings(max_examples=examples(40))
def test_any_json_before_and_after_an_update_is_answered(document, data):
    path = data.draw(st.sampled_from(sorted(places(document), key=str)))
    answered(with_part(document, path, data.draw(anything)), old=document)
    answered(document, old=with_part(document, path, data.draw(anything)))


@pytest.mark.parametrize("document", OBJECTS.values(), ids=OBJECTS.keys())
@given(version=anything)
@settings(max_examples=examples(25))
def test_any_version_is_answered(document, version):
    group = document["apiVersion"].rpartition("/")[0]
    answered({**document, "apiVersion": f"{group}/{version}"})


@given(shape=anything)
@settings(max_examples=examples(40))
def test_any_json_in_the_place_of_a_spec_is_answered(shape):
    for document in OBJECTS.values():
        answered({**document, "spec": shape})
