"""GPU limits of a namespace: objects are charged when created, counted when seen, freed when deleted."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed import manifests
from testbed.api import JSON_PATCH
from testbed.waiting import until
from tests.cluster.quotas import ANY_GPU, amounts, counted, limited, status, summary

SHOWN = {"hard": "4.0", "used": "2.0", "reserved": "0.0"}


def gone(cluster, team, name):
    assert cluster.delete("Pod", name, team, gracePeriodSeconds=0).accepted


def denied(entry, message):
    return f'admission webhook "{entry}.gpu-admission.io" denied the request: {message}'


def test_quota_is_counted_as_soon_as_it_is_written(cluster):
    team = cluster.namespace()
    assert cluster.create(manifests.pod(team)).accepted
    limited(cluster, team, 2)
    assert summary(cluster, team) == "gpus 1 of 2"
    counted(cluster, team, "1")
    assert status(cluster, team)["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("labels", "expected"),
    [({"quota": "enforced"}, ("True", "Enforced")), ({}, ("False", "FailsOpen"))],
    ids=["enforced", "not enforced"],
)
def test_status_says_whether_the_quota_is_enforced(cluster, labels, expected):
    team = limited(cluster, cluster.namespace(**labels), 2)

    def condition():
        found = [each for each in status(cluster, team)["conditions"] if each["type"] == "Enforced"]
        return [(each["status"], each["reason"]) for each in found] == [expected]

    until(condition, "the condition is written")


@pytest.mark.parametrize(
    ("labels", "entry"),
    [({"quota": "enforced"}, "enforce-quota"), ({}, "check-pods")],
    ids=["enforced", "not enforced"],
)
def test_pod_that_is_over_the_quota_is_refused(cluster, labels, entry):
    team = limited(cluster, cluster.namespace(**labels), 2)
    assert cluster.create(manifests.pod(team, "first")).accepted
    answer = cluster.create(manifests.pod(team, "second", gpus=2))
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    remedy = "Request fewer GPUs, or wait until some pods end"
    assert answer.message.startswith(denied(entry, f'{remedy}: needs 2 GPUs, 1 of 2 left in limit "gpus"'))
    assert "; exceeded quota: gpu; " in answer.message
    assert answer.message.endswith(f"; gpu-admission quota -n {team} shows who holds what [GA502]")


def test_pod_that_is_over_the_quota_only_makes_a_warning_while_it_is_tried(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 1, mode="Warn")
    answer = cluster.create(manifests.pod(team, gpus=2))
    assert answer.accepted
    text = " ".join(line.strip() for line in answer.warnings)
    assert text.startswith('Request fewer GPUs: needs 2 GPUs, and limit "gpus" allows at most 1; exceeded quota: gpu; ')
    assert text.endswith(" [GA502]")
    assert summary(cluster, team) == "gpus 2 of 1"


def test_pod_is_charged_when_it_is_created_and_then_counted(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 4)
    assert cluster.create(manifests.pod(team, "first")).accepted
    assert summary(cluster, team) == "gpus 1 of 4"
    assert cluster.create(manifests.pod(team, "second", gpus=2)).accepted
    assert summary(cluster, team) == "gpus 3 of 4"
    counted(cluster, team, "3")


def test_pod_that_is_deleted_frees_what_it_had(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.pod(team, "first")).accepted
    assert cluster.create(manifests.pod(team, "second")).code == 403
    counted(cluster, team, "1")
    gone(cluster, team, "first")
    counted(cluster, team, "0")
    assert cluster.create(manifests.pod(team, "second")).accepted


def test_refused_pod_is_not_charged(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.pod(team, gpus=2)).code == 403
    assert amounts(cluster, team) == ("0", "0")


def test_lowering_a_limit_takes_nothing_away_and_refuses_more(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 2)
    for name in ("first", "second"):
        assert cluster.create(manifests.pod(team, name)).accepted
    counted(cluster, team, "2")
    lower = {"spec": {"limits": [{"name": "gpus", "gpus": 1}]}}
    assert cluster.patch("GPUQuota", "gpu", team, body=lower).accepted
    assert cluster.create(manifests.pod(team, "third")).code == 403
    until(lambda: summary(cluster, team) == "gpus 2 of 1", "the new limit is shown")
    gone(cluster, team, "first")
    counted(cluster, team, "1")
    assert cluster.create(manifests.pod(team, "third")).code == 403
    assert cluster.patch("Pod", "second", team, body={"metadata": {"labels": {"a": "b"}}}).accepted


def test_new_limit_is_counted(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 2)
    assert cluster.create(manifests.pod(team)).accepted
    more = {"spec": {"limits": [{"name": "h100", "gpus": 1, "selector": {"products": ["*H100*"]}}]}}
    assert cluster.patch("GPUQuota", "gpu", team, body=more).accepted
    until(lambda: summary(cluster, team) == "h100 1 of 1", "the new limit is counted")
    assert cluster.create(manifests.pod(team, "second")).code == 403


def test_nothing_gets_gpus_unasked_where_the_quota_is_enforced(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 8)
    cluster.service.stop()
    for document in (manifests.pod(team), manifests.claim(team, "direct", ANY_GPU)):
        answer = cluster.create(document)
        assert answer.code == 500
        assert answer.message.startswith(
            'Internal error occurred: failed calling webhook "enforce-quota.gpu-admission.io": failed to call webhook: '
        )
    cpu = manifests.pod(team, "cpu")
    cpu["spec"]["containers"][0]["resources"] = {}
    assert cluster.create(cpu).accepted


def test_pods_of_an_outage_are_counted_afterwards(cluster):
    team = limited(cluster, cluster.namespace(), 1)
    cluster.service.stop()
    for name in ("first", "second"):
        assert cluster.create(manifests.pod(team, name)).accepted
    cluster.service.start()
    counted(cluster, team, "2")
    assert cluster.create(manifests.pod(team, "third")).code == 403


def test_pods_that_come_at_once_get_exactly_what_there_is(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 8)

    def create(number):
        """As clients do, which try again where they are told to."""

        def answer():
            found = cluster.create(manifests.pod(team, f"train-{number}"))
            return found.code if found.code != 429 else None

        return until(answer, "the pod is judged", 60)

    with ThreadPoolExecutor(40) as people:
        codes = Counter(people.map(create, range(40)))
    assert codes == {201: 8, 403: 32}
    assert summary(cluster, team) == "gpus 8 of 8"
    counted(cluster, team, "8")


def test_deleted_ledger_is_counted_again(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 2)
    assert cluster.create(manifests.pod(team)).accepted
    counted(cluster, team, "1")
    wipe = [{"op": "remove", "path": "/status"}]
    assert cluster.patch("GPUQuota", "gpu", team, body=wipe, content_type=JSON_PATCH, subresource="status").accepted
    until(lambda: summary(cluster, team) == "gpus 1 of 2", "the ledger is there again")
    counted(cluster, team, "1")


def test_leader_shows_what_is_taken_as_metrics(cluster):
    team = limited(cluster, cluster.namespace(), 4)
    assert cluster.create(manifests.pod(team, gpus=2)).accepted
    counted(cluster, team, "2")
    labels = f'limit="gpus",namespace="{team}",unit="gpus"'
    lines = {f'gpu_admission_quota{{amount="{amount}",{labels}}} {value}' for amount, value in SHOWN.items()}
    until(lambda: lines <= {*cluster.service.metrics().splitlines()}, "the leader shows the amounts")


def test_kubectl_shows_what_is_left(real):
    team = limited(real, real.namespace(quota="enforced"), 2)
    assert real.create(manifests.pod(team)).accepted
    table = real.api.as_user([("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")])

    def shown():
        answer = table.get("GPUQuota", "gpu", team).object
        columns = [column["name"] for column in answer["columnDefinitions"]]
        assert columns == ["Name", "Quota", "Enforced", "Ready", "Age"]
        (row,) = answer["rows"]
        assert row["cells"][:4] == ["gpu", "gpus 1 of 2", "True", "True"]
        return True

    until(shown, "both conditions are written")
