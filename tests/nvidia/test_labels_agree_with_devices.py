"""A translated condition is true for a device if the label was true for its node.

Devices are generated with the labels that GPU Feature Discovery writes on a node that has only such devices; then
every condition on these labels that is translated at all matches the device where it matches the labels.
"""

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from policies.kubernetes.nodes import REQUIRED, NodeIndex
from policies.kubernetes.resourceslices import Device
from policies.nvidia.labels import Subject, UntranslatableError, is_gpu_label, translate
from policies.nvidia.mig import MIGProfile
from tests.published import published_device

MEBI = 1024**2
# NVML's names, compute capability, and the family that internal/lm/resource.go getArchFamily makes of it.
GPUS = [
    ("NVIDIA A100-SXM4-40GB", "Ampere", (8, 0), "ampere"),
    ("NVIDIA L40S", "Ada Lovelace", (8, 9), "ada-lovelace"),
    ("NVIDIA H100 80GB HBM3", "Hopper", (9, 0), "hopper"),
    ("NVIDIA GB200", "Blackwell", (10, 0), "blackwell"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell", (12, 0), "blackwell"),
    ("Tesla T4", "Turing", (7, 5), "turing"),
    ("Tesla V100-SXM2-16GB", "Volta", (7, 0), "volta"),
    ("NVIDIA Graphics Device", "Unknown", (14, 1), "undefined"),
]
# As NVML spells it, and as the DRA driver publishes it.
DRIVERS = [("580.95.05", "580.95.5"), ("570.86.15", "570.86.15"), ("550.54.06", "550.54.6"), ("565.77", "565.77.0")]
CUDA = [(12, 4), (13, 0), (12, 10)]
PROFILES = ["1g.5gb", "1g.10gb+me", "2g.10gb", "3g.20gb", "7g.40gb", "1g.24gb-me", "1g.24gb+me.all"]
ENGINES = {
    "multiprocessors": "multiprocessors",
    "engines.copy": "copyEngines",
    "engines.decoder": "decoders",
    "engines.encoder": "encoders",
    "engines.jpeg": "jpegEngines",
    "engines.ofa": "ofaEngines",
}


@dataclass(frozen=True)
class Node:
    """A device, the labels of a node that has only such devices, and what a pod asks for to get one."""

    device: Device
    labels: dict
    subject: Subject


def versions(draw):
    """Driver and runtime: internal/lm/nvml.go newVersionLabeler."""
    driver, published = draw(st.sampled_from(DRIVERS))
    major, minor, *revision = driver.split(".")
    cuda_major, cuda_minor = draw(st.sampled_from(CUDA))
    labels = {
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": "".join(revision),
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": "".join(revision),
        "cuda.driver-version.full": driver,
        "cuda.runtime.major": str(cuda_major),
        "cuda.runtime.minor": str(cuda_minor),
        "cuda.runtime-version.major": str(cuda_major),
        "cuda.runtime-version.minor": str(cuda_minor),
        "cuda.runtime-version.full": f"{cuda_major}.{cuda_minor}",
    }
    return labels, {"driverVersion": published, "cudaDriverVersion": f"{cuda_major}.{cuda_minor}.0"}


def base(prefix, product, strategy="none"):
    return {
        f"{prefix}.product": product,
        f"{prefix}.count": "8",
        f"{prefix}.replicas": "1",
        f"{prefix}.sharing-strategy": strategy,
    }


@st.composite
def nodes(draw):
    name, architecture, capability, family = draw(st.sampled_from(GPUS))
    labels, attributes = versions(draw)
    product = name.replace(" ", "-")
    attributes |= {
        "productName": name,
        "architecture": architecture,
        "cudaComputeCapability": f"{capability[0]}.{capability[1]}.0",
    }
    labels |= {
        "gpu.present": "true",
        "gpu.family": family,
        "gpu.compute.major": str(capability[0]),
        "gpu.compute.minor": str(capability[1]),
        "mig.capable": "true",
        "mps.capable": "false",
        "gpu.machine": "DGX",
        **base("gpu", product),
    }
    # NVML reports no memory where the GPU shares the host's; GFD then writes no label, the DRA driver no capacity.
    total = draw(st.none() | st.integers(4000 * MEBI, 200000 * MEBI))
    if total is not None:
        labels["gpu.memory"] = str(total // MEBI)
    kind = draw(st.sampled_from(["gpu", "mig", "mig-single"]))
    if kind == "gpu":
        capacity = {} if total is None else {"memory": Fraction(total)}
        return made(attributes, capacity, labels, Subject("gpu"))
    profile = MIGProfile.parse(draw(st.sampled_from(PROFILES)))
    prefix = "gpu" if kind == "mig-single" else f"mig-{profile.label}"
    memory = draw(st.integers(4000, 200000))
    amounts = {label: draw(st.integers(0, 20)) for label in ENGINES}
    attributes |= {"profile": str(profile)}
    capacity = {"memory": Fraction(memory * MEBI), **{ENGINES[label]: Fraction(n) for label, n in amounts.items()}}
    labels |= {
        "mig.strategy": "single" if kind == "mig-single" else "mixed",
        **base(prefix, f"{product}-MIG-{profile.label}"),
        f"{prefix}.memory": str(memory),
        f"{prefix}.slices.gi": str(profile.gpu_slices),
        f"{prefix}.slices.ci": str(profile.gpu_slices),
        **{f"{prefix}.{label}": str(amount) for label, amount in amounts.items()},
    }
    subject = Subject(kind, profile if kind == "mig" or draw(st.booleans()) else None)
    return made(attributes, capacity, labels, subject)


def made(attributes, capacity, labels, subject):
    attributes["type"] = "gpu" if subject.kind == "gpu" else "mig"
    device = published_device(attributes, capacity)
    return Node(device, {f"nvidia.com/{name}": value for name, value in labels.items()}, subject)


NUMBERS = ["0", "1", "2", "5", "8", "9", "10", "12", "14", "40960", "81559"]


def other_values(key):
    """Values that some node carries in this label; numbers are spelt as drivers and GFD spell them."""
    if key.endswith("product"):
        names = [name.replace(" ", "-") for name, *_ in GPUS]
        suffixes = ["", "-SHARED", "-MIG-INVALID", *(f"-MIG-{MIGProfile.parse(text).label}" for text in PROFILES)]
        return st.builds(str.__add__, st.sampled_from(names), st.sampled_from(suffixes))
    if key.endswith("family"):
        return st.sampled_from([*(family for *_, family in GPUS), "maxwell", "unknown", "Hopper"])
    if "driver-version.full" in key:
        return st.sampled_from([spelt for spelt, _ in DRIVERS])
    if "runtime-version.full" in key:
        return st.sampled_from([f"{major}.{minor}" for major, minor in CUDA])
    if "cuda.driver" in key:
        index = ["major", "minor", "rev"].index(key.rpartition(".")[2].removesuffix("ision"))
        return st.sampled_from([(*spelt.split("."), "")[index] for spelt, _ in DRIVERS])
    if key.endswith(("sharing-strategy", "strategy", "present")):
        return st.sampled_from(["none", "time-slicing", "mps", "", "single", "mixed", "true", "false"])
    return st.sampled_from(NUMBERS)


def expressions(node):
    """Conditions on labels that the node has or another could have, aimed at its values and beside them."""
    keys = sorted({*node.labels, "nvidia.com/gpu.memory", "nvidia.com/gpu.multiprocessors"})

    def of(key):
        own = node.labels.get(key, "0")
        near = [str(int(own) + step) for step in (-1, 0, 1) if int(own) + step >= 0] if own.isdigit() else NUMBERS
        values = st.lists(st.just(own) | other_values(key), min_size=1, max_size=3)
        return st.one_of(
            st.tuples(st.just(key), st.sampled_from(["In", "NotIn"]), values),
            st.tuples(st.just(key), st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
            st.tuples(
                st.just(key), st.sampled_from(["Gt", "Lt"]), st.sampled_from([*near, *NUMBERS]).map(lambda n: [n])
            ),
        )

    return st.sampled_from(keys).flatmap(of)


def selects(expression, labels):
    affinity = {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    return NodeIndex([{"metadata": {"labels": labels}}]).select({"affinity": affinity}) == 1


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(nodes(), st.data())
def test_translated_condition_matches_the_device_where_it_matches_the_labels(cel, node, data):
    key, operator, values = data.draw(expressions(node))
    assert is_gpu_label(key)
    try:
        predicate = translate(key, operator, values, node.subject)
    except UntranslatableError:
        assume(False)
    event(f"{operator} on {node.subject.kind}")
    on_labels = selects({"key": key, "operator": operator, "values": values}, node.labels)
    assert predicate.matches(node.device) is on_labels
    assert bool(cel(predicate.cel(), node.device)) is on_labels


@given(nodes())
def test_every_label_of_gfd_is_known(node):
    assert all(map(is_gpu_label, node.labels))


@given(nodes())
def test_labels_of_the_devices_own_node_select_it(cel, node):
    reported = 0
    for key, value in node.labels.items():
        try:
            predicate = translate(key, "In", [value], node.subject)
        except UntranslatableError:
            continue
        reported += 1
        assert predicate.matches(node.device)
    assert reported >= 15
