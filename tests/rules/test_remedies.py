"""What a remedy proposes to write works: the finding goes, and nothing else refuses the object for it.

Every rule is tried: its own example where that is a whole object, the catalogue of misconfigurations, the cases of
conversion. A new rule needs an example that is whole: the object that is reviewed, and behind it what the cluster has.
A rule with several remedies has further documents in `places/`, so that each place in the code that gives one is reached.
There, remedies in words that no program can apply are followed by hand.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import policies
from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.kubernetes.objects import FieldPath, name_of
from policies.kubernetes.pod_templates import with_defaults
from policies.rules.checks import Problem
from policies.rules.messages import reason
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, parse_settings
from testbed import libyaml
from tests.configuration.conftest import completed
from tests.conversion import test_golden as golden
from tests.findings import labelled_text
from tests.rules.advice import OF_SCHEMA, proposals, written
from tests.rules.large_documents import large_documents
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import ManifestsView, unwrap_lists

if TYPE_CHECKING:
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Decision

POLICIES = Path(policies.__file__).parent
CATALOGUE = Path(__file__).parents[1] / "configuration" / "catalogue"
CORPUS = CATALOGUE.with_name("corpus")
PLACES = Path(__file__).with_name("places")
UNTRIED = {
    "GA709": "is about all findings on an object together",
    "GA710": "is about the text of a document",
}
"""Rules that no document here breaks, with the reason. They propose no value."""
UNREVIEWED = ("admission/installed.py",)
"""Modules about objects that are not reviewed: installed webhook configurations."""


_HEADER = re.compile(r"(?m)^# (operation|entry|user|compares): (.+)$")


@dataclass
class Document:
    """An object, and what is needed to review it."""

    name: str
    request: Request
    cluster: list[Any]
    settings: GPUAdmissionPolicy = DEFAULTS
    view: ClusterView | None = None
    after: Document | None = None
    """The same with the object and the cluster changed as all remedies say; None if that is not written."""

    def review(self, changed):
        """The decision on another form of the object; offline, where the cluster may lack the object itself."""
        kind, group = kind_and_group(changed or self.request.old_object)
        view = self.view or ManifestsView(self.cluster, [changed] if changed else [])
        return review(replace(self.request, object=changed, kind=kind, group=group), view, self.settings)


def kind_and_group(document):
    return str(document.get("kind") or "Pod"), str(document.get("apiVersion") or "v1").rpartition("/")[0]


def load(text):
    return [each for each in libyaml.load_all(text) if each is not None]


def document(name, text, cluster=(), old=None):
    """The parts of a text: its first object, the object as it was behind `--- # before`, and what the cluster has.

    Behind `--- # after` is the object as a reader who follows every remedy writes it, and behind `--- # with after` what that
    reader changes in the cluster.
    Comments such as `# operation: DELETE`, `# entry: check-conversion` and `# user: NAME` say more about the request.
    """
    header = dict(_HEADER.findall(text))
    new, *parts = re.split(r"(?m)^(?=---)", text)
    if not load(new):
        new, *parts = parts
    forms = {"before": [old], "after": [], "with after": [], "with": [*cluster]}
    for part in parts:
        form = part.partition("\n")[0].removeprefix("--- # ")
        if form in ("before", "after"):
            forms[form] = load(part)
        else:
            forms[form if form in forms else "with"] += load(part)
    (before,), after, added, given = forms.values()
    read = whole(name, *load(new), given, before, header)
    if not after and not added:
        return read
    names = {(each.get("kind"), name_of(each)) for each in added}
    # An empty list says that there is none.
    items = [item for each in given for item in [*unwrap_lists(each)] or [each]]
    kept = [each for each in items if (each.get("kind"), name_of(each)) not in names]
    return replace(read, after=whole(name, *(after or load(new)), [*kept, *added], before, header))


def whole(name, new, given, before=None, header=None):
    """The request and the cluster to review an object, with the settings among the objects of the cluster."""
    header = header or {}
    if name not in OF_SCHEMA:
        new, before = completed(new), completed(before)
    objects = [item for each in given for item in unwrap_lists(each)]
    settings = [parse_settings(each) for each in objects if each.get("kind") == "GPUAdmissionPolicy"]
    (kind, group), metadata = kind_and_group(new), new.get("metadata") or {}
    operation = header.get("operation") or ("UPDATE" if before else "CREATE")
    request = Request(
        *((None, new) if operation == "DELETE" else (new, before)),
        operation,
        group,
        kind,
        namespace=metadata.get("namespace") or ("team-a" if kind == "Pod" else ""),
        name=metadata.get("name") or "",
        user=UserInfo(header.get("user", "")),
        entry=header.get("entry", ""),
        compares=header.get("compares") != "no",
    )
    return Document(name, request, given, *settings)


def rules():
    for rule in rule_book().rules:
        wrong = read_examples(rule.id).wrong
        if rule.id not in UNTRIED and re.search(r"(?m)^kind: ", wrong):
            yield document(rule.id, wrong)


def catalogue(folder=CATALOGUE):
    for file in sorted(folder.glob("*.yaml")):
        text, cluster, old = file.read_text(), folder / "cluster" / file.name, folder / "old" / file.name
        given = load(cluster.read_text()) if cluster.exists() else []
        yield document(file.stem, text, given, load(old.read_text())[0] if old.exists() else None)


def conversion():
    for file in golden.CASES:
        case = golden.load(file.read_text())[0]["case"]
        for place, request, _, _ in golden.reviews(file):
            yield Document(f"{file.stem}{place}", request, [], golden.settings_of(case), golden.view_of(case))


def corpus():
    return catalogue(CORPUS)


def places():
    """Each document of a file by itself, with what the cluster has behind `--- # with`."""
    for file in sorted(PLACES.glob("*.yaml")):
        for number, text in enumerate(re.split(r"(?m)^---\n", file.read_text()), 1):
            yield document(f"{file.stem} {number}", text)
    for name, new, given in large_documents():
        yield whole(f"too many {name}", new, given)


SOURCES = {"rules": rules, "catalogue": catalogue, "conversion": conversion, "corpus": corpus, "places": places}


@dataclass
class Reviews:
    """The documents of a source with their decisions, and the lines of code that ran when a problem was made."""

    decisions: list[tuple[Document, Decision]]
    lines: set[tuple[str, int]]


@cache
def reviewed(source):
    lines = set()
    make = Problem.__init__

    def make_and_record(problem, *args, **kwargs):
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not Document.review.__code__:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        make(problem, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Problem, "__init__", make_and_record)
        return Reviews([(each, each.review(each.request.object)) for each in SOURCES[source]()], lines)


def _identity(finding):
    """A finding without the indices of its path, which change if an entry of a list is removed."""
    return finding.rule.id, finding.message, tuple("" if isinstance(each, int) else each for each in finding.path)


def failure(document, decision, finding, proposal):
    """Why writing a proposal does not help; empty where it does."""
    # An object of a kind that does not exist was not looked into before.
    is_new_kind = str(finding.path) in ("kind", "apiVersion")
    before = {_identity(each) for each in decision.denials}
    # What is left of several missing fields is no new finding.
    known = {each.rule for each in decision.denials if each.rule.id == "GA101"}
    problem = "cannot be written"
    for changed in written(document.request.object, finding, proposal):
        if not isinstance(changed, dict) or changed == document.request.object:
            continue
        after = document.review(changed)
        stays = any(
            (each.rule.id, each.path, each.message) == (finding.rule.id, finding.path, finding.message)
            for each in after.findings
        )
        refused = [
            labelled_text(each)
            for each in after.denials
            if not is_new_kind and each.rule not in known and _identity(each) not in before
        ]
        if not stays and not refused and after.not_reviewed == decision.not_reviewed:
            return ""
        problem = "the finding stays" if stays else f"is refused: {refused[0]}" if refused else "is not reviewed"
    return problem


@pytest.mark.parametrize("source", SOURCES)
def test_what_a_remedy_proposes_works(source):
    failures = [
        f"{document.name}: {finding}\n  {proposal}: {problem}"
        for document, decision in reviewed(source).decisions
        for finding in decision.findings
        for proposal in proposals(finding)
        if (problem := failure(document, decision, finding, proposal))
    ]
    assert not failures, "\n".join(failures)


def test_object_changed_as_its_remedies_say_has_no_finding():
    """Remedies in words, which `proposals` cannot apply, are followed by hand."""
    changed = [(each, decision) for each, decision in reviewed("places").decisions if each.after]
    assert changed
    assert all(decision.findings for _, decision in changed)
    after = [(each, each.after.review(with_defaults(each.after.request.object))) for each, _ in changed]
    failures = [f"{each.name}: {finding}" for each, decision in after for finding in decision.findings]
    assert not failures, "\n".join(failures)


def test_no_rule_is_forgotten():
    tried = {
        finding.rule.id
        for source in SOURCES
        for _, decision in reviewed(source).decisions
        for finding in decision.findings
    }
    forgotten = {rule.id for rule in rule_book().rules} - tried - UNTRIED.keys()
    assert not forgotten, "make the example of the rule a whole object, so that what its remedy proposes is tried"


def test_no_place_of_a_remedy_is_forgotten():
    """Every call that makes a problem runs for some document; rules without a document and empty remedies are left out."""
    reached = {line for source in SOURCES for line in reviewed(source).lines}
    forgotten = [
        f"{file.relative_to(POLICIES)}:{call.lineno}"
        for file in sorted(POLICIES.rglob("*.py"))
        if str(file.relative_to(POLICIES)) not in UNREVIEWED
        for call in calls_for_problems(file)
        if not any((str(file), line) in reached for line in range(call.lineno, (call.end_lineno or call.lineno) + 1))
    ]
    assert not forgotten, "add a document to tests/rules/places whose review gives these remedies"


def calls_for_problems(file):
    """The calls in a module that make a `Problem`, also by a method of that name, without those of rules in UNTRIED."""
    text = file.read_text()
    if not re.search(r"from policies\.rules\.checks import .*\bProblem\b", text):
        return
    calls = [ast.parse(text)]
    while calls:
        node = calls.pop()
        decorators = getattr(node, "decorator_list", ())
        if any(
            isinstance(each, ast.Call) and each.args[:1] and ast.unparse(each.args[0])[1:-1] in UNTRIED
            for each in decorators
        ):
            continue
        calls += ast.iter_child_nodes(node)
        name = getattr(getattr(node, "func", None), "id", "") or getattr(getattr(node, "func", None), "attr", "")
        if name in ("problem", "_problem", "Problem") and not any(ast.unparse(each) == "''" for each in node.args[2:3]):
            yield node


@pytest.mark.parametrize("rule_id", UNTRIED)
def test_untried_rule_proposes_no_value(rule_id):
    rule = rule_book().get(rule_id)
    assert not proposals(rule.finding(FieldPath(), rule.title))


_NOUNS = ("its", "settings", "slices")


@pytest.mark.parametrize("source", SOURCES)
def test_verb_at_the_beginning_of_a_message_gets_its_field_as_subject(source):
    messages = [each for _, decision in reviewed(source).decisions for each in decision.findings if each.path]
    begun = [each for each in messages if re.match(r"[a-z]+s |cannot |must |would ", each.message)]
    verbs = [each for each in begun if each.message.partition(" ")[0] not in _NOUNS]
    assert [str(each) for each in verbs if reason(each.path, each.message) == each.message] == []
