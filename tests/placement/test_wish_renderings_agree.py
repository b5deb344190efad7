"""A wish selects the same GPUs by node labels and by device attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.labels import Subject, device_predicate
from policies.nvidia.mig import MIGProfile, parse_resource
from policies.nvidia.products import KNOWN_PRODUCTS
from policies.nvidia.wishes import Wish
from policies.placement.wish_labels import alternatives
from tests.published import published_device

MEBI = 1024**2
DOMAIN = "gpu.nvidia.com"
PROFILES = [MIGProfile.parse(text) for text in ("1g.5gb", "1g.10gb", "2g.20gb", "1g.10gb+me")]


@dataclass(frozen=True)
class GPU:
    """A device, as its driver tells of it."""

    product: str
    architecture: str
    capability: tuple[int, int]
    memory: int
    driver: tuple[int, int, int]
    cuda: tuple[int, int]
    profile: MIGProfile | None = None


def device(gpu):
    """What NVIDIA's DRA driver publishes of it."""
    attributes = {
        "type": "mig" if gpu.profile else "gpu",
        **({"productName": gpu.product} if gpu.product else {}),
        "architecture": gpu.architecture,
        "cudaComputeCapability": "{}.{}.0".format(*gpu.capability),
        "driverVersion": "{}.{}.{}".format(*gpu.driver),
        "cudaDriverVersion": "{}.{}.0".format(*gpu.cuda),
    }
    if gpu.profile:
        attributes["profile"] = str(gpu.profile)
    return published_device(attributes, {"memory": gpu.memory} if gpu.memory else {})


def labels(gpu, kind):
    """What GPU Feature Discovery writes on a node of such devices."""
    branch, minor, patch = gpu.driver
    product = "-".join(gpu.product.split())
    reported = {
        **({"gpu.product": product} if product else {}),
        "gpu.family": gpu.architecture.lower().replace(" ", "-"),
        "gpu.compute.major": str(gpu.capability[0]),
        "gpu.compute.minor": str(gpu.capability[1]),
        "cuda.driver-version.major": str(branch),
        "cuda.driver-version.minor": f"{minor:02}",
        "cuda.driver-version.revision": f"{patch:02}" if patch else "",
        "cuda.runtime-version.major": str(gpu.cuda[0]),
        "cuda.runtime-version.minor": str(gpu.cuda[1]),
        "gpu.sharing-strategy": "none",
    }
    prefix = "gpu"
    if gpu.profile:
        prefix = "gpu" if kind == "mig-single" else f"mig-{gpu.profile.label}"
        if product:
            reported[f"{prefix}.product"] = f"{product}-MIG-{gpu.profile.label}"
        reported[f"{prefix}.slices.gi"] = str(gpu.profile.gpu_slices)
    if gpu.memory >= MEBI:
        reported[f"{prefix}.memory"] = str(gpu.memory // MEBI)
    return {f"nvidia.com/{name}": value for name, value in reported.items()}


products = st.sampled_from(
    [
        *("NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "A100-SXM4-40GB", "NVIDIA H100 80GB HBM3", "Tesla T4", ""),
        *("NVIDIA R100", "NVIDIA H100x", "Tesla T4G", "NVIDIA A100-SXM4-40GB Custom", "NVIDIA A30"),
    ]
)
pairs = st.tuples(st.sampled_from([8, 9, 10, 12]), st.integers(0, 9))
drivers = st.tuples(st.sampled_from([535, 550, 580]), st.sampled_from([0, 5, 54, 95]), st.sampled_from([0, 5, 15]))
memories = st.builds(
    lambda mebibytes, offset: mebibytes * MEBI + offset,
    st.sampled_from([4864, 9984, 40960, 81559]),
    st.sampled_from([-1, 0, 1, MEBI - 1]),
)
gpus = st.builds(
    GPU,
    product=products,
    architecture=st.sampled_from(["Ampere", "Hopper", "Ada Lovelace", "Blackwell"]),
    capability=pairs,
    memory=st.one_of(st.just(0), memories),
    driver=drivers,
    cuda=pairs,
)
PATTERNS = [
    *("A100*", "*40GB", "a100-sxm4-40gb", "NVIDIA-H100*", "H100", "Tesla T4", "*T4*", "R100", "r1?0", "*"),
    *("*MIG*", "*-MIG-1g.5gb", "A100*MIG-1g*", "A10?-*", "H100?", "A30?", "?*"),
]
some_patterns = st.lists(st.tuples(st.booleans(), st.sampled_from(PATTERNS)), min_size=1, max_size=4).map(
    lambda entries: ",".join(("!" if excluded else "") + pattern for excluded, pattern in entries)
)
patterns = st.one_of(some_patterns, st.sampled_from(["!*MIG*", "!*40GB", "!A100*,!T*", "a100-sxm4-40gb", "*40GB"]))
versions = pairs.map(lambda pair: "{}.{}".format(*pair))
words = {
    "product": patterns,
    "min-memory": memories.map(str),
    "max-memory": memories.map(str),
    "min-compute-capability": versions,
    "family": st.sampled_from(["ampere", "hopper,ada-lovelace", "Blackwell"]),
    "min-driver": drivers.map(lambda version: "{}.{:02}.{:02}".format(*version)),
    "min-cuda": versions,
}
wishes = st.fixed_dictionaries({}, optional=words).map(Wish.of)


others = st.lists(products, max_size=3)


def selected_by_labels(gpu, kind, wish, others):
    name = f"nvidia.com/mig-{gpu.profile.label}" if kind == "mig" else "nvidia.com/gpu"
    node = labels(gpu, kind)
    nodes = [node, *(labels(replace(gpu, product=product), kind) for product in others)]
    key = f"{name}.product"
    branches = alternatives(wish, parse_resource(name), {key: frozenset(each[key] for each in nodes if key in each)})
    return any(all(requirement.holds(node) for requirement in branch) for branch in branches)


def assert_same(gpu, kind, wish, others):
    by_device = device_predicate(wish, Subject(kind, gpu.profile)).matches(device(gpu))
    assert selected_by_labels(gpu, kind, wish, others) == by_device


@given(gpu=gpus, wish=wishes, others=others)
def test_whole_gpu_is_selected_by_labels_and_attributes_alike(gpu, wish, others):
    assert_same(gpu, "gpu", wish, others)


@given(gpu=gpus, profile=st.sampled_from(PROFILES), wish=wishes, others=others)
def test_mig_device_asked_by_profile_is_selected_by_labels_and_attributes_alike(gpu, profile, wish, others):
    assert_same(replace(gpu, profile=profile), "mig", wish, others)


@given(gpu=gpus, profile=st.sampled_from(PROFILES), wish=wishes, others=others)
def test_mig_device_of_the_single_strategy_is_selected_by_labels_and_attributes_alike(gpu, profile, wish, others):
    assert_same(replace(gpu, profile=profile), "mig-single", wish, others)


@given(known=st.sampled_from(KNOWN_PRODUCTS), wish=patterns.map(lambda text: Wish.of({"product": text})))
def test_known_product_that_no_node_has_yet_is_selected_too(known, wish):
    gpu = GPU(known, "Hopper", (9, 0), 81559 * MEBI, (580, 95, 5), (13, 0))
    node = labels(gpu, "gpu")
    branches = alternatives(wish, parse_resource("nvidia.com/gpu"), {})
    by_labels = any(all(requirement.holds(node) for requirement in branch) for branch in branches)
    assert by_labels == device_predicate(wish, Subject("gpu")).matches(device(gpu))
