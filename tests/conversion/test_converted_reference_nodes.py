"""Pods of measured nodes before and after conversion: none gets more of a GPU, and as many find a place as before.

Before, a node has the labels and resources that NVIDIA's own components gave it; after, the labels, and the ResourceSlices that the
DRA driver published for the same hardware.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import pytest

from policies.admission import review
from policies.kubernetes.pod_templates import with_defaults
from policies.outcome import questions, simulate
from policies.quota.counting import counted_ledger
from policies.quota.limits.quota import parse_quota
from policies.rules.request import Request
from policies.rules.settings import parse_settings
from tests.allocations import allocate
from tests.explain import conftest as k8s
from tests.fleet.offers.reference import needs_reference, runs
from webhook.cluster.manifests import ManifestsView

pytestmark = needs_reference

MODELS = ("A100-SXM4-40GB", "H100-SXM5-80GB")
MODES = ("shares-4", "shares-memory", "shares-unlimited", "dynamicmig-shares-memory")
WHOLE = ("default", "dynamicmig", "dynamicmig-combined")
OF_MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
CLASSES = (k8s.device_class(), k8s.device_class("mig.nvidia.com", OF_MIG))
QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "gpus", "gpus": 100}, {"name": "memory", "memory": "100Ti"}]},
}
SETTINGS = parse_settings(
    {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"quota": {"unlimitedShare": "1/4"}},
    }
)


class Case(NamedTuple):
    """A resource of a node of the device plugin, and the same hardware with the DRA driver."""

    name: str
    resource: str
    amount: int
    replicas: int
    labels: dict
    slices: list
    version: str

    def node(self, **status):
        name = next(each["spec"]["nodeName"] for each in self.slices if "nodeName" in each["spec"])
        found = k8s.node(name, {"nvidia.com/gpu.present": "true", **self.labels}, **status)
        found["status"]["allocatable"]["pods"] = "1000"
        return found

    def view(self, *objects, converts=False):
        labels = {"gpu-admission.io/dra": "enabled"} if converts else {}
        lists = [k8s.empty_list(kind) for kind in ("Pod", "ResourceQuota")]
        lists += [k8s.empty_list(kind, "resource.k8s.io/v1") for kind in ("ResourceClaim", "ResourceSlice")]
        server = {"serverVersion": {"gitVersion": self.version}}
        return ManifestsView([*CLASSES, *lists, k8s.namespace("team-a", **labels), server, *objects])

    @property
    def pod(self):
        return with_defaults(k8s.pod({self.resource: "1"}))

    @property
    def devices(self):
        """The published devices of the kind that the resource stands for."""
        product = self.labels.get(f"{self.resource.removesuffix('.shared')}.product", "")
        profile = product.partition("-MIG-")[2].removesuffix("-SHARED")
        return [
            device
            for each in self.slices
            for device in each["spec"].get("devices") or ()
            if device["attributes"]["type"]["string"] == ("mig" if profile else "gpu")
            and device["attributes"].get("profile", {}).get("string", "") == profile
        ]

    @property
    def offers_part(self):
        """True if the driver shares these devices, and no claim takes a memory slice, which devices name by their places."""
        found = self.devices
        return all(each.get("allowMultipleAllocations") for each in found) and not any(
            re.match("memorySlice", name) for each in found for name in each["capacity"]
        )


@cache
def cases(modes):
    """Every resource of every measured configuration of the device plugin, with each driver for the same layout.

    Left out are GPUs with MIG on that the plugin hands out whole: the driver publishes none.
    """
    found = []
    for model in MODELS:
        measured = runs(f"{model}.json")
        for name, run in measured.items():
            if "config" not in run or run["devicePlugin"]["rc"]:
                continue
            layout = re.split("-(?:none|single|mixed)-", name)[0]
            for mode in modes:
                dra = measured.get(f"dra-{layout}-{mode}")
                for resource, offer in (run["devicePlugin"]["resources"] or {}).items() if dra else ():
                    labels = run["gfd"]["labels"]
                    replicas = int(labels.get(f"{resource.removesuffix('.shared')}.replicas", "1"))
                    version = "v1.34.4" if "combined" in mode else "v1.36.2"
                    case = f"{model} {name} {resource} {mode}"
                    slices = dra["dra"]["slices"]
                    found.append(Case(case, resource, offer["count"], replicas, labels, slices, version))
    return [each for each in found if each.devices]


def room(view, pod):
    (question,) = questions(pod, "team-a", view, SETTINGS)
    return simulate(question, view, SETTINGS).replicas.count


def held(view):
    """The GPUs and the memory that a quota counts for what runs."""
    ledger = counted_ledger(QUOTA, view, SETTINGS.quota)
    return [ledger.used_amount(limit) for limit in parse_quota(QUOTA).limits]


def running(pod, case, **status):
    metadata, spec = {**pod["metadata"], "uid": "1"}, {**pod["spec"], "nodeName": case.node()["metadata"]["name"]}
    return {**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}}


def held_before(case):
    return held(case.view(case.node(allocatable={case.resource: str(case.amount)}), running(case.pod, case)))


def held_after(case, decision):
    """The holdings of the converted pod with its claim, to which the allocator gives devices."""
    (template,) = decision.templates
    claim = k8s.claim(stored=True)
    claim["spec"] = template.spec["spec"]
    claim["metadata"] |= {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "1", "controller": True}],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
    }
    (allocation,) = allocate(claims=[claim], node=case.node(), slices=case.slices, classes=CLASSES)
    claim["status"] = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "train", "uid": "1"}]}
    made = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
    pod = running(decision.object, case, resourceClaimStatuses=made)
    return held(case.view(case.node(), *case.slices, pod, claim, template.manifest()))


def converted(case):
    """The decision on a pod once the driver has taken the place of the device plugin."""
    view = case.view(case.node(), *case.slices, converts=True)
    return view, review(Request(case.pod, namespace="team-a"), view, SETTINGS)


def test_claim_holds_no_more_than_the_device_plugin_gave():
    wrong, compared = {}, 0
    for case in cases(MODES):
        _, decision = converted(case)
        if decision.templates:
            before, after = held_before(case), held_after(case, decision)
            compared += 1
            assert all(after), case.name
            if any(now > was for now, was in zip(after, before, strict=True)):
                wrong[case.name] = before, after
    assert wrong == {}
    assert compared > 60


def test_pods_that_shared_a_device_share_it_wherever_the_driver_offers_parts():
    """Left as they are: shares of MIG devices that exist without DynamicMIG."""
    wrong = {}
    shared = [case for case in cases(MODES) if case.replicas > 1]
    for case in shared:
        view, decision = converted(case)
        is_converted = bool(decision.templates)
        is_named = "GA306" in {each.rule.id for each in decision.findings}
        if (is_converted, is_named) != (case.offers_part, not case.offers_part):
            wrong[case.name] = is_converted, [*map(str, decision.findings)]
        elif is_converted and room(view, case.pod) < case.amount:
            wrong[case.name] = room(view, case.pod), case.amount
    assert wrong == {}
    assert {case.offers_part for case in shared} == {True, False}


def test_as_many_pods_fit_by_claims_as_by_the_device_plugin():
    """Exactly as many where the driver divides a GPU like the device plugin."""
    wrong = {}
    for case in cases(("shares-4", "shares-memory")):
        view, decision = converted(case)
        if decision.templates:
            plugin = case.view(case.node(allocatable={case.resource: str(case.amount)}))
            rooms = room(plugin, case.pod), room(view, case.pod)
            if rooms != (case.amount, case.amount):
                wrong[case.name] = rooms, case.amount
    assert wrong == {}


@pytest.mark.parametrize("mode", WHOLE)
def test_pods_that_share_stay_with_the_plugin_where_the_driver_shares_nothing(mode):
    wrong = {}
    shared = [case for case in cases((mode,)) if case.replicas > 1]
    for case in shared:
        plugin = case.node(allocatable={case.resource: str(case.amount)})
        plugin["metadata"]["name"] = "plugin"
        view = case.view(plugin, k8s.node(case.node()["metadata"]["name"]), *case.slices, converts=True)
        decision = review(Request(case.pod, namespace="team-a"), view, SETTINGS)
        if decision.templates or "GA306" not in {each.rule.id for each in decision.findings}:
            wrong[case.name] = [*map(str, decision.findings)]
    assert wrong == {}
    assert shared
