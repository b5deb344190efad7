"""Rules on who is converted: schedulers, queues, and the labels of pods and namespaces."""

from __future__ import annotations

from policies.decision import Severity
from policies.rules import rule

__all__ = ["EXEMPT", "KUEUE", "NAMESPACE_UNKNOWN", "OPTED_OUT", "OPT_OUT_REFUSED", "OTHER_SCHEDULER", "STRATEGY"]

OTHER_SCHEDULER = rule(
    "GA315",
    "Pods must be converted only for schedulers that allocate claims",
    default=Severity.WARN,
    setting="conversion.schedulers",
    why="""
    Claims are allocated by the scheduler. A scheduler without DRA would leave the pod Pending, or count its GPUs as
    none. Pods of schedulers that are not listed in the settings are left alone.""",
    remedy="list the scheduler in conversion.schedulers if it allocates ResourceClaims",
    source="KEP-4381",
)

KUEUE = rule(
    "GA316",
    "A bare pod that Kueue queues must keep its resource names",
    default=Severity.WARN,
    why="""
    Kueue counts a bare pod by the resources in its spec when the pod is created, and holds it by a gate. Converted, it
    would be counted by nobody. Pods of queued Jobs are converted: Kueue counted the Job.""",
    remedy="queue a Job instead of a bare pod",
    source="Kueue plain pods documentation; KEP-2941",
)

OPTED_OUT = rule(
    "GA317",
    "A pod that opts out must not be converted",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    needs=("conversion.allowPodOptOut", True),
    why="""
    The label gpu-admission.io/dra: disabled on a pod keeps it with the device plugin although its namespace converts,
    if the administrator allows it. It then runs only where the device plugin hands out GPUs.""",
    remedy="remove the label gpu-admission.io/dra from the pod to have it converted",
    source="docs/conversion.md",
)

OPT_OUT_REFUSED = rule(
    "GA318",
    "Pods must opt out only where the administrator allows it",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    needs=("conversion.allowPodOptOut", False),
    why="""
    The administrator has turned conversion.allowPodOptOut off, so the label on the pod has no effect and the pod is
    converted like every other.""",
    remedy="remove the label, or ask the administrator to allow it",
    source="docs/conversion.md",
)

EXEMPT = rule(
    "GA334",
    "Pods of exempt users must be left alone",
    default=Severity.AUDIT,
    why="""
    The administrator exempts who created the pod from conversion, so the pod keeps its resource names. Pods of
    workloads are created by Kubernetes' controllers, whoever applied the workload.""",
    remedy="have the pod created by somebody who is not exempt, or change exemptions in the GPUAdmissionPolicy",
    source="docs/settings.md",
)

STRATEGY = rule(
    "GA323",
    "The conversion strategy of a namespace must exist",
    default=Severity.DENY,
    why="""
    The label gpu-admission.io/dra-strategy chooses how pods come to their GPUs by DRA: template (the default), rename,
    leave or auto. A pod is not converted by another strategy than the one that was chosen.""",
    remedy="set gpu-admission.io/dra-strategy on the namespace to one of them, or remove the label",
    source="docs/conversion.md",
)

NAMESPACE_UNKNOWN = rule(
    "GA324",
    "The namespace of a pod must be known",
    default=Severity.WARN,
    why="""
    Conversion is chosen by a label on the namespace. Offline, the namespace may be in none of the files; the pod is
    then reviewed as if it did not convert, which may not be what the cluster will do.""",
    remedy="add the Namespace to the files, or give the cluster's with --cluster",
    source="docs/conversion.md",
    shared_cause=True,
)
