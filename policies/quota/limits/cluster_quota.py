"""ClusterGPUQuotas: limits over several namespaces, and the group of each namespace.

A group is the namespaces that share the limits of a ClusterGPUQuota: all that its selector chooses, or, with `groupBy`, those
with one value of a label. Each group has a GPUQuotaGroup, whose status is its ledger. A namespace has at most one group.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.kubernetes.names import is_dns_label, is_label_key
from policies.kubernetes.objects import FieldPath, items_at, lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.webhook_rules import selects
from policies.quota.limits.amounts import quoted_value
from policies.quota.limits.quota import (
    API_VERSION,
    GROUP,
    QUOTA_NAME,
    QuotaError,
    QuotaNames,
    envelope_problems,
    quota_shown,
    read_spec,
)
from policies.rules.checks import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key, Unknown
    from policies.quota.limits.quota import Quota


CLUSTER_QUOTA = "ClusterGPUQuota"
_OWN_LABEL = "kubernetes.io/metadata.name"
"""The API server sets it, so it needs no guard. Source: k8s.io/api/core/v1 LabelMetadataName."""
_CREATED = ("metadata", "creationTimestamp")
_FIELDS = ("namespaceSelector", "groupBy")
_MOST_EXPRESSIONS = 16
_HASHED = "x-"
"""The start of the second part of a group's name if the value is no DNS label: `research.x-0123456789ab`."""


class Group(NamedTuple):
    """The namespaces that share the limits of a ClusterGPUQuota."""

    quota: str
    """The name of the ClusterGPUQuota."""
    value: str = ""
    """The value of the label that `groupBy` names; empty without `groupBy`."""

    @property
    def name(self) -> str:
        """The name of its GPUQuotaGroup: `research`, `research.team-a`."""
        if not self.value:
            return self.quota
        if is_dns_label(self.value) and not self.value.startswith(_HASHED):
            return f"{self.quota}.{self.value}"
        return f"{self.quota}.{_HASHED}{hashlib.sha256(self.value.encode()).hexdigest()[:12]}"

    @property
    def words(self) -> QuotaNames:
        """The words for its quota."""
        name = self.name
        subject = f'the namespaces of group "{self.value}"' if self.value else f"the namespaces of quota {name}"
        return QuotaNames(name, f"quota {name}", subject, f"gpuquotagroup {name}", f"{CLUSTER_QUOTA} {self.quota}")


@dataclass(frozen=True, slots=True)
class ClusterQuota:
    """The spec of a ClusterGPUQuota."""

    name: str
    quota: Quota
    """The limits of each group."""
    document: Object
    """The ClusterGPUQuota."""
    selector: Object
    """A LabelSelector of namespaces."""
    group_by: str = ""
    """The key of the label whose values are groups; empty for one group."""

    def group_of(self, labels: Mapping[str, str]) -> Group | None:
        """The group of a namespace with these labels; None if it is not chosen or lacks the label."""
        if not selects(self.selector, labels):
            return None
        if not self.group_by:
            return Group(self.name)
        value = labels.get(self.group_by)
        return Group(self.name, value) if value else None

    def spec_of(self, group: Group) -> Object:
        """The spec of the GPUQuotaGroup of one of its groups."""
        spec = {key: value for key, value in self.document["spec"].items() if key not in _FIELDS}
        return {"quota": self.name, **({"group": group.value} if group.value else {}), **spec}

    def leaves_out(self, labels: Mapping[str, str]) -> bool:
        """True if a namespace is chosen and has no group, because it lacks the label of `groupBy`."""
        return bool(self.group_by) and not labels.get(self.group_by) and selects(self.selector, labels)

    @property
    def guarded_keys(self) -> tuple[str, ...]:
        """The label keys that decide which group a namespace has, sorted; only administrators may change them."""
        keys = {*mapping_at(self.selector, ("matchLabels",))}
        keys |= {str(each["key"]) for each in mappings_at(self.selector, ("matchExpressions",))}
        keys |= {self.group_by} if self.group_by else set()
        return tuple(sorted(keys - {_OWN_LABEL}))


