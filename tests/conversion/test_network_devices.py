"""Network devices beside GPUs: the layout of requests, records, and what the scheduler allocates for them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.admission.reviews import missing_templates
from policies.conversion.device_layout import ContainerRequest, TooManyDevicesError, device_layout
from policies.conversion.record import ConversionRecord
from policies.kubernetes.names import DRA_LABEL, PREFIX
from policies.nvidia.wishes import Wish
from policies.quota.demands.bills import charge_under
from policies.quota.limits.quota import parse_quota
from policies.rules.request import Request
from policies.rules.settings import AlignedNIC, Conversion, GPUAdmissionPolicy
from tests.allocations import allocate
from webhook.cluster.manifests import ManifestsView

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
ROOT = "resource.kubernetes.io/pcieRoot"
NIC = AlignedNIC("rdma-nic")
CLASSES = [
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
    }
    for name, driver in (("gpu.nvidia.com", "gpu.nvidia.com"), ("rdma-nic", "dra.net"))
]
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}


def record(containers, nic=NIC):
    return ConversionRecord(tuple(containers), wish=Wish(nic="aligned"), nic=nic)


def container(name, kind="container", **counts):
    return ContainerRequest(
        name, kind, {GPU: counts.get("gpus", 1), **({MIG: counts["migs"]} if "migs" in counts else {})}
    )


# Names that collide with those of pairs, and at the greatest length.
names = st.sampled_from(
    ["app", "app-0", "app-nic", "app-nic-0", "app-nic-nic", "x" * 63, "x" * 62 + "y", "x" * 59 + "-nic"]
)
asks = st.builds(
    ContainerRequest,
    names,
    st.sampled_from(["init", "sidecar", "container"]),
    st.fixed_dictionaries({GPU: st.integers(0, 4), MIG: st.integers(0, 3)}),
)
containers = st.lists(asks, min_size=1, max_size=6, unique_by=lambda each: each.name).map(
    lambda every: sorted(every, key=lambda each: each.kind == "container")
)
"""In the order in which they start."""


@given(containers)
def test_network_devices_leave_the_line_of_gpus_as_it_is(asked):
    plain = device_layout(asked)
    if sum(piece.count for piece in plain) > 16:
        with pytest.raises(TooManyDevicesError, match="and a network device for each, and a claim can hold 32"):
            device_layout(asked, with_nics=True)
        return
    pairs = device_layout(asked, with_nics=True)
    assert all(piece.count == 1 for piece in pairs)
    assert [(piece.resource, piece.containers) for piece in pairs] == [
        (piece.resource, piece.containers) for piece in plain for _ in range(piece.count)
    ]
    written = [request for piece in pairs for request in piece.requests]
    assert len(written) == len(set(written)) == 2 * len(pairs)
    assert not {piece.nic for piece in pairs} & {each.name for each in asked}
    assert all(len(name) <= 63 for name in written)


def test_claim_holds_sixteen_pairs():
    devices = record([container("train", gpus=16)]).claim.spec["spec"]["devices"]
    assert (len(devices["requests"]), len(devices["constraints"])) == (32, 16)


@given(containers.filter(lambda asked: sum(piece.count for piece in device_layout(asked)) <= 16))
def test_record_with_network_devices_is_read_as_it_was_written(asked):
    written = record(asked)
    assert ConversionRecord.parse(written.annotation) == written


@pytest.mark.parametrize(
    "changes",
    [
        {"nic": {"deviceClass": "RDMA", "matchAttribute": ROOT}},
        {"nic": {"deviceClass": "rdma-nic", "matchAttribute": "pcieRoot"}},
        {"nic": {"deviceClass": "rdma-nic"}},
        {"nic": {"deviceClass": "rdma-nic", "matchAttribute": ROOT, "count": 2}},
        {"nic": "rdma-nic"},
        {"nic": None},
        {"wish": {"sharing": "any"}},
        {"shares": {GPU: 1}},
        {"classes": {GPU: "gpu.nvidia.com"}},
    ],
    ids=str,
)
def test_record_that_conversion_never_writes_is_invalid(changes):
    document = json.loads(record([container("train")]).annotation)
    assert ConversionRecord.parse(json.dumps({**document, **changes})) is None


def test_record_of_the_wish_without_network_devices_is_invalid():
    document = json.loads(record([container("train")]).annotation)
    del document["nic"]
    assert ConversionRecord.parse(json.dumps(document)) is None


def slice_of(driver, roots):
    devices = [
        {"name": f"{driver.partition('.')[0]}-{number}", "attributes": {ROOT: {"string": root}} if root else {}}
        for number, root in enumerate(roots)
    ]
    pool = {"name": f"node-1-{driver}", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": driver},
        "spec": {"driver": driver, "nodeName": "node-1", "pool": pool, "devices": devices},
    }


roots = st.lists(st.sampled_from(["pci0000:00", "pci0000:40", "pci0000:80", ""]), max_size=9)


@given(gpus=roots, nics=roots, count=st.integers(1, 8))
def test_scheduler_allocates_pairs_with_the_same_root_wherever_there_are_enough(gpus, nics, count):
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": record([container("train", gpus=count)]).claim.spec["spec"],
    }
    slices = [slice_of(driver, of) for driver, of in (("gpu.nvidia.com", gpus), ("dra.net", nics)) if of]
    found = allocate(claims=[claim], node=NODE, slices=slices, classes=CLASSES)
    pairs = Counter(filter(None, gpus)) & Counter(filter(None, nics))
    assert (found is not None) == (pairs.total() >= count)
    if found is None:
        return
    by_request = {
        result["request"]: (gpus if result["driver"] == "gpu.nvidia.com" else nics)[
            int(result["device"].split("-")[-1])
        ]
        for result in found[0]["devices"]["results"]
    }
    for constraint in claim["spec"]["devices"]["constraints"]:
        gpu, nic = (by_request.pop(request) for request in constraint["requests"])
        assert gpu == nic != ""
    assert not by_request


QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "gpus": 4}]},
}
SETTINGS = GPUAdmissionPolicy(conversion=Conversion(nic=NIC))


def namespace(**labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


def wishing(gpus):
    amounts = {GPU: gpus}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a", "annotations": {f"{PREFIX}nic": "aligned"}},
        "spec": {
            "containers": [
                {"name": "train", "image": "train:1", "resources": {"limits": amounts, "requests": dict(amounts)}}
            ]
        },
    }


def reviewed(pod, view, entry="convert-pods"):
    return review(Request(pod, namespace="team-a", entry=entry), view, SETTINGS)


def test_quota_counts_the_gpus_and_no_network_devices():
    view = ManifestsView([namespace(**{DRA_LABEL: "enabled"}), *CLASSES, QUOTA])
    pod = reviewed(wishing(4), view).object
    decision = reviewed(pod, view, "enforce-converted-pods")
    ((bill,),) = [charge_under(charge, parse_quota(QUOTA)).pieces.values() for charge in decision.charges]
    assert (decision.allowed, bill.amounts) == (True, {"all": 4})


@pytest.mark.parametrize(
    ("labels", "unused"), [({}, 1), ({DRA_LABEL: "preview"}, 1), ({DRA_LABEL: "enabled"}, 0)], ids=str
)
def test_wish_without_a_conversion_has_no_effect(labels, unused):
    decision = reviewed(wishing(1), ManifestsView([namespace(**labels), *CLASSES]), None)
    messages = [finding.message for finding in decision.findings if finding.rule.id == "GA407"]
    assert messages == ["has no effect: only a claim requests network devices, and the pod is not converted"] * unused


def test_template_of_a_pod_by_another_setting_is_not_made_again():
    view = ManifestsView([namespace(**{DRA_LABEL: "enabled"}), *CLASSES, empty_list("ResourceClaimTemplate")])
    pod = reviewed(wishing(1), view).object
    others = [GPUAdmissionPolicy(conversion=Conversion(nic=nic)) for nic in (None, AlignedNIC("gpu.nvidia.com"))]
    made = [missing_templates([pod], view, settings) for settings in (SETTINGS, *others)]
    assert [len(each) for each in made] == [1, 0, 0]


def empty_list(kind):
    return {"apiVersion": "resource.k8s.io/v1", "kind": f"{kind}List", "items": []}
