"""Work is bounded: a decision takes steps in proportion to the pod, and none for a pod that is too large.

Steps are counted and not timed: the lines that run in `policies`, and what runs below lines in loops of the
interpreter's own, the items that are copied and the names that are compared.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.admission import review_concern
from policies.conversion.device_layout import (
    ContainerRequest,
    TooManyDevicesError,
    device_layout,
    requests_by_container,
)
from policies.conversion.gpu_amounts import MOST_CONTAINERS, MOST_RESOURCES, reviewable_size
from policies.kubernetes.names import RECORD
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.pods import Pod
from policies.rules.patch import Editor
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.counted_steps import steps
from tests.findings import labelled_text
from webhook.cluster.manifests import ManifestsView

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
OBJECTS = [document for file in sorted(EXAMPLE.glob("*.yaml")) for document in libyaml.load_all(file.read_text())]
CLUSTER = ManifestsView(OBJECTS)

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
CONCERNS = ["conversion", "preview", "placement", "conversion-check"]


def wants(**amounts):
    named = {"gpu": GPU, "mig": "nvidia.com/mig-1g.10gb", "cpu": "cpu"}
    resources = {named[name]: amount for name, amount in amounts.items()}
    return {"limits": resources, "requests": dict(resources)}


def pod(*containers, inits=(), **spec):
    """A pod of these containers and init containers, and of one that asks for a GPU."""
    train = {"name": "train", "resources": wants(gpu=1)}
    return {"kind": "Pod", "spec": {"initContainers": list(inits), "containers": [train, *containers], **spec}}


def many(count, prefix="c", **container):
    return [{"name": f"{prefix}{number}", **container} for number in range(count)]


def affinity(*terms):
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {REQUIRED[-1]: required}}


def term(*expressions):
    return {"matchExpressions": list(expressions)}


def expression(*values, key="zone", operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def zones(count):
    return [f"z{number}" for number in range(count)]


def recorded(count):
    ask = '{"name":"c%d","kind":"init","resources":{"nvidia.com/gpu":1}}'
    record = '{"containers":[' + ",".join(ask % number for number in range(count)) + "]}"
    return {**pod(), "metadata": {"annotations": {RECORD: record}}}


def wishing(count):
    """A pod that wishes many products; above twenty they are not read."""
    products = ",".join(f"A{number}*" for number in range(count))
    return {**pod(), "metadata": {"annotations": {"gpu-admission.io/product": products}}}


def recorded_wish(count):
    """A record with as many wishes, of words that do not exist."""
    wish = ",".join(f'"word-{number}":"A*"' for number in range(count))
    ask = '{"name":"train","kind":"container","resources":{"nvidia.com/gpu":1}}'
    record = '{"containers":[' + ask + '],"wish":{' + wish + "}}"
    return {**pod(), "metadata": {"annotations": {RECORD: record}}}


def converted(count):
    """A converted pod with many claims that refer to its template, and a container that uses them."""
    document = asked(pod(), "conversion").object
    (claim,) = document["spec"]["resourceClaims"]
    claims = [{**claim, "name": f"claim-{number}"} for number in range(count)]
    uses = [{"name": f"claim-{number}"} for number in range(count)]
    other = {"name": "other", "resources": {"claims": uses}}
    spec = {**document["spec"], "resourceClaims": [claim, *claims]}
    return {**document, "spec": {**spec, "containers": [*spec["containers"], other]}}


SMALL = {
    "init containers of a GPU": lambda count: pod(inits=many(count, resources=wants(gpu=1))),
    "init containers of no GPU": lambda count: pod(inits=many(count, resources=wants(gpu=0))),
    "init containers of two resources and more": lambda count: pod(
        inits=many(count // 2, resources=wants(gpu=1, mig=1, cpu=1))
    ),
    "containers of no GPU": lambda count: pod(*many(count, resources=wants(gpu=0, cpu=1))),
    "containers of nothing": lambda count: pod(*many(count)),
    "terms": lambda count: pod(affinity=affinity(*(term(expression(zone)) for zone in zones(count)))),
    "terms of GPUs": lambda count: pod(
        affinity=affinity(*(term(expression(zone, key=PRODUCT)) for zone in zones(count)))
    ),
    "values": lambda count: pod(affinity=affinity(term(expression(*zones(count))))),
    "values of GPUs": lambda count: pod(affinity=affinity(term(expression(*zones(count), key=PRODUCT)))),
    "labels in the node selector": lambda count: pod(nodeSelector=dict.fromkeys(zones(count), "a")),
    "tolerations": lambda count: pod(tolerations=[{"key": zone} for zone in zones(count)]),
    "claims": lambda count: pod(resourceClaims=[{"name": f"gpu-{number}"} for number in range(count)]),
    "a record": recorded,
    "a wish": wishing,
    "a record of wishes": recorded_wish,
    "a converted pod": converted,
}
LARGE = {
    "init containers": lambda count: pod(inits=many(count * 20, resources=wants(gpu=1))),
    "containers of many resources": lambda count: pod(
        *many(count * 2, resources={"limits": {f"nvidia.com/mig-1g.{size}gb": 1 for size in range(5, 25)}})
    ),
    "terms": lambda count: pod(affinity=affinity(*(term(expression(zone)) for zone in zones(count * 20)))),
    "values": lambda count: pod(affinity=affinity(term(expression(*zones(count * 200))))),
    "labels in the node selector": lambda count: pod(nodeSelector=dict.fromkeys(zones(count * 20), "a")),
}


def asked(document, concern, view=CLUSTER):
    namespace = "team-preview" if concern == "preview" else "team-a"
    return review_concern(concern, Request(object=document, namespace=namespace), view, DEFAULTS)


class Counted:
    """Counts what happens below lines: items copied and names compared."""

    copied = compared = 0


class List(list):
    def copy(self):
        Counted.copied += len(self)
        return List(self)


class Dict(dict):
    def copy(self):
        Counted.copied += len(self)
        return Dict(self)


class Text(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


def counted(value):
    """A document that counts what is done with it."""
    if isinstance(value, dict):
        return Dict({key: counted(item) for key, item in value.items()})
    if isinstance(value, list):
        return List(map(counted, value))
    return Text(value) if isinstance(value, str) else value


@pytest.fixture
def counter(monkeypatch):
    """The number of items that a function copies, and of names that it compares."""

    def count(function):
        for what in ("copied", "compared"):
            monkeypatch.setattr(Counted, what, 0)
        function()
        return Counted.copied, Counted.compared

    return count


def assert_grows_no_faster(work):
    """Twice as much costs at most twice as much."""
    work(4)
    assert work(120) <= 2.1 * work(60)


@pytest.mark.parametrize("concern", CONCERNS)
@pytest.mark.parametrize("made", SMALL.values(), ids=SMALL)
def test_steps_grow_with_the_pod(made, concern):
    assert_grows_no_faster(lambda count: steps(lambda: asked(made(count), concern)))


@pytest.mark.parametrize("concern", CONCERNS)
@pytest.mark.parametrize("made", LARGE.values(), ids=LARGE)
def test_steps_grow_with_a_pod_that_is_too_large(made, concern):
    assert_grows_no_faster(lambda count: steps(lambda: asked(made(count), concern)))


@pytest.mark.parametrize("concern", CONCERNS)
@pytest.mark.parametrize("made", SMALL.values(), ids=SMALL)
def test_items_copied_and_names_compared_grow_with_the_pod(counter, made, concern):
    def work(count):
        document = counted(made(count))
        return counter(lambda: asked(document, concern))

    work(4)
    (more_copied, more_compared), (copied, compared) = work(120), work(60)
    assert more_copied <= 2.1 * copied + 10
    assert more_compared <= 2.1 * compared + 10


def test_steps_of_the_line_grow_with_its_containers():
    def work(count):
        containers = [ContainerRequest(f"c{number}", "init", {GPU: 1 + number % 32}) for number in range(count * 20)]
        return steps(lambda: requests_by_container(device_layout(containers)))

    assert_grows_no_faster(work)


def test_steps_of_the_line_grow_with_the_resources_of_its_containers():
    def lay_out_in_vain(containers):
        with pytest.raises(TooManyDevicesError):
            device_layout(containers)

    def work(count):
        containers = [
            ContainerRequest(f"c{number}", "init", {f"nvidia.com/mig-{number}": 9}) for number in range(count)
        ]
        return steps(lambda: lay_out_in_vain(containers))

    assert_grows_no_faster(work)


def test_steps_of_selecting_nodes_do_not_grow_with_the_nodes():
    def work(nodes):
        view = ManifestsView([*(each for each in OBJECTS if each.get("kind") != "Node"), *many_nodes(nodes)])
        document = pod(affinity=affinity(*(term(expression(zone, key="host")) for zone in zones(50))))
        asked(document, "conversion", view)
        return steps(lambda: asked(document, "conversion", view))

    assert work(200) == work(100)


def many_nodes(count):
    """Nodes of which each has its own host, and one hands out MIG devices, so that the others' labels are looked at."""
    return [
        {
            "kind": "Node",
            "metadata": {
                "name": f"n{number}",
                "labels": {"host": f"z{number}", PRODUCT: "NVIDIA-L40S" if number else "NVIDIA-A100-MIG-1g.5gb"},
            },
            "status": {"allocatable": {GPU: "8"}},
        }
        for number in range(count)
    ]


