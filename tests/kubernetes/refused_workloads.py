"""Workloads that an API server refuses for their selector or restart policy, and ones that it accepts.

A real one agrees in tests/cluster.
"""

from __future__ import annotations

from typing import Any

LABELS = {"app": "train"}
SELECTOR = {"matchLabels": LABELS}


def template(restart: str | None = None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod template of one container that requests a GPU."""
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"containers": [container], **({"restartPolicy": restart} if restart else {})}
    return {"metadata": {"labels": LABELS if labels is None else labels}, "spec": spec}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    """A workload with this spec."""
    group = "batch" if kind in ("Job", "CronJob") else "apps"
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "train"}, "spec": spec}


def cron_job(pods: dict[str, Any]) -> dict[str, Any]:
    """A CronJob whose Jobs have these pods."""
    return workload("CronJob", schedule="0 1 * * *", jobTemplate={"spec": {"template": pods}})


_SELECTED = "spec.selector"
_RESTART = "spec.template.spec.restartPolicy"

REFUSED = {
    "Deployment without a selector": (workload("Deployment", template=template()), _SELECTED),
    "Deployment with an empty selector": (workload("Deployment", selector={}, template=template()), _SELECTED),
    "StatefulSet without a selector": (
        workload("StatefulSet", serviceName="train", template=template()),
        _SELECTED,
    ),
    "DaemonSet without a selector": (workload("DaemonSet", template=template()), _SELECTED),
    "ReplicaSet that selects other pods": (
        workload("ReplicaSet", selector={"matchLabels": {"app": "serve"}}, template=template()),
        f"{_SELECTED}.matchLabels.app",
    ),
    "Deployment that selects a label that pods lack": (
        workload("Deployment", selector=SELECTOR, template=template(labels={"role": "train"})),
        f"{_SELECTED}.matchLabels.app",
    ),
    "Deployment whose expressions match other pods": (
        workload(
            "Deployment",
            selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["serve"]}]},
            template=template(),
        ),
        f"{_SELECTED}.matchExpressions[0]",
    ),
    "Deployment whose expressions exclude its pods": (
        workload(
            "Deployment",
            selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
            template=template(),
        ),
        f"{_SELECTED}.matchExpressions[0]",
    ),
    "Deployment whose pods end": (
        workload("Deployment", selector=SELECTOR, template=template("Never")),
        _RESTART,
    ),
    "StatefulSet whose pods end": (
        workload("StatefulSet", serviceName="train", selector=SELECTOR, template=template("OnFailure")),
        _RESTART,
    ),
    "Job whose pods start again always": (workload("Job", template=template("Always")), _RESTART),
    "Job without a restart policy": (workload("Job", template=template()), _RESTART),
    "CronJob without a restart policy": (
        cron_job(template()),
        "spec.jobTemplate.spec.template.spec.restartPolicy",
    ),
}
"""A workload, and the path of the finding."""

ACCEPTED = {
    "Deployment": workload("Deployment", selector=SELECTOR, template=template()),
    "Deployment with expressions": workload(
        "Deployment",
        selector={
            "matchExpressions": [
                {"key": "app", "operator": "Exists"},
                {"key": "app", "operator": "NotIn", "values": ["serve"]},
                {"key": "tier", "operator": "DoesNotExist"},
            ]
        },
        template=template("Always"),
    ),
    "StatefulSet": workload("StatefulSet", serviceName="train", selector=SELECTOR, template=template()),
    "Job": workload("Job", template=template("Never", labels={})),
    "Job with retries in place": workload("Job", template=template("OnFailure")),
    "CronJob": cron_job(template("OnFailure")),
}
