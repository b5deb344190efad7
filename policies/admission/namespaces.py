"""Namespaces: our labels with unknown values, and who may set them.

In a cluster, the ValidatingAdmissionPolicy namespace-labels.gpu-admission.io decides (`label_policy`). It refuses the same
values in the same words, and also checks the rights of the user, which a review of files does not know.
"""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from policies.admission.admission_policies import AdmissionPolicy, Validation
from policies.admission.webhooks import WRITES, ResourceRule
from policies.claims.admin_access import validate_namespace
from policies.conversion.exemptions import STRATEGIES
from policies.kubernetes.names import DRA_LABEL, QUOTA_LABEL, STRATEGY_LABEL, format_count
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Decision, Severity
from policies.rules.settings.exemptions import exempt_names, exemption_in_cluster, in_default_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy


_LABELS = FieldPath(["metadata", "labels"])
_SOURCE = "deploy/base/api/namespace-labels.yaml"
_WIDTH = 114
"""Of a line in the manifest."""
_VALUES = {
    DRA_LABEL: (("enabled", "preview", "disabled"), "must be enabled, preview or disabled"),
    STRATEGY_LABEL: (STRATEGIES, "must be template, rename, leave or auto"),
    QUOTA_LABEL: (("enforced",), "must be enforced, or removed"),
}
"""The values of each label, and how the policy says them."""
_RIGHTS = {DRA_LABEL: "namespaceoptins", STRATEGY_LABEL: "namespaceoptins", QUOTA_LABEL: "namespacequotas"}

NAMESPACES = RulesOn("Namespace")


def namespaces(request: Request, _view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on the labels of a namespace; in a cluster, admission policies guard them."""
    found = (*known_values(request), *exempt_namespace(request, settings), *unchecked_rights(request))
    return Decision(findings=(*found, *validate_namespace(request, settings)), object=request.object)


@NAMESPACES.rule(
    "GA703",
    "The gpu-admission labels of a namespace must have known values",
    remedy="write one of these values, or remove the label",
    source=_SOURCE,
)
def known_values(request: Request) -> Iterator[Problem]:
    """A label with another value does nothing: the namespace is not converted, or its quota not enforced.

    In a cluster, a ValidatingAdmissionPolicy refuses the same values. Values that are there already stay allowed, so that
    other labels can change.
    """
    for label, value in _changed_labels(request):
        values, said = _VALUES[label]
        if value not in values:
            yield Problem(_LABELS / label, f"the label {label} {said}", "")


@NAMESPACES.rule(
    "GA704",
    "An exempt namespace must not have labels that its webhooks do not honour",
    remedy="remove the label",
    source=_SOURCE,
)
def exempt_namespace(request: Request, settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """No webhook converts pods or enforces a quota in an exempt namespace, so the label does nothing.

    Exempt are kube-system, the namespace of gpu-admission, and those of the GPU Operator and NVIDIA's DRA driver.
    """
    name = name_of(request.object or {})
    for label, value in _changed_labels(request):
        if (
            label == DRA_LABEL
            and value in ("enabled", "preview")
            and exemption_in_cluster("conversion", name, settings)
        ):
            text = f'namespace "{name}" is exempt: its pods are never converted'
        elif label == QUOTA_LABEL and value == "enforced" and exemption_in_cluster("quota", name, settings):
            text = f'namespace "{name}" is exempt: a GPUQuota is never enforced there'
        else:
            continue
        yield Problem(_LABELS / label, text)


@NAMESPACES.rule(
    "GA706",
    "A user must have the right to set gpu-admission's labels of a namespace",
    default=Severity.AUDIT,
    remedy="make sure that the user who applies this has the right",
    source=_SOURCE,
)
def unchecked_rights(request: Request) -> Iterator[Problem]:
    """In a cluster, a ValidatingAdmissionPolicy checks the rights of the user who sets the labels.

    A review of files does not know the user. So the review only notes that the right was not checked.
    """
    for label, _value in _changed_labels(request) if not request.entry else ():
        text = f'setting it requires the verb "set" on {_RIGHTS[label]}.gpu-admission.io, which was not checked'
        yield Problem(_LABELS / label, text)


class StoppedWorkloads(NamedTuple):
    """Workloads of a namespace that conversion would refuse or leave alone, for one reason."""

    first: str
    """Kind and name of the first; empty if the namespace has none, and a pod with one GPU stands for those to come."""
    finding: Finding
    """The reason, at the pod of the first."""
    number: int
    is_refused: bool


_MOST_REASONS = 5


@NAMESPACES.rule(
    "GA339",
    "A namespace must opt in once conversion takes its workloads",
    default=Severity.WARN,
    remedy=f"label the namespace {DRA_LABEL}: preview first, so that its pods get warnings and nothing else",
    source="docs/conversion.md",
)
def converting_workloads(
    path: FieldPath, summary: str, stopped: Sequence[StoppedWorkloads], *, is_preview: bool
) -> Iterator[Problem]:
    """The label decides about pods that are created from then on.

    A Deployment whose pods are refused keeps the pods that it has, and shows the refusal only in events when one of them is
    replaced. So the label says it before: how many workloads of the namespace would be converted, stay with the device
    plugin or be refused, with one finding for each reason. Pods of one form count once, and at most 200 forms are tried.
    """
    if stopped and summary:
        yield Problem(path, summary, "" if is_preview else None)
    for first, finding, number, is_refused in stopped[:_MOST_REASONS]:
        becomes = "would be refused" if is_refused else "would stay with the device plugin"
        subject = f"{format_count(number, 'workload')}, such as {first}," if first else "a pod that requests 1 GPU"
        # Who labels a namespace can do what an administrator can.
        remedy = finding.administrator or (finding.remedy and f"in {first or 'such a pod'}, {finding.remedy}")
        yield Problem(path, f"{subject} {becomes}: {finding.path}: {finding.message} ({finding.rule})", remedy)
    if len(stopped) > _MOST_REASONS:
        more = format_count(len(stopped) - _MOST_REASONS, "more reason")
        yield Problem(path, f"{more} would stop workloads", "see gpu-admission audit")


def _changed_labels(request: Request) -> Iterator[tuple[str, object]]:
    """Our labels that the namespace has, and did not have with the same value before."""
    for label in _VALUES:
        value = lookup(request.object, _LABELS / label)
        if value is not None and value != lookup(request.old_object, _LABELS / label):
            yield label, value


def label_policy(settings: GPUAdmissionPolicy) -> AdmissionPolicy:
    """The admission policy about these labels: the rights of users, and the same values as the rules."""
    return AdmissionPolicy(
        name="namespace-labels",
        note=(
            "Our labels on a namespace decide whether its pods are converted and its quota is enforced, so the right to edit a\n"
            "namespace is not enough to set them. The API server itself checks it, without a webhook.\n"
            "Labels can be written through namespaces/status and namespaces/finalize as well."
        ),
        resource_rules=(ResourceRule(WRITES, "", ("Namespace", "Namespace/status", "Namespace/finalize"), scope="*"),),
        conditions={
            "our-labels-change": f"{json.dumps([*_RIGHTS])}.exists(k,\n"
            "object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k])"
        },
        validations=(*_RIGHT_CHECKS, *_value_checks(), *_exemption_checks(settings)),
    )


_RIGHT_CHECKS = (
    Validation(
        ("GA706",),
        """\
!["gpu-admission.io/dra", "gpu-admission.io/dra-strategy"].exists(k,
object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k]) ||
authorizer.group('gpu-admission.io').resource('namespaceoptins').name(object.metadata.name).check('set').allowed()""",
        """\
