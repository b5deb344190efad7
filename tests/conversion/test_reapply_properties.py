"""A converted pod whose manifest is applied again keeps its stored form, and other GPU requests are not hidden."""

from __future__ import annotations

import copy
from pathlib import Path

import jsonpatch
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.admission import review
from policies.kubernetes.names import DRA_LABEL, MANAGED, RECORD
from policies.kubernetes.nodes import REQUIRED
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement, TaintTolerated
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
OBJECTS = [document for file in sorted(EXAMPLE.glob("*.yaml")) for document in libyaml.load_all(file.read_text())]
TEAM = {"apiVersion": "v1", "kind": "Namespace"}
CLUSTERS = {
    strategy: ManifestsView(
        [
            *OBJECTS,
            {
                **TEAM,
                "metadata": {"name": "team-a", "labels": {DRA_LABEL: "enabled", f"{DRA_LABEL}-strategy": strategy}},
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "mig-small"},
                "spec": {"extendedResourceName": "nvidia.com/mig-1g.10gb"},
            },
        ]
    )
    for strategy in ("template", "rename")
}
POLICIES = [
    DEFAULTS,
    GPUAdmissionPolicy(placement=Placement(tolerations=(TaintTolerated("sku", "gpu"), TaintTolerated("spot")))),
]

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
PRODUCT = "nvidia.com/gpu.product"
H100 = "NVIDIA-H100-80GB-HBM3"
KEPT_TERM = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
GPU_TERM = {"key": "nvidia.com/gpu.family", "operator": "In", "values": ["hopper"]}

amounts = st.dictionaries(st.sampled_from([GPU, MIG]), st.integers(0, 3).map(str))
terms = st.sampled_from([[], [KEPT_TERM], [GPU_TERM], [KEPT_TERM, GPU_TERM]])


