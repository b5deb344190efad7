"""No pod ends up with a GPU, or a path to one, without a charge and without a finding."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from policies.analyses.audit import Survey, audit
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy
from tests.findings import plain_text
from tests.properties import examples
from tests.robustness.bypass.alike_pods import ALIKE
from tests.robustness.bypass.generated_pods import (
    ANNOTATIONS,
    CLAIMS,
    CLASSES,
    EPHEMERAL,
    IMAGES,
    NAMESPACES,
    NODES,
    PODS,
    POLICY,
    SLICES,
    TEMPLATES,
    UNSCHEDULED_PODS,
)
from tests.robustness.bypass.installed_webhooks import QUOTA, create
from tests.robustness.bypass.node_model import Cluster, gpus_behind_the_scheduler
from webhook.cluster.manifests import ManifestsView

CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"
ACCESS = "GA6"
BY_IMAGE = ("an old image, which gets every GPU", "sets NVIDIA_VISIBLE_DEVICES to all")
"""Ways that no rule refuses: they depend on what is in an image."""
OF_CHARGES = ("GA5", "GA231")
"""Rules that tell why something is not charged, or only later."""
BY_UNKNOWN_IMAGE = ("train:1 sets NVIDIA_VISIBLE_DEVICES to all",)
"""The only such way that is left with `access.legacyRuntime`: the name of the image does not tell."""
DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
LEGACY = GPUAdmissionPolicy(access=Access(mode="deny", legacy_runtime=True))
KNOWN_LATER = st.fixed_dictionaries(
    {kind: st.integers(0, 9).map(lambda number: number == 0) for kind in ("classes", "templates", "claims", "slices")}
)
"""What is missing while the pod is reviewed, and there when it starts."""


@dataclass
class World:
    """What is there when the pod starts, and what the webhooks see before."""

    namespace: dict
    classes: tuple
    claims: list
    templates: list
    later: dict

    @property
    def now(self):
        shown = {"classes": self.classes, "templates": self.templates, "claims": self.claims, "slices": SLICES}
        lists = ("DeviceClass", "ResourceClaimTemplate", "ResourceClaim", "ResourceSlice")
        empty = [{"apiVersion": "resource.k8s.io/v1", "kind": f"{kind}List", "items": []} for kind in lists]
        seen = [each for kind, listed in shown.items() if not self.later[kind] for each in listed]
        return ManifestsView([self.namespace, QUOTA, POLICY, *NODES, *empty, *seen])

    def then(self, *stored):
        known = (*NODES, *self.classes, *SLICES, *self.templates, *self.claims)
        return ManifestsView([self.namespace, QUOTA, POLICY, *known, *stored])

    @cached_property
    def cluster(self):
        return Cluster(NODES, SLICES, self.classes)


def charged_for(claim, world, view, user="alice"):
    """Devices charged for a claim that is created, and whether there is nothing more to expect of it."""
    answer = create(claim, world.namespace, view, DEFAULTS, user=user)
    spoken = not answer.allowed or answer.has_finding(*OF_CHARGES)
    return sum(answer.charged.values()), spoken


def made_claim(name, annotations, spec):
    """A claim that is made for the pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "uid-of-the-pod", "controller": True}
    metadata = {
        "name": name,
        "namespace": "team-a",
        "uid": f"uid-{name}",
        "annotations": annotations,
        "ownerReferences": [owner],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def of_template(template, entry):
    """The claim that the controller makes from a template."""
    annotations = {"resource.kubernetes.io/pod-claim-name": entry["name"]}
    return made_claim(f"train-{entry['name']}", annotations, template["spec"]["spec"])


def spec_of_each_claim(pod, claims, templates):
    """The specs of the pod's claims that exist, by their names in the pod."""
    specs = {each["metadata"]["name"]: each["spec"] for each in claims}
    specs |= {each["metadata"]["name"]: each["spec"]["spec"] for each in templates}
    named = {
        each["name"]: each.get("resourceClaimName") or each["resourceClaimTemplateName"]
        for each in pod["spec"]["resourceClaims"]
    }
    return {name: specs[of] for name, of in named.items() if of in specs}


def ways_to_gpus(pod, world, *, only_without=False):
    """How containers reach GPUs without a request; with `only_without`, those that can be given none."""
    if not world.cluster.can_start(pod):
        return
    specs = spec_of_each_claim(pod, world.claims, world.templates)
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        can_have = world.cluster.can_give_gpu(container, pod, specs)
        if not (can_have and only_without):
            yield from gpus_behind_the_scheduler(container, pod, has_gpu=can_have)


def ways_of_ephemeral_containers(pod):
    """Ways of ephemeral containers to GPUs; they can request none."""
    for container in pod["spec"].get("ephemeralContainers", ()):
        yield from gpus_behind_the_scheduler(container, pod, has_gpu=False)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pod=PODS, namespace=NAMESPACES, classes=CLASSES, claims=CLAIMS, templates=TEMPLATES, later=KNOWN_LATER)
