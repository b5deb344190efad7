"""Whatever is proposed for a misspelt GPU is the same GPU, and works: it is written into the object, and reviewed again."""

import re
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.admission import review
from policies.kubernetes.pod_templates import with_defaults
from policies.nvidia.products import Product
from policies.nvidia.wishes import ProductPatterns
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.placement.conftest import fixture
from tests.properties import examples
from webhook.cluster.manifests import ManifestsView

GPUS = {
    "NVIDIA-A100-SXM4-40GB": ("A100", 40, "SXM"),
    "NVIDIA-A100-PCIE-40GB": ("A100", 40, "PCIe"),
    "NVIDIA-A100-SXM4-80GB": ("A100", 80, "SXM"),
    "NVIDIA-A100-80GB-PCIe": ("A100", 80, "PCIe"),
    "NVIDIA-A30": ("A30", 24, "PCIe"),
    "NVIDIA-A10": ("A10", 24, "PCIe"),
    "NVIDIA-B200": ("B200", 180, "SXM"),
    "NVIDIA-GB200": ("GB200", 186, "SXM"),
    "NVIDIA-H100-80GB-HBM3": ("H100", 80, "SXM"),
    "NVIDIA-H100-PCIe": ("H100", 80, "PCIe"),
    "NVIDIA-H100-NVL": ("H100", 94, "NVL"),
    "NVIDIA-H200": ("H200", 141, "SXM"),
    "NVIDIA-L4": ("L4", 24, "PCIe"),
    "NVIDIA-L40S": ("L40S", 48, "PCIe"),
    "Tesla-T4": ("T4", 16, "PCIe"),
    "Tesla-V100-SXM2-16GB": ("V100", 16, "SXM"),
    "Tesla-V100-PCIE-32GB": ("V100", 32, "PCIe"),
}
"""Model, memory and form factor: the products of nodes whose labels GPU Feature Discovery made, and GPUs like them."""
SUFFIXES = ("", "-SHARED", "-MIG-1g.5gb", "-MIG-1g.6gb", "-MIG-1g.10gb", "-MIG-1g.10gb-SHARED", "-MIG-INVALID")


SPELLINGS = {
    "lower case": str.lower,
    "upper case": str.upper,
    "blanks": lambda name: name.replace("-", " "),
    "underscores": lambda name: name.replace("-", "_"),
    "dots": lambda name: name.replace("-", "."),
    "double dash": lambda name: name.replace("-", "--", 1),
    "no brand": lambda name: name.partition("-")[2],
    "no brand, lower case": lambda name: name.partition("-")[2].lower(),
    "misspelt brand": lambda name: name.replace("NVIDIA", "NVDIA").replace("Tesla", "Telsa"),
    "other brand": lambda name: name.replace("NVIDIA", "Tesla").replace("Tesla-T", "NVIDIA-T"),
    "both brands": lambda name: f"NVIDIA-{name}".replace("NVIDIA-NVIDIA", "NVIDIA-Tesla"),
    "O for 0": lambda name: name.replace("0", "O"),
    "no memory": lambda name: re.sub(r"-[0-9]+GB", "", name),
    "no unit": lambda name: re.sub(r"([0-9])GB", r"\1", name),
    "GiB": lambda name: name.replace("0GB", "0GiB"),
    "model": lambda name: GPUS[name][0],
    "brand and model": lambda name: f"NVIDIA-{GPUS[name][0]}",
    "model and memory": lambda name: f"{GPUS[name][0]}-{GPUS[name][1]}GB",
    "model and form factor": lambda name: f"{GPUS[name][0]}-{GPUS[name][2]}",
    "all that there is to say": lambda name: f"NVIDIA-{GPUS[name][0]}-{GPUS[name][2]}-{GPUS[name][1]}GB",
    "GKE": lambda name: f"nvidia-{GPUS[name][0].lower()}-{GPUS[name][1]}gb",
    "Karpenter": lambda name: GPUS[name][0].lower(),
    "glued": lambda name: f"{GPUS[name][0]}{GPUS[name][2]}".lower(),
    "marketing": lambda name: f"NVIDIA {GPUS[name][0]} Tensor Core GPU",
}


def pod(annotations=None, **spec):
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"name": "train", "namespace": "team-a", "annotations": annotations or {}}
    return with_defaults(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    )


def quota(value):
    limit = {"name": "gpus", "gpus": 1, "selector": {"products": [value]}}
    metadata = {"name": "gpu", "namespace": "team-a"}
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": metadata,
        "spec": {"limits": [limit]},
    }


def policy(value):
    spec = {"placement": {"wishes": [{"wish": {"product": value}}]}}
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def claim(value):
    cel = {"cel": {"expression": f'device.attributes["gpu.nvidia.com"].productName == "{value}"'}}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": [cel]}}
    metadata = {"name": "gpu", "namespace": "team-a"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [request]}},
    }


