"""Pods that an API server refuses around their devices, and pods that it accepts; a real one agrees in tests/cluster."""

GPU = {"limits": {"nvidia.com/gpu": "1"}}
TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "gpus"}


def pod(resources=None, **spec):
    """A pod of one container with these resources."""
    container = {"name": "main", "image": "registry.example/train:1"}
    if resources is not None:
        container["resources"] = resources
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"containers": [container], **spec},
    }


def of_container(**fields):
    """A pod whose container has more fields."""
    document = pod()
    document["spec"]["containers"][0] |= fields
    return document


def with_terms(*expressions, **more):
    """A pod with a required node affinity."""
    terms = [{"matchExpressions": list(expressions), **more}]
    return pod(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    )


_REQUIREMENT = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_FIRST = f"{_REQUIREMENT}[0].matchExpressions[0]"

REFUSED = {
    "limits of the container": (of_container(**GPU), ["spec.containers[0].limits"]),
    "resource": (of_container(resource=GPU), ["spec.containers[0].resource"]),
    "limit": (pod({"limit": GPU["limits"]}), ["spec.containers[0].resources.limit"]),
    "amount without limits": (pod({"nvidia.com/gpu": "1"}), ["spec.containers[0].resources[nvidia.com/gpu]"]),
    "resource without a domain": (pod({"limits": {"gpu": "1"}}), ["spec.containers[0].resources.limits.gpu"]),
    "domain with capitals": (
        pod({"limits": {"NVIDIA.com/gpu": "1"}}),
        ["spec.containers[0].resources.limits[NVIDIA.com/gpu]"],
    ),
    "two slashes": (
        pod({"limits": {"nvidia.com/gpu/h100": "1"}}),
        ["spec.containers[0].resources.limits[nvidia.com/gpu/h100]"],
    ),
    "claims under limits": (
        pod({"limits": {"claims": [{"name": "gpu"}]}}),
        ["spec.containers[0].resources.limits.claims"],
    ),
    "limits of the pod": (pod(resources=None, limits={"nvidia.com/gpu": "1"}), ["spec.limits"]),
    "GPUs of the whole pod": (
        {**pod(), "spec": {**pod()["spec"], "resources": GPU}},
        ["spec.resources.limits[nvidia.com/gpu]"],
    ),
    "claims of the whole pod": (
        {**pod(), "spec": {**pod()["spec"], "resourceClaims": [TEMPLATE], "resources": {"claims": [{"name": "gpu"}]}}},
        ["spec.resources.claims"],
    ),
    "claim that is not declared": (pod({"claims": [{"name": "gpu"}]}), ["spec.containers[0].resources.claims[0].name"]),
    "claim of another name": (
        pod({"claims": [{"name": "gpus"}]}, resourceClaims=[TEMPLATE]),
        ["spec.containers[0].resources.claims[0].name"],
    ),
    "claim twice in a container": (
        pod({"claims": [{"name": "gpu"}, {"name": "gpu"}]}, resourceClaims=[TEMPLATE]),
        ["spec.containers[0].resources.claims[1]"],
    ),
    "claim, and one of its requests": (
        pod({"claims": [{"name": "gpu", "request": "one"}, {"name": "gpu"}]}, resourceClaims=[TEMPLATE]),
        ["spec.containers[0].resources.claims[1]"],
    ),
    "request with its alternative": (
        pod({"claims": [{"name": "gpu", "request": "g/one"}]}, resourceClaims=[TEMPLATE]),
        ["spec.containers[0].resources.claims[0].request"],
    ),
    "claim declared twice": (pod(resourceClaims=[TEMPLATE, TEMPLATE]), ["spec.resourceClaims[1].name"]),
    "claim of two sources": (
        pod(resourceClaims=[{**TEMPLATE, "resourceClaimName": "mine"}]),
        ["spec.resourceClaims[0]"],
    ),
    "claim of an empty name": (
        pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": ""}]),
        ["spec.resourceClaims[0].resourceClaimTemplateName"],
    ),
    "claim of a name with capitals": (
        pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "My_GPU"}]),
        ["spec.resourceClaims[0].resourceClaimName"],
    ),
    "claim of no source": (pod(resourceClaims=[{"name": "gpu"}]), ["spec.resourceClaims[0]"]),
    "claim of Kubernetes 1.30": (
        pod(resourceClaims=[{"name": "gpu", "source": {"resourceClaimName": "mine"}}]),
        ["spec.resourceClaims[0].source"],
    ),
    "operator Exist": (
        pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exist"}]),
        ["spec.tolerations[0].operator"],
    ),
    "value with Exists": (
        pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "value": "present"}]),
        ["spec.tolerations[0].value"],
    ),
    "taint in one text": (
        pod(tolerations=[{"key": "nvidia.com/gpu=present:NoSchedule", "operator": "Exists"}]),
        ["spec.tolerations[0].key"],
    ),
    "effect that does not exist": (
        pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedul"}]),
        ["spec.tolerations[0].effect"],
    ),
    "toleration for a time": (
        pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "tolerationSeconds": 60}]),
        ["spec.tolerations[0].tolerationSeconds"],
    ),
    "label with blanks": (
        pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA H100 80GB HBM3"}),
        ["spec.nodeSelector[nvidia.com/gpu.product]"],
    ),
    "nodeSelectors": (pod(nodeSelectors={"nvidia.com/gpu.present": "true"}), ["spec.nodeSelectors"]),
    "operator of an expression": (
        with_terms({"key": "nvidia.com/gpu.product", "operator": "Equals", "values": ["Tesla-T4"]}),
        [f"{_FIRST}.operator"],
    ),
    "In without values": (with_terms({"key": "nvidia.com/gpu.product", "operator": "In"}), [f"{_FIRST}.values"]),
    "Exists with values": (
        with_terms({"key": "nvidia.com/gpu.product", "operator": "Exists", "values": ["x"]}),
        [f"{_FIRST}.values"],
    ),
    "Gt with two values": (
        with_terms({"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["1", "2"]}),
        [f"{_FIRST}.values"],
    ),
    "matchLabels in a term": (
        with_terms(matchLabels={"nvidia.com/gpu.present": "true"}),
        [f"{_REQUIREMENT}[0].matchLabels"],
    ),
    "affinity without terms": (
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
        [_REQUIREMENT],
    ),
}
"""Each pod with the paths of what is refused."""

ACCEPTED = {
    "GPU": pod(GPU),
    "claim": pod({"claims": [{"name": "gpu"}]}, resourceClaims=[TEMPLATE]),
    "two requests of a claim": pod(
        {"claims": [{"name": "gpu", "request": "one"}, {"name": "gpu", "request": "two"}]}, resourceClaims=[TEMPLATE]
    ),
    "claim that no container names": pod(resourceClaims=[TEMPLATE]),
    "every taint": pod(tolerations=[{"operator": "Exists"}]),
    "toleration with a value": pod(tolerations=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]),
    "toleration for a time": pod(
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    ),
    "cpu of the whole pod": {**pod(), "spec": {**pod()["spec"], "resources": {"limits": {"cpu": "1"}}}},
    "affinity": with_terms(
        {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]},
        {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["1"]},
        {"key": "nvidia.com/gpu.present", "operator": "Exists"},
    ),
    "label selector of a term by fields": with_terms(
        matchFields=[{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]
    ),
    "resource of another vendor": pod({"limits": {"amd.com/gpu": "1"}}),
    "template with a dot in its name": pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus.v1"}]),
    "restart rules of 1.35": of_container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
}
