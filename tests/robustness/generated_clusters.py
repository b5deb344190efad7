"""Random clusters, settings and pods that request GPUs, for conversion and placement."""

from __future__ import annotations

from hypothesis import strategies as st

from policies.kubernetes.nodes import REQUIRED
from policies.rules.decision import Severity
from policies.rules.settings import Access, Conversion, GPUAdmissionPolicy, Placement, RuleOverride, WishDefault
from tests.fleet.fleet_objects import GPU as GPU_DEVICE
from tests.fleet.fleet_objects import MIG as MIG_DEVICE
from tests.fleet.fleet_objects import device_class

__all__ = [
    "A100",
    "CLASSES_AS_SHIPPED",
    "CLASSES_WITH_RESOURCE",
    "CLUSTERS",
    "GPU",
    "H100",
    "LISTS",
    "PODS",
    "PRODUCTS",
    "SETTINGS",
    "T4",
]

GPU = "nvidia.com/gpu"
H100, A100, T4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
PRODUCTS = {
    H100: {"memory": "81559", "family": "hopper", "compute": ("9", "0")},
    A100: {"memory": "40960", "family": "ampere", "compute": ("8", "0")},
    T4: {"memory": "15360", "family": "turing", "compute": ("7", "5")},
}
_PROFILES = {A100: ("1g.5gb", "4864"), H100: ("1g.10gb", "9984")}
_ARCHITECTURES = {"hopper": "Hopper", "ampere": "Ampere", "turing": "Turing"}


def _few(**strategies):
    """A mapping with some of these keys."""
    return st.fixed_dictionaries({}, optional=strategies)


def _one_in(number):
    """True once in so many times."""
    return st.sampled_from([False] * (number - 1) + [True])


@st.composite
def _nodes(draw, name):
    """A node of a device plugin, of a DRA driver, or of both, with and without the labels of GPU Feature Discovery."""
    product = draw(st.sampled_from(list(PRODUCTS)))
    known, profile = PRODUCTS[product], _PROFILES.get(product) if draw(_one_in(4)) else None
    sharing = draw(st.sampled_from(["none", "none", "time-slicing", "mps"]))
    memory = profile[1] if profile else known["memory"]
    text = f"{product}-MIG-{profile[0]}" if profile else product
    renamed = sharing != "none" and draw(_one_in(4))
    labels = {"kubernetes.io/hostname": name, "zone": draw(st.sampled_from("ab"))}
    if not draw(_one_in(5)):
        labels |= {
            f"{GPU}.product": text + ("-SHARED" if sharing != "none" and not renamed else ""),
            f"{GPU}.memory": memory,
            f"{GPU}.family": known["family"],
            f"{GPU}.compute.major": known["compute"][0],
            f"{GPU}.compute.minor": known["compute"][1],
            "nvidia.com/cuda.driver-version.major": draw(st.sampled_from(["550", "580"])),
            "nvidia.com/cuda.driver-version.minor": "54",
            "nvidia.com/cuda.driver-version.revision": "15",
            **({} if draw(_one_in(8)) else {f"{GPU}.sharing-strategy": sharing}),
            **({f"{GPU}.slices.gi": "1"} if profile else {}),
        }
    offers = {}
    if not draw(_one_in(4)):
        offers[f"{GPU}.shared" if renamed else GPU] = draw(st.sampled_from(["1", "8", "8", "0"]))
    if product in _PROFILES and draw(_one_in(5)):
        mig = f"nvidia.com/mig-{_PROFILES[product][0]}"
        offers[mig] = "7"
        labels |= {f"{mig}.product": f"{product}-MIG-{_PROFILES[product][0]}", f"{mig}.memory": _PROFILES[product][1]}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": offers,
            "nodeInfo": {"kubeletVersion": "v1.34.1" if draw(_one_in(8)) else "v1.36.0"},
        },
    }
    return [node, draw(_slices(name, product, profile))] if draw(st.booleans()) else [node]


