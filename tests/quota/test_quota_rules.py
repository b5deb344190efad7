"""GPUQuotas in a review: invalid ones are refused whatever the settings say, and can still be corrected."""

import pytest

from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.rules.decision import Severity
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, Exemption, GPUAdmissionPolicy, RuleOverride
from testbed import libyaml
from tests.findings import labelled_text
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import ManifestsView

VALID = {"limits": [{"name": "h100", "gpus": 8}]}
INVALID = {"limits": [{"name": "h100", "gpus": 0.5}, {"name": "h100", "memory": "80Gi"}]}
SAID = [
    'spec.limits[0].gpus: is 0.5 without quotes; write a part of a GPU as text, such as "1/2" or "0.5" [GA501]',
    'spec.limits[1].name: is "h100", as that of limits[0] is; give each limit its own name [GA501]',
]


def quota(spec, **metadata):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a", **metadata},
        "spec": spec,
    }


def decided(new, old=None, operation="", settings=DEFAULTS, view=None, **fields):
    request = Request(
        new,
        old,
        operation or ("UPDATE" if old else "CREATE"),
        "gpu-admission.io",
        "GPUQuota",
        namespace="team-a",
        name="gpu",
        user=UserInfo("alice", ("system:masters",)),
        **fields,
    )
    return review(request, view or ManifestsView(), settings)


@pytest.fixture
def h100():
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": labels}}
    return ManifestsView([node, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}])


@pytest.mark.parametrize("entry", ["", "configuration"])
def test_every_problem_is_reported_at_its_field(entry):
    decision = decided(quota(INVALID), entry=entry)
    assert not decision.allowed
    assert [labelled_text(finding) for finding in decision.findings] == SAID


@pytest.mark.parametrize("entry", ["", "configuration"])
def test_valid_quota_passes_silently(entry):
    decision = decided(quota(VALID), entry=entry)
    assert (decision.allowed, decision.findings) == (True, ())


@pytest.mark.parametrize(
    "settings",
    [
        GPUAdmissionPolicy(rules=(RuleOverride("GA501", Severity.OFF),)),
        GPUAdmissionPolicy(exemptions=(Exemption(("GA5*",), users=("alice",)),)),
    ],
    ids=["off", "exempt"],
)
def test_settings_do_not_decide_whether_a_quota_can_be_read(settings):
    assert {finding.rule.id for finding in decided(quota(INVALID), settings=settings).denials} == {"GA501"}


def test_invalid_quota_can_be_deleted():
    assert decided(None, quota(INVALID), "DELETE").findings == ()


def test_finalizer_of_an_invalid_quota_can_be_taken_away():
    deleted = quota(INVALID, deletionTimestamp="2026-01-01T00:00:00Z")
    assert decided(deleted, {**deleted, "spec": VALID}).allowed


def test_invalid_quota_can_be_labelled_and_is_reported():
    decision = decided(quota(INVALID, labels={"team": "a"}), quota(INVALID))
    assert decision.allowed
    assert {(finding.rule.id, finding.severity) for finding in decision.findings} == {("GA501", Severity.WARN)}


def test_quota_that_becomes_invalid_is_refused():
    assert not decided(quota(INVALID), quota(VALID)).allowed


def test_invalid_quota_can_be_put_right():
    assert decided(quota(VALID), quota(INVALID)).findings == ()


def test_status_is_not_judged():
    assert decided(quota(INVALID), quota(VALID), subresource="status").findings == ()


def test_kind_of_the_same_name_in_another_group_is_ignored():
    request = Request({"kind": "GPUQuota"}, group="example.com", kind="GPUQuota", namespace="team-a")
    assert review(request, ManifestsView(), DEFAULTS).findings == ()


def test_refusal_is_worded_as_that_of_a_schema():
    assert rule_book().get("GA501").names_fields


def limited_to(*products):
    return quota({"limits": [{"name": "h100", "selector": {"products": list(products)}, "gpus": 8}]})


def test_limit_of_a_product_that_no_gpu_has_is_reported_with_a_pattern_that_matches(h100):
    decision = decided(limited_to("H100"), view=h100)
    assert decision.allowed
    (finding,) = decision.findings
    assert labelled_text(finding) == (
        'spec.limits[0].selector.products[0]: "H100" is the product of no GPU that nodes or ResourceSlices show, so limit '
        'h100 counts nothing that runs; write "H100*", or leave it if that comes later [GA508]'
    )
    assert decided(limited_to("H100-80GB-HBM3"), view=h100).findings == ()


def test_limit_is_not_compared_with_the_cluster_again_while_it_stays_as_it_is(h100):
    assert decided(limited_to("H100"), limited_to("H100"), view=h100).findings == ()


def test_limit_of_profiles_that_its_products_do_not_have_counts_nothing(cluster):
    selector = {"products": ["H100*"], "profiles": ["1g.5gb"]}
    document = quota({"limits": [{"name": "h100", "selector": selector, "gpus": 8}]})
    slices = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}
    (finding,) = decided(document, view=cluster("f2", "f4", slices)).findings
    assert finding.message == (
        "no GPU that nodes or ResourceSlices show is of these products and has these profiles, so limit h100 counts "
        "nothing that runs"
    )


def test_priority_class_that_is_misspelled_is_suggested():
    selector = {"priorityClasses": ["bacth"]}
    document = quota({"limits": [{"name": "batch", "selector": selector, "gpus": 8}]})
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}
        for name in ("batch", "urgent")
    ]
    (finding,) = decided(document, view=ManifestsView(classes)).findings
    assert finding.remedy == 'write "batch", or leave it if that comes later'


@pytest.mark.parametrize("rule_id", ["GA501", "GA508"])
def test_examples_of_a_rule_are_what_they_say(rule_id):
    examples = read_examples(rule_id)
    for example, found in ((examples.wrong, [rule_id]), (examples.right, [])):
        document, *cluster = libyaml.load_all(example)
        assert [each.rule.id for each in decided(document, view=ManifestsView(cluster)).findings] == found
