"""Rules on what a pod asks for: amounts, profiles, and the shape of the pod itself."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["AMOUNT", "MALFORMED", "PROFILE", "TOO_LARGE", "TOO_MANY", "UNEQUAL"]

MALFORMED = rule(
    "GA301",
    "A pod must have the shape that Kubernetes defines",
    default=Severity.DENY,
    why="""
    The API server checks the shape of a pod before it asks any webhook; a manifest on disk has been checked by nobody.
    What cannot be read cannot be converted, and would be refused on `kubectl apply` anyway.""",
    remedy="correct the manifest",
    source="k8s.io/api/core/v1/types.go",
)

AMOUNT = rule(
    "GA302",
    "GPUs must be requested in whole numbers",
    default=Severity.DENY,
    why="""
    Extended resources are integers. `1000m` is 1 and is accepted; 0.5 GPU is not something that a device plugin or a
    claim can give. Parts of a GPU are MIG devices or shared GPUs, which have names of their own. The API server refuses
    such pods itself; reviews of files, and of objects that will make pods, say so before. An empty amount is warned
    about, because Kubernetes reads it as 0.""",
    remedy="ask for a whole number of GPUs, or for a MIG device such as nvidia.com/mig-1g.10gb",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateResourceQuantityValue (must be an integer)",
)

UNEQUAL = rule(
    "GA303",
    "Limits and requests of a GPU must be equal",
    default=Severity.DENY,
    why="""
    GPUs cannot be overcommitted, so Kubernetes demands that limit and request are the same number. The API server would
    refuse the pod after conversion was decided; the words here say which two numbers differ.""",
    remedy="write the limit only; Kubernetes copies it to the request",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateContainerResourceRequirements",
)

TOO_MANY = rule(
    "GA304",
    "A pod must not request more than 32 devices",
    default=Severity.DENY,
    why="""
    A ResourceClaim can hold 32 devices over all its requests. No node has more than 16 whole GPUs; a pod that asks for
    more than 32 MIG devices or shares has to be split.""",
    remedy="spread the work over several pods",
    source="k8s.io/api/resource/v1 types.go AllocationResultsMaxSize",
)

PROFILE = rule(
    "GA305",
    "MIG devices must be requested by a profile that DRA drivers publish",
    default=Severity.DENY,
    why="""
    NVIDIA's DRA driver publishes MIG devices whose compute instance fills their GPU instance (`2g.10gb`). Smaller
    compute instances (`1c.2g.10gb`) exist only under the device plugin, and a name that is no profile exists nowhere.""",
    remedy="ask for a profile of the form nvidia.com/mig-<slices>g.<memory>gb",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/mig.go",
)

TOO_LARGE = rule(
    "GA326",
    "A pod must be small enough to be reviewed in time",
    default=Severity.DENY,
    why="""
    The API server waits ten seconds for a decision, and other pods wait meanwhile. A pod of thousands of containers
    or conditions, which nobody needs and anybody can send, would hold up all of them. At most 1,000 containers, 200 GPU
    resources in them, and 1,000 labels or expressions that select nodes, with 10,000 values, are read.""",
    remedy="spread the work over several pods, and select nodes by one label of your own",
    source="docs/conversion.md",
)
