"""Properties of conversion for every pod and every malformed pod: one answer, and no other changes."""

from __future__ import annotations

import copy
from pathlib import Path

import jsonpatch
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.admission import review
from policies.admission.webhooks import ENTRIES
from policies.conversion import record
from policies.conversion.record import ConversionRecord
from policies.kubernetes.names import MANAGED, RECORD
from policies.kubernetes.nodes import REQUIRED
from policies.nvidia.labels import is_gpu_label
from policies.nvidia.mig import parse_resource
from policies.rules.decision import Decision
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
OBJECTS = [document for file in sorted(EXAMPLE.glob("*.yaml")) for document in libyaml.load_all(file.read_text())]
CLUSTER = ManifestsView(OBJECTS)

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def few(**strategies):
    """A mapping with some of these keys."""
    return st.fixed_dictionaries({}, optional=strategies)


# Names that collide with each other, with pieces, with the hashed name of a piece, and at the greatest length.
names = st.sampled_from(
    ["app", "app-0", "app-1", "app-52f5c529-0", "a", "0", "x" * 63, "x" * 62 + "y", "x" * 53 + "-" + "y" * 9, "gpu"]
)
resources = st.sampled_from(
    [GPU, MIG, "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared", "nvidia.com/mig-1c.2g.10gb", "cpu"]
)
amounts = st.sampled_from([0, 1, 2, 5, "0", "1", "3", "1000m", "1e0"]) | st.sampled_from(["0.5", -1, "x", None, 40])
labels = st.sampled_from(
    [
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"),
        ("nvidia.com/gpu.product", "Tesla-T4-SHARED"),
        ("nvidia.com/gpu.family", "hopper"),
        ("nvidia.com/gpu.memory", "81559"),
        ("nvidia.com/gpu.compute.major", "8"),
        ("nvidia.com/cuda.driver-version.full", "580.95.05"),
        ("nvidia.com/gpu.present", "true"),
        ("nvidia.com/gpu.sharing-strategy", "none"),
        ("nvidia.com/gpu.count", "8"),
        ("topology.kubernetes.io/zone", "europe-west4-b"),
        ("kubernetes.io/os", "linux"),
    ]
)
WISH = "gpu-admission.io/"
annotations = few(
    **{
        RECORD: st.text(max_size=5),
        f"{WISH}product": st.sampled_from(["H100*", "!*MIG*", "*MIG*", "A100*", "B300", "H100-SHARED", ""]),
        f"{WISH}min-memory": st.sampled_from(["40Gi", "1Mi", "80GB"]),
        f"{WISH}gpu-memory": st.sampled_from(["4Gi", "20G", "20GB"]),
        f"{WISH}family": st.sampled_from(["hopper", "ampere,hopper", "hoper"]),
        f"{WISH}sharing": st.sampled_from(["exclusive", "shared", "any", "none"]),
    }
)
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])


@st.composite
def expressions(draw):
    (key, value), operator = draw(labels), draw(operators)
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    others = [other for name, other in draw(st.lists(labels, max_size=2)) if name == key]
    return {"key": key, "operator": operator, "values": [value, *others] if operator in ("In", "NotIn") else [value]}


terms = few(
    matchExpressions=st.lists(expressions(), max_size=3) | st.none(),
    matchFields=st.just([{"key": "metadata.name", "operator": "In", "values": ["gpu-h100-01"]}]),
)


@st.composite
def containers(draw):
    limits = draw(st.dictionaries(resources, amounts, max_size=3))
    wanted = {
        "limits": limits,
        "requests": draw(st.builds(dict, st.just(limits)) | st.dictionaries(resources, amounts, max_size=2)),
    }
    wanted |= draw(few(claims=st.just([{"name": "mine"}]) | st.none()))
    return {
        "name": draw(names),
        **draw(few(resources=st.just(wanted) | st.none() | st.just({}))),
        **draw(few(restartPolicy=st.just("Always"), image=st.text(max_size=3), newField=json_values)),
    }


