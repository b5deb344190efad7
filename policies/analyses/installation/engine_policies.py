"""Policies of other engines: Kubernetes' own, Kyverno's and Gatekeeper's.

The dry runs evaluate whatever matches the objects of the manifests. Named here are the policies that match what
gpu-admission and controllers write at runtime, and those that mention GPUs.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.installation.cluster_checks import Check, Topic
from policies.analyses.installation.dry_runs import label_of
from policies.kubernetes.names import format_count, format_list
from policies.kubernetes.objects import items_at, lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.webhook_rules import Write, rule_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object


RUNTIME_WRITES = {
    ("resource.k8s.io", "ResourceClaimTemplate"): Write("CREATE", "resource.k8s.io", "", "resourceclaimtemplates"),
    ("resource.k8s.io", "ResourceClaim"): Write("CREATE", "resource.k8s.io", "", "resourceclaims"),
    ("coordination.k8s.io", "Lease"): Write("UPDATE", "coordination.k8s.io", "", "leases"),
    ("", "Secret"): Write("UPDATE", "", "", "secrets"),
}
"""The objects that gpu-admission writes while it runs, and the claims that Kubernetes creates from its templates."""
_POD = Write("CREATE", "", "", "pods")
_GPU_WORDS = ("nvidia.com/", "resourceClaims")
_OWN = ".gpu-admission.io"
_IGNORED_ACTIONS = ("dryrun", "warn")
_MOST = 5


class EnginePolicy(NamedTuple):
    """A policy that may refuse or change objects."""

    engine: str
    label: str
    """Kind and name."""
    runtime_kinds: tuple[str, ...]
    """The kinds of `RUNTIME_WRITES` that it matches."""
    mentions_gpus: bool
    """True if it matches pods, and its text names NVIDIA's resources or claims."""


def engine_policies(objects: Iterable[Object]) -> list[EnginePolicy]:
    """The policies among objects, without those that only warn or audit, and without our own."""
    everything = list(objects)
    bound = {
        str(lookup(each, ("spec", "policyName")))
        for each in everything
        if str(each.get("kind")).endswith("AdmissionPolicyBinding")
        and (
            "validationActions" not in (each.get("spec") or {})
            or "Deny" in items_at(each, ("spec", "validationActions"))
        )
    }
    return [
        policy
        for each in everything
        if (policy := _policy(each, bound)) is not None and not name_of(each).endswith(_OWN)
    ]


def _policy(document: Object, bound: set[str]) -> EnginePolicy | None:
    group = str(document.get("apiVersion")).rpartition("/")[0]
    kind = str(document.get("kind"))
    if group == "admissionregistration.k8s.io" and kind.endswith("AdmissionPolicy"):
        if name_of(document) not in bound:
            return None
        rules = mappings_at(document, ("spec", "matchConstraints", "resourceRules"))
        return _found("Kubernetes", document, _matched_by(rules))
    if group in ("kyverno.io", "policies.kyverno.io"):
        return _kyverno(document, kind)
    if group == "constraints.gatekeeper.sh":
        # Source: Gatekeeper's documentation of spec.match.kinds and spec.enforcementAction.
        if str(lookup(document, ("spec", "enforcementAction")) or "deny") in _IGNORED_ACTIONS:
            return None
        kinds = mappings_at(document, ("spec", "match", "kinds"))
        matched = {
            key
            for key in (*RUNTIME_WRITES, ("", "Pod"))
            if not kinds
            or any(
                {"*", key[0]} & {*items_at(each, ("apiGroups",))} and {"*", key[1]} & {*items_at(each, ("kinds",))}
                for each in kinds
            )
        }
        return _found("Gatekeeper", document, matched) if matched else None
    return None


def _found(engine: str, document: Object, matched: set[tuple[str, str]]) -> EnginePolicy:
    runtime_kinds = tuple(name for group, name in RUNTIME_WRITES if (group, name) in matched)
    text = json.dumps(
        {key: value for key, value in mapping_at(document, ("spec",)).items() if key != "matchConstraints"}
    )
    return EnginePolicy(
        engine, label_of(document), runtime_kinds, ("", "Pod") in matched and any(word in text for word in _GPU_WORDS)
    )


