"""Quotas in reviews of all entries, with the facts of files."""

import json
import subprocess
import sys
from copy import deepcopy

import pytest

from policies.admission import entries_called, review
from policies.admission.webhooks import ENTRIES
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.pod_templates import with_defaults
from policies.kubernetes.yaml import load_document
from policies.rules.decision import Severity
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS
from policies.rules.settings.choices import Exemption, GPUAdmissionPolicy, Quotas
from tests.published import shared_device
from webhook.cli.manifest_reader import Manifest
from webhook.cli.subjects import Subject, admit
from webhook.cluster.manifests import ManifestsView

H100 = "NVIDIA-H100-80GB-HBM3"
NO_PODS = {"apiVersion": "v1", "kind": "PodList", "items": []}


def namespace(name="team-a", **labels):
    labels = {f"gpu-admission.io/{key}": value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def limited(hard, **spec):
    return {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": [{"name": "all", "gpus": hard}], **spec},
    }


def creating(document, **fields):
    return Request(with_defaults(document), **{"namespace": "team-a", **fields})


def claiming(document):
    return creating(document, group="resource.k8s.io", kind="ResourceClaim")


def of_quota(decision):
    return [(found.rule.id, found.severity) for found in decision.findings if found.rule.id.startswith("GA50")]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({}, ["place-pods", "check-pods"]),
        ({"quota": "enforced"}, ["place-pods", "enforce-quota"]),
        ({"quota": "enforced", "dra": "enabled"}, ["convert-pods", "enforce-quota"]),
        ({"dra": "enabled"}, ["convert-pods", "enforce-converted-pods"]),
        ({"dra": "preview"}, ["place-pods", "check-pods"]),
    ],
    ids=["plain", "enforced", "converted and enforced", "converted", "previewed"],
)
def test_pod_with_gpus_costs_one_mutating_and_one_validating_call(pod, labels, names):
    request = creating(pod({"nvidia.com/gpu": 1}).document)
    called = entries_called(request, ManifestsView([namespace(**labels)]), DEFAULTS)
    assert [entry.name for entry in called] == names


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES.values() if len(entry.concerns) > 1], ids=lambda e: e.name
)
def test_pods_are_charged_last(entry):
    assert "quota" not in [*entry.concerns][:-1]


def test_claims_are_charged_when_they_are_created(claim):
    view = ManifestsView([namespace(quota="enforced")])
    request = claiming(claim())
    assert [entry.name for entry in entries_called(request, view, DEFAULTS)] == ["claims", "enforce-quota"]
    updated = creating(claim(), group="resource.k8s.io", kind="ResourceClaim", operation="UPDATE")
    assert [entry.name for entry in entries_called(updated, view, DEFAULTS)] == ["claims"]
    template = creating(claim(), group="resource.k8s.io", kind="ResourceClaimTemplate")
    assert [entry.name for entry in entries_called(template, view, DEFAULTS)] == ["claims"]


@pytest.mark.parametrize("name", ["gpu-admission", "gpu-operator", "nvidia-dra-driver-gpu"])
def test_who_hands_out_gpus_is_never_charged(pod, claim, name):
    view = ManifestsView([namespace(name, quota="enforced")])
    claims = creating(claim(), namespace=name, group="resource.k8s.io", kind="ResourceClaim")
    called = [
        entry.name
        for request in (creating(pod().document, namespace=name), claims)
        for entry in entries_called(request, view, DEFAULTS)
    ]
    assert not any("quota" in ENTRIES[name].concerns for name in called)


@pytest.mark.parametrize(("hard", "found"), [(4, []), (3, [("GA502", Severity.DENY)])])
def test_pod_fits_beside_those_that_are_there(pod, example, hard, found):
    other = pod({"nvidia.com/gpu": 2}).document
    other = {**other, "metadata": {"name": "other", "namespace": "team-a", "uid": "2"}}
    decision = review(creating(pod({"nvidia.com/gpu": 2}).document), example(limited(hard), other), DEFAULTS)
    assert of_quota(decision) == found


def test_pod_that_files_show_beside_the_others_is_not_counted_twice(pod, example):
    document = pod({"nvidia.com/gpu": 2}).document
    assert of_quota(review(creating(document), example(limited(2), document), DEFAULTS)) == []


def test_pod_with_a_generated_name_that_files_show_is_not_counted_twice(pod, example):
    document = pod({"nvidia.com/gpu": 2}).document
    document = {**document, "metadata": {"generateName": "train-", "namespace": "team-a"}}
    assert of_quota(review(creating(document), example(limited(2), document), DEFAULTS)) == []


@pytest.mark.parametrize(("count", "found"), [(2, []), (3, [("GA502", Severity.DENY)])])
def test_claim_fits_or_not(claim, request_for, example, count, found):
    request = claiming(claim(request_for(count=count)))
    assert of_quota(review(request, example(limited(2)), DEFAULTS)) == found


def test_stored_ledger_counts_where_there_is_one(pod, example):
    stored = limited(8)
    (limit,) = review_limits(stored)
    status = {
        "limits": [{"name": "all", "key": limit.key, "hard": "8", "used": "7", "reserved": "0"}],
        "counted": {"pods": "5", "claims": "5"},
    }
    view = example({**stored, "status": status})
    decision = review(creating(pod({"nvidia.com/gpu": 2}).document), view, DEFAULTS)
    assert 'needs 2 GPUs, 1 of 8 left in limit "all"' in decision.denials[-1].message


def review_limits(document):
    from policies.quota.limits.quota import parse_quota

    return parse_quota(document).limits


