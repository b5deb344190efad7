"""Effects: what sharing does to the pods and quotas that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.config_maps.device_plugin.configuration import CONFIGURATION
from policies.configuration.config_maps.device_plugin.usage import is_used, pods_asking
from policies.configuration.usage import counted, listed
from policies.decision import Severity
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem
    from policies.configuration.config_maps.device_plugin.configuration import Configuration, SharedResource
    from policies.kubernetes.objects import Object


@CONFIGURATION.rule(
    "GA142",
    "Pods and quotas must fit the way in which GPUs are shared",
    default=Severity.WARN,
    remedy="change the pods first",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator gpu-sharing; "
    "github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go",
    rows=("G-17", "G-19"),
)
def fitting_pods(configuration: Configuration) -> Iterator[Problem]:
    """Renaming takes a resource away under the name that pods ask for: they stay Pending when they start again.

    A ResourceQuota on the old name then limits nothing, and node labels lose their -SHARED suffix. A pod that asks for
    two shares may get two of the same GPU and no more computing power than one gives; with failRequestsGreaterThanOne
    it is refused on the node.
    """
    for resource in configuration.shared_resources():
        if resource.strategy.name == "timeSlicing" and configuration.strategy("mps") is not None:
            continue
        if resource.name and resource.strategy.get("renameByDefault") is True:
            yield from _renamed(configuration, resource)
        elif resource.name:
            yield from _more_than_one(configuration, resource)


def _renamed(configuration: Configuration, resource: SharedResource) -> Iterator[Problem]:
    steps = (*resource.strategy.steps, "renameByDefault")
    shared = f"{resource.name}.shared"
    text = f"makes {shared} of {resource.name}"
    pods = pods_asking(configuration.change, configuration.key, resource.name, 0)
    if pods:
        asking = f"{counted(len(pods), 'pod', listed(pods))} {'asks' if len(pods) == 1 else 'ask'} for {resource.name}"
        found = f"{text}, and {asking} and could not start again where it is gone"
        yield configuration.embedded.problem(
            steps, found, f"let them ask for {shared}, or write renameByDefault: false"
        )
    quotas = _quotas(configuration, resource.name) if is_used(configuration.change, configuration.key) else []
    if quotas:
        limited = counted(len(quotas), "ResourceQuota", listed(quotas))
        found = f"{text}, which {limited} {'does' if len(quotas) == 1 else 'do'} not limit"
        yield configuration.embedded.problem(steps, found, f"add requests.{shared} to the quota")


def _quotas(configuration: Configuration, resource: str) -> list[str]:
    quotas = configuration.change.facts.known("ResourceQuota")
    return sorted(_full_name(quota) for quota in quotas if _limits_only(quota, resource))


def _limits_only(quota: Object, resource: str) -> bool:
    hard = lookup(quota, ("spec", "hard"))
    return isinstance(hard, dict) and f"requests.{resource}" in hard and f"requests.{resource}.shared" not in hard


def _full_name(document: Object) -> str:
    return f"{namespace_of(document) or 'default'}/{name_of(document)}"


def _more_than_one(configuration: Configuration, resource: SharedResource) -> Iterator[Problem]:
    pods = pods_asking(configuration.change, configuration.key, resource.name, 1)
    if not pods:
        return
    asking = f"{counted(len(pods), 'pod', listed(pods))} {'asks' if len(pods) == 1 else 'ask'} for more than one"
    fails = resource.strategy.get("failRequestsGreaterThanOne")
    if fails is True or (fails is None and resource.strategy.name == "mps"):
        text = f"is shared, and {asking}; the kubelet would refuse them with: maximum request size for shared resources is 1"
        remedy = "let them ask for one"
    else:
        text = f"is shared, and {asking}; two shares can be of the same GPU and give no more than one"
        remedy = "let them ask for one, and write failRequestsGreaterThanOne: true"
    yield configuration.embedded.problem((*resource.steps, "name"), text, remedy)
