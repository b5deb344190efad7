"""The installed webhook configurations, and the settings that they do not cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.admission.webhooks import ENTRIES
from policies.kubernetes.objects import FieldPath, items_at, lookup
from policies.rules.checks import Problem
from policies.rules.settings.choices import DEFAULTS
from policies.rules.settings.exemptions import excluded_names, exempt_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.admission.webhooks import Entry
    from policies.kubernetes.objects import Object
    from policies.rules.settings.choices import GPUAdmissionPolicy


NAME_LABEL = "kubernetes.io/metadata.name"
_SUFFIX = ".gpu-admission.io"
_SPEC = FieldPath(["spec"])
_OPERATOR = _SPEC / "configuration" / "operatorNamespaces"
_REMEDY = "set settings.spec of the Helm chart, or apply manifests that deploy/render.py --settings FILE renders"


def uncovered_settings(configurations: Iterable[Object], settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """The settings that the installed webhook configurations do not cover.

    Patterns of namespaces cannot be in a selector; the service itself obeys them.

    Args:
        configurations: MutatingWebhookConfiguration and ValidatingWebhookConfiguration as they are stored.
        settings: The settings in use.
    """
    webhooks = _webhooks_of(configurations)
    workloads = [webhook for webhook in webhooks if lookup(webhook, ("name",)) == f"workloads{_SUFFIX}"]
    for index, kind in enumerate(settings.workloads.kinds):
        if workloads and not any(_has_rule(webhook, kind.group, kind.plural) for webhook in workloads):
            text = f"no rule of webhook workloads{_SUFFIX} matches {kind.plural}.{kind.group}"
            yield Problem(_SPEC / "workloads" / "kinds" / index, f"{text}, so their authors get no warnings", _REMEDY)
    yield from _namespaces(webhooks, settings)
    conditions = [
        str(lookup(condition, ("expression",)))
        for webhook in webhooks
        if lookup(webhook, ("name",)) == f"configuration{_SUFFIX}"
        for condition in items_at(webhook, ("matchConditions",))
        if lookup(condition, ("name",)) == "ours"
    ]
    for name in settings.configuration.operator_namespaces:
        if conditions and not any(f'"{name}"' in expression for expression in conditions):
            yield Problem(_OPERATOR, f"ConfigMaps of namespace {name} are not reviewed in the cluster", _REMEDY)


def opened_webhooks(configurations: Iterable[Object]) -> Iterator[str]:
    """A sentence on webhooks that fail open although they must fail closed, as after docs/break-glass.md."""
    opened = [
        entry.webhook
        for webhook in _webhooks_of(configurations)
        if (entry := entry_of(webhook)) is not None
        and entry.failure_policy == "Fail"
        and lookup(webhook, ("failurePolicy",)) == "Ignore"
    ]
    if opened:
        yield (
            f"failurePolicy of {', '.join(opened)} is Ignore, so pods pass unconverted and uncharged while no replica answers; "
            "once that is no longer needed, apply the webhook configurations again, as in docs/break-glass.md"
        )


def _webhooks_of(configurations: Iterable[Object]) -> list[Any]:
    return [webhook for configuration in configurations for webhook in items_at(configuration, ("webhooks",))]


def entry_of(webhook: Any) -> Entry | None:
    """The entry of a webhook; None if it is not one of ours."""
    name = lookup(webhook, ("name",))
    return ENTRIES.get(name.removesuffix(_SUFFIX)) if isinstance(name, str) else None


def excluded_namespaces(webhook: Any) -> frozenset[str]:
    """The names of namespaces that a webhook's selector leaves out."""
    return frozenset(
        name
        for term in items_at(lookup(webhook, ("namespaceSelector",)), ("matchExpressions",))
        if (lookup(term, ("key",)), lookup(term, ("operator",))) == (NAME_LABEL, "NotIn")
        for name in items_at(term, ("values",))
        if isinstance(name, str)
    )


def _namespaces(webhooks: list[Any], settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """Namespaces that are exempt by the settings and matched by a webhook, and the other way round."""
    matched: dict[tuple[FieldPath, str], list[str]] = {}
    skipped: dict[tuple[FieldPath, str], list[str]] = {}
    for webhook in webhooks:
        entry = entry_of(webhook)
        if entry is None or not entry.exempt_from:
            continue
        exempt, excluded = excluded_names(entry.exempt_from, settings), excluded_namespaces(webhook)
        for name in exempt - excluded:
            matched.setdefault((_setting(entry, name, settings), name), []).append(webhook["name"])
        for name in excluded - exempt:
            skipped.setdefault((_setting(entry, name, settings), name), []).append(webhook["name"])
    for (path, name), names in sorted(matched.items()):
        yield Problem(path, f"namespace {name} is exempt, but still matched by {_webhooks(names)}", _REMEDY)
    for (path, name), names in sorted(skipped.items()):
        text = f"namespace {name} is not exempt, but the selector of {_webhooks(names)} excludes it"
        yield Problem(path, text, _REMEDY)


def _setting(entry: Entry, name: str, settings: GPUAdmissionPolicy) -> FieldPath:
    """The setting that lists a namespace, or would list it."""
    operators = {*settings.configuration.operator_namespaces, *DEFAULTS.configuration.operator_namespaces}
    if name in operators or "conversion" in entry.exempt_from:
        return _OPERATOR
    missing = [each for each in entry.exempt_from if name not in exempt_names(each, settings)]
    return _SPEC / (missing or entry.exempt_from)[0] / "exemptNamespaces"


def _has_rule(webhook: Any, group: str, plural: str) -> bool:
    return any(
        {group, "*"} & {*items_at(rule, ("apiGroups",))} and {plural, "*", "*/*"} & {*items_at(rule, ("resources",))}
        for rule in items_at(webhook, ("rules",))
    )


def _webhooks(names: list[str]) -> str:
    return f"webhook{'s' * (len(names) > 1)} {', '.join(names)}"
