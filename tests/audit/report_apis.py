"""The two APIs for reports of findings, as compact CustomResourceDefinitions.

The facts are those of openreports/reports-api (openreports.io/v1alpha1) and kubernetes-sigs/wg-policy-prototypes
(wgpolicyk8s.io/v1alpha2): fields, types, enums and required fields. Only the severities are those of the first versions of
v1alpha2, which lack `critical` and `info`. Unlike the originals, `strict_schema` allows no other fields, which an API server
would drop.
"""

from __future__ import annotations

from typing import Any

__all__ = ["OPEN_REPORT_CRDS", "POLICY_REPORT_CRDS", "definition", "strict_schema"]

RESULTS = ["pass", "fail", "warn", "error", "skip"]
TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def record(fields: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": fields, **({"required": [*required]} if required else {})}


def texts(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, TEXT)


SELECTOR = record(
    {
        "matchExpressions": {
            "type": "array",
            "items": record(
                {**texts("key", "operator"), "values": {"type": "array", "items": TEXT}}, "key", "operator"
            ),
        },
        "matchLabels": TEXTS,
    }
)
REFERENCE = record(texts("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"))
TIMESTAMP = record({"nanos": {"type": "integer"}, "seconds": {"type": "integer"}}, "nanos", "seconds")


def report_schema(severities: list[str], **more: Any) -> dict[str, Any]:
    result = record(
        {
            **texts("source", "policy", "rule", "category", "message"),
            "severity": {"type": "string", "enum": severities},
            "result": {"type": "string", "enum": RESULTS},
            "scored": {"type": "boolean"},
            "timestamp": TIMESTAMP,
            "resources": {"type": "array", "items": REFERENCE},
            "resourceSelector": SELECTOR,
            "properties": TEXTS,
        },
        "policy",
    )
    return record(
        {
            **texts("apiVersion", "kind"),
            "metadata": {"type": "object"},
            "scope": REFERENCE,
            "scopeSelector": SELECTOR,
            "summary": record({key: {"type": "integer"} for key in RESULTS}),
            "results": {"type": "array", "items": result},
            **more,
        }
    )


def definition(group: str, version: str, plural: str, kind: str, scope: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


LIMITS = record(
    {"maxResults": {"type": "integer"}, "statusFilter": {"type": "array", "items": {"type": "string", "enum": RESULTS}}}
)
OPEN_SCHEMA = report_schema(
    ["critical", "high", "low", "medium", "info"], source=TEXT, configuration=record({"limits": LIMITS}, "limits")
)
POLICY_SCHEMA = report_schema(["high", "low", "medium"])
OPEN_REPORT_CRDS = (
    definition("openreports.io", "v1alpha1", "reports", "Report", "Namespaced", OPEN_SCHEMA),
    definition("openreports.io", "v1alpha1", "clusterreports", "ClusterReport", "Cluster", OPEN_SCHEMA),
)
POLICY_REPORT_CRDS = (
    definition("wgpolicyk8s.io", "v1alpha2", "policyreports", "PolicyReport", "Namespaced", POLICY_SCHEMA),
    definition("wgpolicyk8s.io", "v1alpha2", "clusterpolicyreports", "ClusterPolicyReport", "Cluster", POLICY_SCHEMA),
)


def strict_schema(schema: Any) -> Any:
    """The schema without any other fields than those that it names, except in metadata."""
    if isinstance(schema, list):
        return [strict_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict_schema(each) for name, each in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in schema else closed
