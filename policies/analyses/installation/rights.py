"""Rights: whether the user may send the requests of an installation."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.installation.cluster_checks import Check, Topic
from policies.analyses.installation.dry_runs import Cause
from policies.kubernetes.names import format_list, shorten
from policies.kubernetes.objects import items_at, mapping_at, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.analyses.installation.dry_runs import PlannedObject
    from policies.kubernetes.objects import Object


_RBAC = "rbac.authorization.k8s.io"
_ROLES = ("ClusterRole", "Role")
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_MOST = 12
_MOST_OBJECTS = 3


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


def needed_rights(planned: Iterable[PlannedObject]) -> dict[Right, list[str]]:
    """The rights that applying the objects needs, each with the objects.

    kubectl reads each object, then creates or patches it. Roles and bindings may need more: `policies.analyses.installation.rights`.
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


def rights_checks(planned: Sequence[PlannedObject], granted: Mapping[Right, bool | None], who: str) -> Iterator[Check]:
    """Checks that the user may send every request of an installation.

    Args:
        planned: The objects.
        granted: The answers to `needed_rights`; None where there was no answer.
        who: The user, for messages.
    """
    needed = needed_rights(planned)
    refused = [right for right in needed if granted.get(right) is False]
    unknown = [right for right in needed if granted.get(right) is None]
    if refused:
        objects = list(dict.fromkeys(label for right in refused for label in needed[right]))
        yield Topic.RIGHTS.failure(
            f"{who} may not apply {format_list(objects, _MOST_OBJECTS)}",
            why=f"RBAC does not allow: {rights_text(refused)}",
            remedy="let a cluster administrator apply the manifests, or grant these rights",
        )
    if unknown:
        yield Topic.RIGHTS.unknown(
            f"it is unknown whether {who} may apply every object",
            why=f"no answer about: {rights_text(unknown)}",
            remedy="allow the user to create selfsubjectaccessreviews.authorization.k8s.io, as system:basic-user does",
        )


def rights_text(rights: Iterable[Right], most: int = _MOST) -> str:
    """The rights by resource, without names: `create and get services -n gpu-admission`."""
    verbs: dict[Right, set[str]] = {}
    for right in rights:
        verbs.setdefault(right._replace(verb="", name=""), set()).add(right.verb)
    parts = [f"{format_list(sorted(found), 9)}{right.text}" for right, found in verbs.items()]
    return "; ".join([*parts[:most], *([f"{len(parts) - most:,} more"] if len(parts) > most else [])])


_MOST_GRANTS = 3
_REMEDY = (
    "let a cluster administrator apply the manifests, or grant the verbs escalate and bind on roles and clusterroles"
)


class OwnRules(NamedTuple):
    """The rules of the user in a namespace, as a SelfSubjectRulesReview lists them."""

    rules: Sequence[Object]
    is_complete: bool
    """False if another authorizer than RBAC may allow more."""


class _Gap(NamedTuple):
    """A role or binding that the user may not apply."""

    label: str
    missing: list[Object]
    """The parts of rules that the user lacks; empty if they are unknown."""
    is_certain: bool
    """False if the user may have rights that could not be listed."""
    message: str = ""
    """The message of the API server, if it refused."""


def grant_checks(
    planned: Sequence[PlannedObject], granted: Mapping[Right, bool | None], own: Mapping[str, OwnRules], who: str
) -> Iterator[Check]:
    """Roles and bindings that grant more than the user may grant.

    Args:
        planned: The objects.
        granted: The answers to `granting_rights`; None where there was no answer.
        own: The rules of the user by namespace, empty for the whole cluster; without those that could not be read.
        who: The user, for messages.
    """
    gaps = [gap for each in planned if (gap := _gap(each, planned, granted, own)) is not None]
    for is_certain in (True, False):
        found = [gap for gap in gaps if gap.is_certain is is_certain]
        if not found:
            continue
        labels = format_list([gap.label for gap in found], _MOST_GRANTS)
        rights = rights_text(rule_rights(part for gap in found for part in gap.missing))
        if is_certain:
            yield Topic.RIGHTS.failure(
                f"{who} may not apply {labels}",
                why=f"roles and bindings grant rights that the user does not have: {rights or shorten(found[0].message)}",
                remedy=_REMEDY,
            )
        else:
            yield Topic.RIGHTS.unknown(
                f"it is unknown whether {who} may apply {labels}",
                why="RBAC does not allow to escalate or bind, and your rules cannot be listed completely"
                f"{f'; those listed lack: {rights}' if rights else ''}",
                remedy=_REMEDY,
            )


def _gap(
    each: PlannedObject,
    planned: Sequence[PlannedObject],
    granted: Mapping[Right, bool | None],
    own: Mapping[str, OwnRules],
) -> _Gap | None:
    """The rights that the user lacks for a role or binding; None if it is no problem."""
    refusal = each.dry_run.refusal if each.dry_run else None
    if each.group != _RBAC or not each.resource or (refusal is None and each.dry_run and not each.is_stand_in):
        return None
    found = _granting_right(each, planned)
    rules = own.get(namespace_of(each.document))
    missing = missing_rules(items_at(found[1], ("rules",)), rules.rules) if found and rules else []
    if refusal is not None and refusal.cause is Cause.ESCALATION:
        return _Gap(each.label, missing, is_certain=True, message=refusal.message)
    # The dry run says nothing: the namespace or the role does not exist yet.
    if found is None or granted.get(found[0]) or (rules is not None and not missing):
        return None
    return _Gap(each.label, missing, is_certain=rules is not None and rules.is_complete)


def rule_rights(parts: Iterable[Object]) -> Iterator[Right]:
    """The rights that parts of rules grant, as `missing_rules` returns them."""
    for part in parts:
        if "nonResourceURLs" in part:
            yield Right(part["verbs"][0], "", part["nonResourceURLs"][0])
        else:
            yield Right(part["verbs"][0], part["apiGroups"][0], part["resources"][0])


def granting_rights(planned: Sequence[PlannedObject]) -> list[Right]:
    """The rights by which a user may write roles and bindings without having the rights that these grant."""
    found = (_granting_right(each, planned) for each in planned if each.group == _RBAC and each.resource)
    return list(dict.fromkeys(right for each in found if each is not None for right in each[:1]))


def _granting_right(each: PlannedObject, planned: Sequence[PlannedObject]) -> tuple[Right, Object] | None:
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


def _role(reference: Object, namespace: str, planned: Sequence[PlannedObject]) -> Object | None:
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