@st.composite
def pods(draw):
    """Pods that could be, some of them odd."""
    every = draw(st.lists(containers(), min_size=1, max_size=4, unique_by=lambda container: container["name"]))
    cut = draw(st.integers(0, len(every) - 1))
    affinity = draw(st.lists(terms, max_size=3))
    spec = draw(
        few(
            nodeSelector=st.lists(labels, max_size=2).map(dict) | st.none(),
            affinity=st.just(required(affinity)) | st.none(),
            tolerations=st.just([{"key": GPU, "operator": "Exists"}]) | st.just([]) | st.none(),
            resourceClaims=st.just([{"name": "gpu", "resourceClaimName": "nic"}, {"name": "mine"}]) | st.none(),
            schedulerName=st.sampled_from(["default-scheduler", "volcano"]),
            volumes=json_values,
        )
    )
    metadata = draw(
        few(
            name=st.just("pod"),
            labels=st.sampled_from([None, {}, {MANAGED: "yes"}, {"gpu-admission.io/dra": "disabled"}]),
            annotations=st.none() | annotations,
            newField=json_values,
        )
    )
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "initContainers": every[:cut], "containers": every[cut:]},
    }


@st.composite
def converted_pods(draw):
    """The same pods, asking for amounts that can be had; most of them are converted."""
    pod = draw(pods())
    every = all_containers(pod)
    for container in every:
        wanted = draw(st.dictionaries(st.sampled_from([GPU, MIG]), st.integers(1, 4), min_size=container is every[0]))
        container["resources"] = {"limits": wanted, "requests": dict(wanted)}
    pod["spec"].pop("schedulerName", None)
    pod["metadata"].pop("labels", None)
    return pod


def required(node_selector_terms):
    return {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": node_selector_terms}}}


@st.composite
def broken_pods(draw):
    """Pods with something else in the place of one of their parts."""
    pod = copy.deepcopy(draw(pods()))
    node = pod
    for _ in range(draw(st.integers(0, 9))):
        steps = list(node) if isinstance(node, dict) else list(range(len(node)))
        deeper = [step for step in steps if isinstance(node[step], dict | list) and node[step]]
        if not deeper:
            break
        node = node[draw(st.sampled_from(deeper))]
    step = draw(st.sampled_from(list(node) if isinstance(node, dict) else list(range(len(node)))))
    node[step] = draw(json_values)
    return pod


def asked(pod, view=CLUSTER, **fields):
    return review(Request(object=pod, namespace=fields.pop("namespace", "team-a"), **fields), view, DEFAULTS)


@given(
    json_values | broken_pods(),
    json_values,
    st.sampled_from(["", *ENTRIES]),
    st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]) | st.just("CREATE"),
    st.sampled_from(["team-a", "team-preview", "team-legacy", "nowhere", ""]),
    st.sampled_from([CLUSTER, ManifestsView()]),
)
def test_any_json_gets_a_decision(document, old, entry, operation, namespace, view):
    before = copy.deepcopy(document)
    decision = asked(document, view, old_object=old, entry=entry, operation=operation, namespace=namespace)
    assert isinstance(decision, Decision)
    assert all(len(line) <= 120 and line.isprintable() for line in decision.warnings)
    assert repr(document) == repr(before)
    assert decision.allowed or not decision.patch


@given(pods() | converted_pods())
def test_patch_makes_the_object(pod):
    decision = asked(pod)
    assert jsonpatch.apply_patch(pod, list(decision.patch)) == decision.object


@given(pods() | converted_pods())
def test_second_review_changes_nothing(pod):
    decision = asked(pod)
    assume(decision.allowed)
    again = asked(decision.object)
    assert (again.allowed, again.patch, again.templates) == (True, (), decision.templates)