the labels gpu-admission.io/dra and dra-strategy of a namespace are set by who may set
namespaceoptins.gpu-admission.io; ask an administrator to bind the ClusterRole gpu-admission-namespace-opt-in""",
        """\
"the labels gpu-admission.io/dra and dra-strategy of namespace " + object.metadata.name + " are set by "
+ "who may set namespaceoptins.gpu-admission.io; ask an administrator to set them, or to bind the ClusterRole "
+ "gpu-admission-namespace-opt-in to you\"""",
        reason="Forbidden",
    ),
    Validation(
        ("GA706",),
        """\
object.metadata.?labels[?"gpu-admission.io/quota"] == oldObject.?metadata.?labels[?"gpu-admission.io/quota"] ||
authorizer.group('gpu-admission.io').resource('namespacequotas').name(object.metadata.name).check('set').allowed()""",
        """\
the label gpu-admission.io/quota of a namespace is set by who may set namespacequotas.gpu-admission.io; ask an
administrator to bind the ClusterRole gpu-admission-quota-edit""",
        """\
"the label gpu-admission.io/quota of namespace " + object.metadata.name + " is set by who may set "
+ "namespacequotas.gpu-admission.io; ask an administrator to set it, or to bind the ClusterRole "
+ "gpu-admission-quota-edit to you\"""",
        reason="Forbidden",
        note="A right of its own: a user who opts a namespace in must not free it from its quota.",
    ),
)


def _value_checks() -> Iterator[Validation]:
    for label, (values, said) in _VALUES.items():
        now, before = f'object.metadata.?labels[?"{label}"]', f'oldObject.?metadata.?labels[?"{label}"]'
        yield Validation(
            ("GA703",),
            f'{now}.orValue("{values[0]}") in\n{json.dumps(list(values))} ||\n{now} ==\n{before}',
            f"the label {label} {said}",
        )


def _exemption_checks(settings: GPUAdmissionPolicy) -> Iterator[Validation]:
    note = "The selectors of the webhooks leave these namespaces out, so the labels would promise what does not hold."
    effects: tuple[tuple[str, Concern, tuple[str, ...], str], ...] = (
        (DRA_LABEL, "conversion", ("enabled", "preview"), "its pods are never converted"),
        (QUOTA_LABEL, "quota", ("enforced",), "a GPUQuota is never enforced there"),
    )
    for label, concern, values, effect in effects:
        now, before = f'object.metadata.?labels[?"{label}"]', f'oldObject.?metadata.?labels[?"{label}"]'
        names = json.dumps(in_default_order(exempt_names(concern, settings)))
        listed = textwrap.fill(
            f"!(object.metadata.name in {names}) ||", _WIDTH, break_long_words=False, break_on_hyphens=False
        )
        yield Validation(
            ("GA704",),
            f'{listed}\n{now} == {before} ||\n!({now}.orValue("") in {json.dumps(list(values))})',
            "",
            f'"metadata.labels[{label}]: namespace \\"" + object.metadata.name + "\\" is exempt: "\n'
            f'+ "{effect}; remove the label"',
            note=note,
        )
        note = ""
