"""Seeded opt-in: namespaces with every combination of labels, their quotas, and settings."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random


_DRA = (None, "enabled", "preview", "disabled")
_QUOTA = (None, "enforced")
NAMESPACES = tuple(f"ns-{dra or 'none'}-{quota or 'open'}" for dra, quota in product(_DRA, _QUOTA))
"""One for each combination of opt-in labels."""
_MODES = ("warn", "deny")


def namespaces() -> list[dict[str, Any]]:
    """The namespaces of `NAMESPACES`."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/metadata.name": name}
                | ({"gpu-admission.io/dra": dra} if dra else {})
                | ({"gpu-admission.io/quota": quota} if quota else {}),
            },
        }
        for name, (dra, quota) in zip(NAMESPACES, product(_DRA, _QUOTA), strict=True)
    ]


def quotas(random: Random) -> list[dict[str, Any]]:
    """A valid GPUQuota for most of the namespaces, so that charges fit in some and not in others."""
    made = []
    for name in NAMESPACES:
        limits: list[dict[str, Any]] = [{"name": "all", "gpus": random.choice([3, 20, 500, "7/2"])}]
        if random.random() < 0.5:
            limits.append({"name": "h100", "selector": {"products": ["NVIDIA-H100-*"]}, "gpus": random.choice([1, 99])})
        if random.random() < 0.4:
            limits.append({"name": "memory", "memory": random.choice(["160Gi", "90Ti"])})
        if random.random() < 0.3:
            limits.append({"name": "mig", "selector": {"profiles": ["1g.*"]}, "devices": random.choice([1, 50])})
        if random.random() < 0.2:
            limits.append({"name": "batch", "selector": {"priorityClasses": ["batch"]}, "gpus": 2})
        spec = {
            "limits": limits,
            "mode": random.choice(["Enforce", "Enforce", "Enforce", "Warn"]),
            "unknownProducts": random.choice(["WorstCase", "WorstCase", "Deny"]),
        }
        if random.random() < 0.85:
            metadata = {"name": "gpu", "namespace": name}
            kind = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota"}
            made.append({**kind, "metadata": metadata, "spec": spec})
    return made


def settings(random: Random, rules: Sequence[str]) -> dict[str, Any]:
    """A valid GPUAdmissionPolicy."""
    spec: dict[str, Any] = {
        "rules": [
            {"rule": rule, "severity": random.choice(["deny", "warn", "audit", "off"])}
            | ({"namespaces": [random.choice(["ns-*", "team-a", "*-open"])]} if random.random() < 0.4 else {})
            for rule in random.sample(list(rules), random.choice([0, 4, 20]))
        ],
        "access": {"mode": random.choice(_MODES)},
        "conversion": {
            "unsatisfiable": random.choice(_MODES),
            "nativeQuota": random.choice(_MODES),
            "allowPodOptOut": random.random() < 0.7,
            "keepTranslatedLabels": random.random() < 0.3,
        },
        "placement": {"unsatisfiable": random.choice(_MODES), "avoidSharedGPUs": random.random() < 0.5},
        "quota": {
            "nameHolders": random.choice(["Auto", "Always", "Never"]),
            "adminAccess": random.choice(["charge", "free"]),
        },
        "exemptions": [{"groups": ["gpu-admins"], "from": ["access", random.choice(rules)]}],
    }
    if random.random() < 0.3:
        spec["conversion"]["schedulers"] = ["default-scheduler", "kai-scheduler"]
    if random.random() < 0.3:
        wish = {"sharing": "exclusive"}
        spec["placement"]["wishes"] = [{"wish": wish, "namespaces": ["ns-none-*"]}]
    if random.random() < 0.3:
        spec["placement"]["tolerations"] = [{"key": "sku", "value": "gpu"}]
    if random.random() < 0.3:
        spec["quota"]["weights"] = [{"products": ["Tesla-T4"], "sharing": "time-slicing", "gpus": "1/3"}]
    if random.random() < 0.5:
        spec["draDriver"] = {"featureGates": {"MPSSupport": random.random() < 0.5}}
    kind = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy"}
    return {**kind, "metadata": {"name": "default"}, "spec": spec}
