"""Webhooks of others: those that keep gpu-admission from starting, their order, and covered pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import CONFIGURATIONS, NAME_LABEL
from policies.analyses.installation.cluster_checks import Check, Topic
from policies.kubernetes.names import DRA_LABEL, QUOTA_LABEL, format_count, format_list
from policies.kubernetes.objects import controller_of, has_ended, lookup, mapping_at, mappings_at, name_of, namespace_of
from policies.kubernetes.webhook_rules import UnknownOperatorError, Write, rule_matches, selects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from policies.analyses.installation.dry_runs import PlannedObject
    from policies.kubernetes.objects import Object


_CONFIGURATION = CONFIGURATIONS[0][1]
_NEW_POD = Write("CREATE", "", "", "pods")
_OWN_WRITES = {
    "pods": _NEW_POD,
    "leases": Write("UPDATE", "coordination.k8s.io", "", "leases"),
    "secrets": Write("UPDATE", "", "", "secrets"),
}
"""The writes that replicas need in their own namespace: pods to start, the Lease to lead, the Secret of the certificate."""
_TENANT_WRITES = {
    "resourceclaimtemplates": Write("CREATE", "resource.k8s.io", "", "resourceclaimtemplates"),
    "gpuquotas/status": Write("UPDATE", "gpu-admission.io", "", "gpuquotas", "status"),
}
"""The writes of replicas in the namespaces that use them."""
_MOST = 5


class LabelledNamespace(NamedTuple):
    """A namespace with the labels of the objects that gpu-admission writes there."""

    name: str
    labels: Mapping[str, str]


class OtherWebhook(NamedTuple):
    """A webhook of another configuration."""

    configuration: str
    webhook: Object
    is_mutating: bool

    @property
    def label(self) -> str:
        """Its name, and that of its configuration."""
        name = str(self.webhook.get("name"))
        return f"{name} ({self.configuration})" if self.configuration != name else name

    @property
    def fails_closed(self) -> bool:
        """True if the write is refused while the webhook does not answer."""
        return self.webhook.get("failurePolicy") != "Ignore"

    @property
    def is_before(self) -> bool:
        """True if the API server calls it before ours; for mutating webhooks only.

        It sorts configurations by name and keeps the order within each. Source: k8s.io/apiserver
        pkg/admission/configuration/mutating_webhook_manager.go.
        """
        return self.configuration < _CONFIGURATION

    def matches(self, write: Write) -> bool:
        """True if one of its rules matches a write."""
        return any(rule_matches(rule, write) for rule in mappings_at(self.webhook, ("rules",)))

    def selects(self, namespace: Mapping[str, str], labels: Mapping[str, str] | None) -> bool:
        """True if its selectors match an object of a namespace; matchConditions are not evaluated.

        Args:
            namespace: The labels of the namespace.
            labels: Those of the object; None for any object.
        """
        try:
            in_namespace = selects(self.webhook.get("namespaceSelector"), namespace)
            return in_namespace and (labels is None or selects(self.webhook.get("objectSelector"), labels))
        except UnknownOperatorError:
            return True


def other_webhooks(configurations: Sequence[Object], *, is_mutating: bool) -> list[OtherWebhook]:
    """The webhooks of others in the order in which the API server calls mutating ones."""
    return [
        OtherWebhook(name_of(configuration), webhook, is_mutating)
        for configuration in sorted(configurations, key=name_of)
        if name_of(configuration) != _CONFIGURATION
        for webhook in mappings_at(configuration, ("webhooks",))
    ]


def webhook_checks(
    webhooks: Sequence[OtherWebhook],
    own: LabelledNamespace,
    pod_labels: Mapping[str, str],
    tenants: Sequence[LabelledNamespace] | None,
) -> Iterator[Check]:
    """Checks of the webhooks of others, for gpu-admission and for the pods that it reviews.

    Args:
        webhooks: Those of others.
        own: The namespace of gpu-admission.
        pod_labels: The labels of its pods.
        tenants: The namespaces whose pods it would review; None if they are unknown.
    """
    is_good = True
    for each in webhooks:
        labels = {"pods": pod_labels}
        hit = [
            name
            for name, write in _OWN_WRITES.items()
            if each.fails_closed and each.matches(write) and each.selects(own.labels, labels.get(name))
        ]
        if not hit:
            continue
        is_good = False
        conditions = " unless its matchConditions exclude them" if each.webhook.get("matchConditions") else ""
        yield Topic.WEBHOOKS.warning(
            f"{_kind(each)} webhook {each.label} is called for {format_list(hit)} of namespace {own.name}{conditions}",
            where=f"{_kind(each).capitalize()}WebhookConfiguration {each.configuration}",
            why="it fails closed: while it does not answer, "
            + ("no replica of gpu-admission can start" if "pods" in hit else "the replicas cannot write these"),
            remedy=f"exclude the namespace in its namespaceSelector: kubernetes.io/metadata.name NotIn [{own.name}]",
        )
    if is_good:
        yield Topic.WEBHOOKS.ok(
            f"no webhook of others that fails closed is called for the objects of namespace {own.name}"
        )
    if tenants is None:
        return
    for each in webhooks:
        hit = [name for name, write in _TENANT_WRITES.items() if each.fails_closed and each.matches(write)]
        names = [tenant.name for tenant in tenants if each.selects(tenant.labels, None)] if hit else []
        if names:
            yield Topic.WEBHOOKS.warning(
                f"{_kind(each)} webhook {each.label} is called for {format_list(hit)} of "
                f"namespace{'s' * (len(names) > 1)} {format_list(names, _MOST)}",
                where=f"{_kind(each).capitalize()}WebhookConfiguration {each.configuration}",
                why="it fails closed: while it does not answer, pods that need a template are refused, and charges are not written",
                remedy="exclude user system:serviceaccount:gpu-admission:gpu-admission by a matchCondition on "
                "request.userInfo.username",
            )
    yield _order_check(webhooks, tenants)


def _kind(webhook: OtherWebhook) -> str:
    return "mutating" if webhook.is_mutating else "validating"


def _order_check(webhooks: Sequence[OtherWebhook], tenants: Sequence[LabelledNamespace]) -> Check:
    """The order of the mutating webhooks that see the pods of covered namespaces."""
    seen = [
        each
        for each in webhooks
        if each.is_mutating and each.matches(_NEW_POD) and any(each.selects(tenant.labels, None) for tenant in tenants)
    ]
    before = [_text_of(each) for each in seen if each.is_before]
    after = [_text_of(each) for each in seen if not each.is_before]
    if not seen:
        return Topic.ORDER.ok("no mutating webhook of others sees the pods that would be reviewed")
    parts = [f"{format_list(before, _MOST)} before ours"] if before else []
    parts += [f"{format_list(after, _MOST)} after ours"] if after else []
    return Topic.ORDER.ok(
        f"{format_count(len(seen), 'mutating webhook')} of others {'see' if len(seen) > 1 else 'sees'} the same pods: "
        f"{', '.join(parts)}",
        why="configurations are called in the order of their names. If a later one adds GPUs or tolerations, ours is called "
        "once more (reinvocationPolicy IfNeeded); the validating webhooks see the final pod"
        if after
        else "configurations are called in the order of their names; ours sees what these change",
    )


def _text_of(webhook: OtherWebhook) -> str:
    policy = webhook.webhook.get("reinvocationPolicy") or "Never"
    return f"{webhook.label}, reinvocationPolicy {policy}"


def labels_with_name(name: str, document: Object | None) -> dict[str, str]:
    """The labels of a namespace as the API server stores it: with its name as a label."""
    return {**mapping_at(document, ("metadata", "labels")), NAME_LABEL: name}


def bundle_checks(planned: Sequence[PlannedObject]) -> Iterator[Check]:
    """Manifests that write a caBundle, and installed webhooks that have none."""
    written = [name for each in planned for name, bundle in _bundles(each.document) if bundle]
    missing = [name for each in planned for name, bundle in _bundles(each.stored) if not bundle]
    if written:
        yield Topic.CA_BUNDLE.warning(
            f"the manifests write the caBundle of {format_list(written, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="gpu-admission or cert-manager rotates it, and the manifests would bring back an old one",
            remedy="leave it out of the manifests",
        )
    if missing:
        yield Topic.CA_BUNDLE.warning(
            f"installed webhooks have no caBundle: {format_list(missing, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="their calls fail, unless the serving certificate is of a public authority",
            remedy="look at `/readyz` of a replica: the leader writes it within seconds if it may",
        )


def _bundles(document: object) -> list[tuple[str, bool]]:
    """The webhooks of a configuration, each with whether it has a caBundle."""
    webhooks = mappings_at(document, ("webhooks",))
    return [(str(each.get("name")), bool(lookup(each, ("clientConfig", "caBundle")))) for each in webhooks]


_SUFFIX = ".gpu-admission.io"


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
    """The namespaces and pods that would be reviewed.

    Args:
        coverage: The counts; None if the namespaces cannot be listed.
        is_new: True if no webhook of gpu-admission is installed yet.
        are_pods_known: False if the pods cannot be listed.
    """
    if coverage is None:
        yield Topic.NAMESPACES.forbidden("it is unknown which namespaces would be covered", "list namespaces")
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
        yield Topic.NAMESPACES.warning(
            f"namespaces have labels of gpu-admission already: {'; '.join(labelled)}",
            why="from the moment when the webhooks are applied, their pods with GPUs are refused until a replica answers",
            remedy="apply the service first and the webhooks when it is ready, as `gpu-admission apply-webhooks` does, or remove "
            "the labels until then",
        )
        yield Topic.NAMESPACES.ok(what)
    else:
        yield Topic.NAMESPACES.ok("; ".join((what, *labelled)))
    if are_pods_known:
        yield Topic.PODS.ok(_pods_text(coverage))
    else:
        yield Topic.PODS.forbidden("it is unknown how many pods would be reviewed", "list pods in all namespaces")


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