@st.composite
def manifests(draw):
    """Pods as people write them, requests filled in."""
    names = ["prepare", "watch", "train", "serve"]
    containers = [{"name": name, "image": "a:1", **resources_of(draw)} for name in names]
    containers[1]["restartPolicy"] = "Always"
    spec = {"initContainers": containers[:2], "containers": containers[2:]}
    if selector := draw(st.sampled_from([{}, {"zone": "a"}, {PRODUCT: H100}, {"zone": "a", PRODUCT: H100}])):
        spec["nodeSelector"] = selector
    if required := draw(terms):
        spec["affinity"] = {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": [{"matchExpressions": required}]}}}
        if draw(st.booleans()):
            spec["affinity"]["podAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    if draw(st.booleans()):
        spec["tolerations"] = draw(st.lists(st.sampled_from([{"key": "a", "operator": "Exists"}, {"key": "b"}])))
    if any("claims" in container.get("resources", {}) for container in containers):
        spec["resourceClaims"] = [{"name": "nic", "resourceClaimName": "nic"}]
    annotations = draw(st.sampled_from([{}, {"gpu-admission.io/min-memory": "40Gi"}, {"note": "x"}]))
    metadata = {"name": "pod", "namespace": "team-a", **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def resources_of(draw):
    asked = draw(amounts) | draw(st.sampled_from([{}, {"cpu": "1"}]))
    resources = {"limits": asked, "requests": dict(asked)} if asked else {}
    if draw(st.integers(0, 4)) == 0:
        resources["claims"] = [{"name": "nic"}]
    return {"resources": resources} if resources else {}


def applied(manifest, stored, *, lists_merge):
    """What `kubectl apply` makes of a stored pod: maps are merged, and lists replaced, unless they merge by name."""
    if isinstance(manifest, dict) and isinstance(stored, dict):
        return stored | {
            key: applied_to_list(key, value, stored.get(key), lists_merge=lists_merge)
            if isinstance(value, list)
            else applied(value, stored.get(key), lists_merge=lists_merge)
            for key, value in manifest.items()
        }
    return copy.deepcopy(manifest)


def applied_to_list(key, manifest, stored, *, lists_merge):
    by_name = ("containers", "initContainers", "resourceClaims", *(("claims",) if lists_merge else ()))
    if key not in by_name:
        return copy.deepcopy(manifest)
    wanted = {item["name"]: item for item in manifest}
    there = [
        applied(wanted[item["name"]], item, lists_merge=lists_merge) if item["name"] in wanted else item
        for item in stored or []
    ]
    return there + [item for name, item in wanted.items() if name not in {each["name"] for each in there}]


def updated(pod, stored, policy=DEFAULTS, **fields):
    request = Request(object=pod, old_object=stored, operation="UPDATE", namespace="team-a", **fields)
    return review(request, CLUSTERS["template"], policy)


def converted(manifest, strategy, policy=DEFAULTS):
    decision = review(Request(object=manifest, namespace="team-a"), CLUSTERS[strategy], policy)
    assume(decision.allowed and RECORD in decision.object["metadata"].get("annotations", {}))
    return decision.object


strategies = st.sampled_from(["template", "rename"])


@given(manifests(), strategies, st.booleans(), st.sampled_from(POLICIES))
def test_manifest_applied_again_gives_the_stored_spec(manifest, strategy, lists_merge, policy):
    stored = converted(manifest, strategy, policy)
    again = applied(manifest, stored, lists_merge=lists_merge)
    decision = updated(again, stored, policy)
    assert (decision.findings, decision.object) == ((), stored)
    assert jsonpatch.apply_patch(again, list(decision.patch)) == stored


@given(manifests(), strategies, st.sampled_from(POLICIES))
def test_manifest_in_the_place_of_the_pod_gives_the_stored_spec(manifest, strategy, policy):
    stored = converted(manifest, strategy, policy)
    decision = updated({**manifest, "metadata": {**manifest["metadata"], "labels": {}}}, stored, policy)
    assert (decision.findings, decision.object["spec"]) == ((), stored["spec"])


@given(manifests(), strategies, st.booleans(), st.data())
def test_another_requesting_gpus_is_never_hidden(manifest, strategy, lists_merge, data):
    stored = converted(manifest, strategy)
    changed = copy.deepcopy(manifest)
    change(changed, data.draw)
    assume(asking(changed) != asking(manifest))
    again = applied(changed, stored, lists_merge=lists_merge)
    assume(names_gpus(again))
    decision = updated(again, stored)
    assert decision.allowed
    assert {finding.rule.id for finding in decision.findings} == {"GA328"}
    assert decision.object["spec"] == again["spec"]


@given(manifests(), manifests(), strategies, st.booleans(), st.text(max_size=3))
def test_update_answered_once_is_answered(manifest, other, strategy, lists_merge, record):
    stored = converted(manifest, strategy)
    pod = applied(other, stored, lists_merge=lists_merge)
    assume(pod["spec"] != stored["spec"])
    pod["metadata"] = {**pod["metadata"], "annotations": {RECORD: record}, "labels": {MANAGED: record}}
    decision = updated(pod, stored)
    assert jsonpatch.apply_patch(pod, list(decision.patch)) == decision.object
    assert updated(decision.object, stored).patch == ()
    assert decision.object["metadata"]["annotations"][RECORD] == stored["metadata"]["annotations"][RECORD]


def change(manifest, draw):
    """Change what a manifest asks for in one place."""
    container = draw(st.sampled_from([*manifest["spec"]["initContainers"], *manifest["spec"]["containers"]]))
    what = draw(st.sampled_from(["amount", "selector", "terms", "wish"]))
    if what == "amount":
        resource, amount = draw(st.sampled_from([GPU, MIG])), draw(st.sampled_from(["0", "1", "2", "4"]))
        for section in ("limits", "requests"):
            container.setdefault("resources", {}).setdefault(section, {})[resource] = amount
    elif what == "selector":
        manifest["spec"].setdefault("nodeSelector", {})[PRODUCT] = "Tesla-T4"
    elif what == "terms":
        terms = [{"matchExpressions": [{**GPU_TERM, "values": ["ampere"]}]}]
        manifest["spec"]["affinity"] = {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": terms}}}
    else:
        manifest["metadata"].setdefault("annotations", {})["gpu-admission.io/min-memory"] = "80Gi"


def asking(manifest):
    every = [*manifest["spec"]["initContainers"], *manifest["spec"]["containers"]]
    asked = {
        (container["name"], resource): amount
        for container in every
        for resource, amount in container.get("resources", {}).get("limits", {}).items()
        if resource in (GPU, MIG) and amount != "0"
    }
    terms = yaml.safe_dump(manifest["spec"].get("affinity", {}).get("nodeAffinity"))
    wish = manifest["metadata"].get("annotations", {}).get("gpu-admission.io/min-memory")
    return asked, manifest["spec"].get("nodeSelector", {}).get(PRODUCT), terms if "gpu" in terms else "", wish


def names_gpus(pod):
    every = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    return any({GPU, MIG} & container.get("resources", {}).get("limits", {}).keys() for container in every)
