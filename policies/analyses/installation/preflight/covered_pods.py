"""Which namespaces and pods would be reviewed once the manifests are applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.analyses.installation.preflight.other_webhooks import LabelledNamespace, labels_with_name
from policies.kubernetes.names import DRA_LABEL, QUOTA_LABEL
from policies.kubernetes.objects import controller_of, has_ended, lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.phrases import format_count, format_list
from policies.kubernetes.webhook_rules import UnknownOperatorError, Write, rule_matches, selects
from policies.rules.cluster_checks import Check, Status, forbidden_check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["Coverage", "EntryCount", "coverage_checks", "webhooks_in"]

_NEW_POD = Write("CREATE", "", "", "pods")
_SUFFIX = ".gpu-admission.io"
_MOST = 5


@dataclass(slots=True)
class EntryCount:
    """The pods that exist now and that an entry would review if they were created again."""

    namespaces: set[str] = field(default_factory=set)
    pods: int = 0


class Coverage:
    """Counts the pods of a cluster by the webhooks that would be called for them.

    Pods of one controller have one template, so the conditions are evaluated once for all of them.
    """

    def __init__(
        self, webhooks: Iterable[Object], namespaces: Sequence[Object], holds: Callable[[Object, Object], bool]
    ) -> None:
        """Prepare to count.

        Args:
            webhooks: Those of the manifests.
            namespaces: All namespaces of the cluster.
            holds: Returns whether the matchConditions of a webhook hold for a pod that is created.
        """
        self.namespaces = [
            LabelledNamespace(name_of(each), labels_with_name(name_of(each), each)) for each in namespaces
        ]
        self._holds = holds
        self._webhooks = [
            each for each in webhooks if any(rule_matches(rule, _NEW_POD) for rule in mappings_at(each, ("rules",)))
        ]
        self._by_namespace = {
            namespace.name: [each for each in self._webhooks if _selects(each, namespace)]
            for namespace in self.namespaces
        }
        self._known: dict[tuple[str, str], list[str]] = {}
        self.counts: dict[str, EntryCount] = {_entry(each): EntryCount() for each in self._webhooks}
        """By entry, in the order of the calls."""
        self.pods = 0
        """The pods that at least one entry would review."""

    @property
    def covered(self) -> list[LabelledNamespace]:
        """The namespaces that at least one webhook selects."""
        return [namespace for namespace in self.namespaces if self._by_namespace[namespace.name]]

    @property
    def exempt(self) -> list[str]:
        """The namespaces that every webhook excludes."""
        return [namespace.name for namespace in self.namespaces if not self._by_namespace[namespace.name]]

    def namespaces_with(self, key: str, *values: str) -> list[str]:
        """The covered namespaces whose label has one of the values."""
        return [namespace.name for namespace in self.covered if namespace.labels.get(key) in values]

    def add(self, pod: Object) -> None:
        """Count a pod."""
        namespace = namespace_of(pod)
        if has_ended(pod) or not self._by_namespace.get(namespace):
            return
        entries = self._entries(pod, namespace)
        for entry in entries:
            count = self.counts[entry]
            count.pods += 1
            count.namespaces.add(namespace)
        if entries:
            self.pods += 1

    def _entries(self, pod: Object, namespace: str) -> list[str]:
        owner = controller_of(pod)
        key = (namespace, str(owner.get("uid"))) if owner is not None else None
        if key is None or key not in self._known:
            found = [_entry(each) for each in self._by_namespace[namespace] if self._holds(each, pod)]
            if key is None:
                return found
            self._known[key] = found
        return self._known[key]


def _selects(webhook: Object, namespace: LabelledNamespace) -> bool:
    if lookup(webhook, ("objectSelector", "matchLabels")):
        return False
    try:
        return selects(webhook.get("namespaceSelector"), namespace.labels)
    except UnknownOperatorError:
        return False


def _entry(webhook: Object) -> str:
    return str(webhook.get("name")).removesuffix(_SUFFIX)


def coverage_checks(coverage: Coverage | None, *, is_new: bool, are_pods_known: bool) -> Iterator[Check]:
    """Which namespaces and pods would be reviewed.

    Args:
        coverage: The counts; None if the namespaces cannot be listed.
        is_new: True if no webhook of gpu-admission is installed yet.
        are_pods_known: False if the pods cannot be listed.
    """
    if coverage is None:
        yield forbidden_check("namespaces", "it is unknown which namespaces would be covered", "list namespaces")
        return
    converting = coverage.namespaces_with(DRA_LABEL, "enabled")
    preview = coverage.namespaces_with(DRA_LABEL, "preview")
    enforced = coverage.namespaces_with(QUOTA_LABEL, "enforced")
    labelled = [
        *([f"{_names(converting)} {_verb(converting, 'convert')}"] if converting else []),
        *([f"{_names(preview)} {_verb(preview, 'preview')}"] if preview else []),
        *([f"{_names(enforced)} {_verb(enforced, 'enforce')} quotas"] if enforced else []),
    ]
    what = f"{format_count(len(coverage.covered), 'namespace')} would be covered; exempt: {format_list(coverage.exempt, _MOST)}"
    if is_new and (converting or enforced):
        yield Check(
            name="namespaces",
            status=Status.WARNING,
            what=f"namespaces have labels of gpu-admission already: {'; '.join(labelled)}",
            why="from the moment when the webhooks are applied, their pods with GPUs are refused until a replica answers",
            remedy="apply the service first and the webhooks when it is ready, as `gpu-admission apply-webhooks` does, or remove "
            "the labels until then",
        )
        yield Check(name="namespaces", status=Status.OK, what=what)
    else:
        yield Check(name="namespaces", status=Status.OK, what="; ".join((what, *labelled)))
    if are_pods_known:
        yield Check(name="pods", status=Status.OK, what=_pods_text(coverage))
    else:
        yield forbidden_check("pods", "it is unknown how many pods would be reviewed", "list pods in all namespaces")


def _pods_text(coverage: Coverage) -> str:
    found = [
        f"{entry} {format_count(count.pods, 'pod')} in {format_count(len(count.namespaces), 'namespace')}"
        for entry, count in coverage.counts.items()
        if count.pods
    ]
    return f"of the running pods, these would be reviewed if they were created now: {', '.join(found) or 'none'}"


def _names(names: Sequence[str]) -> str:
    return format_list(names, _MOST)


def _verb(names: Sequence[str], verb: str) -> str:
    return verb if len(names) > 1 else f"{verb}s"


def webhooks_in(documents: Iterable[Object]) -> list[Object]:
    """The webhooks of configurations, mutating ones first."""
    found = sorted(documents, key=lambda each: str(each.get("kind")))
    return [webhook for each in found for webhook in mappings_at(each, ("webhooks",))]
