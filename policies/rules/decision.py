"""Findings and decisions: what is wrong with an object or a cluster, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import MANAGED, printable
from policies.rules.messages import reason, sentence, short_sentence, warning_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import FieldPath, Object
    from policies.rules.charges import ChargeRequest


TEMPLATE = "ResourceClaimTemplate"
"""The kind of `Template`."""

WORKLOAD = "workload"
"""Stands for every kind of objects that make pods, in the kinds of a rule."""

EVERY_KIND = "*"
"""Stands for every kind of objects, in the kinds of a rule."""

MOST_FINDINGS = 50
"""Maximum findings of one decision. An object can have tens of thousands; an answer shows fewer than fifty."""


Operation = dict[str, Any]
"""One operation of a JSON Patch (RFC 6902) in its wire form."""


class Severity(StrEnum):
    """The effect of a finding on a request."""

    DENY = "deny"
    """The request is refused."""
    WARN = "warn"
    """The request is admitted with a warning."""
    AUDIT = "audit"
    """The request is admitted; the finding appears in the audit log and the metrics only."""
    OFF = "off"
    """The rule reports no finding."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text that is a value of the object: a document inside a ConfigMap."""

    path: FieldPath
    """The path of the text in the object: `data[config.yaml]`."""
    line: int
    """The line in the text, from 1."""
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
    """One requirement, with its reasons. Each rule has exactly one object: compare rules with `is`.

    Users see a rule in a refusal (the finding's message and remedy), in the table of `gpu-admission rules`, and in
    full in `gpu-admission rules ID`. Its examples are `rule_examples/ID/wrong.yaml` and `right.yaml`.
    """

    id: str
    """`GA` and three digits, or a word if only the audit has the rule."""
    title: str
    default: Severity
    why: str
    remedy: str
    source: str
    """The source of the rule: an upstream file, a page of documentation, or a design decision."""
    runs: str = ""
    """The runs of NVIDIA's own components that a test compares the rule with: `mig-parted` or `sharing`; empty if upstream's
    source was only read."""
    administrator: str = ""
    """The remedy for an administrator, an imperative without a full stop; empty if there is none."""
    setting: str = ""
    """The setting that sets the rule's severity, besides `spec.rules`."""
    kinds: tuple[str, ...] = ("Pod", WORKLOAD)
    """The kinds of the objects that it reviews, WORKLOAD or EVERY_KIND. A mistake in a ConfigMap is also reported at the fields of
    a ClusterPolicy that name the ConfigMap, and at the label of a node that selects its key; its kind is ConfigMap."""
    rows: tuple[str, ...] = ()
    """The known misconfigurations that it finds, as in tests/configuration/catalogue."""
    fixed: bool = False
    """True if no setting changes its severity, and no user is exempt from it."""
    shared_cause: bool = False
    """True if the cause lies outside the object, so that many objects have the same finding."""
    cluster_scoped: bool = False
    """True if it applies only to objects without a namespace."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", dedent(self.why).strip())

    def __str__(self) -> str:
        return self.id

    @property
    def subject(self) -> str:
        """The subject: configuration, claims, conversion, placement, quota, access or settings."""
        return _SUBJECTS[self.id[2]]

    @property
    def names_fields(self) -> bool:
        """True if refusals are written field by field, like schema errors: of all but pods and their charges."""
        return self.subject in ("configuration", "claims", "settings") or self.id in ("GA420", "GA501")

    def finding(
        self,
        path: FieldPath,
        message: str,
        remedy: str | None = None,
        *,
        administrator: str | None = None,
        severity: Severity | None = None,
        place: Place | None = None,
    ) -> Finding:
        """A finding of this rule; `remedy`, `administrator` and `severity` replace those of the rule."""
        known = self.remedy if remedy is None else remedy
        other = self.administrator if administrator is None else administrator
        return Finding(self, severity or self.default, path, message, known, place, other)


@dataclass(frozen=True, slots=True)
class Finding:
    """The report of a rule about one field of an object."""

    rule: Rule
    severity: Severity
    path: FieldPath
    message: str
    """The problem and why it matters, without the path and without a full stop."""
    remedy: str
    """The remedy for the author, an imperative without a full stop; empty if the message says it."""
    place: Place | None = None
    """The place in an embedded document, for a finding in one."""
    administrator: str = ""
    """The remedy for an administrator, an imperative without a full stop; empty if there is none."""
    exempt: bool = False
    """True if an exemption lowered the severity."""
    announces_refusal: bool = False
    """True if it warns of a refusal to come; it cannot be waived, and settings do not change it."""
    never_refuses: bool = False
    """True if the request must not be refused for it: a denial becomes a warning."""
    consequence: str = ""
    """The consequence if it does not refuse the object, as a clause; empty if there is none."""
    waived: str = ""
    """The reason for which the author of the object ignores it; empty if it is not waived (`policies.rules.waivers`)."""
    entry: str = field(default="", compare=False)
    """The webhook entry that reported it; empty if only a review of files reports it."""

    def __str__(self) -> str:
        return f"{self.text} [{self.rule}]"

    def as_announcement(self, result: str) -> Finding:
        """The warning that something would be refused with this finding; `result` says what."""
        message = f"{result}: {reason(self.path, self.message)}"
        return replace(self, severity=Severity.WARN, message=message, announces_refusal=True)

    @property
    def text(self) -> str:
        """The remedy, the reason and the place as one sentence."""
        return sentence(self.path, self.message, self.remedy)


@dataclass(frozen=True, slots=True)
class Template:
    """A ResourceClaimTemplate that a pod references and that must exist before the pod is stored."""

    namespace: str
    name: str
    spec: dict[str, Any]
    """The template's `spec`: metadata for the claims created from it, and their ResourceClaimSpec."""

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
    """The changes, in order; empty on refusals and in entries that only validate."""
    object: Object | None = None
    """The object after the patch."""
    remarks: tuple[str, ...] = ()
    """More warnings, besides the findings that warn."""
    context: tuple[str, ...] = ()
    """Remarks that are shown only beside a finding that refuses or warns."""
    templates: tuple[Template, ...] = ()
    charges: tuple[ChargeRequest, ...] = ()
    """At most one charge to write to the namespace's quota before the object is admitted. The caller of the concern `quota`
    writes it and adds the result (`policies.quota.outcomes.settle`)."""
    annotations: dict[str, str] = field(default_factory=dict)
    """For the API server's audit log, besides the findings; keys are qualified-name parts."""
    retry_after: int | None = None
    """For a temporary refusal: the seconds after which a retry may succeed."""
    left_out: int = 0
    """The number of findings that `limit_findings` has left out. The most severe are kept, so a refusal always has a finding that
    denies. One of each rule is kept, so that no rule is missing from the metrics and the audit log."""

    not_reviewed: str = ""
    """The reason why no rule reviewed the object; empty if one did. Set only where no entry is named, as offline."""

    def limit_findings(self) -> Decision:
        """The decision with at most `MOST_FINDINGS` findings, which must have the severities of the settings."""
        if len(self.findings) <= MOST_FINDINGS:
            return self
        by_severity = sorted(self.findings, key=_severity_order)
        first = {found.rule: id(found) for found in reversed(by_severity)}
        kept = sorted(by_severity, key=lambda found: first[found.rule] != id(found))[:MOST_FINDINGS]
        findings = tuple(sorted(kept, key=_severity_order))
        return replace(self, findings=findings, left_out=self.left_out + len(by_severity) - MOST_FINDINGS)

    @property
    def allowed(self) -> bool:
        """True if no finding denies the request."""
        return all(finding.severity is not Severity.DENY for finding in self.findings)

    @property
    def says_nothing(self) -> bool:
        """True if there is nothing to report and nothing to do."""
        said = self.findings or self.patch or self.remarks or self.templates or self.charges or self.annotations
        return not said and self.retry_after is None and not self.left_out

    def then(self, later: Decision) -> Decision:
        """The decision together with a later one, on the object that this one left."""
        if later.object is self.object and later.says_nothing:
            return self
        return Decision(
            findings=tuple(dict.fromkeys((*self.findings, *later.findings))),
            patch=(*self.patch, *later.patch),
            object=later.object,
            remarks=tuple(dict.fromkeys((*self.remarks, *later.remarks))),
            templates=(*self.templates, *later.templates),
            charges=(*self.charges, *later.charges),
            annotations={**self.annotations, **later.annotations},
            retry_after=later.retry_after or self.retry_after,
            left_out=self.left_out + later.left_out,
        ).limit_findings()

    def found_by(self, entry: str) -> Decision:
        """The decision with the entry set in every finding that has no entry yet."""
        if all(finding.entry for finding in self.findings):
            return self
        return replace(
            self, findings=tuple(each if each.entry else replace(each, entry=entry) for each in self.findings)
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines for the author, each at most 120 characters of printable text; none for waived findings."""
        reported = [found for found in self.findings if not found.waived]
        warned = [str(found) for found in reported if found.severity is Severity.WARN]
        # Findings that are left out are of rules that are among the others.
        more = [f"and {self.left_out:,} more findings"] if self.left_out and self.allowed and reported else []
        return warning_lines([*self.remarks, *more, *warned])

    @property
    def audit_annotations(self) -> dict[str, str]:
        """The annotations, plus those on findings.

        `findings` has rules and severities, `exempt` the rules with exemptions, and `waived` waivers as they are written.
        """
        waived = dict.fromkeys(f"{found.rule} because {found.waived}" for found in self.findings if found.waived)
        texts = {
            "findings": ", ".join(f"{found.rule}={found.severity}" for found in self.findings),
            "exempt": ", ".join(sorted({found.rule.id for found in self.findings if found.exempt})),
            "waived": "; ".join(waived),
        }
        return self.annotations | {key: text for key, text in texts.items() if text}

    @property
    def denials(self) -> tuple[Finding, ...]:
        """The findings that refuse the request."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.DENY)


_ORDER = tuple(Severity)


def _severity_order(finding: Finding) -> int:
    return _ORDER.index(finding.severity)


LONGEST_REFUSAL = 240
"""Characters of the first line of a refusal, besides what kubectl puts before it."""


def refusal_lines(findings: Iterable[Finding], *, with_paths: bool = True) -> list[str]:
    """The lines of a refusal: the first finding in full, the others without their reasons.

    A finding without a remedy has its reason.

    Args:
        findings: The findings that refuse the object.
        with_paths: False if kubectl prints the path before each line.
    """
    lines = list[str]()
    for found in findings:
        message = "" if lines and found.remedy else found.message
        room = LONGEST_REFUSAL - len(f" [{found.rule}]")
        text = short_sentence(found.path, message, found.remedy, room, with_path=with_paths)
        lines.append(printable(f"{text} [{found.rule}]"))
    return lines
