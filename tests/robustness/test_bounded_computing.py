"""The work of charging, counting and template repair runs outside of the event loop; it is counted."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from policies.admission.reviews import missing_templates
from policies.conversion.templates import next_steps, used_by_pods
from policies.devices.published_devices import published_devices
from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by, count_work
from policies.quota.counter import Counter, Terms, largest_memory
from policies.quota.counting import cover
from policies.quota.demands.bills import bill
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import Charge, DeviceDemand, DeviceKind
from policies.rules.settings import DEFAULTS
from tests.quota.counted_objects import claim, document, pod
from webhook.cluster.manifests import ManifestsView
from webhook.ledger.accounts import Account
from webhook.ledger.documents import Reading
from webhook.ledger.pending import PendingCharge
from webhook.ledger.writer import _judge_batch
from webhook.server.driver import IN_LOOP, LedgerRunner

MANY = 5000
VIEW = ManifestsView([])
QUOTA = parse_quota(document())
PODS, CLAIMS = [pod(f"p{number}") for number in range(MANY)], [claim(f"c{number}") for number in range(MANY)]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def of_kinds(number):
    return DeviceDemand(1, frozenset(DeviceKind(f"product-{index}") for index in range(number)))


@pytest.mark.parametrize(
    "compute",
    [
        lambda: Counter().count(PODS, (), Terms(QUOTA, VIEW, DEFAULTS.quota)),
        lambda: cover(PODS[0], CLAIMS, "uid", QUOTA, VIEW, DEFAULTS.quota),
        lambda: bill([of_kinds(40)] * 500, QUOTA),
        lambda: used_by_pods(PODS * 2),
        lambda: missing_templates(PODS, VIEW, DEFAULTS),
        lambda: next_steps(PODS, (), NOW, timedelta(hours=1)),
    ],
    ids=["count", "cover", "bill", "sweep: pods", "repair", "sweep: templates"],
)
def test_what_grows_with_the_cluster_is_too_much_for_the_loop(compute):
    with pytest.raises(TooMuchWork), bounded_by(Work(IN_LOOP)):
        compute()


def test_largest_memory_looks_at_kinds_of_devices_and_not_at_each():
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"node-{number}"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": f"node-{number}",
                "pool": {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{gpu}", "capacity": {"memory": {"value": "81559Mi"}}} for gpu in range(8)],
            },
        }
        for number in range(2000)
    ]
    view = ManifestsView([*slices, {"apiVersion": "v1", "kind": "NodeList", "items": []}])
    view.derive(published_devices)
    with bounded_by(Work(IN_LOOP)):
        assert largest_memory(view) == 81559 * 2**20


def test_recount_of_a_large_namespace_is_too_much_for_the_loop():
    terms, counter = Terms(QUOTA, VIEW, DEFAULTS.quota), Counter()
    shown = counter.count(PODS, CLAIMS, terms)
    with pytest.raises(TooMuchWork), bounded_by(Work(IN_LOOP)):
        recount(Ledger(), QUOTA, Snapshot(*shown, "1", "1"))
    with pytest.raises(TooMuchWork), bounded_by(Work(IN_LOOP)):
        counter.count(PODS, CLAIMS, terms)


async def test_crowd_of_charges_is_too_much_for_the_loop():
    reading = Reading(document(), QUOTA, Ledger(), "2026-01-01T00:00:00Z")
    crowd = [
        PendingCharge(0.0, lambda _quota, uid=f"uid-{number}": Charge(uid, "Pod", "team-a", uid, {}), enforced=True)
        for number in range(100)
    ]
    with pytest.raises(TooMuchWork), bounded_by(Work(IN_LOOP)):
        _judge_batch(reading, crowd, Account("replica").balance(0.0, may_grant=False, is_flush=False, is_busy=False))


async def test_work_for_a_ledger_runs_aside_if_it_is_long():
    threads = []

    def work(units):
        count_work(units)
        threads.append(threading.current_thread() is threading.main_thread())
        return units

    run = LedgerRunner()
    assert [await run("team-a", lambda units=units: work(units)) for units in (1, IN_LOOP + 1)] == [1, IN_LOOP + 1]
    assert threads == [True, False]


async def test_work_for_a_ledger_that_waits_too_long_times_out():
    run = LedgerRunner(clock=iter(range(0, 10**6, 60)).__next__)
    run._runner._turns._is_taken = True
    with pytest.raises(TimeoutError):
        await run("team-a", lambda: count_work(IN_LOOP + 1))
