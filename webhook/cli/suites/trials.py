"""Trials: the object of each case in its cluster, reviewed and explained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from policies.analyses.explain import explain
from policies.kubernetes.names import format_list, printable
from policies.kubernetes.objects import DEFAULT_NAMESPACE, generate_name_of, in_namespace, name_of
from policies.outcome import questions
from policies.rules.request import UserInfo
from policies.rules.settings.choices import workload_kinds
from webhook.cli.folders import is_special
from webhook.cli.manifest_reader import Manifest, ManifestReader, untyped_problem
from webhook.cli.settings import ClusterFiles, cluster_files
from webhook.cli.subjects import Circumstances, SubjectReader, admit
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from policies.analyses.explain import Explanation
    from policies.kubernetes.view import ClusterView
    from webhook.cli.manifest_reader import Problem
    from webhook.cli.subjects import Result, Subject
    from webhook.cli.suites.format import SuiteCase

__all__ = ["CaseReader", "Trial", "UntriedCaseError"]

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
        """What admission does to the object."""
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
        _check_regular(case)
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


def _check_regular(case: SuiteCase) -> None:
    """Check that no pipe or device is named, which could block or never end."""
    suite = case.suite_file.suite
    own = {"file": case.case.file, "old": case.case.old if isinstance(case.case.old, str) else None}
    named = [*own.items(), *(("", name) for name in (suite.settings, *suite.cluster, *case.case.cluster))]
    for field, name in named:
        if name is not None and is_special(case.suite_file.path_of(name)):
            raise UntriedCaseError(case.problem(f"{printable(name)} is not a regular file", *filter(None, [field])))


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
    return Manifest(document, case.suite_file.file, case.suite_file.document, case.path / field)


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
