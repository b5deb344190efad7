"""Trials: the object of each case in its cluster, and how its review differs from what is expected."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import unified_diff
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.admission import compile_policies, policy_refusals
from policies.analyses.explain import explain
from policies.kubernetes.names import format_list, printable, shown
from policies.kubernetes.objects import DEFAULT_NAMESPACE, fill_nulls, generate_name_of, in_namespace, lookup, name_of
from policies.outcome import questions
from policies.quota.counting import charged_amounts
from policies.quota.demands.bills import Uncountable
from policies.quota.limits.amounts import AmountError, read_hard, yaml_amount
from policies.quota.limits.cluster_quota import quotas_shown
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.rules.decision import Severity
from policies.rules.request import UserInfo
from policies.rules.settings.choices import workload_kinds
from webhook.cli.manifest_reader import Manifest, ManifestReader, untyped_problem
from webhook.cli.settings import ClusterFiles, cluster_files
from webhook.cli.subjects import Circumstances, SubjectReader, admit
from webhook.cli.text_layout import dump_all
from webhook.cli.user_files import is_special, read_file, replace_file
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.explain import Explanation
    from policies.kubernetes.view import ClusterView
    from policies.quota.limits.quota import Limit
    from policies.rules.decision import Finding
    from webhook.cli.manifest_reader import Problem
    from webhook.cli.subjects import Result, Subject
    from webhook.cli.suites.format import Expectation, ExpectedFinding, ExpectedFit, SuiteCase


_REVIEW = "AdmissionReview"
_CIRCUMSTANCES = ("operation", "old", "user")
"""Fields of a case that an AdmissionReview has itself."""


@dataclass(frozen=True)
class Trial:
    """The object of a case in its cluster."""

    subject: Subject
    view: ClusterView
    """The cluster, with the objects of the file."""
    files: ClusterFiles

    @cached_property
    def result(self) -> Result:
        """The review of the object."""
        return admit(self.subject, self.view, self.files.settings)

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty if it has none."""
        return self.subject.request.namespace

    @cached_property
    def explanations(self) -> list[Explanation]:
        """Where the object, or the pods of each of its templates, fit."""
        settings, home = self.files.settings, self.namespace or DEFAULT_NAMESPACE
        found = questions(self.subject.document, home, self.view, settings)
        return [explain(question, self.view, settings) for question in found]


