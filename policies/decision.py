"""The words of a decision: severities, rules, findings, templates, and the decision itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from policies.metadata_keys import MANAGED
from policies.warnings import warning_lines

if TYPE_CHECKING:
    from policies.kubernetes.paths import FieldPath
    from policies.quota.charges import ChargeRequest

__all__ = ["MOST_FINDINGS", "TEMPLATE", "Decision", "Finding", "Operation", "Place", "Rule", "Severity", "Template"]


TEMPLATE = "ResourceClaimTemplate"
"""The kind of `Template`."""

MOST_FINDINGS = 50
"""Findings of one decision. One object can have tens of thousands, and an answer shows fewer than fifty."""


Operation = dict[str, Any]
"""One operation of a JSON Patch (RFC 6902) in its wire form."""


class Severity(StrEnum):
    """What a finding does to a request."""

    DENY = "deny"
    """The request is refused."""
    WARN = "warn"
    """The request passes; its author is told."""
    AUDIT = "audit"
    """The request passes; the audit log and the metrics know."""
    OFF = "off"
    """The finding is not made."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text that is a value of the object: a document inside a ConfigMap."""

    path: FieldPath
    """Where in the object the text is: `data[config.yaml]`."""
    line: int
    """1-based, of the text."""
    column: int


_SUBJECTS = {
    "1": "configuration",
    "2": "claims",
    "3": "conversion",
    "4": "placement",
    "5": "quota",
    "6": "access",
    "7": "settings",
}
"""The subject of a rule by the first digit of its id."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One thing that is right or wrong, with its reasons. There is one object for each rule: compare with `is`.

    People read a rule in a refusal (the finding's message and remedy), in the table of `gpu-admission rules`, and in
    full by `gpu-admission rules ID`. Its examples are `rule_examples/ID/wrong.yaml` and `right.yaml`.
    """

    id: str
    """`GA` and three digits."""
    title: str
    default: Severity
    why: str
    remedy: str
    source: str
    """Where the outside knowledge comes from: an upstream file, a page of documentation, a design decision."""
    setting: str = ""
    """The setting that names the rule's severity, beside `spec.rules`."""
    rows: tuple[str, ...] = ()
    """The rows of docs/catalogue.md that the rule catches."""
    fixed: bool = False
    """True if no setting changes its severity, and no user is exempt from it."""
    shared_cause: bool = False
    """True if the cause lies outside the object, so that many objects have the same finding."""
    misspelling: bool = False
    """True if it finds a misspelt name, which explains that nothing matches."""
    unmatched: bool = False
    """True if it finds that nothing matches what the object names."""
    suspicion: bool = False
    """True if privileges in the same pod do not make its findings worse."""
    circumstance: bool = False
    """True if it is only found beside findings of other rules of its subject that are not suspicions."""
    depends_on_usage: bool = False
    """True if it depends on what the pods and claims of the namespace hold now."""
    as_invalid: bool = False
    """True if its refusals are worded field by field, although not all rules of its subject are."""
    offline: bool = False
    """True if only an offline review finds it."""
    needs: tuple[str, bool] | None = None
    """A setting, and the value without which the rule finds nothing."""
    cluster_scoped: bool = False
    """True if all objects that it judges are without a namespace."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", dedent(self.why).strip())

    def __str__(self) -> str:
        return self.id

    @property
    def subject(self) -> str:
        """What the rule is about: configuration, claims, conversion, placement, quota, access or settings."""
        return _SUBJECTS[self.id[2]]

    @property
    def names_fields(self) -> bool:
        """True if refusals are worded field by field, as those of a schema: configuration, claims, settings."""
        return self.as_invalid or self.subject in ("configuration", "claims", "settings")

    def finding(
        self,
        path: FieldPath,
        message: str,
        remedy: str | None = None,
        *,
        severity: Severity | None = None,
        place: Place | None = None,
    ) -> Finding:
        """A finding of this rule; `remedy` and `severity` replace those of the rule."""
        known = self.remedy if remedy is None else remedy
        return Finding(self, severity or self.default, path, message, known, place)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule has to say about one place of an object."""

    rule: Rule
    severity: Severity
    path: FieldPath
    message: str
    """What is there and why it matters, without the path and without a full stop."""
    remedy: str
    """What to do instead, an imperative without a full stop."""
    place: Place | None = None
    """Where in an embedded document it is, for findings in one."""
    exempt: bool = False
    """True if an exemption lowered the severity."""
    entry: str = field(default="", compare=False)
    """The webhook entry that found it; empty for what only a review of files finds."""

    def __str__(self) -> str:
        return f"{self.text} [{self.rule}]"

    @property
    def text(self) -> str:
        """Path, message and remedy as one sentence of a refusal."""
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}; {self.remedy}" if self.remedy else f"{where}{self.message}"