def _matched_by(rules: Sequence[Object]) -> set[tuple[str, str]]:
    writes = {**RUNTIME_WRITES, ("", "Pod"): _POD}
    return {key for key, write in writes.items() if any(rule_matches(rule, write) for rule in rules)}


def _kyverno(document: Object, kind: str) -> EnginePolicy | None:
    """Source: Kyverno's documentation of match, failureAction and its policies in CEL."""
    if rules := mappings_at(document, ("spec", "matchConstraints", "resourceRules")):
        actions = items_at(document, ("spec", "validationActions"))
        return None if actions and "Deny" not in actions else _found("Kyverno", document, _matched_by(rules))
    if kind not in ("ClusterPolicy", "Policy"):
        return None
    matched: set[tuple[str, str]] = set()
    by_policy = lookup(document, ("spec", "validationFailureAction"))
    for rule in mappings_at(document, ("spec", "rules")):
        action = lookup(rule, ("validate", "failureAction")) or by_policy or "Audit"
        if "validate" in rule and str(action).lower() != "enforce":
            continue
        matched.update(
            key for name in _kyverno_kinds(rule) for key in (*RUNTIME_WRITES, ("", "Pod")) if _is_kind(name, key)
        )
    return _found("Kyverno", document, matched) if matched else None


def _kyverno_kinds(rule: Object) -> Iterator[str]:
    match = rule.get("match")
    filters: list[Any] = [*items_at(match, ("any",)), *items_at(match, ("all",)), match]
    for each in filters:
        yield from (str(name) for name in items_at(each, ("resources", "kinds")))


def _is_kind(written: str, key: tuple[str, str]) -> bool:
    """True if `Pod`, `apps/v1/Deployment`, `resource.k8s.io/*/ResourceClaim` or `*` names a kind."""
    *groups, kind = written.split("/")
    if not fnmatchcase(key[1], kind):
        return False
    return len(groups) < 2 or fnmatchcase(key[0], groups[0])  # a single part is a version of the core group


def engine_checks(
    policies: Sequence[EnginePolicy], unread: Sequence[str], tried: frozenset[str], count: int
) -> Iterator[Check]:
    """Checks of the policies of other engines.

    Args:
        policies: The policies.
        unread: The kinds of policies that the user may not list.
        tried: The kinds of `RUNTIME_WRITES` of which a dry run was accepted in every namespace that converts.
        count: The number of objects with a dry run.
    """
    open_questions: dict[tuple[str, ...], list[EnginePolicy]] = {}
    for each in policies:
        if kinds := tuple(kind for kind in each.runtime_kinds if kind not in tried):
            open_questions.setdefault(kinds, []).append(each)
    for kinds, found in open_questions.items():
        yield Topic.POLICIES.unknown(
            f"it is unknown what {format_list([each.label for each in found], _MOST)} would say about {format_list(kinds)}",
            where=format_list(sorted({each.engine for each in found})),
            why="these objects are written while gpu-admission runs, so no dry run of the manifests evaluates the policy",
            remedy="exclude user system:serviceaccount:gpu-admission:gpu-admission in the policy, or check its rules by hand",
        )
    if about_gpus := [each.label for each in policies if each.mentions_gpus]:
        yield Topic.POLICIES.warning(
            f"{format_list(about_gpus, _MOST)} {'mention' if len(about_gpus) > 1 else 'mentions'} GPUs or claims in pods",
            why="a converted pod has a claim in place of nvidia.com/gpu, and the policy sees that pod",
            remedy="test the policy with a pod of a namespace that previews or converts, by `kubectl apply --dry-run=server`",
        )
    if unread:
        yield Topic.POLICIES.unknown(
            "it is unknown which policies of other engines exist",
            why=f"you may not list {format_list(list(unread))}",
            remedy="allow the user to list them; the dry runs show what they refuse all the same",
        )
    if not (open_questions or about_gpus or unread):
        what = (
            f"the dry runs of {format_count(count, 'object')} evaluated {len(policies)} {'policy' if len(policies) == 1 else 'policies'} of other engines"
            if policies
            else "no policy of another engine refuses or changes objects of our kinds"
        )
        yield Topic.POLICIES.ok(what)
