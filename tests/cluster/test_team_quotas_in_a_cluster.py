"""GPU limits of teams: the namespaces of a tenant are charged together, and each by its own quota."""

import itertools

import pytest

from policies.quota.ledger.gpu_hours import GPUHours, total_seconds
from policies.quota.ledger.status import charge_items
from testbed import manifests
from testbed.waiting import until
from tests.cluster.quotas import amounts, limited, summary

NUMBERS = itertools.count()


@pytest.fixture
def research(cluster):
    """Makes a ClusterGPUQuota that limits each tenant; deletes it afterwards."""
    made = []

    def research(gpus, **spec):
        key = f"example.com/tenant-{next(NUMBERS)}"
        name = key.rpartition("/")[2]
        limits = {"limits": [{"name": "gpus", "gpus": gpus}], "namespaceSelector": {}, "groupBy": key, **spec}
        document = {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "ClusterGPUQuota",
            "metadata": {"name": name},
            "spec": limits,
        }
        cluster.create(document).object  # noqa: B018 - it is not refused
        made.append(name)
        return name, key

    yield research
    for name in made:
        cluster.delete("ClusterGPUQuota", name)


def member(cluster, key, tenant):
    team = cluster.namespace(quota="enforced")
    assert cluster.patch("Namespace", team, body={"metadata": {"labels": {key: tenant}}}).accepted
    return team


def group(cluster, name):
    return cluster.get("GPUQuotaGroup", name)


def enforced(cluster, quota):
    conditions = cluster.get("ClusterGPUQuota", quota).object.get("status", {}).get("conditions", [])
    return next((each["status"] for each in conditions if each["type"] == "Enforced"), "")


def holds(cluster, name, *namespaces):
    """Wait until a group holds and counts these namespaces, and nothing is on its way any more."""

    def look():
        answer = group(cluster, name)
        status = answer.object.get("status", {}) if answer.accepted else {}
        conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
        seen = conditions, status.get("namespaces", []), charge_items(status)
        assert seen == ({"Enforced": "True", "Ready": "True"}, sorted(namespaces), []), status
        return True

    until(look, f"GPUQuotaGroup {name} counts {namespaces}")
    return group(cluster, name).object["status"]["summary"]


def test_pods_of_all_namespaces_of_a_tenant_count_together(cluster, research):
    quota, key = research(3)
    first, second = (member(cluster, key, "blue") for _ in range(2))
    other = member(cluster, key, "red")
    assert holds(cluster, f"{quota}.blue", first, second) == "gpus 0 of 3"
    until(lambda: enforced(cluster, quota) == "True", "the ClusterGPUQuota says that it holds")
    assert cluster.create(manifests.pod(first, "one", gpus=2)).accepted
    assert cluster.create(manifests.pod(second, "two")).accepted
    answer = cluster.create(manifests.pod(second, "three"))
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert 'needs 1 GPU, 0 of 3 left in limit "gpus"' in answer.message
    assert f"; exceeded quota: {quota}.blue; " in answer.message
    holds(cluster, f"{quota}.red", other)
    assert cluster.create(manifests.pod(other, "three")).accepted
    assert holds(cluster, f"{quota}.blue", first, second) == "gpus 3 of 3"
    assert cluster.delete("Pod", "one", first, gracePeriodSeconds=0).accepted
    until(lambda: holds(cluster, f"{quota}.blue", first, second) == "gpus 1 of 3", "the pod is gone")
    assert cluster.create(manifests.pod(second, "three")).accepted


def test_full_namespace_charges_nothing_to_its_tenant(cluster, research):
    quota, key = research(8)
    team = limited(cluster, member(cluster, key, "blue"), 1)
    holds(cluster, f"{quota}.blue", team)
    assert cluster.create(manifests.pod(team, "first")).accepted
    answer = cluster.create(manifests.pod(team, "second"))
    assert answer.code == 403
    assert "; exceeded quota: gpu; " in answer.message
    assert holds(cluster, f"{quota}.blue", team) == "gpus 1 of 8"
    assert summary(cluster, team) == "gpus 1 of 1"


def test_full_tenant_charges_nothing_to_the_namespace(cluster, research):
    quota, key = research(1)
    team = limited(cluster, member(cluster, key, "blue"), 8)
    holds(cluster, f"{quota}.blue", team)
    assert cluster.create(manifests.pod(team, gpus=2)).code == 403
    assert amounts(cluster, team) == ("0", "0")


def test_namespace_that_moves_takes_its_pods_along(cluster, research):
    quota, key = research(2)
    first, second = (member(cluster, key, "blue") for _ in range(2))
    holds(cluster, f"{quota}.blue", first, second)
    assert cluster.create(manifests.pod(first, "one", gpus=2)).accepted
    assert cluster.create(manifests.pod(second, "two")).code == 403
    assert cluster.patch("Namespace", first, body={"metadata": {"labels": {key: "red"}}}).accepted
    assert holds(cluster, f"{quota}.red", first) == "gpus 2 of 2"
    assert holds(cluster, f"{quota}.blue", second) == "gpus 0 of 2"
    assert cluster.create(manifests.pod(second, "two")).accepted
    assert cluster.create(manifests.pod(first, "three")).code == 403


def test_groups_are_deleted_with_their_quota(cluster, research):
    quota, key = research(2)
    team = member(cluster, key, "blue")
    holds(cluster, f"{quota}.blue", team)
    assert cluster.delete("ClusterGPUQuota", quota).accepted
    until(lambda: group(cluster, f"{quota}.blue").code == 404, "the group is gone")
    assert cluster.create(manifests.pod(team, gpus=4)).accepted


def test_gpu_hours_of_a_pod_are_summed_for_its_namespace_and_its_tenant(cluster, research):
    quota, key = research(8)
    team = limited(cluster, member(cluster, key, "blue"), 8)
    holds(cluster, f"{quota}.blue", team)
    ledgers = [("GPUQuota", "gpu", team), ("GPUQuotaGroup", f"{quota}.blue", "")]
    assert cluster.create(manifests.pod(team, "one", gpus=2)).accepted

    def summed(is_held):
        found = [GPUHours.read(cluster.get(*each).object) for each in ledgers]
        return all(each is not None and bool(each.now) == is_held for each in found) and found

    until(lambda: summed(is_held=True), "both hold the pod")
    assert cluster.delete("Pod", "one", team, gracePeriodSeconds=0).accepted
    for each in until(lambda: summed(is_held=False), "the pod is gone"):
        sums = total_seconds(each.days)
        assert {kind.namespace for kind in sums} == {team}
        assert all(seconds >= 2 for seconds in sums.values())