def parse_cluster_quota(document: Any) -> ClusterQuota:
    """Read a ClusterGPUQuota; its status does not matter.

    Raises:
        QuotaError: with every problem of the document.
    """
    if not isinstance(document, dict):
        text = f"a {CLUSTER_QUOTA} is a mapping with apiVersion, kind, metadata and spec"
        raise QuotaError([Problem(FieldPath(), text, "")])
    spec: Any = document.get("spec")
    problems = [
        *envelope_problems(document, CLUSTER_QUOTA),
        *(_choice_problems(spec) if isinstance(spec, dict) else ()),
    ]
    name = name_of(document)
    if not is_dns_label(name):
        remedy = "write at most 63 lower-case letters, digits and dashes; the names of groups begin with it"
        problems.append(Problem(FieldPath(["metadata", "name"]), f"is {quoted_value(name)}", remedy))
    quota = read_spec(spec, CLUSTER_QUOTA, _FIELDS, problems)
    return ClusterQuota(name, quota, document, spec["namespaceSelector"], spec.get("groupBy", ""))


_SPEC = FieldPath(["spec"])


def _choice_problems(spec: dict[Any, Any]) -> Iterator[Problem]:
    """The problems of the fields that choose and group namespaces."""
    path, selector = _SPEC / "namespaceSelector", spec.get("namespaceSelector")
    remedy = "write matchLabels: {LABEL: VALUE}, or {} for all namespaces"
    if not isinstance(selector, dict):
        found = "is missing" if "namespaceSelector" not in spec else f"is {quoted_value(selector)}"
        yield Problem(path, found, remedy)
    else:
        for key in selector.keys() - {"matchLabels", "matchExpressions"}:
            yield Problem(path / str(key), "is an unknown field of a selector", remedy)
        labels = selector.get("matchLabels", {})
        if not isinstance(labels, dict):
            yield Problem(path / "matchLabels", f"is {quoted_value(labels)}", "write a mapping of texts, LABEL: VALUE")
            labels = {}
        for key, value in labels.items():
            if not isinstance(value, str):
                yield Problem(path / "matchLabels" / str(key), f"is {quoted_value(value)}", "write a text")
        yield from _expression_problems(path / "matchExpressions", selector.get("matchExpressions", []))
    if "groupBy" in spec and not is_label_key(spec["groupBy"]):
        text = f"is {quoted_value(spec['groupBy'])}"
        yield Problem(_SPEC / "groupBy", text, 'write the key of a label, such as "example.com/team"')


_WITH_VALUES = ("In", "NotIn")
_OPERATORS = (*_WITH_VALUES, "Exists", "DoesNotExist")


def _expression_problems(path: FieldPath, expressions: Any) -> Iterator[Problem]:
    if not isinstance(expressions, list) or len(expressions) > _MOST_EXPRESSIONS:
        remedy = f"write a list of at most {_MOST_EXPRESSIONS} mappings with key, operator and values"
        yield Problem(path, f"is {quoted_value(expressions)}", remedy)
        return
    for index, each in enumerate(expressions):
        if not isinstance(each, dict) or not is_label_key(each.get("key")):
            yield Problem(path / index, f"is {quoted_value(each)}", "write a mapping with key, operator and values")
            continue
        operator, values = each.get("operator"), each.get("values") or []
        if operator not in _OPERATORS:
            remedy = f"write one of {', '.join(_OPERATORS[:-1])} and {_OPERATORS[-1]}"
            yield Problem(path / index / "operator", f"is {quoted_value(operator)}", remedy)
        elif not isinstance(values, list):
            yield Problem(path / index / "values", f"is {quoted_value(values)}", "write a list of texts")
        elif operator in _WITH_VALUES and not values:
            yield Problem(path / index, f"has no values, which {operator} needs", "add at least one")
        elif operator not in _WITH_VALUES and values:
            yield Problem(path / index / "values", f"must be empty for {operator}", "remove it")


GUARD = "team-quota-labels.gpu-admission.io"
"""The name of the ValidatingAdmissionPolicy that refuses changes of guarded keys, and of its binding."""
_CHANGED_KEYS = """
(params.spec.namespaceSelector.?matchLabels.orValue({}).map(k, k)
+ params.spec.namespaceSelector.?matchExpressions.orValue([]).map(e, e.key)
+ (has(params.spec.groupBy) ? [params.spec.groupBy] : []))
.filter(k, k != 'kubernetes.io/metadata.name' && object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k])
"""
_VALIDATION = """
variables.changed.size() == 0 ||
authorizer.group('gpu-admission.io').resource('gpuquotagroups').name(params.metadata.name).check('set').allowed()
"""
_CONDITIONS = {
    "labels-change": "object.metadata.?labels != oldObject.?metadata.?labels",
    "without-the-right": "!authorizer.group('gpu-admission.io').resource('gpuquotagroups').check('set').allowed()",
}
_NAMESPACE_WRITES = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
    "scope": "*",
}