def test_no_gpu_without_a_charge(pod, namespace, classes, claims, templates, later):
    world = World(namespace, classes, claims, templates, later)
    answer = create(pod, namespace, world.now, DEFAULTS)
    if not answer.allowed or answer.has_finding(*OF_CHARGES):
        return
    note(f"charged {answer.charged}, findings {[plain_text(finding) for finding in answer.findings]}")
    stored = world.then(answer.object)
    # What was converted is given as it was asked, by device plugin or by claim: the number is the same.
    # A class that comes later is seen when the pod is counted.
    counted = create(pod, namespace, world.then(), DEFAULTS) if later["classes"] else answer
    assert sum(counted.charged.values()) >= world.cluster.gpus_of_resources(pod)
    by_name = {each["metadata"]["name"]: each for each in (*claims, *templates)}
    for entry in pod["spec"]["resourceClaims"]:
        template = by_name.get(entry.get("resourceClaimTemplateName"))
        if template is not None:
            charged, spoken = charged_for(of_template(template, entry), world, stored, CONTROLLER)
            charged = max(charged, answer.charged.get(entry["name"], 0))
            given_gpus = world.cluster.gpus_of_claim(template["spec"]["spec"])
        elif (claim := by_name.get(entry.get("resourceClaimName"))) is not None:
            charged, spoken = charged_for(claim, world, stored if later["claims"] else world.now)
            given_gpus = world.cluster.gpus_of_claim(claim["spec"])
        else:
            continue
        assert spoken or charged >= given_gpus, (entry, charged, given_gpus)


def requests_missing_class(pod, world):
    """True if the pod requests a device of a class that never exists, so that it never starts."""
    known = {each["metadata"]["name"] for each in world.classes}
    wanted = (
        each["deviceClassName"]
        for spec in spec_of_each_claim(pod, world.claims, world.templates).values()
        for request in spec["devices"]["requests"]
        for each in request.get("firstAvailable") or [request["exactly"]]
    )
    if not known.issuperset(wanted):
        return True
    if "nodeName" in pod["spec"] or pod["spec"]["schedulerName"] != "default-scheduler":
        return False
    containers = (*pod["spec"]["initContainers"], *pod["spec"]["containers"])
    limits = (container.get("resources", {}).get("limits") or {} for container in containers)
    return any("deviceclass.resource.kubernetes.io/missing" in each for each in limits)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pod=PODS, namespace=NAMESPACES, classes=CLASSES, claims=CLAIMS, templates=TEMPLATES, later=KNOWN_LATER)
def test_no_way_to_a_gpu_without_a_finding(pod, namespace, classes, claims, templates, later):
    world = World(namespace, classes, claims, templates, later)
    answer = create(pod, namespace, world.now, DEFAULTS)
    ways = list(ways_to_gpus(pod, world))
    if any(later.values()) or requests_missing_class(pod, world):
        # Claims and classes that cannot be seen (yet) count as GPUs, which end what CUDA_VERSION does.
        ways = [way for way in ways if "CUDA_VERSION" not in way]
    assert not ways or not answer.allowed or answer.has_finding(ACCESS), ways


