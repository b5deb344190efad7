"""NVIDIA_VISIBLE_DEVICES from `envFrom`: from ConfigMaps and Secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access.checks import ACCESS
from policies.access.device_lists import devices_given
from policies.access.env_from import brought
from policies.access.exemptions import EXEMPT
from policies.access.subject import VISIBLE_DEVICES
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Subject
    from policies.checks import Problem


@ACCESS.rule(
    "GA607",
    "NVIDIA_VISIBLE_DEVICES must not come from a ConfigMap or Secret",
    default=Severity.WARN,
    remedy=f"remove it there, or set it to void in the container's env, which wins; {EXEMPT}",
    source="k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
)
def devices_from_elsewhere(subject: Subject) -> Iterator[Problem]:
    """`envFrom` brings all that a ConfigMap or Secret holds, NVIDIA_VISIBLE_DEVICES among it.

    What they hold when the container starts counts. It can change after the pod was reviewed, and a webhook may not
    see it at all, so this only warns, in every mode. `env` wins over `envFrom`, and the last source over those before.
    """
    for container in subject.containers:
        if "envFrom" not in container.fields or container.variable(VISIBLE_DEVICES) is not None:
            continue
        found = brought(container, VISIBLE_DEVICES, subject)
        if found is not None and devices_given(found.value):
            who = "" if container.requests_gpu else ", which asks for no GPU"
            text = f"{found.kind} {shown(found.source)} sets NVIDIA_VISIBLE_DEVICES in {container.title}{who}"
            yield problem(found.path, text)