def is_guard(policy: Object | None, binding: Object | None) -> bool:
    """True if a stored policy and its binding guard every namespace as team-quota-labels.yaml does."""
    conditions = {each.get("name"): each.get("expression") for each in mappings_at(policy, ("spec", "matchConditions"))}
    matched = mapping_at(policy, ("spec", "matchConstraints"))
    narrowing = ("namespaceSelector", "objectSelector", "excludeResourceRules")
    validations = [str(each.get("expression")).split() for each in mappings_at(policy, ("spec", "validations"))]
    variables = {
        each.get("name"): str(each.get("expression")).split() for each in mappings_at(policy, ("spec", "variables"))
    }
    return (
        validations == [_VALIDATION.split()]
        and variables == {"changed": _CHANGED_KEYS.split()}
        and lookup(policy, ("spec", "failurePolicy")) == "Fail"
        and lookup(policy, ("spec", "paramKind", "kind")) == CLUSTER_QUOTA
        and conditions == _CONDITIONS
        and mappings_at(matched, ("resourceRules",)) == [_NAMESPACE_WRITES]
        and not any(matched.get(each) for each in narrowing)
        and not mapping_at(binding, ("spec", "matchResources"))
        and mapping_at(binding, ("spec", "paramRef")).keys() == {"selector", "parameterNotFoundAction"}
        and "Deny" in items_at(binding, ("spec", "validationActions"))
        and lookup(binding, ("spec", "policyName")) == GUARD
        and not any(mapping_at(binding, ("spec", "paramRef", "selector")).values())
    )


@dataclass(frozen=True, slots=True)
class Tenancy:
    """The ClusterGPUQuotas of a cluster, and the groups of its namespaces."""

    quotas: tuple[ClusterQuota, ...]
    """The oldest first; the oldest that chooses a namespace counts it."""
    unreadable: Mapping[str, QuotaError]
    """By the names of ClusterGPUQuotas that cannot be read; they choose nothing."""

    def group_of(self, namespace: Object) -> Group | None:
        """The group of a Namespace; None if no ClusterGPUQuota counts it."""
        return next(self._groups(namespace), None)

    def overlaps(self, namespaces: Iterable[Object]) -> Mapping[str, Mapping[str, str]]:
        """By ClusterGPUQuota, the namespaces that it chooses and an older one counts.

        Each with the name of the older one.
        """
        found: dict[str, dict[str, str]] = {}
        for namespace in namespaces:
            groups = [*self._groups(namespace)]
            for other in groups[1:]:
                found.setdefault(other.quota, {})[name_of(namespace)] = groups[0].quota
        return found

    def _groups(self, namespace: Object) -> Iterator[Group]:
        """The groups that ClusterGPUQuotas choose for a Namespace, that of the oldest first."""
        labels = mapping_at(namespace, ("metadata", "labels"))
        return (group for each in self.quotas if (group := each.group_of(labels)) is not None)


def tenancy(view: ClusterView) -> Tenancy | Unknown:
    """The ClusterGPUQuotas that a view shows, or, if it does not know them, those under review."""
    return view.derive(_tenancy)


def _tenancy(view: ClusterView) -> Tenancy | Unknown:
    found = view.known_or_reviewed(CLUSTER_QUOTA)
    return read_tenancy(found) if found or view.list(CLUSTER_QUOTA) is not UNKNOWN else UNKNOWN


def read_tenancy(listed: Iterable[Object]) -> Tenancy:
    """The ClusterGPUQuotas of a list."""
    quotas, unreadable = [], {}
    for document in sorted(listed, key=lambda each: (str(lookup(each, _CREATED)), name_of(each))):
        try:
            quotas.append(parse_cluster_quota(document))
        except QuotaError as error:
            unreadable[name_of(document)] = error
    return Tenancy(tuple(quotas), unreadable)


def without_quotas(namespace: str, view: ClusterView) -> dict[Key, Object | None]:
    """The changes of a view after which nothing limits a namespace, for a `ChangedView`."""
    names = map(name_of, view.known_objects(CLUSTER_QUOTA))
    return {("GPUQuota", namespace, QUOTA_NAME): None, **{(CLUSTER_QUOTA, "", name): None for name in names}}


