"""Pods whose extended resources are in a claim of the scheduler count as what that claim got."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from policies.quota.counter import Counter, Terms
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN
from policies.rules.settings.choices import Quotas
from webhook.cluster.manifests import ManifestsView

MIG = "deviceclass.resource.kubernetes.io/mig.nvidia.com"
PRODUCT = "NVIDIA H100 80GB HBM3"
PROFILES = {"1g.10gb": Fraction(1, 7), "3g.40gb": Fraction(1, 2)}
LIMITS = [
    {"name": "all", "gpus": 8},
    {"name": "memory", "memory": "1Ti"},
    {"name": "small", "selector": {"profiles": ["1g.*"]}, "devices": 8},
    {"name": "large", "selector": {"profiles": ["3g.*"]}, "devices": 8},
]
QUOTA = parse_quota(
    {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": LIMITS},
    }
)


def device(profile):
    attributes = {"type": "mig", "productName": PRODUCT, "profile": profile, "uuid": f"of-{profile}"}
    memory = {"1g.10gb": "9984Mi", "3g.40gb": "40448Mi"}[profile]
    return {
        "name": profile,
        "attributes": {name: {"string": text} for name, text in attributes.items()},
        "capacity": {"memory": {"value": memory}},
    }


def cluster(*objects, plugin=""):
    """A node with MIG devices of two profiles that DRA gives, and GPUs that the device plugin does."""
    labels = {"nvidia.com/gpu.product": PRODUCT.replace(" ", "-"), "nvidia.com/gpu.memory": "81559"}
    amounts = {plugin: "8"} if plugin else {}
    pool = {"name": "one", "generation": 1, "resourceSliceCount": 1}
    selector = {
        "cel": {"expression": 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig"'}
    }
    return ManifestsView(
        [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "one", "labels": labels},
                "status": {"allocatable": amounts},
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": "one"},
                "spec": {
                    "driver": "gpu.nvidia.com",
                    "nodeName": "one",
                    "pool": pool,
                    "devices": [*map(device, PROFILES)],
                },
            },
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": "mig.nvidia.com"},
                "spec": {"selectors": [selector]},
            },
            *objects,
        ]
    )


def pod(node="one", claimed=(MIG,), phase="Running", **amounts):
    limits = {MIG: "1", **{name.replace("_", "/"): number for name, number in amounts.items()}}
    mappings = [{"containerName": "main", "resourceName": name, "requestName": "r"} for name in claimed]
    status = {
        "phase": phase,
        "extendedResourceClaimStatus": {"resourceClaimName": "claim", "requestMappings": mappings},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a", "uid": "p"},
        "spec": {
            "containers": [{"name": "main", "image": "train", "resources": {"limits": limits}}],
            **({"nodeName": node} if node else {}),
        },
        "status": status,
    }


def claim(got="1g.10gb", name="claim"):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "p", "controller": True}
    result = {"request": "r", "driver": "gpu.nvidia.com", "pool": "one", "device": got}
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-of-{name}", "ownerReferences": [owner]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**metadata, "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}},
        "spec": {
            "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "mig.nvidia.com", "count": 1}}]}
        },
        "status": {"allocation": {"devices": {"results": [result]}}} if got else {},
    }


def used(pods, claims, *, view=None, counter=None, charged=()):
    terms = Terms(QUOTA, view or cluster(), Quotas())
    counted = (counter or Counter()).count(pods, claims, terms, charged=dict.fromkeys(charged, ("p", OWN)))
    ledger = recount(Ledger(), QUOTA, Snapshot(*counted, "1", "1"))
    return {limit.name: amount for limit in QUOTA.limits if (amount := ledger.used_amount(limit))}


def mib(number):
    return number * 2**20


def test_pod_comes_to_what_its_claim_got_and_not_to_the_most_that_its_node_has():
    assert used([pod()], [claim("1g.10gb")]) == {"all": Fraction(1, 7), "memory": mib(9984), "small": 1}
    assert used([pod()], [claim("3g.40gb")]) == {"all": Fraction(1, 2), "memory": mib(40448), "large": 1}


def test_pod_without_a_node_comes_to_the_most_since_its_claim_may_be_made_anew():
    assert used([pod(node="")], [claim("1g.10gb")])["large"] == 1


def test_pod_whose_claim_is_not_allocated_or_not_seen_comes_to_the_most():
    most = {"all": Fraction(1, 2), "memory": mib(40448), "small": 1, "large": 1}
    assert used([pod()], [claim(got="")]) == most
    assert used([pod()], []) == most


def test_pod_comes_to_the_most_again_when_its_claim_is_gone():
    counter, train, made = Counter(), pod(), claim()
    view = cluster()
    assert "large" not in used([train], [made], view=view, counter=counter)
    assert used([train], [], view=view, counter=counter)["large"] == 1


def test_claim_that_the_pod_does_not_name_is_ignored():
    found = used([pod()], [claim("1g.10gb", name="other")], charged=[("uid-of-other", "other")])
    assert found == {"all": Fraction(1, 2), "memory": mib(40448), "small": 1, "large": 1}


def test_what_the_device_plugin_hands_out_counts_beside_the_claim():
    view = cluster(plugin="nvidia.com/gpu")
    assert used([pod(**{"nvidia.com_gpu": "2"})], [claim()], view=view) == {
        "all": 2 + Fraction(1, 7),
        "memory": mib(2 * 81559 + 9984),
        "small": 1,
    }


def test_pod_that_has_ended_leaves_its_claim():
    assert used([pod(phase="Succeeded")], [claim()]) == {"all": Fraction(1, 7), "memory": mib(9984), "small": 1}


def test_invalid_status_counts_as_missing():
    odd = pod()
    odd["status"]["extendedResourceClaimStatus"]["requestMappings"] = [None, {"resourceName": 3}]
    assert used([odd], [claim()])["large"] == 1


@given(st.sampled_from([*PROFILES]), st.integers(0, 3), st.booleans())
def test_pod_comes_to_no_more_than_before_it_had_a_node(profile, gpus, is_bound):
    view = cluster(plugin="nvidia.com/gpu")
    extra = {"nvidia.com_gpu": str(gpus)} if gpus else {}
    before = used([pod(node="", claimed=(), **extra)], [], view=view)
    after = used([pod(node="one" if is_bound else "", **extra)], [claim(profile)], view=view)
    assert all(amount <= before.get(name, 0) for name, amount in after.items())
