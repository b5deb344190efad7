"""The webhooks of deploy/: which the API server calls for a create, and their common verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policies.admission import review
from policies.admission.webhooks import ENTRIES
from policies.cel import compile_condition, value_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.view import ChangedView
from policies.kubernetes.webhook_rules import selects
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.limits.quota import parse_quota
from policies.rules.request import Request, UserInfo
from testbed import libyaml

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Decision, Finding
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["QUOTA", "Answer", "create"]

_FOLDER = Path(__file__).parents[3] / "deploy" / "base" / "webhooks"
_PLURALS = {"Pod": ("", "pods"), "ResourceClaim": ("resource.k8s.io", "resourceclaims")}

QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"limits": [{"name": "all", "devices": 100_000}]},
}
"""A quota that nothing exceeds, by which devices are counted."""


@dataclass(frozen=True)
class Answer:
    """What all webhooks say together."""

    allowed: bool
    object: Object
    """As they leave it."""
    findings: tuple[Finding, ...]
    charged: dict[str, int]
    """Devices by piece of the charge."""

    def has_finding(self, *rules: str) -> bool:
        """True if there is a finding of a rule that begins like one of these."""
        return any(finding.rule.id.startswith(rules) for finding in self.findings)


def create(
    document: Object,
    namespace: Object,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    *,
    before: Object | None = None,
    subresource: str = "",
    user: str = "alice",
) -> Answer:
    """Create an object as the API server does; with `before`, update it."""
    group, plural = _PLURALS[document["kind"]]
    request = Request(
        document,
        before,
        "CREATE" if before is None else "UPDATE",
        group=group,
        kind=document["kind"],
        subresource=subresource,
        namespace=name_of(namespace),
        name=name_of(document),
        user=UserInfo(user),
        uid=document["metadata"]["uid"],
    )
    findings: tuple[Finding, ...] = ()
    templates: tuple[Any, ...] = ()
    charged: dict[str, int] = {}
    resource = f"{plural}/{subresource}" if subresource else plural
    for webhook in _webhooks():
        if not _is_called(webhook, request, group, resource, namespace):
            continue
        entry = webhook["name"].partition(".")[0]
        asked = replace(request, entry=entry)
        is_charging = "quota" in ENTRIES[entry].concerns
        seen = ChangedView(view, {each.key: each.manifest() for each in templates}) if is_charging else view
        decision = review(asked, seen, settings)
        findings += decision.findings
        templates += decision.templates
        if not decision.allowed:
            return Answer(allowed=False, object=request.object, findings=findings, charged={})
        if is_charging:
            charged = _charged(decision)
        request = request.of(decision.object)
    return Answer(allowed=True, object=request.object, findings=findings, charged=charged)


def _charged(decision: Decision) -> dict[str, int]:
    if not decision.charges:
        return {}
    try:
        charge = charge_under(decision.charges[0], parse_quota(QUOTA))
    except Uncountable:
        return {}
    return {piece: int(bill.amounts.get("all", 0)) for piece, bill in charge.pieces.items()}


@cache
def _webhooks() -> tuple[Object, ...]:
    """The mutating ones first, in their order."""
    files = ("mutating.yaml", "validating.yaml")
    return tuple(hook for file in files for hook in libyaml.load((_FOLDER / file).read_text())["webhooks"])


def _is_called(webhook: Object, request: Request, group: str, resource: str, namespace: Object) -> bool:
    if not any(
        group in rule["apiGroups"] and request.operation in rule["operations"] and resource in rule["resources"]
        for rule in webhook["rules"]
    ):
        return False
    labels = {"kubernetes.io/metadata.name": name_of(namespace), **namespace["metadata"].get("labels", {})}
    if not selects(webhook.get("namespaceSelector") or {}, labels):
        return False
    if not selects(webhook.get("objectSelector") or {}, request.object["metadata"].get("labels") or {}):
        return False
    known = value_of(
        {
            "object": request.object,
            "oldObject": request.old_object,
            "request": {
                "kind": {"group": group, "version": "v1", "kind": request.kind},
                "userInfo": {"username": request.user.username},
            },
            "namespaceObject": None,
        }
    )
    # One that fails calls nobody where the failure policy is Ignore, and refuses the object otherwise.
    verdicts = [compile_condition(each["expression"]).holds(known)[0] for each in webhook.get("matchConditions", ())]
    assert all(isinstance(verdict, bool) for verdict in verdicts), verdicts
    return all(verdicts)
