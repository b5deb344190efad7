"""Any document and any cluster get an explanation."""

from __future__ import annotations

import copy
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.analyses.explain import Explanation
from policies.kubernetes.objects import json_document

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "gpu", "80Gi", "node-1", "v1", "x y"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "cel", "key"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(document, path=()):
    yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def with_junk(document, path, junk):
    changed = copy.deepcopy(document)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = junk
    return changed


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), junk=JUNK, stored=st.booleans())
def test_explanation_of_anything_is_json(ask, k8s, data, junk, stored):
    objects = {
        "pod": k8s.pod(
            {"cpu": "1", "nvidia.com/gpu": "1"},
            stored=stored,
            resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"),
            nodeSelector={"kubernetes.io/hostname": "node-1"},
            tolerations=[{"key": "a", "operator": "Exists"}],
        ),
        "template": k8s.template(
            k8s.selecting('device.attributes["gpu.nvidia.com"].type == "gpu"', count=9),
            constraints=[{"matchAttribute": "gpu.nvidia.com/productName"}],
        ),
        "node": k8s.node(
            labels={"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/cuda.runtime-version.full": "13.0"},
            taints=[{"key": "a", "effect": "NoSchedule"}],
            allocatable={"nvidia.com/gpu": "2"},
        ),
        "slice": k8s.resource_slice(k8s.gpus(2, taints=[{"key": "a", "effect": "NoSchedule"}])),
        "held": k8s.holding("other", [0]),
        "class": k8s.device_class(extendedResourceName="nvidia.com/gpu"),
        "running": k8s.pod({"cpu": "1"}, name="running", nodeName="node-1", stored=True),
    }
    objects["pod"]["metadata"]["annotations"] = {
        "gpu-admission.io/product": "H200*",
        "gpu-admission.io/min-cuda": "99.0",
    }
    name = data.draw(st.sampled_from(sorted(objects)))
    kept = (("kind",), ("apiVersion",), ("metadata",), ("metadata", "name"), ())
    path = data.draw(st.sampled_from([path for path in places(objects[name]) if path not in kept]))
    objects[name] = with_junk(objects[name], path, junk)
    pod = objects.pop("pod")
    json.dumps(json_document(ask(pod, *objects.values()), Explanation))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), junk=JUNK, stored=st.booleans())
def test_explanation_of_any_claim_is_json(ask, k8s, data, junk, stored):
    asked = k8s.claim(
        k8s.selecting('device.attributes["gpu.nvidia.com"].type == "mig"', count=2),
        stored=stored,
        constraints=[{"requests": ["gpu"], "matchAttribute": "gpu.nvidia.com/productName"}],
    )
    path = data.draw(st.sampled_from([path for path in places(asked) if path not in ((), ("kind",), ("apiVersion",))]))
    json.dumps(
        json_document(ask(with_junk(asked, path, junk), k8s.node(), k8s.resource_slice(k8s.gpus(2))), Explanation)
    )
