"""Pods with node affinity, and requirements on their nodes."""

from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.objects import lookup
from policies.kubernetes.pods import Pod
from policies.kubernetes.selectors import NodeRequirement
from policies.placement.affinity import require
from policies.rules.patch import Editor

PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"


MAJOR, MINOR = "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"


T4 = NodeRequirement(PRODUCT, "In", ("Tesla-T4",))


L4_OR_T4 = NodeRequirement(PRODUCT, "In", ("NVIDIA-L4", "Tesla-T4"))


BIG = NodeRequirement(MEMORY, "Gt", ("40000",))


AMPERE_86 = (
    (NodeRequirement(MAJOR, "Gt", ("8",)),),
    (NodeRequirement(MAJOR, "In", ("8",)), NodeRequirement(MINOR, "Gt", ("5",))),
)


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


OTHER_ZONE = {"key": "zone", "operator": "In", "values": ["b"]}


ON_NODE = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def spec_of(*terms, **spec):
    """A pod's spec with node affinity of these terms."""
    return {"affinity": {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": list(terms)}}}, **spec}


def pod_of(spec):
    return Pod.read({"metadata": {"name": "train"}, "spec": {"containers": [{"name": "train"}], **spec}})


def required(spec, *alternatives):
    pod = pod_of(spec)
    edits = Editor(pod.document)
    require(alternatives, edits)
    return edits


def terms_of(edits):
    return lookup(edits.document, ("spec", *REQUIRED, "nodeSelectorTerms"))