def test_pod_left_for_its_shared_gpus_stays_so_when_placement_adds_conditions_that_no_claim_can_express():
    """Placement writes the product of both resources into every term, also into one before that with the reason."""
    resources = {GPU: 1, MIG: 1}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["gpu-h100-01"]}]
    shared = {"key": "nvidia.com/gpu.sharing-strategy", "operator": "NotIn", "values": ["none"]}
    pod = {
        "metadata": {"annotations": {f"{WISH}product": "H100*"}},
        "spec": {
            "affinity": required([{"matchFields": fields}, {"matchExpressions": [shared]}]),
            "containers": [{"name": "app", "resources": {"limits": resources, "requests": resources}}],
        },
    }
    decision = asked(pod)
    assert [finding.rule.id for finding in decision.findings] == ["GA306", "GA413"]
    first_term = decision.object["spec"]["affinity"]["nodeAffinity"][REQUIRED[-1]]["nodeSelectorTerms"][0]
    assert f"{MIG}.product" in [expression["key"] for expression in first_term["matchExpressions"]]
    again = asked(decision.object)
    assert (again.findings, again.patch, again.templates) == (decision.findings, (), ())


@given(converted_pods(), st.none() | annotations)
def test_converted_pod_stays_as_it_is_whatever_it_wishes_later(pod, later):
    decision = asked(pod, entry="convert-pods")
    assume(decision.templates)
    metadata = decision.object["metadata"]
    text = metadata["annotations"][RECORD]
    edited = {**decision.object, "metadata": {**metadata, "annotations": {**(later or {}), RECORD: text}}}
    again = asked(edited, entry="convert-pods")
    assert (again.findings, again.patch, again.templates) == ((), (), decision.templates)
    assert asked(edited, entry="enforce-converted-pods").findings == ()
    assert ConversionRecord.parse(text).annotation == text


@given(converted_pods())
def test_claim_of_an_equal_record_changes_nothing(pod):
    """Two pods have equal records although their node selectors are written in another order."""
    spec = pod["spec"]
    other = {**pod, "spec": {**spec, "nodeSelector": dict(reversed((spec.get("nodeSelector") or {}).items()))}}
    asked(other)
    known = asked(pod)
    record._CLAIMS.clear()
    record._parse.cache.clear()
    assert asked(pod) == known


@given(pods() | converted_pods())
def test_everything_else_in_the_pod_stays(pod):
    decision = asked(pod)
    assert without_conversion(decision.object) == without_conversion(pod)
    for before, after in zip(all_containers(pod), all_containers(decision.object), strict=True):
        for section in ("limits", "requests"):
            kept = {name: amount for name, amount in resources_of(before, section).items() if not parse_resource(name)}
            there = resources_of(after, section)
            assert there == (kept if there.keys() == kept.keys() else resources_of(before, section))
        claims = resources_of(before, "claims")
        assert list(resources_of(after, "claims"))[: len(claims)] == list(claims)


def without_conversion(pod):
    """The pod without everything that conversion may touch, and with empty and missing as one."""
    pod = copy.deepcopy(pod)
    metadata, spec = pod.setdefault("metadata", {}), pod["spec"]
    for field, key in (("annotations", RECORD), ("labels", MANAGED)):
        metadata[field] = {name: text for name, text in (metadata.get(field) or {}).items() if name != key}
    spec["tolerations"] = [
        item
        for item in spec.get("tolerations") or []
        if item != {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    ]
    spec["resourceClaims"] = [
        item
        for item in spec.get("resourceClaims") or []
        if not str(item.get("resourceClaimTemplateName")).startswith("gpu-")
    ]
    spec["nodeSelector"] = {
        key: value for key, value in (spec.get("nodeSelector") or {}).items() if not is_gpu_label(key)
    }
    spec.pop("affinity", None)  # test_device_properties asks whether it still means the same
    for container in all_containers(pod):
        container.pop("resources", None)
    return pod


def all_containers(pod):
    return [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]


def resources_of(container, section):
    return (container.get("resources") or {}).get(section) or {}


def test_record_with_endless_numbers_is_no_record():
    """Their sum has more digits than Python turns into text."""
    endless = "9" * 4300
    ask = '{"name":"%s","kind":"container","resources":{"nvidia.com/gpu":%s}}'
    record = '{"containers":[' + ",".join(ask % (name, endless) for name in ("a", "b")) + "]}"
    resources = {"limits": {GPU: 1}, "requests": {GPU: 1}}
    pod = {
        "metadata": {"annotations": {RECORD: record}},
        "spec": {"containers": [{"name": "a", "resources": resources}]},
    }
    assert asked(pod).object["metadata"]["annotations"][RECORD] != record
