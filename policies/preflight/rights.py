"""What the user may do: the requests of an installation, and the rights that roles would grant."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from policies.cluster_checks import Check, Status
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import items_at, mapping_at, mappings_at
from policies.phrases import format_list
from policies.preflight.refusals import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.preflight.planned import Planned

__all__ = ["OwnRules", "Right", "granting_rights", "missing_rules", "needed_rights", "rights_checks", "rules_text"]

_RBAC = "rbac.authorization.k8s.io"
_ROLES = ("ClusterRole", "Role")
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_MOST = 6


class Right(NamedTuple):
    """One request, as RBAC sees it."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    """Empty for cluster-scoped objects."""
    name: str = ""
    """Empty for creation, where RBAC does not know the name."""

    @property
    def text(self) -> str:
        """The right in the words of `kubectl auth can-i`: `create deployments.apps -n team-a`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f"/{self.name}" if self.name else ""
        return f"{self.verb} {resource}{name}{f' -n {self.namespace}' if self.namespace else ''}"


class OwnRules(NamedTuple):
    """The rules of the user in a namespace, as a SelfSubjectRulesReview lists them."""

    rules: Sequence[Object]
    is_complete: bool
    """False if another authorizer than RBAC may allow more."""


def needed_rights(planned: Iterable[Planned]) -> dict[Right, list[str]]:
    """The rights that applying the objects needs, each with the objects.

    kubectl reads each object, then creates or patches it. Bindings and roles may need more: see `rights_checks`.
    """
    needed: dict[Right, list[str]] = {}
    for each in planned:
        if not each.resource or each.is_runtime:
            continue
        namespace, name = namespace_of(each.document), name_of(each.document)
        write = (
            Right("patch", each.group, each.resource, namespace, name)
            if each.exists
            else Right("create", each.group, each.resource, namespace)
        )
        for right in (Right("get", each.group, each.resource, namespace, name), write):
            needed.setdefault(right, []).append(each.label)
    return needed


def rights_checks(
    planned: Sequence[Planned],
    granted: Mapping[Right, bool | None],
    own: Mapping[str, OwnRules],
    user: str,
) -> Iterator[Check]:
    """Whether the user may apply every object, roles and bindings included.

    Args:
        planned: The objects.
        granted: The answers to `needed_rights`, and to `escalate` and `bind`; None where there was no answer.
        own: The rules of the user, by namespace; without the namespaces that could not be read.
        user: The name of the user; empty if it is unknown.
    """
    who = f"user {user}" if user else "your user"
    needed = needed_rights(planned)
    refused = [right for right in needed if granted.get(right) is False]
    unknown = [right for right in needed if granted.get(right) is None]
    if refused:
        objects = list(dict.fromkeys(label for right in refused for label in needed[right]))
        yield Check(
            name="rights",
            status=Status.FAILING,
            what=f"{who} may not apply {format_list(objects, _MOST)}",
            why=f"RBAC does not allow: {_rights_text(refused)}",
            remedy="let a cluster administrator apply the manifests, or grant these rights",
        )
    if unknown:
        yield Check(
            name="rights",
            status=Status.UNKNOWN,
            what=f"it is unknown whether {who} may apply every object",
            why=f"no answer about: {_rights_text(unknown)}",
            remedy="allow the user to create selfsubjectaccessreviews.authorization.k8s.io, as system:basic-user does",
        )
    grants = [check for each in planned if (check := _grant_check(each, planned, granted, own, who)) is not None]
    yield from grants
    if not refused and not unknown and not grants:
        yield Check(
            name="rights", status=Status.OK, what=f"{who} may apply all objects, with the roles that they grant"
        )


def _grant_check(
    each: Planned,
    planned: Sequence[Planned],
    granted: Mapping[Right, bool | None],
    own: Mapping[str, OwnRules],
    who: str,
) -> Check | None:
    """A check of a role or binding that grants more than the user may grant; None if there is none."""
    refusal = each.trial.refusal if each.trial else None
    if each.group != _RBAC or not each.resource or (refusal is None and each.trial and not each.is_stand_in):
        return None
    if refusal is not None and refusal.cause is Cause.ESCALATION:
        return _grants_too_much(each, who, refusal.message)
    # The dry run says nothing: the namespace or the role does not exist yet.
    found = _granting_right(each, planned)
    if found is None:
        return None
    right, role = found
    if granted.get(right):
        return None
    rules = own.get(namespace_of(each.document))
    missing = missing_rules(items_at(role, ("rules",)), rules.rules if rules else ())
    if not missing and rules is not None:
        return None
    if rules is None or not rules.is_complete:
        return Check(
            name="rights",
            status=Status.UNKNOWN,
            what=f"it is unknown whether {who} may apply {each.label}",
            why=f"RBAC does not allow `{right.text}`, and your rules cannot be listed completely"
            f"{f'; those listed lack: {rules_text(missing)}' if missing and rules else ''}",
            remedy="let a cluster administrator apply the manifests",
        )
    return _grants_too_much(each, who, rules_text(missing))