@st.composite
def _slices(draw, node, product, profile):
    shares = draw(_one_in(8))
    known = PRODUCTS[product]
    device = {
        "name": "gpu-0",
        "attributes": {
            "type": {"string": "mig" if profile else "gpu"},
            "productName": {"string": product.replace("-", " ")},
            "architecture": {"string": _ARCHITECTURES[known["family"]]},
            "cudaComputeCapability": {"version": ".".join((*known["compute"], "0"))},
            "driverVersion": {"version": "580.95.5"},
            **({"profile": {"string": profile[0]}} if profile else {}),
        },
        "capacity": {
            "memory": {"value": f"{profile[1] if profile else known['memory']}Mi"},
            **({"shares": {"value": "4"}} if shares else {}),
        },
        **({"allowMultipleAllocations": True} if shares else {}),
    }
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": [device]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


_MIG_CLASS = device_class("mig.nvidia.com", MIG_DEVICE)
CLASSES_AS_SHIPPED = [device_class("gpu.nvidia.com", GPU_DEVICE), _MIG_CLASS]
CLASSES_WITH_RESOURCE = [device_class("gpu.nvidia.com", GPU_DEVICE, extended=GPU), _MIG_CLASS]
_CLASSES = st.sampled_from(
    [
        CLASSES_AS_SHIPPED,
        CLASSES_WITH_RESOURCE,
        [*CLASSES_WITH_RESOURCE[:1], device_class("mig.nvidia.com", MIG_DEVICE, extended="nvidia.com/mig-1g.5gb")],
        [device_class("mig.nvidia.com", MIG_DEVICE, extended=GPU)],
        [],
    ]
)
LISTS = [
    {"apiVersion": version, "kind": f"{kind}List", "items": []}
    for version, kind in (
        ("v1", "Node"),
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("resource.k8s.io/v1", "DeviceClass"),
        ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    )
]
_NAMESPACE_LABELS = st.fixed_dictionaries(
    {"gpu-admission.io/dra": st.sampled_from(["enabled", "enabled", "enabled", "preview", "disabled"])},
    optional={"gpu-admission.io/dra-strategy": st.sampled_from(["template", "rename", "leave", "auto", "auto"])},
)


@st.composite
def _clusters(draw):
    """The objects of a cluster, and of the namespace `team-a`."""
    objects = [each for number in range(draw(st.integers(0, 3))) for each in draw(_nodes(f"node-{number}"))]
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a", "labels": draw(_NAMESPACE_LABELS)},
    }
    objects += [*draw(_CLASSES), namespace]
    if not draw(_one_in(8)):
        objects += LISTS
    if draw(_one_in(8)):
        spec = {"limits": [{"type": "Container", "default": {GPU: draw(st.sampled_from(["0", "1"]))}}]}
        limits = {"name": "gpus", "namespace": "team-a"}
        objects.append({"apiVersion": "v1", "kind": "LimitRange", "metadata": limits, "spec": spec})
    if not draw(_one_in(8)):
        objects.append({"serverVersion": {"gitVersion": "v1.35.0" if draw(_one_in(8)) else "v1.36.2"}})
    return objects


