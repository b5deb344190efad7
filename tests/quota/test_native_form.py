"""The limits of GPUQuotas that ResourceQuotas express: exact where a form is given, and a reason where it is not."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from policies.devices.native_quotas import refused_claims, refused_pod
from policies.devices.resource_claims import Claim
from policies.kubernetes.view import UNKNOWN
from policies.quota.counting import outcomes_by_view
from policies.quota.ledger.allowances import ChargeVerdict
from policies.quota.limits.quota import parse_quota
from policies.quota.native_limits import native_form
from policies.rules.settings import DEFAULTS
from tests.explain import conftest as k8s
from tests.properties import examples
from tests.quota.charge_requests import OF_TEMPLATE, charge_request
from tests.quota.counted_objects import document
from webhook.cluster.manifests import ManifestsView

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
WHOLE = "gpu.nvidia.com"
BY_CLASS = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
VERSION = {"serverVersion": {"gitVersion": "v1.36.2"}}
OLDER = {"serverVersion": {"gitVersion": "v1.35.0"}}
PRIORITIES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
    for name in ("batch", "batch-low", "high")
]


def labels(product="NVIDIA-H100-80GB-HBM3", memory=81559, **more):
    return {f"{GPU}.product": product, f"{GPU}.memory": str(memory), f"{GPU}.count": "8", **more}


def offering(name, product="NVIDIA-H100-80GB-HBM3", memory=81559, **amounts):
    return k8s.node(name, labels(product, memory), allocatable=amounts or {GPU: "8"})


def mixed():
    of_mig = {f"{MIG}.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", f"{MIG}.memory": "9984", f"{MIG}.count": "7"}
    return k8s.node(
        "mixed", labels(**of_mig, **{"nvidia.com/mig.strategy": "mixed"}), allocatable={GPU: "4", MIG: "14"}
    )


EMPTY = [
    k8s.empty_list(kind, version)
    for kind, version in {"ResourceSlice": "resource.k8s.io/v1", "DeviceClass": "resource.k8s.io/v1"}.items()
]
SLICE = k8s.resource_slice(k8s.gpus(8))
PLAIN, NAMED = k8s.device_class(), k8s.device_class(extendedResourceName=GPU)
CLUSTERS = {
    "plugin": [offering("a"), *EMPTY, VERSION],
    "two products": [offering("a"), offering("b", "NVIDIA-A100-SXM4-40GB", 40960), *EMPTY, VERSION],
    "mig": [mixed(), *EMPTY, VERSION],
    "driver": [k8s.node(), SLICE, PLAIN, VERSION],
    "driver by name": [k8s.node(), SLICE, NAMED, VERSION],
    "driver by name, older": [k8s.node(), SLICE, NAMED, OLDER],
    "both by one name": [offering("a"), k8s.node(), SLICE, NAMED, VERSION],
    "both": [offering("a"), k8s.node(), SLICE, PLAIN, VERSION],
}
LIMITS = [
    {"gpus": 5},
    {"gpus": "7/2"},
    {"devices": 6},
    {"memory": "400Gi"},
    {"gpus": 3, "selector": {"products": ["H100*"]}},
    {"devices": 4, "selector": {"profiles": ["1g.*"]}},
    {"gpus": "1", "selector": {"profiles": ["1g.10gb"]}},
    {"gpus": 4, "selector": {"priorityClasses": ["batch"]}},
    {"gpus": 4, "selector": {"priorityClasses": ["batch*"]}},
    {"gpus": 4, "selector": {"priorityClasses": ["?*"]}},
    {"gpus": 4, "selector": {"priorityClasses": ["*"]}},
]


def form_of(cluster, *limits, settings=DEFAULTS, **spec):
    listed = [{"name": f"limit-{index}", **limit} for index, limit in enumerate(limits)]
    view = ManifestsView([*CLUSTERS[cluster], *PRIORITIES])
    return native_form(parse_quota(document(*listed, **spec)), view, settings.quota)


def hard_of(cluster, *limits, **spec):
    found = form_of(cluster, *limits, **spec)
    return [quota["spec"] for quota, _ in found.resource_quotas("team-a")], [why for _, why in found.lost]


@pytest.mark.parametrize(
    ("cluster", "limit", "hard"),
    [
        ("plugin", {"gpus": 8}, {f"requests.{GPU}": "8"}),
        ("plugin", {"gpus": "7/2"}, {f"requests.{GPU}": "3"}),
        ("plugin", {"memory": "400Gi"}, {f"requests.{GPU}": "5"}),
        ("plugin", {"gpus": 8, "selector": {"products": ["H100*"]}}, {f"requests.{GPU}": "8"}),
        ("mig", {"devices": 4, "selector": {"profiles": ["1g.*"]}}, {f"requests.{MIG}": "4"}),
        ("driver", {"gpus": 8}, {BY_CLASS: "8"}),
        ("driver by name", {"gpus": 8}, {f"requests.{GPU}": "8"}),
        ("driver by name, older", {"gpus": 8}, {BY_CLASS: "8"}),
        ("both by one name", {"gpus": 8}, {f"requests.{GPU}": "8"}),
    ],
)
def test_limit_of_devices_with_one_name_has_a_form(cluster, limit, hard):
    assert hard_of(cluster, limit) == ([{"hard": hard}], [])


@pytest.mark.parametrize(
    ("cluster", "limit", "why"),
    [
        ("both", {"gpus": 8}, f"Kubernetes counts {BY_CLASS} and requests.{GPU} each by itself"),
        ("mig", {"gpus": 8}, f"Kubernetes counts requests.{GPU} and requests.{MIG} each by itself"),
        (
            "two products",
            {"gpus": 8, "selector": {"products": ["H100*"]}},
            f"requests.{GPU} also counts devices that the limit does not count",
        ),
        (
            "two products",
            {"memory": "1Ti"},
            f"the devices of requests.{GPU} count from 40 GiB to 79.6 GiB each, and Kubernetes counts every device as one",
        ),
        (
            "mig",
            {"gpus": "1", "selector": {"profiles": ["1g.10gb"]}},
            f"the devices of requests.{MIG} count from 0.1 GPU to 0.2 GPU each, and Kubernetes counts every device as one",
        ),
        (
            "plugin",
            {"gpus": 8, "selector": {"products": ["L4"]}},
            f"requests.{GPU} also counts devices that the limit does not count",
        ),
        ("plugin", {"devices": 8, "selector": {"profiles": ["1g.*"]}}, "the cluster has no device that it counts"),
        (
            "driver",
            {"gpus": 8, "selector": {"priorityClasses": ["batch"]}},
            f"a ResourceQuota by PriorityClass counts no claims, and {BY_CLASS} is also requested by claims",
        ),
        ("plugin", {"gpus": 8, "selector": {"priorityClasses": ["none*"]}}, "no PriorityClass matches none*"),
    ],
)
def test_other_limit_is_lost_for_a_reason(cluster, limit, why):
    assert hard_of(cluster, limit) == ([], [why])


def test_quota_that_warns_or_denies_unknown_products_is_lost():
    assert hard_of("plugin", {"gpus": 8}, mode="Warn")[1] == [
        "the GPUQuota only warns (mode Warn), and a ResourceQuota refuses"
    ]
    (why,) = hard_of("plugin", {"gpus": 8, "selector": {"products": ["H100*"]}}, unknownProducts="Deny")[1]
    assert why.endswith("and the quota has unknownProducts: Deny")


def test_each_scope_is_a_resource_quota_and_the_least_of_a_name_counts():
    batch = {"gpus": 4, "selector": {"priorityClasses": ["batch*"]}}
    found = form_of("plugin", {"gpus": 8}, {"devices": 6}, batch)
    (whole, _), (scoped, _) = found.resource_quotas("team-a")
    assert (whole["metadata"], whole["spec"]) == (
        {"name": "gpu", "namespace": "team-a"},
        {"hard": {f"requests.{GPU}": "6"}},
    )
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["batch", "batch-low"]}
    assert scoped["metadata"]["name"] == "gpu-limit-2"
    assert scoped["spec"] == {"hard": {f"requests.{GPU}": "4"}, "scopeSelector": {"matchExpressions": [term]}}


def test_form_is_unknown_without_nodes():
    assert native_form(parse_quota(document()), ManifestsView([VERSION]), DEFAULTS.quota) is UNKNOWN


def owned_claim(claim, pod, annotations):
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True, **{f: pod["metadata"][f] for f in ("name", "uid")}}
    return {**claim, "metadata": {**claim["metadata"], "annotations": annotations, "ownerReferences": [owner]}}


LISTS = [k8s.empty_list("Pod"), k8s.empty_list("ResourceClaim", "resource.k8s.io/v1")]


class Namespace:
    """A namespace with one kind of quota, in which pods and claims are created."""

    def __init__(self, cluster, quota):
        self.fixed = [*CLUSTERS[cluster], *PRIORITIES, *LISTS, *quota]
        self.objects = []

    def view(self, *more):
        return ManifestsView([*self.fixed, *self.objects, *more])


def is_ours(namespace, created, template):
    view = namespace.view(*([template] if template else ()))
    charge = charge_request(created, view)
    admitted = ChargeVerdict(True, None)
    return charge is None or [each.outcome for each in outcomes_by_view(charge, view, DEFAULTS)] == [admitted]


def is_native(namespace, created, template):
    view = namespace.view(*([template] if template else ()))
    if created["kind"] == "ResourceClaim":
        return not refused_claims([Claim(created)], k8s.pod(), "team-a", view, is_stored=True)
    made = [Claim({**template["spec"], "metadata": {"name": "made"}})] if template else []
    limits = created["spec"]["containers"][0]["resources"].get("limits", {})
    is_by_driver = any(each.get("kind") == "DeviceClass" for each in namespace.fixed) and GPU in limits
    served = {GPU: WHOLE} if is_by_driver else {}
    return not (refused_pod(created, "team-a", view) or refused_claims(made, created, "team-a", view, served=served))


@st.composite
def creations(draw, cluster):
    """Objects that are created one after another: a pod or a claim, each with its template, if it has one."""
    offered = sorted(
        {
            name
            for each in CLUSTERS[cluster]
            for name in each.get("status", {}).get("allocatable", {})
            if "nvidia" in name
        }
    )
    has_class = any(each.get("kind") == "DeviceClass" for each in CLUSTERS[cluster])
    if has_class and any(each.get("spec", {}).get("extendedResourceName") for each in CLUSTERS[cluster]):
        offered = sorted({*offered, *([GPU] if OLDER not in CLUSTERS[cluster] else [])})
    found = []
    for number in range(draw(st.integers(1, 7))):
        name, count = f"o-{number}", draw(st.integers(1, 3))
        request = {"allocationMode": "All"} if draw(st.integers(1, 12)) == 1 else {"count": count}
        kind = draw(st.sampled_from(["claim", "template", "pod", "pod"])) if has_class else "pod"
        priority = draw(st.sampled_from([None, "batch", "batch-low", "high"]))
        spec = {"priorityClassName": priority} if priority else {}
        if kind == "claim":
            found.append((k8s.claim(request, name=name, stored=True), None))
        elif kind == "template" or not offered:
            spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": name}]
            pod = k8s.pod(name=name, stored=True, **spec)
            found.append((pod, k8s.template(request, name=name)))
        else:
            pod = k8s.pod({draw(st.sampled_from(offered)): str(count)}, name=name, stored=True, **spec)
            if draw(st.booleans()):
                init = deepcopy(pod["spec"]["containers"][0]) | {"name": "init"}
                init["resources"]["limits"] = {next(iter(init["resources"]["limits"])): str(draw(st.integers(1, 4)))}
                pod["spec"]["initContainers"] = [init]
            found.append((pod, None))
    return found


@profile(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_both_admit_the_same_and_kubernetes_never_more(data):
    cluster = data.draw(st.sampled_from(sorted(CLUSTERS)))
    limit = data.draw(st.sampled_from(LIMITS))
    form = form_of(cluster, limit)
    if not form.limits:
        return
    quota = document({"name": "limit-0", **limit})
    ours = Namespace(cluster, [quota])
    native = Namespace(cluster, [each for each, _ in form.resource_quotas("team-a")])
    for created, template in data.draw(creations(cluster)):
        verdicts = [is_ours(ours, created, template), is_native(native, created, template)]
        if "All" in str((created, template)):
            # Counts as 32 devices in a ResourceQuota.
            assert verdicts[0] or not verdicts[1]
            continue
        assert verdicts[0] == verdicts[1], (cluster, limit, created, template)
        if not verdicts[0]:
            continue
        made = []
        if template is not None:
            claim = {
                **k8s.claim(name=f"{created['metadata']['name']}-made", stored=True),
                "spec": template["spec"]["spec"],
            }
            made = [owned_claim(claim, created, OF_TEMPLATE)]
        for each in (ours, native):
            each.objects += [created, *made]