PLACES = {
    "node selector": lambda value: pod(nodeSelector={"nvidia.com/gpu.product": value}),
    "wish": lambda value: pod({"gpu-admission.io/product": value}),
    "default wish": policy,
    "quota": quota,
    "claim": claim,
}


def node(product):
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": product}
    offers = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": product.lower(), "labels": labels},
        "status": {"allocatable": offers, "capacity": offers},
    }


def namespace(**labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


NO_SLICES = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}
OTHERWISE = (
    "NVIDIA-L4-SHARED",
    "NVIDIA-A30-MIG-1g.6gb",
    "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-PCIe",
    "NVIDIA-B200-MIG-INVALID",
)
CLUSTERS = {
    "unknown": [namespace()],
    "every GPU": [namespace(), NO_SLICES, *map(node, GPUS)],
    "shared and divided": [namespace(), NO_SLICES, *map(node, OTHERWISE)],
    "by DRA": [namespace(**{"gpu-admission.io/dra": "enabled"}), *fixture("gpucluster")],
}


@cache
def view(cluster):
    return ManifestsView(CLUSTERS[cluster])


def findings(document, cluster):
    metadata = document["metadata"]
    request = Request(
        document,
        group=document["apiVersion"].rpartition("/")[0] if "/" in document["apiVersion"] else "",
        kind=document["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )
    return review(request, view(cluster), DEFAULTS).findings


RULES = {"GA230", "GA313", "GA404", "GA405", "GA409", "GA508"}
WRITE = re.compile(r'\bwrite (?:one of )?((?:"[^"]+"(?:, | and )?)+)')


def proposed(found):
    """The names that findings about names of GPUs say to write, each with its path."""
    return [
        (finding.path, name)
        for finding in found
        if finding.rule.id in RULES
        for listed in WRITE.findall(finding.remedy)
        for name in re.findall('"([^"]+)"', listed)
    ]


def selected(place, name):
    """The GPUs that a name in a place selects, in any form."""
    if place in ("node selector", "claim"):
        return {label for label in GPUS if Product.parse(name.replace(" ", "-")).name == label}
    patterns = ProductPatterns(tuple(name.split(",")))
    profiles = {Product.parse(f"A100{suffix}").profile for suffix in SUFFIXES}
    return {label for label in GPUS if any(patterns.admits(label, profile) for profile in profiles)}


def contradicts(text, label, other):
    """True if another GPU is of another model, or has other memory or another form factor than a text says."""
    said = text.upper().replace("O", "0")
    (model, memory, form), (its_model, its_memory, its_form) = GPUS[label], GPUS[other]
    return (
        model != its_model
        or (memory != its_memory and re.search(rf"(?<![0-9]){memory}(?![0-9])", said) is not None)
        or (form != its_form and form.upper() in said)
    )


def written(place, text):
    return PLACES[place](text.replace("-", " ") if place == "claim" else text)


gpus, spellings = st.sampled_from(sorted(GPUS)), st.sampled_from(sorted(SPELLINGS))
places, clusters = st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(CLUSTERS))


@settings(max_examples=examples(500))
@given(gpus, st.sampled_from(SUFFIXES), spellings, places, clusters)
def test_what_is_proposed_is_the_same_gpu_and_works(label, suffix, spelling, place, cluster):
    text = SPELLINGS[spelling](label) + suffix
    for path, name in proposed(findings(written(place, text), cluster)):
        again = findings(PLACES[place](name), cluster)
        assert not [
            str(each) for each in again if each.path == path and each.severity in (Severity.WARN, Severity.DENY)
        ]
        assert selected(place, name)
        assert not [other for other in selected(place, name) if contradicts(text, label, other)]


@settings(max_examples=examples(150))
@given(gpus, spellings, st.sampled_from(["node selector", "wish", "quota"]))
def test_misspelt_name_of_a_gpu_that_exists_gets_a_proposal_of_its_model(label, spelling, place):
    text = SPELLINGS[spelling](label)
    if not selected(place, text.replace(" ", "-").removeprefix("NVIDIA-") if place != "node selector" else text):
        names = [name for _, name in proposed(findings(written(place, text), "every GPU"))]
        assert GPUS[label][0] in {GPUS[other][0] for name in names for other in selected(place, name)}


@settings(max_examples=examples(60))
@given(gpus, gpus, st.sampled_from(["unknown", "every GPU"]))
def test_two_names_in_one_give_patterns_for_both(one, other, cluster):
    text = " or ".join(f"{GPUS[label][0]}-{GPUS[label][1]}GB" for label in (one, other))
    ((_, names),) = proposed(findings(written("wish", text), cluster))
    models = {GPUS[label][0] for label in (one, other)}
    assert {GPUS[label][0] for label in selected("wish", names)} == models
