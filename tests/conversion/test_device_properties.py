"""A claim holds the devices that the device plugin would have given: the same number and kind for each container."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from policies.admission import review
from policies.conversion.record import ConversionRecord
from policies.kubernetes.names import RECORD
from policies.kubernetes.nodes import REQUIRED, NodeIndex
from policies.kubernetes.objects import lookup
from policies.kubernetes.resourceslices import devices_in
from policies.nvidia.labels import is_gpu_label
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
CLUSTER = ManifestsView(
    document for file in sorted(EXAMPLE.glob("*.yaml")) for document in libyaml.load_all(file.read_text())
)
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"


def asked(pod):
    return review(Request(object=pod, namespace="team-a"), CLUSTER, DEFAULTS)


def all_containers(pod):
    return [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]


def amount(container, resource):
    return container["resources"]["limits"].get(resource, 0)


def requests_used(container):
    return [claim["request"] for claim in container.get("resources", {}).get("claims", [])]


NODES = [
    (node, [device for each in CLUSTER.list("ResourceSlice") for device in devices_in(each) if device.node == name])
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
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    match operator:
        case "Exists" | "DoesNotExist":
            return {"key": key, "operator": operator}
        case "Gt" | "Lt":
            assume(value.isdecimal())
            return {"key": key, "operator": operator, "values": [str(int(value) + draw(st.integers(-1, 1)))]}
        case _:
            other = draw(st.sampled_from(NODES[1:]))[0]["metadata"]["labels"].get(key, value)
            return {"key": key, "operator": operator, "values": sorted({value, other})}


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(st.lists(conditions(), min_size=1, max_size=2), min_size=1, max_size=2), st.sampled_from([GPU, MIG]))
def test_devices_are_selected_where_their_nodes_were(alternatives, resource):
    """On DRA nodes that GPU Feature Discovery labels as before: the claim takes a device where the pod took its node."""
    spec = {
        "containers": [{"name": "app", "resources": {"limits": {resource: 1}, "requests": {resource: 1}}}],
        "affinity": {
            "nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": [{"matchExpressions": each} for each in alternatives]}}
        },
    }
    decision = asked({"spec": spec})
    assume(decision.templates)
    record = ConversionRecord.parse(decision.object["metadata"]["annotations"][RECORD])
    left = decision.object["spec"]
    assert not any(is_gpu_label(each["key"]) for each in expressions_of(left))
    for node, devices in NODES:
        for device in devices:
            if device.attributes.get("gpu.nvidia.com/type") != ("gpu" if resource == GPU else "mig"):
                continue
            if resource == MIG and device.attributes["gpu.nvidia.com/profile"] != "1g.10gb":
                continue
            by_claim = runs_on(left, node) and record.claim.predicates[resource].matches(device)
            assert by_claim == runs_on(spec, node), (node["metadata"]["name"], device.name)


def runs_on(spec, node):
    return NodeIndex([node]).select(spec) == 1


def expressions_of(spec):
    for term in (lookup(spec, REQUIRED) or {}).get("nodeSelectorTerms", []):
        yield from term.get("matchExpressions") or []


# Names that collide with each other, with pieces, with the hashed name of a piece, and at the greatest length.
names = st.sampled_from(
    ["app", "app-0", "app-1", "app-52f5c529-0", "a", "0", "x" * 63, "x" * 62 + "y", "x" * 53 + "-" + "y" * 9, "gpu"]
)
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
            **({"restartPolicy": "Always"} if number < inits and draw(st.booleans()) else {}),
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
    return max(sum(amount(one, resource) for one in together) for together in moments(pod))


@given(counted_pods())
def test_devices_after_are_devices_before(pod):
    most = {GPU: most_at_once(pod, GPU), MIG: most_at_once(pod, MIG)}
    decision = asked(pod)
    if sum(most.values()) > 32:
        assert [finding.rule.id for finding in decision.denials] == ["GA304"]
        return
    assert decision.allowed
    requests = [request for template in decision.templates for request in template.spec["spec"]["devices"]["requests"]]
    held = {request["name"]: request["exactly"]["count"] for request in requests}
    kinds = {"gpu.nvidia.com": GPU, "mig.nvidia.com": MIG}
    kind_of = {request["name"]: kinds[request["exactly"]["deviceClassName"]] for request in requests}
    assert {kind: sum(held[name] for name in held if kind_of[name] == kind) for kind in most} == most
    after = {container["name"]: container for container in all_containers(decision.object)}
    for together in moments(pod):
        used = [request for one in together for request in requests_used(after[one["name"]])]
        assert len(used) == len(set(used)), "two containers that run together share a device"
    for container in all_containers(pod):
        mine = requests_used(after[container["name"]])
        for kind in most:
            assert sum(held[name] for name in mine if kind_of[name] == kind) == amount(container, kind)


@given(counted_pods())
def test_request_names_are_labels_and_differ(pod):
    decision = asked(pod)
    for template in decision.templates:
        written = [request["name"] for request in template.spec["spec"]["devices"]["requests"]]
        assert len(set(written)) == len(written) <= 32
        assert all(DNS_LABEL.fullmatch(name) for name in written)
