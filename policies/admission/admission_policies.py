"""ValidatingAdmissionPolicies of ours, and the manifests of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.admission.installed import NAME_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.admission.webhooks import ResourceRule
    from policies.kubernetes.objects import Object


STATIC_SUFFIX = ".static.k8s.io"
"""The end of the names of objects in the files of an API server; no object of its API may have such a name.

Source: k8s.io/apiserver pkg/admission/plugin/manifest/validation.go.
"""
_LABELS = {"app.kubernetes.io/name": "gpu-admission"}
_API = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Validation:
    """One validation of a policy."""

    rules: tuple[str, ...]
    """Our rules, of which one refuses what the validation refuses."""
    expression: str
    message: str
    message_expression: str = ""
    reason: str = "Invalid"
    note: str = ""
    """A comment in the manifest."""

    @property
    def asks_for_rights(self) -> bool:
        """True if it depends on the rights of the user, which only an API server knows."""
        return "authorizer." in self.expression


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """A ValidatingAdmissionPolicy with its binding."""

    name: str
    """Without `.gpu-admission.io`."""
    note: str
    """The comment in the manifest."""
    resource_rules: tuple[ResourceRule, ...]
    excluded: tuple[str, ...] = ()
    """Names of namespaces."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    """In an order in which each uses only earlier ones."""
    validations: tuple[Validation, ...]

    def documents(self, *, static: bool) -> tuple[Object, Object]:
        """The policy and its binding, for the files of an API server or for its API."""
        name = f"{self.name}.gpu-admission{STATIC_SUFFIX if static else '.io'}"
        selector: Object = {}
        if self.excluded:
            term = {"key": NAME_LABEL, "operator": "NotIn", "values": list(self.excluded)}
            selector = {"matchExpressions": [term]}
        spec: Object = {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": selector,
                "objectSelector": {},
                "resourceRules": [each.document() for each in self.resource_rules],
            },
            "matchConditions": [{"name": name, "expression": _line(text)} for name, text in self.conditions.items()],
            "variables": [{"name": name, "expression": _line(text)} for name, text in self.variables.items()],
            "validations": [_validation(each) for each in self.validations],
        }
        metadata = {"name": name, "labels": dict(_LABELS)}
        binding = {"policyName": name, "validationActions": ["Deny"]}
        kind = "ValidatingAdmissionPolicy"
        return (
            {
                "apiVersion": _API,
                "kind": kind,
                "metadata": metadata,
                "spec": {k: v for k, v in spec.items() if v != []},
            },
            {"apiVersion": _API, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding},
        )


def _line(text: str) -> str:
    """A text of several lines in one, as YAML folds it."""
    return text.replace("\n", " ")


def _validation(validation: Validation) -> Object:
    texts = {
        "expression": validation.expression,
        "reason": validation.reason,
        "message": validation.message,
        "messageExpression": validation.message_expression,
    }
    return {key: _line(text) for key, text in texts.items() if text}
