"""Parts of GPUs by memory: what the cluster has becomes the alternatives of the claim."""

from __future__ import annotations

import json

import pytest

from policies.conversion.convert import convert
from policies.conversion.record import ConversionRecord
from policies.kubernetes.pods import Pod
from policies.kubernetes.quantities import parse_quantity
from policies.nvidia.wishes import Wish
from policies.outcome import Feasibility, questions, simulate
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.fleet.offers.reference import FOLDER, runs
from webhook.cluster.manifests import ManifestsView

GPU = "nvidia.com/gpu"
HARDWARE = [each.name for each in sorted(FOLDER.glob("*.json")) if not each.stem.endswith("-runs")]
OF_MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
CLASSES = (k8s.device_class(), k8s.device_class("mig.nvidia.com", OF_MIG))
FACTS = (*CLASSES, k8s.namespace(), k8s.empty_list("Pod"), k8s.empty_list("ResourceClaim", "resource.k8s.io/v1"))
SHARED = {"value": "40Gi", "requestPolicy": {"default": "40Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}}


def device(name, kind, memory, profile=None, **fields):
    attributes = {"type": {"string": kind}, "productName": {"string": "NVIDIA H100 80GB HBM3"}}
    if profile:
        attributes["profile"] = {"string": profile}
    return {"name": name, "attributes": attributes, "capacity": {"memory": memory}, **fields}


def mig(profile, memory, number=0):
    return device(f"gpu-{number}-mig-{profile.replace('.', '')}", "mig", {"value": memory}, profile)


def shared(kind="gpu", profile=None, **capacity):
    found = device(f"{kind}-shared", kind, SHARED, profile, allowMultipleAllocations=True)
    return {**found, "capacity": {**found["capacity"], **capacity}}


def verdict(made, objects, version="v1.36.2"):
    """The verdict on the claim of a converted pod, alone in the cluster."""
    metadata = {"name": "gpu", "namespace": "team-a"}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    claim["spec"] = made.template.spec["spec"]
    view = ManifestsView([*FACTS, *objects, {"serverVersion": {"gitVersion": version}}])
    (question,) = questions(claim, "team-a", view, DEFAULTS)
    return simulate(question, view, DEFAULTS).verdict


def converted(objects, wish, version="v1.36.2", count=1):
    view = ManifestsView([*FACTS, *objects, {"serverVersion": {"gitVersion": version}}])
    pod = Pod.read(
        {"spec": {"containers": [{"name": "train", "resources": {"limits": {GPU: count}, "requests": {GPU: count}}}]}}
    )
    return convert(pod, "team-a", view, DEFAULTS, Wish.of(wish), pod)


def slices(*devices, wish="20Gi", version="v1.36.2", **words):
    """The recorded alternatives; several nodes are lists of devices."""
    nodes = devices if devices and isinstance(devices[0], list) else [list(devices)]
    objects = [k8s.resource_slice(each, f"node-{number}") for number, each in enumerate(nodes)]
    return [*map(str, converted(objects, {"gpu-memory": wish, **words}, version).record.slices)]


def test_each_node_gives_its_smallest_mig_device_with_the_memory():
    nodes = [
        [mig("1g.20gb", "20096Mi"), mig("3g.40gb", "40448Mi", 1)],
        [mig("7g.80gb", "81152Mi")],
        [mig("1g.10gb", "9984Mi")],
    ]
    assert slices(*nodes, wish="19Gi") == ["1g.20gb", "7g.80gb"]


def test_of_mig_devices_with_equal_memory_the_one_with_fewer_slices_is_smaller():
    assert slices(mig("2g.20gb", "20096Mi"), mig("1g.20gb", "20096Mi"), wish="19Gi") == ["1g.20gb"]


def test_share_comes_before_mig_devices():
    assert slices([mig("3g.40gb", "40448Mi")], [shared()]) == ["share", "3g.40gb"]


def test_mig_device_is_held_by_one_claim_where_the_driver_shares_too():
    assert slices(shared("mig", "3g.40gb", multiprocessors={"value": "60"})) == ["3g.40gb"]


def test_gpu_whose_multiprocessors_one_claim_takes_has_no_share():
    dynamic = shared(multiprocessors={"value": "132"})
    assert slices(dynamic, mig("3g.40gb", "40448Mi")) == ["3g.40gb"]


def test_device_that_is_shared_by_number_is_no_part():
    assert slices(shared(shares={"value": "4"})) == ["mig"]


def test_later_share_is_expected_where_gpus_are_whole():
    assert slices(device("gpu-0", "gpu", {"value": "81559Mi"})) == ["share", "mig"]


def test_share_is_not_expected_of_a_server_without_consumable_capacity():
    assert slices(device("gpu-0", "gpu", {"value": "81559Mi"}), version="v1.34.4") == ["mig"]


def test_shared_part_is_no_mig_device():
    assert slices([mig("3g.40gb", "40448Mi")], [shared()], sharing="shared") == ["share"]


def test_server_without_prioritized_lists_gets_the_first_alternative():
    made = converted(
        [k8s.resource_slice([mig("1g.20gb", "20096Mi")], "a"), k8s.resource_slice([mig("3g.40gb", "40448Mi")], "b")],
        {"gpu-memory": "19Gi"},
        "v1.33.1",
    )
    (request,) = made.template.spec["spec"]["devices"]["requests"]
    assert (request["exactly"]["deviceClassName"], [*map(str, made.record.slices)]) == ("mig.nvidia.com", ["1g.20gb"])


def test_list_has_at_most_eight_alternatives_the_smallest_first():
    nodes = [[mig(f"1g.{size}gb", f"{size}Gi")] for size in range(30, 18, -1)]
    assert slices(*nodes, wish="19Gi") == [f"1g.{size}gb" for size in range(19, 27)]


@pytest.mark.parametrize(("gpus", "fits"), [(1, Feasibility.IMPOSSIBLE), (2, Feasibility.FITS)])
def test_two_shares_of_a_pod_are_of_different_gpus(gpus, fits):
    devices = [shared() | {"name": f"gpu-{number}"} for number in range(gpus)]
    for number, each in enumerate(devices):
        each["attributes"] = {**each["attributes"], "uuid": {"string": f"GPU-{number}"}}
    cluster = [k8s.node(), k8s.resource_slice(devices)]
    made = converted(cluster, {"gpu-memory": "10Gi"}, count=2)
    assert verdict(made, cluster) is fits


@pytest.mark.parametrize(
    "document",
    [
        {"slices": ["share"]},
        {"wish": {"gpu-memory": "20480Mi"}, "slices": []},
        {"wish": {"gpu-memory": "20480Mi"}, "slices": ["share", "share"]},
        {"wish": {"gpu-memory": "20480Mi"}, "slices": ["gpu"]},
        {"wish": {"gpu-memory": "20480Mi"}, "slices": "mig"},
        {"wish": {"gpu-memory": "20480Mi"}, "slices": [1]},
        {"wish": {"gpu-memory": "3000Mi"}, "slices": ["mig"], "foreign": {"nvidia.com/gpumem": 4000}},
        {"wish": {"gpu-memory": "3000Mi"}, "slices": ["mig"], "foreign": {"nvidia.com/gpucores": 3000}},
        {"foreign": {"nvidia.com/gpumem": 3000}},
        {"wish": {"gpu-memory": "20480Mi"}, "slices": [f"1g.{size}gb" for size in range(20, 29)]},
    ],
    ids=repr,
)
def test_record_with_foreign_alternatives_is_invalid(document):
    containers = [{"name": "train", "kind": "container", "resources": {GPU: 1}}]
    assert ConversionRecord.parse(json.dumps({"containers": containers, **document})) is None


def test_record_gives_the_same_template_in_another_cluster():
    made = converted(
        [k8s.resource_slice([mig("3g.40gb", "40448Mi")]), k8s.resource_slice([shared()], "b")], {"gpu-memory": "20Gi"}
    )
    assert ConversionRecord.parse(made.record.annotation).template("team-a") == made.template


def has_part(published, mebibytes):
    """True if a device has a part with so much memory: read from the slice by other rules than the conversion's."""
    memory = published.get("capacity", {}).get("memory", {})
    if parse_quantity(memory.get("value", 0)) < mebibytes * 2**20 or published["attributes"]["type"]["string"] not in (
        "gpu",
        "mig",
    ):
        return False
    if "profile" in published["attributes"] or not published.get("allowMultipleAllocations"):
        return "profile" in published["attributes"]
    return memory["requestPolicy"]["default"] == memory["value"] and "multiprocessors" not in published["capacity"]


@pytest.mark.parametrize("file", HARDWARE)
def test_claim_fits_exactly_where_the_driver_publishes_such_a_part(file):
    wrong = []
    for name, run in runs(file).items():
        published = run["dra"]["slices"] if name.startswith("dra-") else []
        version = "v1.34.4" if name.endswith("combined") else "v1.36.2"
        node = [k8s.node(published[0]["spec"]["nodeName"])] if published else []
        for gibibytes in (4, 9, 18, 39, 79) if published else ():
            made = converted([*node, *published], {"gpu-memory": f"{gibibytes}Gi"}, version)
            devices = [each for document in published for each in document["spec"].get("devices", ())]
            expected = any(has_part(each, gibibytes * 1024) for each in devices)
            fits = verdict(made, [*node, *published], version) is Feasibility.FITS
            if fits != expected or bool(made.notices) == expected:
                wrong.append((name, gibibytes, expected, made.record.slices))
    assert wrong == []
