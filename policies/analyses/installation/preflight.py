"""The preflight: what an installation or upgrade would meet in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.admission import CONFIGURATIONS, WEBHOOKS
from policies.analyses.installation.cluster_checks import Check, Status, Topic
from policies.analyses.installation.component_versions import (
    api_checks,
    component_checks,
    conversion_checks,
    feature_checks,
    kubernetes_checks,
)
from policies.analyses.installation.dry_runs import definitions, kind_checks, object_checks
from policies.analyses.installation.engine_policies import engine_checks, engine_policies
from policies.analyses.installation.network import called_ports, clock_checks, egress_checks, network_checks
from policies.analyses.installation.other_webhooks import (
    LabelledNamespace,
    bundle_checks,
    coverage_checks,
    labels_with_name,
    other_webhooks,
    webhook_checks,
)
from policies.analyses.installation.rights import grant_checks, rights_checks
from policies.analyses.installation.steps import step_checks, step_of, storage_checks
from policies.kubernetes.names import DRA_LABEL, format_count, format_list
from policies.kubernetes.objects import lookup, mapping_at, name_of
from policies.kubernetes.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.analyses.installation.component_versions import ServerFeatures
    from policies.analyses.installation.dry_runs import PlannedObject
    from policies.analyses.installation.network import Clock
    from policies.analyses.installation.other_webhooks import Coverage
    from policies.analyses.installation.rights import OwnRules, Right
    from policies.analyses.installation.steps import Step
    from policies.kubernetes.objects import Object


_NAMESPACE = "gpu-admission"
_OWN = ("Namespace", _NAMESPACE)
KNOWN_WEBHOOKS = frozenset(each.entry.webhook for each in WEBHOOKS)
"""The names of the webhooks of this version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of a cluster, and the answers to dry runs. A fact that may not be read is unknown."""

    planned: Sequence[PlannedObject]
    """The objects of the manifests, and those that the service and controllers would create later."""
    user: str
    """The name of the user; empty if it is unknown."""
    granted: Mapping[Right, bool | None]
    own_rules: Mapping[str, OwnRules]
    server_version: tuple[int, int] | Unknown
    claim_versions: Sequence[str] | Unknown
    """The served versions of resource.k8s.io."""
    nodes: Sequence[Object] | Unknown
    leases: Sequence[Object] | Unknown
    slices: Sequence[Object] | Unknown
    daemon_sets: Sequence[Object] | Unknown
    endpoint_slices: Sequence[Object] | Unknown
    """Those of namespace `default`, which has the Service of the API servers."""
    api_services: Sequence[Object] | Unknown
    mutating: Sequence[Object] | Unknown
    validating: Sequence[Object] | Unknown
    policies: Sequence[Object]
    """Policies of all engines, and their bindings."""
    unread_policies: Sequence[str]
    """Kinds of policies that the user may not list."""
    coverage: Coverage | None
    images: Mapping[tuple[str, str], int] | Unknown
    """NVIDIA's components and their tags, with the number of running pods; unknown if pods cannot be listed."""
    broken_conversions: Sequence[tuple[str, str]] | Unknown
    features: ServerFeatures | Unknown | None
    clock: Clock | None


@dataclass(frozen=True, slots=True)
class Preflight:
    """All checks, and the conclusion."""

    step: Step
    checks: tuple[Check, ...]
    conclusion: str
    """One sentence, without a full stop."""
    coverage: Coverage | None
    """None if the namespaces cannot be listed."""


def preflight(facts: Facts) -> Preflight:
    """Check everything, and conclude what would happen."""
    manifests = [each for each in facts.planned if not each.is_runtime]
    step = step_of(manifests)
    checks = tuple(_checks(facts, manifests, step))
    failing = [each for each in checks if each.status is Status.FAILING]
    unknown = sum(each.status is Status.UNKNOWN for each in checks)
    outcome = f"{step.text} would work"
    if failing:
        more = f", and {format_count(len(failing) - 1, 'more check')} failed" if len(failing) > 1 else ""
        outcome = f"{step.text} would fail: {failing[0].what}{more}"
    elif unknown:
        outcome = (
            f"no check says that {step.text} would fail, and {format_count(unknown, 'check')} could not be answered"
        )
    return Preflight(step, checks, f"{outcome}; {_review_text(facts)}", facts.coverage)


