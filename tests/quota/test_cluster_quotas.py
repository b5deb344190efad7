"""ClusterGPUQuotas: how they are read, and which group each namespace has."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.kubernetes.names import is_dns_subdomain
from policies.kubernetes.view import UNKNOWN
from policies.quota.limits.cluster_quota import Group, Loan, Tenancy, loans, parse_cluster_quota, tenancy
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.limits.rules import effective_team_quota
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.findings import labelled_text, plain_text
from webhook.cluster.manifests import ManifestsView

LIMITS = [{"name": "all", "gpus": 8}]
RESEARCH = {"matchLabels": {"unit": "research"}}


def document(name="research", selector=RESEARCH, created="2026-01-01T00:00:00Z", **spec):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "ClusterGPUQuota",
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"limits": LIMITS, "namespaceSelector": selector, **spec},
    }


def namespace(name, **labels):
    own = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": own | labels}}


def problems_of(quota):
    with pytest.raises(QuotaError) as error:
        parse_cluster_quota(quota)
    return [plain_text(each) for each in error.value.problems]


def of(*documents):
    return tenancy(ManifestsView(documents))


def test_quotas_under_review_count_where_no_others_are_known():
    view = ManifestsView([], [document()])
    assert tenancy(view).group_of(namespace("a", unit="research")) == Group("research")
    assert tenancy(ManifestsView()) is UNKNOWN


def test_selector_alone_makes_one_group():
    quota = parse_cluster_quota(document())
    assert quota.group_of({"unit": "research"}) == Group("research")
    assert quota.group_of({"unit": "sales"}) is None


def test_each_value_of_a_label_is_a_group():
    quota = parse_cluster_quota(document(selector={}, groupBy="team"))
    assert [quota.group_of({"team": team}).name for team in ("a", "b")] == ["research.a", "research.b"]


def test_namespace_without_the_label_is_left_out():
    quota = parse_cluster_quota(document(groupBy="team"))
    assert quota.group_of({"unit": "research"}) is None
    assert (quota.leaves_out({"unit": "research"}), quota.leaves_out({"unit": "sales"})) == (True, False)


def test_keys_that_choose_a_group_are_guarded():
    expressions = [{"key": "zone", "operator": "Exists"}, {"key": "kubernetes.io/metadata.name", "operator": "Exists"}]
    quota = parse_cluster_quota(document(selector={**RESEARCH, "matchExpressions": expressions}, groupBy="team"))
    assert quota.guarded_keys == ("team", "unit", "zone")


@given(st.lists(st.text("abxZ_.-09", min_size=1, max_size=63) | st.just("x-0123456789ab"), unique=True, max_size=8))
def test_groups_have_different_valid_names(values):
    names = [Group("research", value).name for value in values]
    assert len({*names}) == len(names)
    assert all(map(is_dns_subdomain, names))


def test_oldest_quota_counts_a_namespace_of_several():
    young, old = document("young", {}, "2026-02-01T00:00:00Z"), document("old", {}, "2026-01-01T00:00:00Z")
    found = of(young, old)
    assert found.group_of(namespace("a")) == Group("old")
    assert found.overlaps([namespace("a")]) == {"young": {"a": "old"}}


def test_unreadable_quota_chooses_nothing():
    found = of({**document(), "spec": {}}, document("other", {}))
    assert (found.group_of(namespace("a")), [*found.unreadable]) == (Group("other"), ["research"])


def test_quotas_that_cannot_be_seen_are_unknown():
    assert of() is UNKNOWN
    assert isinstance(of(document()), Tenancy)


def test_expected_amount_is_read_and_refuses_nothing():
    quota = parse_cluster_quota(document(limits=[{"name": "all", "gpus": 8, "min": 4}])).quota
    assert (quota.limits[0].hard, quota.limits[0].expected) == (8, 4)


def test_group_is_read_as_a_quota():
    spec = {"quota": "research", "group": "a", "limits": LIMITS}
    group = {**document(), "kind": "GPUQuotaGroup", "metadata": {"name": "research.a"}, "spec": spec}
    assert parse_quota(group) == parse_cluster_quota(document()).quota


@pytest.mark.parametrize(
    ("quota", "problem"),
    [
        (
            {**document(), "spec": {"limits": LIMITS}},
            "spec.namespaceSelector: is missing; write matchLabels: {LABEL: VALUE}, or {} for all namespaces",
        ),
        (
            document(selector={"labels": {}}),
            (
                "spec.namespaceSelector.labels: is an unknown field of a selector; "
                "write matchLabels: {LABEL: VALUE}, or {} for all namespaces"
            ),
        ),
        (document(selector={"matchLabels": {"a": 1}}), "spec.namespaceSelector.matchLabels.a: is 1; write a text"),
        (
            document(selector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
            'spec.namespaceSelector.matchExpressions[0].operator: is "Is"; write one of In, NotIn, Exists and DoesNotExist',
        ),
        (
            document(selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "spec.namespaceSelector.matchExpressions[0]: has no values, which In needs; add at least one",
        ),
        (
            document(selector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            "spec.namespaceSelector.matchExpressions[0].values: must be empty for Exists; remove it",
        ),
        (document(groupBy="-"), 'spec.groupBy: is "-"; write the key of a label, such as "example.com/team"'),
        (
            document("a.b"),
            'metadata.name: is "a.b"; write at most 63 lower-case letters, digits and dashes; the names of groups begin with it',
        ),
        (
            document(limits=[{"name": "all", "gpus": 8, "min": "many"}]),
            'spec.limits[0].min: is "many"; write a number of GPUs such as 8, or a part of one such as "1/2"',
        ),
    ],
)
def test_problem_names_the_field_and_the_remedy(quota, problem):
    assert problems_of(quota) == [problem]


def test_expected_amount_is_no_field_of_a_namespace():
    quota = {
        **document(),
        "kind": "GPUQuota",
        "metadata": {"name": "gpu"},
        "spec": {"limits": [{**LIMITS[0], "min": 1}]},
    }
    with pytest.raises(QuotaError, match=r"unknown field of a limit; spec.limits\[0\].min"):
        parse_quota(quota)


def test_group_that_is_idle_lends_what_others_use_beyond_their_own():
    a, b, c = (Group("research", name) for name in "abc")
    assert loans({a: (Fraction(4), Fraction(1)), b: (Fraction(4), Fraction(6)), c: (Fraction(4), Fraction(4))}) == {
        a: Loan(Fraction(2), Fraction(0)),
        b: Loan(Fraction(0), Fraction(2)),
        c: Loan(Fraction(0), Fraction(0)),
    }


_AMOUNTS = st.fractions(0, 16, max_denominator=8)


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(_AMOUNTS, _AMOUNTS)))
def test_loans_add_up_and_are_no_more_than_is_idle_or_used(uses):
    found = loans({Group("research", name): amounts for name, amounts in uses.items()})
    assert sum(each.lent for each in found.values()) == sum(each.borrowed for each in found.values())
    for name, (expected, used) in uses.items():
        loan = found[Group("research", name)]
        assert 0 <= loan.lent <= max(expected - used, 0)
        assert 0 <= loan.borrowed <= max(used - expected, 0)
    idle = sum((max(expected - used, Fraction(0)) for expected, used in uses.values()), Fraction(0))
    beyond = sum((max(used - expected, Fraction(0)) for expected, used in uses.values()), Fraction(0))
    assert sum(each.lent for each in found.values()) == min(idle, beyond)


def said(new, *cluster, old=None):
    """The answer of a review about a ClusterGPUQuota: True if it is admitted, and the sentences."""
    operation = "UPDATE" if old else "CREATE"
    request = Request(new, old, operation, "gpu-admission.io", "ClusterGPUQuota", name=new["metadata"]["name"])
    decision = review(request, ManifestsView(cluster), DEFAULTS)
    return decision.allowed, [labelled_text(each) for each in decision.findings]


ENFORCED = {"gpu-admission.io/quota": "enforced"}


def test_invalid_one_is_refused_and_can_be_labelled():
    invalid = document(groupBy="a/b/c")
    allowed, texts = said(invalid)
    assert (allowed, texts) == (
        False,
        ['spec.groupBy: is "a/b/c"; write the key of a label, such as "example.com/team" [GA501]'],
    )
    assert said(invalid, old=invalid) == (True, texts)


def test_one_that_holds_everywhere_passes_silently():
    assert said(document(), namespace("a", unit="research", **ENFORCED), namespace("kube-system")) == (True, [])


def test_namespaces_where_it_does_not_hold_are_warned_about():
    new = document("younger", selector={}, created="2026-02-01T00:00:00Z")
    cluster = [document(), namespace("a", unit="research", **ENFORCED), namespace("b"), namespace("kube-system")]
    older = (
        "spec.namespaceSelector: it limits nothing in namespaces that an older ClusterGPUQuota counts: a (research); choose "
        "them in one of the two [GA515]"
    )
    exempt = (
        "spec.namespaceSelector: it limits nothing in namespaces that are exempt from quotas: kube-system (no webhook is "
        "called for it); leave them out, with NotIn for kubernetes.io/metadata.name [GA515]"
    )
    unlabelled = (
        "spec.namespaceSelector: without this label, pods are admitted while the quota cannot be charged: b; label them with "
        "gpu-admission.io/quota: enforced [GA515]"
    )
    assert said(new, *cluster) == (True, [older, exempt, unlabelled])
    assert said(new, *cluster, old=new) == (True, [])


def test_older_one_that_takes_a_namespace_over_is_warned_about():
    new = document("older", selector={}, created="2025-02-01T00:00:00Z")
    taken = (
        "spec.namespaceSelector: it counts namespaces that a younger ClusterGPUQuota chooses, which limits nothing there: "
        "a (research); choose them in one of the two [GA515]"
    )
    assert said(new, document(), namespace("a", unit="research", **ENFORCED)) == (True, [taken])


def test_minimum_above_the_limit_is_warned_about():
    assert said(document(limits=[{"name": "all", "gpus": 8, "min": 9}])) == (
        True,
        ["spec.limits[0].min: is 9, more than the limit of 8, so a group can never have it; write at most 8 [GA501]"],
    )


def test_chosen_namespaces_that_are_in_no_group_are_audited():
    new = document(selector={}, groupBy="team")
    cluster = [namespace("a", team="blue", **ENFORCED), namespace("b", **ENFORCED)]
    request = Request(new, None, "CREATE", "gpu-admission.io", "ClusterGPUQuota", name="research")
    (found,) = effective_team_quota(request, ManifestsView(cluster), DEFAULTS)
    assert (found.severity, labelled_text(found)) == (
        Severity.AUDIT,
        (
            "spec.groupBy: chosen namespaces without this label have no limit: b; label them with team, or leave them out of "
            "namespaceSelector [GA515]"
        ),
    )