class UntriedCaseError(Exception):
    """A case cannot be tried; `problems` says why."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems


class CaseReader:
    """Reads the files of cases, each combination of cluster files once."""

    def __init__(self) -> None:
        self._files: dict[tuple[tuple[str, ...], str | None], ClusterFiles | tuple[Problem, ...]] = {}

    def trial(self, case: SuiteCase) -> Trial:
        """The object of a case in its cluster.

        Raises:
            UntriedCaseError: Something of it cannot be read.
        """
        suite = case.suite_file.suite
        own = {"file": case.case.file, "old": case.case.old if isinstance(case.case.old, str) else None}
        named = [*own.items(), *(("", name) for name in (suite.settings, *suite.cluster, *case.case.cluster))]
        for field, name in named:
            if name is not None and is_special(case.suite_file.path_of(name)):
                raise UntriedCaseError(case.problem(f"{printable(name)} is not a regular file", *filter(None, [field])))
        files = self._cluster(case)
        manifest, others = _manifests(case)
        given = [name for name in _CIRCUMSTANCES if name in case.case.model_fields_set]
        if given and manifest.object["kind"] == _REVIEW:
            raise UntriedCaseError(
                case.problem(f"an AdmissionReview has its own {given[0]}; remove the field from the case", given[0])
            )
        namespace = case.suite_file.suite.namespace if case.case.namespace is None else case.case.namespace
        user = UserInfo(case.case.user.name, tuple(case.case.user.groups))
        reviewed = [in_namespace(each.object, namespace) for each in (manifest, *others)]
        view = ManifestsView(files.facts, reviewed)
        problems: list[Problem] = []
        circumstances = Circumstances(case.case.operation, namespace, user)
        reader = SubjectReader(circumstances, problems, workload_kinds(files.settings), view)
        subjects = reader.subjects([manifest], _old(case))
        if problems:
            raise UntriedCaseError(*(case.problem(problem.message) for problem in problems))
        return Trial(subjects[0], view, files)

    def _cluster(self, case: SuiteCase) -> ClusterFiles:
        suite = case.suite_file.suite
        paths = tuple(map(case.suite_file.path_of, [*suite.cluster, *case.case.cluster]))
        settings = None if suite.settings is None else case.suite_file.path_of(suite.settings)
        key = (paths, settings)
        if key not in self._files:
            reader = ManifestReader()
            files = cluster_files(paths, settings, reader)
            self._files[key] = tuple(dict.fromkeys(reader.problems)) or files
        found = self._files[key]
        if isinstance(found, ClusterFiles):
            return found
        raise UntriedCaseError(*found)


def policy_differences(trial: Trial) -> Iterator[Difference]:
    """The refusals of the compiled admission policies for an object that the rules admit."""
    request, result = trial.subject.request, trial.result
    if result.is_refused or result.after is None:
        return
    policies = compile_policies(trial.files.settings, trial.view)
    version = trial.subject.api_version.rpartition("/")[2]
    for refusal in policy_refusals(policies, request.of(result.after), version):
        message = f"the compiled policy {refusal.policy} refuses it, and no rule does: {refusal.message}"
        yield Difference((), message)


def _manifests(case: SuiteCase) -> tuple[Manifest, list[Manifest]]:
    """The object of a case, and the others of its file, which are applied with it."""
    if case.case.manifest is not None:
        return _inline(case, case.case.manifest, "manifest"), []
    found = _of_file(case, case.case.file or "", "file")
    wanted = case.case.object
    chosen = [each for each in found if wanted in (None, _label(each))]
    if len(chosen) == 1:
        return chosen[0], [each for each in found if each is not chosen[0]]
    names = format_list([*map(_label, found)])
    if wanted is None:
        raise UntriedCaseError(case.problem(f"the file has {names}; choose one with object: KIND/NAME", "file"))
    raise UntriedCaseError(
        case.problem(f"the file has {len(chosen) or 'no'} {printable(wanted)}, of {names}", "object")
    )


def _old(case: SuiteCase) -> list[Manifest]:
    """The objects before an update."""
    old = case.case.old
    if old is None:
        return []
    return [_inline(case, old, "old")] if isinstance(old, dict) else _of_file(case, old, "old")


def _inline(case: SuiteCase, document: dict[str, object], field: str) -> Manifest:
    if str(document.get("kind")).endswith("List") and "items" in document:
        raise UntriedCaseError(case.problem("is a list; a case is about one object", field))
    if untyped := untyped_problem(document):
        raise UntriedCaseError(case.problem(untyped[1], field))
    return Manifest(fill_nulls(document), case.suite_file.file, case.suite_file.document, case.path / field)


def _of_file(case: SuiteCase, name: str, field: str) -> list[Manifest]:
    """The objects of a file."""
    reader = ManifestReader()
    found = reader.manifests([case.suite_file.path_of(name)])
    if reader.problems:
        raise UntriedCaseError(*dict.fromkeys(reader.problems))
    if not found:
        raise UntriedCaseError(case.problem(f"{printable(name)} has no objects", field))
    return found


def _label(manifest: Manifest) -> str:
    """Kind and name of an object, as `object` of a case names it."""
    return printable(f"{manifest.object['kind']}/{name_of(manifest.object) or generate_name_of(manifest.object)}")


_MOST_LINES = 12
"""Lines of a diff that are shown."""


def golden_text(result: Result) -> str:
    """The admitted object and its new templates; empty if the object is refused or deleted."""
    if result.is_refused or result.after is None:
        return ""
    return dump_all([result.after, *(template.manifest() for template in result.templates)])


def golden_difference(file: str, text: str) -> str:
    """The difference of a golden file from a text, without a full stop; empty if they are equal.

    Raises:
        OSError: The file exists, and cannot be read.
    """
    try:
        golden = read_file(file).decode(errors="replace")
    except FileNotFoundError:
        return f"{file} does not exist; --update writes it"
    if golden == text:
        return ""
    lines = [*unified_diff(golden.splitlines(), text.splitlines(), file, "got", lineterm="", n=1)]
    more = f"\n... and {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else ""
    return "\n".join([f"{file} differs; --update writes it anew", *lines[:_MOST_LINES]]) + more


def update_golden(file: str, text: str) -> bool:
    """Write a golden file as a whole, with its folder; false if it has the text already.

    Raises:
        OSError: It cannot be written.
    """
    path = Path(file)
    if path.exists() and read_file(file) == text.encode():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, text.encode())
    return True


_NOTHING = Fraction(0)


class Difference(NamedTuple):
    """A field of an expectation that a trial does not meet."""

    path: tuple[str | int, ...]
    """The field, in `expect`."""
    message: str
    """The expected and the actual value, or what else is wrong; without a full stop."""


def differences(expected: Expectation, trial: Trial) -> Iterator[Difference]:
    """The differences from all expectations except the golden file, in the order of the fields."""
    result = trial.result
    if expected.verdict is not None and expected.verdict != result.verdict:
        why = f": {_reason(trial)}" if _reason(trial) else ""
        yield Difference(("verdict",), f'expected "{expected.verdict}", got "{result.verdict}"{why}')
    change = result.change or "none"
    if expected.change is not None and expected.change != change:
        yield Difference(("change",), f'expected "{expected.change}", got "{change}"')
    if expected.findings is not None:
        yield from _compare_findings(expected.findings, result.findings)
    if expected.warnings is not None:
        yield from _compare_warnings(expected.warnings, result.warnings)
    if expected.patched is not None:
        admitted = None if result.is_refused else result.after
        yield from _compare_parts(expected.patched, admitted, ("patched",))
    if expected.templates is not None:
        yield from _compare_templates(expected.templates, [each.manifest() for each in result.templates])
    if expected.charges is not None:
        yield from _compare_charges(expected.charges, trial)
    if expected.fits is not None:
        yield from _compare_fit(expected.fits, trial.explanations)


def _reason(trial: Trial) -> str:
    """The reason for the verdict; empty if the object is admitted."""
    refusals = trial.result.refusals
    findings = [finding for refusal in refusals for finding in refusal.findings]
    return str(findings[0]) if findings else trial.result.not_reviewed


def _compare_findings(expected: Sequence[ExpectedFinding], findings: Sequence[Finding]) -> Iterator[Difference]:
    """Differences between the expected findings and those that refuse or warn."""
    left = list(findings)
    # The most specific expectations choose first, so that a general one does not take the finding of a specific one.
    order = sorted(range(len(expected)), key=lambda index: -len(expected[index].model_fields_set))
    missing = []
    for index in order:
        found = next((each for each in left if _is_match(expected[index], each)), None)
        if found is None:
            missing.append(index)
        else:
            left.remove(found)
    for index in sorted(missing):
        same = [each for each in left if each.rule.id == expected[index].rule]
        got = f"; got {_text_of(same[0])}" if same else ""
        yield Difference(("findings", index), f"no finding matches{got}")
    for each in left:
        if each.severity is not Severity.AUDIT and not each.waived:
            yield Difference(("findings",), f"not expected: {_text_of(each)}")


def _is_match(expected: ExpectedFinding, finding: Finding) -> bool:
    return (
        expected.rule == finding.rule.id
        and expected.severity in (None, str(finding.severity))
        and expected.path in (None, str(finding.path))
        and (expected.message is None or re.search(expected.message, finding.text) is not None)
    )


def _text_of(finding: Finding) -> str:
    return f"{finding.severity} {finding}"


def _compare_warnings(expected: Sequence[str], warnings: Sequence[str]) -> Iterator[Difference]:
    for index, (pattern, warning) in enumerate(zip(expected, warnings, strict=False)):
        if re.search(pattern, warning) is None:
            yield Difference(("warnings", index), f"does not match the warning {shown(warning)}")
    for index in range(len(warnings), len(expected)):
        yield Difference(("warnings", index), "no such warning")
    for warning in warnings[len(expected) :]:
        yield Difference(("warnings",), f"not expected: {warning}")


def _compare_templates(expected: Sequence[Any], templates: Sequence[Any]) -> Iterator[Difference]:
    if len(expected) != len(templates):
        names = format_list([each["metadata"]["name"] for each in templates])
        yield Difference(("templates",), f"expected {len(expected)}, got {len(templates)}: {names}")
        return
    for index, (parts, template) in enumerate(zip(expected, templates, strict=True)):
        yield from _compare_parts(parts, template, ("templates", index))


def _compare_parts(expected: Any, value: Any, path: tuple[str | int, ...]) -> Iterator[Difference]:
    """Differences between a value and the parts of it that are expected."""
    if isinstance(expected, dict) and (isinstance(value, dict) or (expected and value is None)):
        for key, part in expected.items():
            yield from _compare_parts(part, lookup(value, (key,)), (*path, key))
    elif isinstance(expected, list) and isinstance(value, list) and len(expected) == len(value):
        for index, (part, item) in enumerate(zip(expected, value, strict=True)):
            yield from _compare_parts(part, item, (*path, index))
    elif expected != value or isinstance(expected, bool) != isinstance(value, bool):
        wanted = "no such field" if expected is None else shown(expected)
        got = "no such field" if value is None else shown(value)
        yield Difference(path, f"expected {wanted}, got {got}")


def _compare_charges(expected: dict[str, Any], trial: Trial) -> Iterator[Difference]:
    """Differences between the expected charges and those of the quotas that limit the namespace.

    An expected amount of `h100` is that of every limit with this name, one of `research.vision/h100` that of a group's only.
    """
    quotas = [*quotas_shown(trial.namespace, trial.view)]
    if not quotas:
        sentence = f"namespace {trial.namespace} has no GPUQuota or ClusterGPUQuota; add one to the files of cluster"
        yield Difference(("charges",), sentence)
        return
    known: dict[str, None] = {}
    unused = {*expected}
    for names, document in quotas:
        try:
            quota = parse_quota(document)
            charged = charged_amounts(trial.result.charges, quota)
        except (QuotaError, Uncountable) as error:
            yield Difference(("charges",), f"{names.label} cannot count this: {error}")
            return
        for limit in quota.limits:
            label = f"{names.name}/{limit.name}"
            known[limit.name] = None
            unused -= {label, limit.name}
            key = label if label in expected or (len(quotas) > 1 and limit.name not in expected) else limit.name
            yield from _compare_charge(expected, key, limit, charged.get(limit.name, _NOTHING))
    for name in sorted(unused):
        text = f"no quota of the namespace has such a limit; there are {format_list([*known])}"
        yield Difference(("charges", name), text)


def _compare_charge(expected: dict[str, Any], key: str, limit: Limit, amount: Fraction) -> Iterator[Difference]:
    got = yaml_amount(limit.unit, amount)
    if key not in expected:
        if amount:
            yield Difference(("charges",), f"not expected: {key}: {got}")
        return
    try:
        wanted = read_hard(limit.unit, expected[key])
    except AmountError as error:
        yield Difference(("charges", key), str(error))
        return
    if wanted != amount:
        yield Difference(("charges", key), f"expected {yaml_amount(limit.unit, wanted)}, got {got}")


def _compare_fit(expected: ExpectedFit, explanations: Sequence[Explanation]) -> Iterator[Difference]:
    if not explanations:
        yield Difference(("fits",), "only pods, workloads, claims and claim templates are placed on nodes; remove fits")
    for explanation in explanations:
        if expected.verdict != explanation.verdict:
            text = f'expected "{expected.verdict}", got "{explanation.verdict}": {explanation.headline}'
            yield Difference(("fits", "verdict"), f"{explanation.label}: {text}")
        if expected.nodes is not None and not _has_nodes(explanation, expected.nodes):
            fitting = [node for group in explanation.groups if group.fits for node in group.nodes]
            others = explanation.fit_now - len(fitting)
            more = f" and {others} more" if others else ""
            text = f"expected {format_list(expected.nodes)}, got {format_list(fitting)}{more}"
            yield Difference(("fits", "nodes"), f"{explanation.label}: {text}")


def _has_nodes(explanation: Explanation, nodes: Sequence[str]) -> bool:
    """True if it fits on exactly these nodes; the names of many nodes alike are not all known."""
    fitting = {node for group in explanation.groups if group.fits for node in group.nodes}
    return fitting <= {*nodes} and explanation.fit_now == len({*nodes})
