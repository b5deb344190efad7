"""Any JSON in a claim, a class or a slice gets an answer."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

HEAD = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu", "namespace": "team-a"}}
CLAIM = """
kind: ResourceClaim
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        count: 2
        selectors: [{cel: {expression: 'device.attributes["d"].model == "a" && device.attributes["d"].rack == 1'}}]
    - name: any
      firstAvailable:
      - {name: all, deviceClassName: gpu, allocationMode: All}
    constraints:
    - {requests: [gpu, any], matchAttribute: d/rack}
    - {distinctAttribute: d/serial}
"""
CLASS = '{kind: DeviceClass, spec: {selectors: [{cel: {expression: device.driver == "d"}}]}}'
SLICE = """
kind: ResourceSlice
spec:
  driver: d
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: a, attributes: {model: {string: a}, rack: {int: 1}, serial: {string: x}}, capacity: {memory: {value: 1Gi}}}
  - {name: b, attributes: {model: {string: a}, d/rack: {int: 1}}, allowMultipleAllocations: false}
"""
OBJECTS = [{**HEAD, **libyaml.load(text)} for text in (CLAIM, CLASS, SLICE)]
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
words = st.sampled_from(
    ["d", "gpu", "All", "value", "string", "int", "cel", "1Gi", "d/rack", "device.driver", "?!", ""]
)
anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def places(document, path=()):
    """The paths of all parts below apiVersion, kind and metadata."""
    if path and path[0] != "spec":
        return
    if path:
        yield path
    for key, item in (
        document.items() if isinstance(document, dict) else enumerate(document if isinstance(document, list) else ())
    ):
        yield from places(item, (*path, key))


def replaced(document, path, value):
    made = copy.deepcopy(document)
    part = made
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return made


PLACES = [(number, path) for number, document in enumerate(OBJECTS) for path in places(document)]


@given(place=st.sampled_from(PLACES), value=anything)
def test_anything_gets_an_answer(place, value):
    number, path = place
    objects = [replaced(each, path, value) if at == number else each for at, each in enumerate(OBJECTS)]
    claim, device_class, resource_slice = objects
    for reviewed in (claim, device_class):
        request = Request(reviewed, group="resource.k8s.io", kind=reviewed["kind"], namespace="team-a", entry="claims")
        review(request, ManifestsView([device_class, resource_slice], [reviewed]), DEFAULTS)