def test_converted_pod_is_charged_for_the_template_that_is_made_for_it(pod, example):
    view = example(namespace(dra="enabled"), limited(1))
    decision = review(creating(pod({"nvidia.com/gpu": 2}).document), view, DEFAULTS)
    assert of_quota(decision) == [("GA502", Severity.DENY)]
    decision = review(creating(pod({"nvidia.com/gpu": 1}).document), view, DEFAULTS)
    assert (of_quota(decision), len(decision.templates)) == ([], 1)


@pytest.mark.parametrize("dra", ["enabled", "disabled"])
def test_webhook_that_refuses_is_named(pod, example, dra):
    view = example(namespace(dra=dra, quota="enforced"), limited(1))
    request = creating(pod({"nvidia.com/gpu": 2}).document)
    manifest = Manifest(request.object, "pod.json", load_document(json.dumps(request.object)), FieldPath())
    (refusal,) = admit(Subject(request, manifest, FieldPath()), view, DEFAULTS).refusals
    assert refusal.webhook == "enforce-quota.gpu-admission.io"


def test_pods_of_workloads_are_reported_before_they_are_made(pod, example):
    template = {"metadata": {}, "spec": pod({"nvidia.com/gpu": 2}).document["spec"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}},
    }
    request = creating(job, group="batch", kind="Job")
    (finding,) = [each for each in review(request, example(limited(1)), DEFAULTS).findings if each.rule.id == "GA502"]
    assert finding.severity is Severity.WARN
    assert finding.message.startswith('its pods would be refused: needs 2 GPUs, and limit "all" allows at most 1')


def test_quota_of_which_files_say_nothing_is_not_spoken_of(pod, example):
    assert of_quota(review(creating(pod({"nvidia.com/gpu": 200}).document), example(), DEFAULTS)) == []


@pytest.mark.parametrize(
    ("labels", "severity"), [({}, Severity.WARN), ({"quota": "enforced"}, Severity.DENY)], ids=["plain", "enforced"]
)
def test_quota_that_cannot_be_read_is_reported(pod, example, labels, severity):
    view = example(namespace(**labels), limited("x"))
    decision = review(creating(pod({"nvidia.com/gpu": 1}).document), view, DEFAULTS)
    assert of_quota(decision) == [("GA504", severity)]
    assert decision.retry_after is None


def test_no_user_is_exempt(pod, example):
    settings = GPUAdmissionPolicy(exemptions=(Exemption(from_=("GA*", "conversion"), users=("*",)),))
    request = creating(pod({"nvidia.com/gpu": 2}).document, user=UserInfo("root"))
    assert of_quota(review(request, example(limited(1)), settings)) == [("GA502", Severity.DENY)]


@pytest.mark.parametrize("kind", ["Pod", "Node", "ClusterPolicy"])
def test_room_is_imported_only_where_there_is_a_quota(kind):
    code = (
        "import sys; from policies.rules.request import Request; from policies.admission import review; "
        "from policies.rules.settings import DEFAULTS; from webhook.cluster.manifests import ManifestsView; "
        f"review(Request({{'spec': {{'containers': [{{'name': 'a'}}]}}}}, kind='{kind}'), ManifestsView(), DEFAULTS); "
        "sys.exit('policies.quota.charging' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry-run", "stored"])
def test_pod_that_is_converted_is_charged_by_its_own_template(pod, example, dry_run):
    view = example(namespace(dra="enabled"), limited(8))
    conversion = review(creating(pod({"nvidia.com/gpu": 2}).document, entry="convert-pods"), view, DEFAULTS)
    (charge,) = review(
        creating(conversion.object, entry="enforce-converted-pods", dry_run=dry_run), view, DEFAULTS
    ).charges
    assert (charge.unseen, len(charge.pieces)) == ((), 1)


@pytest.mark.parametrize(("labels", "found"), [({}, []), ({"quota": "enforced"}, [("GA504", Severity.DENY)])])
def test_pod_with_more_claims_than_can_be_charged_is_refused_if_the_quota_is_enforced(example, labels, found):
    claims = [{"name": f"gpu-{number}", "resourceClaimTemplateName": "gpu"} for number in range(1001)]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"containers": [{"name": "train", "image": "train"}], "resourceClaims": claims},
    }
    decision = review(creating(document), example(namespace(**labels), limited(8)), DEFAULTS)
    assert [each for each in of_quota(decision) if each[1] is Severity.DENY] == found


@pytest.mark.parametrize(("setting", "admitted"), [("", 1), ("1/8", 8), ("20Gi", 4)])
def test_claims_of_gpus_that_are_shared_without_limit_are_admitted_by_the_setting(
    claim, request_for, example, setting, admitted
):
    """The limit is one GPU; each claim that is admitted is stored before the next one comes."""
    facts = example()
    slices = deepcopy([each for each in facts.list("ResourceSlice") if "a100-01" in each["spec"]["nodeName"]])
    for each in slices:
        each["spec"]["devices"] = [shared_device(device, "unlimited") for device in each["spec"]["devices"]]
    settings = GPUAdmissionPolicy(quota=Quotas(unlimited_share=setting))
    stored, decision = [], None
    for number in range(10):
        wanted = claim(request_for())
        wanted["metadata"] |= {"name": f"gpus-{number}", "namespace": "team-a", "uid": f"uid-{number}"}
        known = [*facts.list("DeviceClass"), *slices, namespace(quota="enforced"), limited(1), *stored, NO_PODS]
        decision = review(claiming(wanted), ManifestsView(known), settings)
        if not decision.allowed:
            break
        stored.append(wanted)
    assert len(stored) == admitted
    (found,) = (each for each in decision.findings if each.rule.id == "GA502")
    assert ("set quota.unlimitedShare" in found.administrator) is not bool(setting)