def granting_rights(planned: Sequence[Planned]) -> list[Right]:
    """The rights by which a user may write roles and bindings without having the rights that these grant."""
    found = (_granting_right(each, planned) for each in planned if each.group == _RBAC and each.resource)
    return list(dict.fromkeys(right for each in found if each is not None for right in each[:1]))


def _granting_right(each: Planned, planned: Sequence[Planned]) -> tuple[Right, Object] | None:
    """The right to grant anything by a role or binding, and the role; None without the role."""
    namespace, kind = namespace_of(each.document), each.document.get("kind")
    if kind in _ROLES:
        return Right("escalate", _RBAC, each.resource, namespace), each.document
    if kind not in _BINDINGS:
        return None
    reference = mapping_at(each.document, ("roleRef",))
    role = _role(reference, namespace, planned)
    if role is None:
        return None
    resource = "roles" if reference.get("kind") == "Role" else "clusterroles"
    return Right("bind", _RBAC, resource, namespace, str(reference.get("name"))), role


def _grants_too_much(each: Planned, who: str, missing: str) -> Check:
    return Check(
        name="rights",
        status=Status.FAILING,
        what=f"{who} may not apply {each.label}",
        why=f"it grants rights that the user does not have: {missing}",
        remedy="let a cluster administrator apply the manifests, or grant the verbs escalate and bind on roles and clusterroles",
    )


def _role(reference: Object, namespace: str, planned: Sequence[Planned]) -> Object | None:
    kind, name = reference.get("kind"), reference.get("name")
    for each in planned:
        document = each.document
        is_there = kind == "ClusterRole" or namespace_of(document) == namespace
        if is_there and (document.get("kind"), name_of(document)) == (kind, name):
            return document
    return None


def missing_rules(rules: Sequence[Object], own: Sequence[Object]) -> list[Object]:
    """The parts of the rules of a role that no rule of the user covers.

    A part has one verb and one resource or path.

    Source: k8s.io/component-helpers auth/rbac/validation, Covers: each part must be covered by one rule.
    """
    return [part for rule in rules for part in _parts(rule) if not any(_covers(mine, part) for mine in own)]


def _parts(rule: Object) -> Iterator[Object]:
    verbs = items_at(rule, ("verbs",))
    for verb, group, resource in product(verbs, items_at(rule, ("apiGroups",)), items_at(rule, ("resources",))):
        part = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
        names = items_at(rule, ("resourceNames",))
        yield from ({**part, "resourceNames": [name]} for name in names) if names else (part,)
    for verb, path in product(verbs, items_at(rule, ("nonResourceURLs",))):
        yield {"verbs": [verb], "nonResourceURLs": [path]}


def _covers(mine: Object, part: Object) -> bool:
    if not _has(mine, "verbs", part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        return any(
            written in ("*", part["nonResourceURLs"][0])
            or (written.endswith("*") and part["nonResourceURLs"][0].startswith(written[:-1]))
            for written in items_at(mine, ("nonResourceURLs",))
        )
    names = items_at(mine, ("resourceNames",))
    return (
        _has(mine, "apiGroups", part["apiGroups"][0])
        and _covers_resource(mine, part["resources"][0])
        and (not names or part.get("resourceNames", [None])[0] in names)
    )


def _has(rule: Object, field: str, value: str) -> bool:
    return bool({"*", value} & {*items_at(rule, (field,))})


def _covers_resource(mine: Object, resource: str) -> bool:
    """True if a rule names a resource, or all; `*/scale` stands for the subresource of all."""
    _, slash, part = resource.partition("/")
    wanted = {"*", resource, *([f"*/{part}"] if slash else [])}
    return bool(wanted & {*items_at(mine, ("resources",))})


def _rights_text(rights: Iterable[Right]) -> str:
    """The rights without names, by resource: `create and get services -n gpu-admission`."""
    verbs: dict[Right, set[str]] = {}
    for right in rights:
        verbs.setdefault(right._replace(verb="", name=""), set()).add(right.verb)
    return "; ".join(f"{format_list(sorted(found))}{right.text}" for right, found in verbs.items())


def rules_text(rules: Sequence[Object]) -> str:
    """Rules of one verb and resource each: `list pods and get nodes`."""
    texts = [
        f"{rule['verbs'][0]} {rule['nonResourceURLs'][0]}"
        if "nonResourceURLs" in rule
        else Right(rule["verbs"][0], rule["apiGroups"][0], rule["resources"][0]).text
        for rule in mappings_at({"rules": list(rules)}, ("rules",))
    ]
    return format_list(list(dict.fromkeys(texts)), _MOST)
