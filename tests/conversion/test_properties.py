"""What holds for every pod, and for everything that is none: conversion answers, once, and changes no more than it says."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import jsonpatch
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from policies.conversion.asked import RECORD, Asked
from policies.decision import MANAGED, Decision
from policies.entries import ENTRIES
from policies.kubernetes.nodes import REQUIRED, pod_selects
from policies.kubernetes.paths import lookup
from policies.kubernetes.resourceslices import devices_of
from policies.nvidia.labels import is_gpu_label
from policies.nvidia.resources import parse_resource
from policies.request import Request
from policies.review import review
from policies.settings import DEFAULTS
from policies.view import UnknownCluster
from webhook.cluster.manifests import ManifestsView

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
OBJECTS = [
    document
    for file in sorted(EXAMPLE.glob("*.yaml"))
    for document in yaml.load_all(file.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
]
CLUSTER = ManifestsView(OBJECTS)
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

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
            annotations=st.none() | st.fixed_dictionaries({RECORD: st.text(max_size=5)}),
            newField=json_values,
        )
    )
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "initContainers": every[:cut], "containers": every[cut:]},
    }


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


@settings(max_examples=300, deadline=None)
@given(
    json_values | broken_pods(),
    json_values,
    st.sampled_from(["", *ENTRIES]),
    st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]) | st.just("CREATE"),
    st.sampled_from(["team-a", "team-preview", "team-legacy", "nowhere", ""]),
    st.sampled_from([CLUSTER, UnknownCluster()]),
)
def test_any_json_gets_a_decision(document, old, entry, operation, namespace, view):
    before = copy.deepcopy(document)
    decision = asked(document, view, old_object=old, entry=entry, operation=operation, namespace=namespace)
    assert isinstance(decision, Decision)
    assert all(len(line) <= 120 and line.isprintable() for line in decision.warnings)
    assert repr(document) == repr(before)
    assert decision.allowed or not decision.patch


@settings(max_examples=300, deadline=None)
@given(pods())
def test_patch_makes_the_object(pod):
    decision = asked(pod)
    assert jsonpatch.apply_patch(pod, list(decision.patch)) == decision.object


@settings(max_examples=300, deadline=None)
@given(pods())
def test_second_review_changes_nothing(pod):
    decision = asked(pod)
    assume(decision.allowed)
    again = asked(decision.object)
    assert (again.allowed, again.patch, again.templates) == (True, (), ())


@settings(max_examples=300, deadline=None)
@given(pods())
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
    spec.pop("affinity", None)  # whether it still means the same is the next property's
    for container in all_containers(pod):
        container.pop("resources", None)
    return pod


def all_containers(pod):
    return [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]


def resources_of(container, section):
    return (container.get("resources") or {}).get(section) or {}


NODES = [
    (node, [device for device in devices_of(CLUSTER.list("ResourceSlice")) if device.node == name])
    for node in CLUSTER.list("Node")
    for name in [node["metadata"]["name"]]
]
SUFFIXES = ("product", "memory", "family", "compute.major", "driver-version.full", "runtime.minor", "zone", "present")


@st.composite
def conditions(draw):
    """Expressions on labels as nodes of the example cluster have them, and on values that none has."""
    node, _ = draw(st.sampled_from(NODES[1:]))
    key, value = draw(
        st.sampled_from([item for item in node["metadata"]["labels"].items() if item[0].endswith(SUFFIXES)])
    )
    operator = draw(operators)
    match operator:
        case "Exists" | "DoesNotExist":
            return {"key": key, "operator": operator}
        case "Gt" | "Lt":
            assume(value.isdecimal())
            return {"key": key, "operator": operator, "values": [str(int(value) + draw(st.integers(-1, 1)))]}
        case _:
            other = draw(st.sampled_from(NODES[1:]))[0]["metadata"]["labels"].get(key, value)
            return {"key": key, "operator": operator, "values": sorted({value, other})}


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(st.lists(conditions(), min_size=1, max_size=2), min_size=1, max_size=2), st.sampled_from([GPU, MIG]))
def test_devices_are_selected_where_their_nodes_were(alternatives, resource):
    """On DRA nodes that GPU Feature Discovery labels as before: the claim takes a device where the pod took its node."""
    spec = {
        "containers": [{"name": "app", "resources": {"limits": {resource: 1}, "requests": {resource: 1}}}],
        "affinity": required([{"matchExpressions": expressions} for expressions in alternatives]),
    }
    decision = asked({"spec": spec})
    assume(decision.templates)
    record = Asked.from_record(decision.object["metadata"]["annotations"][RECORD])
    left = decision.object["spec"]
    assert not any(is_gpu_label(each["key"]) for each in expressions_of(left))
    for node, devices in NODES:
        for device in devices:
            if device.attributes.get("gpu.nvidia.com/type") != ("gpu" if resource == GPU else "mig"):
                continue
            if resource == MIG and device.attributes["gpu.nvidia.com/profile"] != "1g.10gb":
                continue
            by_claim = pod_selects(left, node) and record.predicates[resource].matches(device)
            assert by_claim == pod_selects(spec, node), (node["metadata"]["name"], device.name)


def expressions_of(spec):
    for term in (lookup(spec, REQUIRED) or {}).get("nodeSelectorTerms", []):
        yield from term.get("matchExpressions") or []


asks = st.fixed_dictionaries({}, optional={GPU: st.integers(0, 6), MIG: st.integers(0, 6)})


@st.composite
def counted_pods(draw):
    """Pods of containers, init containers and sidecars that ask for devices and nothing else."""
    every = draw(st.lists(names, min_size=1, max_size=8, unique=True))
    inits = draw(st.integers(0, len(every) - 1))
    made = [
        {
            "name": name,
            "resources": {"limits": wanted, "requests": dict(wanted)},
            **(draw(few(restartPolicy=st.just("Always"))) if number < inits else {}),
        }
        for number, name in enumerate(every)
        for wanted in [draw(asks)]
    ]
    return {"spec": {"initContainers": made[:inits], "containers": made[inits:]}}


def moments(pod):
    """Which containers run together: with each init container the sidecars before it, then everything that stays."""
    running = []
    for container in pod["spec"]["initContainers"]:
        yield [*running, container]
        if container.get("restartPolicy") == "Always":
            running.append(container)
    yield [*running, *pod["spec"]["containers"]]


def most_at_once(pod, resource):
    """What the scheduler reserves: the most that is ever asked for at the same time."""
    return max(sum(resources_of(one, "limits").get(resource, 0) for one in together) for together in moments(pod))


@settings(max_examples=500, deadline=None)
@given(counted_pods())
def test_devices_after_are_devices_before(pod):
    most = {GPU: most_at_once(pod, GPU), MIG: most_at_once(pod, MIG)}
    decision = asked(pod)
    if sum(most.values()) > 32:
        assert [finding.rule for finding in decision.denials] == ["GA304"]
        return
    assert decision.allowed
    requests = [request for template in decision.templates for request in template.spec["spec"]["devices"]["requests"]]
    held = {request["name"]: request["exactly"]["count"] for request in requests}
    kinds = {"gpu.nvidia.com": GPU, "mig.nvidia.com": MIG}
    kind_of = {request["name"]: kinds[request["exactly"]["deviceClassName"]] for request in requests}
    assert {kind: sum(held[name] for name in held if kind_of[name] == kind) for kind in most} == most
    after = {container["name"]: container for container in all_containers(decision.object)}
    for together in moments(pod):
        used = [claim["request"] for one in together for claim in resources_of(after[one["name"]], "claims")]
        assert len(used) == len(set(used)), "two containers that run together share a device"
    for container in all_containers(pod):
        mine = [claim["request"] for claim in resources_of(after[container["name"]], "claims")]
        for kind in most:
            wanted = resources_of(container, "limits").get(kind, 0)
            assert sum(held[name] for name in mine if kind_of[name] == kind) == wanted


@settings(max_examples=300, deadline=None)
@given(counted_pods())
def test_request_names_are_labels_and_differ(pod):
    decision = asked(pod)
    for template in decision.templates:
        written = [request["name"] for request in template.spec["spec"]["devices"]["requests"]]
        assert len(set(written)) == len(written) <= 32
        assert all(DNS_LABEL.fullmatch(name) for name in written)