def test_editor_copies_each_container_once(counter):
    document = counted({"list": [{"a": {"b": number, "c": 0}} for number in range(100)]})
    editor = Editor(document)

    def edit():
        for number in range(100):
            editor.replace(FieldPath(["list", number, "a", "b"]), -1)
            editor.remove(FieldPath(["list", number, "a", "c"]))

    copied, _ = counter(edit)
    assert copied == 1 + 100 + 100 * (1 + 2)


REQUIRED_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            pod(*many(1000)),
            "spec.containers: the pod has 1001 containers, and at most 1000 can be compared in time; spread the work over several pods [GA326]",
        ),
        (
            pod(*many(300), inits=many(700, "i")),
            "spec.initContainers: the pod has 1001 containers, and at most 1000 can be compared in time; spread the work over several pods [GA326]",
        ),
        (
            pod(*many(200, resources=wants(gpu=0))),
            "spec.containers[200].resources.limits[nvidia.com/gpu]: the containers of the pod name more than 200 GPU resources, the most that can be compared in time; name in each container only what it needs [GA326]",
        ),
        (
            pod(nodeSelector=dict.fromkeys(zones(1001), "a")),
            "spec.nodeSelector: has 1001 labels, and at most 1000 can be compared in time; select the nodes by one label of your own [GA326]",
        ),
        (
            pod(affinity=affinity(term(*[expression("a")] * 500), term(*[expression("a")] * 501))),
            f"{REQUIRED_PATH}: has 1001 expressions, and at most 1000 can be compared in time; select the nodes by one label of your own [GA326]",
        ),
        (
            pod(affinity=affinity({"matchFields": [expression("a", key="metadata.name")] * 1001})),
            f"{REQUIRED_PATH}: has 1001 expressions, and at most 1000 can be compared in time; select the nodes by one label of your own [GA326]",
        ),
        (
            pod(affinity=affinity(term(expression(*zones(5000))), term(expression(*zones(5001))))),
            f"{REQUIRED_PATH}: has 10001 values in its expressions, and at most 10000 can be compared in time; select the nodes by one label of your own [GA326]",
        ),
    ],
    ids=["containers", "init containers", "resources", "labels", "expressions", "fields", "values"],
)
def test_pod_that_is_too_large_is_refused(document, expected):
    decision = asked(document, "conversion")
    assert [labelled_text(finding) for finding in decision.denials] == [expected]
    assert decision.object is document