def _checks(facts: Facts, manifests: Sequence[PlannedObject], step: Step) -> Iterator[Check]:
    installed = any(
        each.exists for each in manifests if (each.document.get("kind"), name_of(each.document)) in CONFIGURATIONS
    )
    converting = facts.coverage.namespaces_with(DRA_LABEL, "enabled", "preview") if facts.coverage else []
    yield from step_checks(manifests, step, KNOWN_WEBHOOKS)
    yield from kubernetes_checks(facts.server_version, facts.claim_versions, facts.nodes, facts.slices)
    yield from feature_checks(facts.features, facts.server_version)
    yield from component_checks(facts.images, facts.slices, converting)
    who = f"user {facts.user}" if facts.user else "your user"
    found = [
        *rights_checks(manifests, facts.granted, who),
        *grant_checks(manifests, facts.granted, facts.own_rules, who),
    ]
    what = f"{who} may apply all objects, with the roles that they grant"
    yield from found or [Topic.RIGHTS.ok(what)]
    yield from kind_checks(manifests, definitions(manifests))
    yield from object_checks(facts.planned)
    yield from storage_checks(manifests)
    yield from bundle_checks(manifests)
    yield from _webhook_checks(facts, manifests)
    yield from engine_checks(
        engine_policies(facts.policies),
        facts.unread_policies,
        _tried_kinds(facts.planned),
        sum(each.dry_run is not None for each in facts.planned),
    )
    yield from coverage_checks(
        facts.coverage, is_new=not installed, are_pods_known=not isinstance(facts.images, Unknown)
    )
    yield from api_checks(facts.api_services)
    yield from conversion_checks(facts.broken_conversions)
    yield from clock_checks(facts.clock, facts.leases, _ready(facts.nodes))
    policies = [each.document for each in manifests if each.document.get("kind") == "NetworkPolicy"]
    ports = called_ports(_deployment(manifests))
    yield from network_checks(facts.daemon_sets, facts.nodes, ports, has_policy=bool(policies), is_installed=installed)
    yield from egress_checks(policies, facts.endpoint_slices)


def _webhook_checks(facts: Facts, manifests: Sequence[PlannedObject]) -> Iterator[Check]:
    unread = [
        kind
        for kind, found in (
            ("mutatingwebhookconfigurations", facts.mutating),
            ("validatingwebhookconfigurations", facts.validating),
        )
        if isinstance(found, Unknown)
    ]
    if unread:
        yield Topic.WEBHOOKS.unknown(
            "it is unknown which webhooks of others see the same pods",
            why=f"you may not list {format_list(unread)}",
            remedy=f"allow the user to list {format_list([f'{each}.admissionregistration.k8s.io' for each in unread])}",
        )
    # The order is known only if all mutating webhooks are.
    covered = facts.coverage.covered if facts.coverage and not isinstance(facts.mutating, Unknown) else None
    others = [
        *other_webhooks(() if isinstance(facts.mutating, Unknown) else facts.mutating, is_mutating=True),
        *other_webhooks(() if isinstance(facts.validating, Unknown) else facts.validating, is_mutating=False),
    ]
    if len(unread) == 2:
        return
    namespaces = facts.coverage.namespaces if facts.coverage else ()
    stored = next((each.labels for each in namespaces if each.name == _NAMESPACE), {})
    wanted = next(
        (each.document for each in manifests if (each.document.get("kind"), name_of(each.document)) == _OWN), None
    )
    yield from webhook_checks(
        others,
        LabelledNamespace(_NAMESPACE, {**stored, **labels_with_name(_NAMESPACE, wanted)}),
        mapping_at(_deployment(manifests), ("spec", "template", "metadata", "labels")),
        covered,
    )


def _deployment(manifests: Sequence[PlannedObject]) -> Object | None:
    return next((each.document for each in manifests if each.document.get("kind") == "Deployment"), None)


def _tried_kinds(planned: Sequence[PlannedObject]) -> frozenset[str]:
    """The kinds of later objects of which every dry run was accepted in its own namespace."""
    answers: dict[str, list[bool]] = {}
    for each in planned:
        if each.is_runtime:
            is_good = each.dry_run is not None and each.dry_run.refusal is None and not each.is_stand_in
            answers.setdefault(str(each.document.get("kind")), []).append(is_good)
    return frozenset(kind for kind, found in answers.items() if all(found))


def _ready(nodes: Sequence[Object] | Unknown) -> frozenset[str]:
    if isinstance(nodes, Unknown):
        return frozenset()
    return frozenset(
        name_of(each)
        for each in nodes
        if any(
            lookup(condition, ("type",)) == "Ready" and lookup(condition, ("status",)) == "True"
            for condition in lookup(each, ("status", "conditions")) or ()
        )
    )


def _review_text(facts: Facts) -> str:
    coverage = facts.coverage
    if coverage is None:
        return "which namespaces would be covered is unknown"
    return (
        f"new pods of {format_count(len(coverage.covered), 'namespace')} would be reviewed; `gpu-admission audit` shows which "
        "existing objects would be refused"
    )
