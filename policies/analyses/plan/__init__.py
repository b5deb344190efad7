"""Plans a change of GPU configuration: which pods, workloads and quotas of a cluster it would break.

`changed_objects` applies manifests to what is stored, `predict` computes what the GPU Operator's components make of them on
each node, and `plan_change` compares the cluster before and after.
"""

from __future__ import annotations

from policies.analyses.plan.changes import KINDS, ChangeError, changed_objects, default_namespace, key_of
from policies.analyses.plan.disruptions import Disruption
from policies.analyses.plan.evictions import Evictions, FoundPlace, PlannedEviction
from policies.analyses.plan.node_changes import NodeChange
from policies.analyses.plan.plan import READ_FROM, Plan, PlanJSON, PlannedChange, plan_change, plan_json
from policies.analyses.plan.prediction import Prediction, predict

__all__ = [
    "KINDS",
    "READ_FROM",
    "ChangeError",
    "Disruption",
    "Evictions",
    "FoundPlace",
    "NodeChange",
    "Plan",
    "PlanJSON",
    "PlannedChange",
    "PlannedEviction",
    "Prediction",
    "changed_objects",
    "default_namespace",
    "key_of",
    "plan_change",
    "plan_json",
    "predict",
]