@pytest.mark.parametrize(
    ("policy", "excused"), [(DENY, BY_IMAGE), (LEGACY, BY_UNKNOWN_IMAGE)], ids=["deny", "legacy runtime"]
)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pod=PODS, namespace=NAMESPACES, classes=CLASSES, claims=CLAIMS, templates=TEMPLATES)
def test_no_way_to_a_gpu_for_containers_that_request_none_if_access_is_denied(
    pod, namespace, classes, claims, templates, policy, excused
):
    """Containers that request devices of another driver request no GPU."""
    world = World(
        namespace, classes, claims, templates, dict.fromkeys(("classes", "templates", "claims", "slices"), False)
    )
    ways = [way for way in ways_to_gpus(pod, world, only_without=True) if not way.endswith(excused)]
    answer = create(pod, namespace, world.now, policy)
    assert not ways or not answer.allowed, ways


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(150))
@given(pod=UNSCHEDULED_PODS, namespace=NAMESPACES, classes=CLASSES)
def test_no_way_to_a_gpu_beside_a_request_that_no_scheduler_meets(pod, namespace, classes):
    world = World(namespace, classes, [], [], dict.fromkeys(("classes", "templates", "claims", "slices"), False))
    ways = list(ways_to_gpus(pod, world))
    answer = create(pod, namespace, world.now, DENY)
    by_image = all(way.endswith(BY_IMAGE) for way in ways)
    assert not ways or not answer.allowed or (by_image and answer.has_finding(ACCESS)), ways


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    pod=PODS,
    namespace=NAMESPACES,
    classes=CLASSES,
    annotations=ANNOTATIONS,
    images=st.lists(IMAGES, min_size=4, max_size=4),
)
def test_no_way_to_a_gpu_by_a_change_of_a_pod_that_waits(pod, namespace, classes, annotations, images):
    """A pod waits at a scheduling gate, while its author changes what a node reads when a container starts."""
    world = World(namespace, classes, [], [], dict.fromkeys(("classes", "templates", "claims", "slices"), False))
    stored = create(pod, namespace, world.now, DENY)
    if not stored.allowed:
        return
    changed = copy.deepcopy(pod)
    changed["metadata"]["annotations"] |= annotations
    containers = (*changed["spec"]["initContainers"], *changed["spec"]["containers"])
    for container, image in zip(containers, images, strict=False):
        container["image"] = image
    ways = [way for way in ways_to_gpus(changed, world) if way not in set(ways_to_gpus(pod, world))]
    answer = create(changed, namespace, world.now, DENY, before=pod)
    # A variable beside a resource for which the scheduler makes a claim was a warning: the claim's driver sets it to void.
    warned = (": NVIDIA_VISIBLE_DEVICES=",) if stored.has_finding(ACCESS) else ()
    unguarded = [way for way in ways if not way.endswith(BY_IMAGE) and not any(text in way for text in warned)]
    assert not unguarded or not answer.allowed, unguarded


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(change=EPHEMERAL, namespace=NAMESPACES, classes=CLASSES)
def test_no_way_to_a_gpu_by_an_ephemeral_container(change, namespace, classes):
    before, pod = change
    view = ManifestsView([namespace, POLICY, *NODES, *classes, *SLICES])
    answer = create(pod, namespace, view, DEFAULTS, before=before, subresource="ephemeralcontainers")
    ways = list(ways_of_ephemeral_containers(pod))
    assert not ways or not answer.allowed or answer.has_finding(ACCESS), ways


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(pods=ALIKE, namespace=NAMESPACES, classes=CLASSES, claims=CLAIMS, templates=TEMPLATES)
def test_no_way_to_a_gpu_of_a_stored_pod_that_the_audit_misses(pods, namespace, classes, claims, templates):
    """Pods that were created while no replica answered; one of them may look like the other."""
    world = World(
        namespace, classes, claims, templates, dict.fromkeys(("classes", "templates", "claims", "slices"), False)
    )
    named = [{**pod, "metadata": {**pod["metadata"], "name": f"train-{number}"}} for number, pod in enumerate(pods)]
    survey = Survey(world.now, DEFAULTS)
    survey.add(named)
    found = [each for each in audit(world.now, DEFAULTS, survey).findings if each.rule.id.startswith(ACCESS)]
    for pod in named:
        ways = [*ways_to_gpus(pod, world), *ways_of_ephemeral_containers(pod)]
        if requests_missing_class(pod, world):
            ways = [way for way in ways if "CUDA_VERSION" not in way]
        # A finding on both pods has the name of the first.
        assert not ways or any(each.count == len(named) or each.name == pod["metadata"]["name"] for each in found), ways
