"""The oracle of new quotas notices pods that no ledger knows, and quotas that are enforced too early."""

import itertools

import pytest

from policies.quota.ledger.open_charges import OpenCharge, compact_text
from testbed import manifests
from tests.storm.harness import oracle
from tests.storm.harness.history import Event
from tests.storm.harness.new_quotas import judge
from tests.storm.harness.orders import BEGUN

TEAM = "team"
KNOWN = 100
"""When the storm knows that the quota is enforced."""


class Log:
    """A history in the order of its calls."""

    def __init__(self):
        self._versions = itertools.count(1)
        self.events = []

    def _add(self, kind, document, *, is_gone=False, known=0):
        version = next(self._versions)
        metadata = {"namespace": TEAM, "uid": document["metadata"]["name"], **document["metadata"]}
        self.events.append(Event(version, kind, is_gone, {**document, "metadata": metadata}, known))
        return version

    def quota(self, *charges, used=0, status="Unknown", counted=0, uid="quota", is_gone=False):
        document = oracle.quota(TEAM, 4, 4, 4)
        document["metadata"]["uid"] = uid
        document["status"] = {
            "conditions": [{"type": "Enforced", "status": status, "reason": "NotSeen"}],
            "openCharges": compact_text(OpenCharge(charge, "Pod", charge, "", {}) for charge in charges),
            "counted": {"pods": str(counted), "claims": str(counted)},
            "limits": [
                {"name": name, "used": str(used), "reserved": str(len(charges))} for name in ("gpus", "devices")
            ],
        }
        document["spec"]["limits"] = document["spec"]["limits"][:2]
        return self._add("GPUQuota", document, is_gone=is_gone, known=KNOWN)

    def pod(self, name, begun=0, gpus=1):
        pod = manifests.pod(TEAM, name, gpus)
        pod["metadata"]["annotations"] = {BEGUN: str(begun)}
        return self._add("Pod", pod)

    def lease(self, seen, known=0):
        labels, annotations = {"gpu-admission.io/lease": "replica"}, {"gpu-admission.io/quotas-seen": str(seen)}
        metadata = {"name": "replica", "namespace": "gpu-admission", "labels": labels, "annotations": annotations}
        return self._add("Lease", {"metadata": metadata}, known=known)

    def report(self, *gaps):
        return judge(self.events, {TEAM}, gaps)


@pytest.fixture
def log():
    return Log()


def test_pods_that_a_new_quota_missed_may_exceed_it_once_they_are_counted(log):
    log.pod("before", gpus=4)
    log.quota()
    missed = log.pod("missed", gpus=4)
    log.quota(used=8, status="True", counted=missed)
    report = log.report()
    assert report.broken == []
    assert report.counts["objects missed"] == 1
    assert report.counts["said that not all have seen them"] == 1


def test_pods_that_are_charged_within_an_enforced_quota_are_right(log):
    version = log.quota()
    log.quota(status="True", counted=version)
    log.quota("train", status="True", counted=version)
    log.pod("train", KNOWN + 1)
    report = log.report()
    assert report.broken == []
    assert report.counts["objects admitted by an enforced quota"] == 1


def test_pod_without_a_charge_that_began_after_the_quota_was_enforced_is_noticed(log):
    version = log.quota()
    log.quota(used=4, status="True", counted=version)
    log.pod("train", KNOWN + 1)
    (broken,) = log.report().broken
    assert "Pod train, stored at 3, has no charge" in broken


def test_pod_whose_review_ended_before_is_left_out(log):
    version = log.quota()
    log.quota(status="True", counted=version)
    log.pod("train", KNOWN - 1)
    report = log.report()
    assert report.broken == []
    assert report.counts["objects stored late"] == 1


def test_pod_over_an_enforced_quota_is_noticed_although_it_is_charged(log):
    log.quota()
    missed = log.pod("missed", gpus=4)
    log.quota(used=4, status="True", counted=missed)
    log.quota("train", used=4, status="True", counted=missed)
    log.pod("train", KNOWN + 1)
    assert ["admitted" in broken for broken in log.report().broken] == [True, True]


def test_quota_that_is_enforced_before_missed_pods_are_counted_is_noticed(log):
    log.quota()
    missed = log.pod("missed", gpus=2)
    log.quota(used=1, status="True", counted=missed)
    assert ["unknown to the ledger" in broken for broken in log.report().broken] == [True, True]


def test_quota_that_was_counted_before_a_replica_saw_it_is_noticed(log):
    log.lease(0)
    version = log.quota()
    seen = log.lease(version)
    log.quota(status="True", counted=version)
    assert [f"the last replica saw it at {seen}" in broken for broken in log.report().broken] == [True, True]


@pytest.mark.parametrize("before", [[], [(0, 0)], [(0, 0), (0, 21 * 10**9)]], ids=["new", "silent", "with-a-late-call"])
def test_replica_that_the_leader_need_not_wait_for_is_left_out(log, before):
    for lease in before:
        log.lease(*lease)
    version = log.quota()
    log.lease(version, 21 * 10**9)
    log.quota(status="True", counted=version)
    assert log.report().broken == []


def test_next_quota_of_a_namespace_begins_anew(log):
    version = log.quota()
    log.quota(status="True", counted=version)
    log.quota(is_gone=True)
    log.pod("between", KNOWN + 1, gpus=5)
    log.quota(uid="next")
    log.pod("missed", KNOWN + 1)
    assert log.report().broken == []


def test_what_is_in_a_gap_is_not_judged(log):
    version = log.quota()
    log.quota(used=4, status="True", counted=version)
    stored = log.pod("train", KNOWN + 1, gpus=5)
    log.quota(used=4, status="True", counted=stored)
    assert log.report((version, stored)).broken == []