def members(group: Group, view: ClusterView) -> Sequence[str]:
    """The names of the namespaces of a group that the view shows, sorted."""
    return view.derive(_members).get(group, ())


def groups_with_members(view: ClusterView) -> Iterable[Group]:
    """The groups that have a namespace which the view shows."""
    return view.derive(_members)


def _members(view: ClusterView) -> Mapping[Group, Sequence[str]]:
    found = view.derive(_tenancy)
    by_group: dict[Group, list[str]] = {}
    if found is UNKNOWN:
        return by_group
    for namespace in view.known_objects("Namespace"):
        if (group := found.group_of(namespace)) is not None:
            by_group.setdefault(group, []).append(name_of(namespace))
    return {group: sorted(names) for group, names in by_group.items()}


def group_document(group: Group, view: ClusterView) -> Object | None:
    """The GPUQuotaGroup as the leader makes it, with its stored status; None if no limits are known."""
    found, stored = view.derive(_tenancy), view.get(GROUP, group.name)
    quota = None if found is UNKNOWN else next((each for each in found.quotas if each.name == group.quota), None)
    if quota is None:
        return stored if isinstance(stored, dict) else None
    made = {"apiVersion": API_VERSION, "kind": GROUP, "metadata": {"name": group.name}}
    return {**made, **(stored if isinstance(stored, dict) else {}), "spec": quota.spec_of(group)}


def quotas_shown(namespace: str, view: ClusterView) -> Iterator[tuple[QuotaNames, Object]]:
    """The words and the object of each quota that limits a namespace, as far as the view shows them.

    The GPUQuota of the namespace is first, and the GPUQuotaGroup of its group second.
    """
    own, group = quota_shown(namespace, view), group_shown(namespace, view)
    if own is not None:
        yield QuotaNames.of_namespace(namespace), own
    if isinstance(group, Group) and (document := group_document(group, view)) is not None:
        yield group.words, document


def has_quota(namespace: str, view: ClusterView) -> bool:
    """True if the view shows a GPUQuota of a namespace, or a ClusterGPUQuota that counts it."""
    return quota_shown(namespace, view) is not None or isinstance(group_shown(namespace, view), Group)


def group_shown(namespace: str, view: ClusterView) -> Group | Unknown | None:
    """The group of a namespace; None if no ClusterGPUQuota counts it.

    Unknown if the view does not show the ClusterGPUQuotas, or if there are some and it does not show the namespace. While a
    ClusterGPUQuota cannot be read, its groups keep the namespaces that they have.
    """
    found = view.derive(_tenancy)
    if found is UNKNOWN:
        return UNKNOWN
    if not found.quotas and not found.unreadable:
        return None
    document = view.get("Namespace", namespace)
    if not isinstance(document, dict):
        return UNKNOWN
    group = found.group_of(document)
    if group is None and found.unreadable:
        for each in view.known_objects(GROUP):
            if lookup(each, ("spec", "quota")) in found.unreadable and namespace in items_at(
                each, ("status", "namespaces")
            ):
                return Group(str(lookup(each, ("spec", "quota"))), str(lookup(each, ("spec", "group")) or ""))
    return group


Name = TypeVar("Name", str, Group)


class Loan(NamedTuple):
    """The part of a group's expected amount that others use, and of theirs that it uses; one is zero."""

    lent: Fraction
    borrowed: Fraction


def loans(uses: Mapping[Name, tuple[Fraction, Fraction]]) -> Mapping[Name, Loan]:
    """The amounts of one limit that the groups of a ClusterGPUQuota lend each other, and borrow.

    A group that uses less than it is expected to use lends the rest, as far as others use more than they are expected to.
    If less is borrowed than is idle, or the other way round, all share in it in proportion. It refuses nothing.

    Args:
        uses: By groups or their names, the amount that it is expected to use, and what it uses.
    """
    idle = {group: max(expected - used, Fraction()) for group, (expected, used) in uses.items()}
    beyond = {group: max(used - expected, Fraction()) for group, (expected, used) in uses.items()}
    most_lent, most_borrowed = sum(idle.values(), Fraction()), sum(beyond.values(), Fraction())
    moved = min(most_lent, most_borrowed)
    return {
        group: Loan(
            idle[group] * moved / most_lent if moved else Fraction(),
            beyond[group] * moved / most_borrowed if moved else Fraction(),
        )
        for group in uses
    }
