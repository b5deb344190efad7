"""The kinds of objects that each rule reviews."""

from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.admission.coverage import reviewed_kinds
from policies.kubernetes.objects import namespace_of
from policies.kubernetes.workloads import WORKLOADS, group_of
from policies.rules.decision import EVERY_KIND, WORKLOAD
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.robustness.fuzzing.review_seeds import cluster_seeds, seeds
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import ManifestsView

OF_CIRCUMSTANCES = {"GA312", "GA319", "GA323", "GA331", "GA332", "GA333"}
"""Rules of pods whose examples show what is around the pod."""
OF_NO_KIND = {"GA100"}
"""Its wrong example has a kind that does not exist."""


def ids(kind):
    return {rule.id for rule in rule_book().of_kind(kind)}


def reviewed_object(text):
    """The first document of an example; pods are often written in parts, without their kind."""
    first = next(libyaml.load_all(text), None)
    return first if isinstance(first, dict) else {}


def request_of(document):
    """The request that creates an object."""
    return Request(document, namespace=namespace_of(document), group=group_of(document), kind=document["kind"])


def test_every_rule_has_a_kind():
    assert [rule.id for rule in rule_book().rules if not rule.kinds] == []


def test_wrong_example_is_of_a_kind_of_its_rule():
    strays = set()
    for rule in rule_book().rules:
        kind = reviewed_object(read_examples(rule.id).wrong).get("kind")
        is_shown = kind is not None and rule.id not in OF_CIRCUMSTANCES
        if rule.id not in OF_NO_KIND and not (rule.id in ids(kind) if is_shown else "Pod" in rule.kinds):
            strays.add((rule.id, kind))
    assert strays == set()


def test_every_kind_that_is_reviewed_has_rules():
    assert {kind for _, kind in reviewed_kinds(DEFAULTS)} <= {*rule_book().kinds}


def test_every_finding_is_in_an_object_of_a_kind_of_its_rule():
    known = {kind: ids(kind) for kind in rule_book().kinds}
    views = ManifestsView(), ManifestsView(cluster_seeds())
    strays = {
        (document["kind"], finding.rule.id)
        for document in seeds()
        if document["kind"] in known
        for view in views
        for finding in review(request_of(document), view, DEFAULTS).findings
        if finding.rule.id not in known[document["kind"]]
    }
    assert strays == set()


def test_rules_of_pods_review_workloads_too():
    assert ids("Deployment") == ids("TrainJob")
    assert {"GA301", "GA403", "GA601"} <= ids("Deployment") & ids("Pod")


def test_rule_of_updates_of_pods_reviews_no_workloads():
    assert "GA328" in ids("Pod") - ids("Deployment")


def test_rule_of_workloads_reviews_no_single_pods():
    assert "GA506" in ids("Job") - ids("Pod")


def test_every_kind_stands_for_itself():
    assert not {WORKLOAD, EVERY_KIND} & {*rule_book().kinds}
    assert {kind for _, kind in WORKLOADS} <= {*rule_book().kinds}
