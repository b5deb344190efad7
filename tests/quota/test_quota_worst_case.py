"""Worst cases: the charge before a pod is bound is at least what it counts afterwards."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from policies.quota.demands.bills import bill
from policies.quota.demands.claims import demands_of_claim, demands_of_template, holdings_of_claim
from policies.quota.demands.pods import demands_of_pod, holdings_of_pod
from policies.quota.limits.quota import Limit, Quota
from policies.quota.limits.selectors import Selector
from policies.rules.charges import OWN
from policies.rules.settings import DEFAULTS

SETTINGS = DEFAULTS.quota
GLOBS = [(), ("*h100*",), ("*a100*",), ("tesla-*",)]
PROFILES = [(), ("1g.*",), ("3g.*", "2g.*")]
QUOTA = Quota(
    tuple(
        Limit(f"{unit}-{number}", unit, Fraction(100), Selector(products, profiles))
        for unit in ("gpus", "memory", "devices")
        for number, (products, profiles) in enumerate((globs, names) for globs in GLOBS for names in PROFILES)
    )
)
PRODUCT = "nvidia.com/gpu.product"
LABELS = ["NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "Tesla-T4", "Tesla-T4-SHARED"]
RESOURCES = [
    "nvidia.com/gpu",
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    "deviceclass.resource.kubernetes.io/mig.nvidia.com",
]
READ = 'device.attributes["gpu.nvidia.com"]'
SELECTORS = [f'{READ}.productName.contains("H100")', f'{READ}.productName == "NVIDIA A100-SXM4-80GB"']


def at_most(less, more):
    """Whether some demands come to no more than others do, in every limit and every unit."""
    small, large = bill(less, QUOTA), bill(more, QUOTA)
    assert all(amount <= large.amounts.get(name, 0) for name, amount in small.amounts.items())
    assert all(amount <= large.most[unit] for unit, amount in small.most.items())


@given(st.sampled_from(RESOURCES), st.integers(1, 9), st.sets(st.sampled_from(LABELS)), st.data())
def test_pod_is_charged_at_least_what_it_comes_to_on_any_node(example, pod, resource, count, products, data):
    view = example()
    nodes = [
        each["metadata"]["name"]
        for each in view.list("Node")
        if not products or each["metadata"]["labels"].get(PRODUCT) in products
    ]
    expression = {"key": PRODUCT, "operator": "In", "values": sorted(products)}
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    }
    spec = {"affinity": {"nodeAffinity": required}} if products else {}
    wanted = demands_of_pod(pod({resource: count}, **spec), (), view, SETTINGS).pieces[OWN]
    if nodes:
        bound = pod({resource: count}, **spec, nodeName=data.draw(st.sampled_from(nodes)))
        at_most(holdings_of_pod(bound, view, SETTINGS), wanted)


@given(
    st.sampled_from(["gpu.nvidia.com", "mig.nvidia.com"]),
    st.lists(st.sampled_from(SELECTORS), max_size=1),
    st.sampled_from(["ExactCount", "All"]),
    st.data(),
)
def test_claim_is_charged_at_least_what_it_is_allocated(example, claim, template, request_for, name, texts, mode, data):
    view = example()
    request = request_for(name, *texts, allocationMode=mode)
    wanted = demands_of_claim(claim(request), view, SETTINGS, "")
    assert demands_of_template(template(request), view, SETTINGS, "") == wanted
    slices = [each for each in view.list("ResourceSlice") if each["spec"]["driver"] == "gpu.nvidia.com"]
    pool = data.draw(st.sampled_from(slices))["spec"]
    kind = "mig" if name.startswith("mig") else "gpu"
    matching = [
        device["name"]
        for device in pool.get("devices") or ()
        if device["attributes"]["type"]["string"] == kind
        and all((text == SELECTORS[0]) is ("H100" in device["attributes"]["productName"]["string"]) for text in texts)
    ]
    taken = matching if mode == "All" else matching[-1:]
    results = [
        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool["pool"]["name"], "device": each} for each in taken
    ]
    allocated = claim(request, status={"allocation": {"devices": {"results": results}}})
    at_most(holdings_of_claim(allocated, view, SETTINGS, ""), wanted.demands)