def test_everything_that_is_too_much_is_reported_at_once():
    document = pod(
        *many(1000, resources=wants(gpu=0)),
        nodeSelector=dict.fromkeys(zones(1001), "a"),
        affinity=affinity(term(*[expression(*zones(10))] * 1001)),
    )
    assert len(list(reviewable_size(Pod.read(document)))) == 5


@pytest.mark.parametrize(
    "document",
    [
        pod(*many(MOST_CONTAINERS - 1)),
        pod(*many(MOST_RESOURCES - 1, resources=wants(gpu=0))),
        pod(nodeSelector=dict.fromkeys(zones(MOST_EXPRESSIONS), "a")),
        pod(affinity=affinity(term(*[expression(*zones(MOST_VALUES // MOST_EXPRESSIONS))] * MOST_EXPRESSIONS))),
    ],
    ids=["containers", "resources", "labels", "expressions and values"],
)
def test_pod_of_the_greatest_size_is_converted(document):
    decision = asked(document, "conversion")
    assert decision.allowed
    assert decision.templates


@pytest.mark.parametrize("concern", ["placement", "conversion-check"])
def test_size_of_a_pod_is_judged_once(concern):
    assert asked(pod(*many(1000)), concern).findings == ()


def test_pod_without_a_gpu_may_have_any_size():
    document = pod(*many(1000))
    document["spec"]["containers"] = many(1001)
    assert asked(document, "conversion").findings == ()


def test_pod_that_is_left_alone_may_have_any_size():
    document = pod(*many(1000), schedulerName="volcano")
    assert [finding.rule.id for finding in asked(document, "conversion").findings] == ["GA315"]


def test_record_that_is_too_long_to_be_stored_is_not_read():
    document = recorded(10_000)
    assert len(document["metadata"]["annotations"][RECORD]) > 256 * 1024
    asked(document, "conversion")  # the first review imports what it needs
    assert steps(lambda: asked(document, "conversion")) == steps(lambda: asked(recorded(20_000), "conversion"))