@dataclass(frozen=True, slots=True)
class Template:
    """A ResourceClaimTemplate that a pod refers to and that must exist before the pod is stored."""

    namespace: str
    name: str
    spec: dict[str, Any]
    """The template's `spec`: metadata for the claims made from it, and their ResourceClaimSpec."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return TEMPLATE, self.namespace, self.name

    def manifest(self) -> dict[str, Any]:
        """The object to create."""
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": TEMPLATE,
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {MANAGED: "true"},
            },
            "spec": self.spec,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a request, as data."""

    findings: tuple[Finding, ...] = ()
    patch: tuple[Operation, ...] = ()
    """What to change, in order; empty on refusals and in entries that only validate."""
    object: Any = None
    """The object as it is after the patch."""
    remarks: tuple[str, ...] = ()
    """What else its author is told, beside the findings that warn."""
    templates: tuple[Template, ...] = ()
    charges: tuple[ChargeRequest, ...] = ()
    """What to charge to the namespace's quota before the object is admitted. At most one; an entry for quotas leaves it to
    its caller to charge it and to add what comes of it (`policies.quota.charging.outcomes.settle`)."""
    annotations: dict[str, str] = field(default_factory=dict)
    """For the API server's audit log, beside the findings; keys are qualified-name parts."""
    retry_after: int | None = None
    """Of a refusal that will not last: the seconds after which asking again may help."""
    left_out: int = 0
    """Findings beyond `MOST_FINDINGS`. The most severe are kept, so a refusal always has a finding that denies; and one of
    each rule, so that many findings of one rule do not hide another from metrics and the audit log."""

    not_reviewed: str = ""
    """Why no rule looked at the object; empty if one did. Filled in where no entry is named, as offline."""

    def __post_init__(self) -> None:
        if len(self.findings) > MOST_FINDINGS:
            by_severity = sorted(self.findings, key=_severity_order)
            first = {found.rule: id(found) for found in reversed(by_severity)}
            kept = sorted(by_severity, key=lambda found: first[found.rule] != id(found))[:MOST_FINDINGS]
            object.__setattr__(self, "findings", tuple(sorted(kept, key=_severity_order)))
            object.__setattr__(self, "left_out", self.left_out + len(by_severity) - MOST_FINDINGS)

    @property
    def allowed(self) -> bool:
        """Whether no finding denies the request."""
        return all(finding.severity is not Severity.DENY for finding in self.findings)

    def found_by(self, entry: str) -> Decision:
        """The decision with the name of an entry in the findings that have none."""
        if all(finding.entry for finding in self.findings):
            return self
        return replace(
            self, findings=tuple(each if each.entry else replace(each, entry=entry) for each in self.findings)
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines for the author, each at most 120 characters of printable text."""
        warned = [f"{found.rule} {found.text}" for found in self.findings if found.severity is Severity.WARN]
        more = [f"and {self.left_out:,} more findings"] if self.left_out and self.allowed else []
        return warning_lines([*self.remarks, *more, *warned])

    @property
    def audit_annotations(self) -> dict[str, str]:
        """The annotations, the rules that found something with their severities, and those that an exemption spared."""
        told = ", ".join(f"{found.rule}={found.severity}" for found in self.findings)
        spared = ", ".join(sorted({found.rule.id for found in self.findings if found.exempt}))
        return self.annotations | ({"findings": told} if told else {}) | ({"exempt": spared} if spared else {})

    @property
    def denials(self) -> tuple[Finding, ...]:
        """The findings that refuse the request."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.DENY)


_ORDER = tuple(Severity)


def _severity_order(finding: Finding) -> int:
    return _ORDER.index(finding.severity)
