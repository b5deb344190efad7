"""Webhooks of others: their order, and those that could keep gpu-admission from starting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.admission.installed import NAME_LABEL
from policies.admission.webhooks import CONFIGURATIONS
from policies.kubernetes.objects import lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.phrases import format_count, format_list
from policies.kubernetes.webhook_rules import UnknownOperatorError, Write, rule_matches, selects
from policies.rules.cluster_checks import Check, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.analyses.installation.preflight.dry_runs import PlannedObject
    from policies.kubernetes.objects import Object

__all__ = ["LabelledNamespace", "OtherWebhook", "bundle_checks", "other_webhooks", "webhook_checks"]


_CONFIGURATION = CONFIGURATIONS[0][1]
_NEW_POD = Write("CREATE", "", "", "pods")
_OWN_WRITES = {
    "pods": _NEW_POD,
    "leases": Write("UPDATE", "coordination.k8s.io", "", "leases"),
    "secrets": Write("UPDATE", "", "", "secrets"),
}
"""What replicas need written in their own namespace: pods to start, the Lease to lead, the Secret of the certificate."""
_TENANT_WRITES = {
    "resourceclaimtemplates": Write("CREATE", "resource.k8s.io", "", "resourceclaimtemplates"),
    "gpuquotas/status": Write("UPDATE", "gpu-admission.io", "", "gpuquotas", "status"),
}
"""What replicas write in the namespaces that use them."""
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
    """What webhooks of others mean for gpu-admission and for the pods that it reviews.

    Args:
        webhooks: Those of others.
        own: The namespace of gpu-admission.
        pod_labels: The labels of its pods.
        tenants: The namespaces whose pods it would review; None if they are unknown.
    """
    yield from _own_checks(webhooks, own, pod_labels)
    if tenants is None:
        return
    yield from _tenant_checks(webhooks, tenants)
    yield _order_check(webhooks, tenants)


def _own_checks(
    webhooks: Sequence[OtherWebhook], own: LabelledNamespace, pod_labels: Mapping[str, str]
) -> Iterator[Check]:
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
        yield Check(
            name="webhooks",
            status=Status.WARNING,
            what=f"{_kind(each)} webhook {each.label} is called for {format_list(hit)} of namespace {own.name}{conditions}",
            where=f"{_kind(each).capitalize()}WebhookConfiguration {each.configuration}",
            why="it fails closed: while it does not answer, "
            + ("no replica of gpu-admission can start" if "pods" in hit else "the replicas cannot write these"),
            remedy=f"exclude the namespace in its namespaceSelector: kubernetes.io/metadata.name NotIn [{own.name}]",
        )
    if is_good:
        yield Check(
            name="webhooks",
            status=Status.OK,
            what=f"no webhook of others that fails closed is called for the objects of namespace {own.name}",
        )


def _tenant_checks(webhooks: Sequence[OtherWebhook], tenants: Sequence[LabelledNamespace]) -> Iterator[Check]:
    for each in webhooks:
        hit = [name for name, write in _TENANT_WRITES.items() if each.fails_closed and each.matches(write)]
        names = [tenant.name for tenant in tenants if each.selects(tenant.labels, None)] if hit else []
        if names:
            yield Check(
                name="webhooks",
                status=Status.WARNING,
                what=f"{_kind(each)} webhook {each.label} is called for {format_list(hit)} of {_namespaces(names)}",
                where=f"{_kind(each).capitalize()}WebhookConfiguration {each.configuration}",
                why="it fails closed: while it does not answer, pods that need a template are refused, and charges are not written",
                remedy="exclude user system:serviceaccount:gpu-admission:gpu-admission by a matchCondition on "
                "request.userInfo.username",
            )


def _kind(webhook: OtherWebhook) -> str:
    return "mutating" if webhook.is_mutating else "validating"


def _namespaces(names: Sequence[str]) -> str:
    return f"namespace{'s' * (len(names) > 1)} {format_list(names, _MOST)}"


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
        return Check(
            name="order", status=Status.OK, what="no mutating webhook of others sees the pods that would be reviewed"
        )
    parts = [f"{format_list(before, _MOST)} before ours"] if before else []
    parts += [f"{format_list(after, _MOST)} after ours"] if after else []
    return Check(
        name="order",
        status=Status.OK,
        what=f"{format_count(len(seen), 'mutating webhook')} of others {'see' if len(seen) > 1 else 'sees'} the same pods: "
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
        yield Check(
            name="caBundle",
            status=Status.WARNING,
            what=f"the manifests write the caBundle of {format_list(written, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="gpu-admission or cert-manager rotates it, and the manifests would bring back an old one",
            remedy="leave it out of the manifests",
        )
    if missing:
        yield Check(
            name="caBundle",
            status=Status.WARNING,
            what=f"installed webhooks have no caBundle: {format_list(missing, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="their calls fail, unless the serving certificate is of a public authority",
            remedy="look at `/readyz` of a replica: the leader writes it within seconds if it may",
        )


def _bundles(document: object) -> list[tuple[str, bool]]:
    """The webhooks of a configuration, each with whether it has a caBundle."""
    webhooks = mappings_at(document, ("webhooks",))
    return [(str(each.get("name")), bool(lookup(each, ("clientConfig", "caBundle")))) for each in webhooks]
