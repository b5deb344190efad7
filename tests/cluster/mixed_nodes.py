"""Nodes that hand out GPUs in every way, and pods that request them in every way."""

import random

from testbed import manifests

GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.10gb"
H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB"
MIG_CLASS = "mig.nvidia.com"
POOL = "example.com/pool"
PREFIX = "mixed-"

_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
_BROKEN = {"key": "example.com/maintenance", "effect": "NoExecute"}


def _node(name, product, labels, amounts, *, taints=(_TAINT,), cpu=64, memory="512Gi", cordoned=False):
    node = manifests.node(PREFIX + name)
    own = {"nvidia.com/gpu.product": product, "kubernetes.io/hostname": PREFIX + name, **labels}
    node["metadata"]["labels"] |= own
    node["spec"] = {"taints": list(taints), **({"unschedulable": True} if cordoned else {})}
    resources = node["status"]["allocatable"] | {"cpu": str(cpu), "memory": memory}
    resources |= {resource: str(amount) for resource, amount in amounts.items()}
    node["status"] |= {"allocatable": resources, "capacity": resources}
    return node


def nodes():
    """The nodes, with what the device plugin of each offers."""
    shared = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    return [
        _node("whole", H100, {POOL: "a"}, {GPU: 8}),
        _node("whole-small", H100, {POOL: "b"}, {GPU: 4}, cpu=8, memory="64Gi", taints=()),
        _node("a100", A100, {POOL: "a"}, {GPU: 2}, taints=()),
        _node("cordoned", A100, {POOL: "b"}, {GPU: 8}, cordoned=True),
        _node("maintained", H100, {POOL: "b"}, {GPU: 8}, taints=(_TAINT, _BROKEN)),
        _node("shared", f"{H100}-SHARED", {POOL: "a", **shared}, {GPU: 16}),
        _node("renamed", H100, {POOL: "b", **shared}, {GPU: 0, f"{GPU}.shared": 8}, taints=()),
        _node("mixed", H100, {POOL: "a", "nvidia.com/mig.strategy": "mixed"}, {GPU: 2, SLICE: 14}),
        _node("single", f"{H100}-MIG-1g.10gb", {POOL: "b", "nvidia.com/mig.strategy": "single"}, {GPU: 7}),
        _node("dra-h100", H100, {POOL: "a"}, {}),
        _node("dra-a100", A100, {POOL: "b"}, {}, taints=(), cpu=16),
        _node("dra-mig", H100, {POOL: "b"}, {}),
        _node("both", H100, {POOL: "a"}, {SLICE: 7}),
        _node("none", "", {POOL: "a"}, {}, taints=(), cpu=128, memory="1Ti"),
    ]


def _devices(product, memory, whole, parts=0):
    """GPUs of the DRA driver, and MIG devices of further ones."""
    common = {
        "productName": {"string": product},
        "brand": {"string": "Nvidia"},
        "driverVersion": {"version": "580.95.5"},
    }
    for number in range(whole):
        attributes = {**common, "type": {"string": "gpu"}, "index": {"int": number}}
        yield {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}}
    for number in range(parts):
        attributes = {**common, "type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
        capacity = {"memory": {"value": "9856Mi"}}
        yield {"name": f"gpu-{whole}-mig-{number}", "attributes": attributes, "capacity": capacity}


def slices():
    """The devices that the DRA driver publishes."""
    published = {
        "dra-h100": _devices("NVIDIA H100 80GB HBM3", "81559Mi", 4),
        "dra-a100": _devices("NVIDIA A100-SXM4-40GB", "40960Mi", 2),
        "dra-mig": _devices("NVIDIA H100 80GB HBM3", "81559Mi", 1, 7),
        "both": _devices("NVIDIA H100 80GB HBM3", "81559Mi", 2),
    }
    for name, devices in published.items():
        document = manifests.resource_slice(PREFIX + name, 0)
        document["spec"]["devices"] = list(devices)
        yield document


def mig_class():
    """The class of MIG devices, as the Helm chart of NVIDIA's DRA driver has it."""
    document = manifests.device_class()
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
    return {
        **document,
        "metadata": {"name": MIG_CLASS},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


_SELECTORS = (
    "",
    "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-40GB'",
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('48Gi')) >= 0",
    "device.attributes['gpu.nvidia.com'].index < 2",
)
"""Conditions on whole GPUs. The last one fails on devices without an index, which stops the scheduler."""


def templates(namespace):
    """Claim templates by name: whole GPUs by number and condition, and MIG devices by number."""
    found = {}
    for number in (1, 2, 4, 5):
        for index, expression in enumerate(_SELECTORS[:3]):
            document = manifests.template(namespace, f"gpu-{number}-{index}", number)
            exactly = document["spec"]["spec"]["devices"]["requests"][0]["exactly"]
            if expression:
                exactly["selectors"] = [{"cel": {"expression": expression}}]
            found[document["metadata"]["name"]] = document
    for number in (1, 3, 8):
        document = manifests.template(namespace, f"mig-{number}", number)
        document["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = MIG_CLASS
        found[document["metadata"]["name"]] = document
    return found


class Pods:
    """Generates pods; equal seeds generate equal pods."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def pod(self, namespace, name):
        """The next pod."""
        chance = self._random
        limits = {
            "cpu": chance.choice(("1", "4", "12", "100")),
            "memory": chance.choice(("1Gi", "40Gi", "100Gi", "700Gi")),
        }
        claims = []
        for _ in range(chance.choice((1, 1, 1, 2))):
            self._request(limits, claims)
        pod = manifests.pod(namespace, name)
        container = pod["spec"]["containers"][0]
        container["resources"] = {"limits": limits}
        if claims:
            names = [f"claim-{number}" for number in range(len(claims))]
            container["resources"]["claims"] = [{"name": each} for each in names]
            pod["spec"]["resourceClaims"] = [
                {"name": each, "resourceClaimTemplateName": template}
                for each, template in zip(names, claims, strict=True)
            ]
        pod["spec"] |= self._where()
        return pod

    def _request(self, limits, claims):
        chance = self._random
        match chance.randrange(8):
            case 0 | 1 | 2:
                limits[GPU] = str(chance.choice((1, 1, 2, 4, 8, 9, 16)))
            case 3:
                limits[SLICE] = str(chance.choice((1, 2, 7, 8, 15)))
            case 4:
                limits[f"{GPU}.shared"] = str(chance.choice((1, 2, 9)))
            case 5 | 6:
                if len(claims) < 1:
                    claims.append(chance.choice(tuple(templates(""))))
            case 7:
                limits["deviceclass.resource.kubernetes.io/gpu.nvidia.com"] = str(chance.choice((1, 3)))

    def _where(self):
        """Where the pod may run."""
        chance = self._random
        spec = {}
        if chance.random() < 0.7:
            spec["tolerations"] = [{"key": GPU, "operator": "Exists"}]
        elif chance.random() < 0.3:
            spec["tolerations"] = [{"operator": "Exists"}]
        match chance.randrange(8):
            case 0:
                spec["nodeSelector"] = {POOL: chance.choice("abc")}
            case 1:
                spec["nodeSelector"] = {"nvidia.com/gpu.product": chance.choice((H100, A100, f"{H100}-SHARED"))}
            case 2:
                condition = chance.choice(
                    (
                        {"key": POOL, "operator": "NotIn", "values": ["a"]},
                        {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]},
                        {"key": "nvidia.com/mig.strategy", "operator": "DoesNotExist"},
                    )
                )
                terms = {"nodeSelectorTerms": [{"matchExpressions": [condition]}]}
                spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        return spec