_WISHES = _few(
    **{
        "product": st.sampled_from(
            [
                "H100*",
                "A100*",
                "*T4",
                "!*T4",
                "!*MIG*",
                "*MIG*",
                "A100*,!*MIG*",
                "H100-SHARED",
                "*H100*MIG*",
                "B300",
                "T4",
            ]
        ),
        "gpu-memory": st.sampled_from(["10Gi", "20Gi", "60Gi"]),
        "min-memory": st.sampled_from(["10Gi", "20Gi", "60Gi", "200Gi"]),
        "max-memory": st.sampled_from(["16Gi", "50Gi"]),
        "family": st.sampled_from(["hopper", "ampere,hopper", "turing"]),
        "min-compute-capability": st.sampled_from(["7.5", "8.0", "8.6", "9.0"]),
        "min-driver": st.sampled_from(["550.54", "570", "580.95.05"]),
        "sharing": st.sampled_from(["exclusive", "shared", "any"]),
    }
)
_NO_OR_SOME_WISHES = st.just({}) | _WISHES
_OVERRIDDEN = ["GA306", "GA307", "GA308", "GA309", "GA311", "GA327", "GA320", "GA401", "GA402", "GA403", "GA404"]
SETTINGS = st.builds(
    GPUAdmissionPolicy,
    rules=st.just(())
    | st.lists(
        st.builds(RuleOverride, st.sampled_from(_OVERRIDDEN), st.sampled_from([Severity.WARN, Severity.AUDIT])),
        max_size=3,
    ).map(tuple),
    conversion=st.builds(Conversion, keep_translated_labels=_one_in(8)),
    placement=st.builds(
        Placement,
        wishes=st.just(()) | _WISHES.map(lambda wish: (WishDefault(wish),)),
        unsatisfiable=st.sampled_from(["warn", "warn", "warn", "deny"]),
        avoid_shared_gpus=st.booleans(),
    ),
    access=st.builds(Access, mode=st.sampled_from(["warn", "deny"])),
)

_RESOURCES = st.sampled_from([GPU, GPU, GPU, f"{GPU}.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-1g.10gb"])
_LABELS = [
    (f"{GPU}.product", [H100, A100, T4, f"{T4}-SHARED", f"{H100}-SHARED", f"{A100}-MIG-1g.5gb"]),
    (f"{GPU}.family", ["hopper", "ampere", "turing"]),
    (f"{GPU}.memory", ["81559", "40960", "15360"]),
    (f"{GPU}.compute.major", ["7", "8", "9"]),
    (f"{GPU}.sharing-strategy", ["none", "time-slicing", "mps"]),
    (f"{GPU}.present", ["true"]),
    (f"{GPU}.count", ["8"]),
    ("nvidia.com/mig-1g.5gb.product", [f"{A100}-MIG-1g.5gb"]),
    ("zone", ["a", "b", "c"]),
    ("kubernetes.io/hostname", ["node-0", "node-1"]),
]
_ENTRIES = st.sampled_from([(key, value) for key, values in _LABELS for value in values])


@st.composite
def _expressions(draw):
    key, values = draw(st.sampled_from(_LABELS))
    operator = draw(st.sampled_from(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": f"{GPU}.memory", "operator": operator, "values": [draw(st.sampled_from(["16000", "40000"]))]}
    several = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))
    return {"key": key, "operator": operator, "values": several}


_TERMS = st.lists(st.lists(_expressions(), max_size=2).map(lambda found: {"matchExpressions": found}), max_size=2)


@st.composite
def _pods(draw):
    """Pods that ask for GPUs, select nodes and wish."""

    def container(name):
        limits = draw(st.dictionaries(_RESOURCES, st.sampled_from(["1", "1", "2", "0"]), max_size=2))
        if name == "c0":
            limits = {draw(_RESOURCES): "1"} | limits
        resources = {"limits": limits, "requests": dict(limits)} if limits else {}
        return {"name": name, "image": "train:1", "resources": resources}

    spec = {
        "containers": [container(f"c{number}") for number in range(draw(st.integers(1, 2)))],
        "initContainers": [container(f"i{number}") for number in range(draw(st.sampled_from([0, 0, 0, 1])))],
        **draw(_few(nodeSelector=st.lists(_ENTRIES, max_size=2).map(dict))),
        **({"schedulerName": "volcano"} if draw(_one_in(8)) else {}),
    }
    if draw(st.booleans()):
        spec["affinity"] = {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": draw(_TERMS)}}}
    metadata = {
        "name": "train",
        "namespace": "team-a",
        "annotations": {f"gpu-admission.io/{word}": text for word, text in draw(_NO_OR_SOME_WISHES).items()},
        "labels": {"gpu-admission.io/dra": "disabled"} if draw(_one_in(8)) else {},
    }
    if draw(_one_in(8)):
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


PODS = _pods()
CLUSTERS = _clusters()
