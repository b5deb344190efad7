"""Namespaces join and leave groups, while leaders change and caches are behind: no group counts too little."""

import contextlib
import random
from fractions import Fraction

import pytest

from policies.kubernetes.objects import mappings_at
from policies.kubernetes.view import UNKNOWN
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import says_that_all_have_seen
from policies.quota.ledger.status import Versions
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN, Bill, Charge
from tests.controllers.quotas.test_quota_groups import Research
from tests.properties import examples
from webhook.cluster.clockwork import Clockwork
from webhook.controllers import quota_count
from webhook.controllers.group_upkeep import GroupUpkeep
from webhook.controllers.metrics import IncompleteRound
from webhook.controllers.presence import Presence
from webhook.controllers.quota_count import Both, Listed
from webhook.ledger import LedgerKey
from webhook.server.quota_keeper import HoldersSeen, QuotaKeeper

OURS = "gpu-admission"


@pytest.fixture
def research(team, leader, midnight):
    team.sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS}})
    return Research(team, leader, Clockwork(clock=lambda: team.seconds, now=lambda: midnight))


def charge_of(name, namespace, gpus=1):
    bill = Bill({"all": Fraction(gpus)}, {"gpus": Fraction(gpus), "memory": Fraction(0), "devices": Fraction(gpus)})
    return Charge(name, "Pod", namespace, f"{namespace}/{name}", {OWN: bill})


async def test_leader_with_old_labels_keeps_a_namespace_that_the_last_leader_counted(research, replica):
    research.quota()
    research.namespace("a", "blue")
    research.pod("pod", "a", 3)
    behind = await replica()
    await behind.see()
    await research.settle()
    research.namespace("a", "red")
    await research.settle()
    assert research.summary("research.red") == "all 3 of 8"
    await behind.see("GPUQuotaGroup", "ClusterGPUQuota", "Pod", "ResourceClaim")
    for _ in range(3):
        await behind.round.round()
        await behind.see("GPUQuotaGroup")
    assert research.summary("research.red") == "all 3 of 8"
    assert research.group("research.red")["status"]["namespaces"] == ["a"]
    assert research.condition(research.group("research.red"))[:2] == ("Unknown", "NotSeen")
    await behind.count()
    await behind.count()
    assert research.condition(research.group("research.red"))[0] == "True"


async def test_leader_with_an_old_ledger_does_not_drop_what_the_last_leader_counted(research, replica):
    research.quota()
    research.namespace("a", "blue")
    research.namespace("b", "red")
    research.pod("pod", "a", 3)
    await research.settle()
    behind = await replica()
    await behind.see()
    research.namespace("a", "red")
    await research.settle()
    research.pod("more", "b", 1)
    await behind.see("Pod", "ResourceClaim")
    await behind.round.round()
    assert research.group("research.red")["status"]["namespaces"] == ["a", "b"]
    await research.settle()
    assert research.summary("research.red") == "all 4 of 8"


async def test_leader_with_old_limits_does_not_raise_what_the_last_leader_lowered(research, replica):
    research.quota()
    research.namespace("a", "blue")
    await research.settle()
    behind = await replica()
    await behind.see()
    stored = research.stored
    lowered = {**stored["spec"], "limits": [{"name": "all", "gpus": 4}]}
    research.sandbox.replace({**stored, "metadata": {**stored["metadata"], "generation": 2}, "spec": lowered})
    await research.settle()
    await behind.see("GPUQuotaGroup")
    await GroupUpkeep(behind.client, behind.view).round()
    assert research.group()["spec"]["limits"] == [{"name": "all", "gpus": 4}]


async def test_charge_in_a_namespace_that_has_left_is_dropped_although_its_object_exists(research):
    """A replica may have charged the old group in the moment when the leader recounted it."""
    research.quota()
    research.namespace("a", "blue")
    research.namespace("b", "blue")
    await research.settle()
    research.namespace("a", "red")
    await research.settle()
    research.pod("pod", "a", 3)
    charge = charge_of("pod", "a", 3)
    await research.leader.writer.charge(LedgerKey.of_group("research.blue"), lambda _quota: charge, enforced=True)
    await research.settle()
    assert research.summary() == "all 3 of 8"
    research.team.seconds += 121
    await research.settle()
    assert (research.summary(), research.summary("research.red")) == ("all 0 of 8", "all 3 of 8")


async def test_charge_in_a_namespace_that_joins_stays_before_the_leader_has_seen_it(research):
    research.quota()
    research.namespace("a", "blue")
    await research.settle()
    research.namespace("c", "blue")
    charge = charge_of("on-its-way", "c", 3)
    await research.leader.writer.charge(LedgerKey.of_group("research.blue"), lambda _quota: charge, enforced=True)
    research.pod("pod", "a", 1)
    await research.leader.see("Pod", "GPUQuotaGroup")
    await research.leader.round.round()
    assert research.group()["status"]["namespaces"] == ["a"]
    assert research.summary() == "all 4 of 8"


async def test_pods_of_a_namespace_that_joins_are_no_drift(research):
    research.quota()
    research.namespace("a", "blue")
    research.namespace("b", "red")
    research.pod("pod", "a", 3)
    await research.settle()
    research.namespace("a", "red")
    await research.settle()
    assert research.summary("research.red") == "all 3 of 8"
    assert research.leader.sample("gpu_admission_quota_drift_total") == 0


async def test_group_is_not_said_to_hold_while_its_quota_cannot_be_read(research):
    """Replicas take its namespaces from its status then, which may be on its way."""
    research.quota()
    research.namespace("a", "blue")
    await research.settle()
    stored = research.stored
    broken = {**stored["spec"], "limits": [{"name": "all", "gpus": 8, "min": "1Ti"}]}
    research.sandbox.replace({**stored, "metadata": {**stored["metadata"], "generation": 2}, "spec": broken})
    await research.settle()
    status, reason, message = research.condition(research.group())
    assert (status, reason) == ("Unknown", "NotSeen")
    assert "ClusterGPUQuota research cannot be read" in message
    research.sandbox.replace({**stored, "metadata": {**stored["metadata"], "generation": 3}})
    await research.settle()
    assert research.condition(research.group())[0] == "True"


def test_lists_of_several_moments_are_as_old_as_the_oldest():
    both = Both(Listed((), "200", "100"), Listed((), "150"))
    assert both.reach(None)
    assert both.reach(Versions("100", "150"))
    assert not both.reach(Versions("150", "100"))


async def test_list_from_before_another_leaders_count_is_not_counted(research, replica, monkeypatch):
    """Of the lists of a group, one may be read before and one after the other leader's count."""
    research.quota()
    research.namespace("a", "blue")
    research.namespace("b", "blue")
    await research.settle()
    other, late = await replica(), await replica()
    pages, has_run = quota_count.raw_pages, []

    async def slow_pages(client, resource, namespace, query, *, limit):
        async for page in pages(client, resource, namespace, query, limit=limit):
            yield page
        if client is late.client and namespace == "a" and resource.kind == "Pod" and not has_run:
            has_run.append(True)
            charge = charge_of("pod", "a", 3)
            key = LedgerKey.of_group("research.blue")
            await other.writer.charge(key, lambda _quota: charge, enforced=True)
            research.pod("pod", "a", 3)
            await other.count()
            await other.count()
            research.pod("later", "b", 1)

    monkeypatch.setattr(quota_count, "raw_pages", slow_pages)
    await late.count()
    assert has_run
    assert research.summary() == "all 4 of 8"


class Cluster:
    """Two replicas that admit pods, two leaders that do not know of each other, and caches that are behind."""

    def __init__(self, research, caches, chance):
        self.research, self.team, self.sandbox = research, research.team, research.sandbox
        self.caches, self.chance = caches, chance
        self.client = caches[0].client
        self.presences = [self._presence(number) for number in range(2)]
        self.keepers = [self._keeper(number) for number in range(2)]
        self.upkeeps = [GroupUpkeep(each.client, each.view, research.upkeep.clockwork) for each in caches]
        self.number = 0
        self.held = set()
        """The namespaces whose group was said to hold since they joined it."""
        self.moved = "a"
        """The namespace that moved last, in which most pods are created."""
        self.labels = {"a": 0, "b": 0, "c": 1}
        """By namespace, the number in its label; it only grows, as a label that returns is another case."""

    def _presence(self, number):
        caches = self.caches[number]
        clockwork = Clockwork(clock=lambda: self.team.seconds)
        return Presence(caches.client, OURS, f"replica-{number}", lambda: caches.stores, clockwork=clockwork)

    def _keeper(self, number):
        caches, presence = self.caches[number], self.presences[number]
        return QuotaKeeper(
            caches.client,
            caches.view,
            caches.writer,
            HoldersSeen(caches.view),
            trusts_view=lambda: presence.is_trusted,
            trusts_groups=lambda: presence.is_trusted_with_groups,
        )

    def watch(self, caches, kind, most):
        """A watch brings its next events."""
        objects, store = self.sandbox._cluster, caches.stores[kind]
        served = objects.kinds.find(kind)
        for change in objects.store.collection(served).history.after(int(store.resource_version))[:most]:
            store.apply({"type": change.type, "object": change.entry.decode(served)})

    async def admit(self, number):
        """A replica reviews a pod, which is stored at once if it is charged."""
        namespace = self.chance.choice([*self.labels, self.moved, self.moved, self.moved])
        self.number += 1
        name = f"pod-{self.number}"
        group = await self.keepers[number]._group(namespace)
        if group is None or group is UNKNOWN:
            return
        key, writer = LedgerKey.of_group(group.name), self.caches[number].writer
        if not await writer.exists(key):
            return
        verdict = await writer.charge(key, lambda _quota: charge_of(name, namespace), enforced=True)
        if getattr(verdict, "allowed", False):
            self.research.pod(name, namespace, 1)

    def remove(self):
        if pods := self.sandbox.objects("Pod"):
            metadata = self.chance.choice(pods)["metadata"]
            self.sandbox.remove("Pod", metadata["name"], metadata["namespace"])

    def relabel(self):
        namespace = self.moved = self.chance.choice([*self.labels])
        self.labels[namespace] += 1
        self.held.discard(namespace)
        self.research.namespace(namespace, f"t{self.labels[namespace]}")

    async def lead(self, number):
        """A leader does a round of everything."""
        caches = self.caches[number]
        caches.hear()
        for task in (self.upkeeps[number], caches.round):
            with contextlib.suppress(IncompleteRound):  # its caches may be too far behind
                await task.round()

    def check(self):
        """No group counts less than is stored of the namespaces that it was once said to hold."""
        for document in self.sandbox.objects("GPUQuotaGroup"):
            status, label = document.get("status") or {}, document["spec"]["group"]
            if says_that_all_have_seen(mappings_at(status, ("conditions",))):
                self.held |= {each for each in status.get("namespaces", ()) if f"t{self.labels[each]}" == label}
            own = [each for each in self.held if f"t{self.labels[each]}" == label]
            stored = sum(len(self.sandbox.objects("Pod", each)) for each in own)
            ledger, (limit,) = Ledger.read(document), parse_quota(document).limits
            counted = (ledger.used_amount(limit) or 0) + ledger.reservations.total.get("all", 0)
            assert counted >= stored, (document["metadata"]["name"], own)

    async def settle(self):
        """Everybody sees everything."""
        for _ in range(4):
            for number in range(2):
                await self.caches[number].see()
                await self.presences[number]._turn(self.team.seconds)
                await self.lead(number)


KINDS = ("Namespace", "ClusterGPUQuota", "GPUQuotaGroup", "Pod")


@pytest.mark.hypothesis  # like tests with @given: `make properties` runs more of it
@pytest.mark.parametrize("seed", range(examples(8)))
async def test_no_group_counts_too_little_while_namespaces_move(research, replica, seed):
    chance = random.Random(seed)
    research.quota(gpus=100)
    cluster = Cluster(research, [research.leader, await replica()], chance)
    for name, number in cluster.labels.items():
        research.namespace(name, f"t{number}")
    await cluster.settle()
    for _ in range(60):
        number = chance.randrange(2)
        match chance.randrange(12):
            case 0:
                cluster.relabel()
            case 1:
                cluster.remove()
            case 2 | 3 | 4:
                await cluster.admit(number)
            case 5 | 6:
                (kind,) = chance.choices(KINDS, (1, 1, 4, 2))
                cluster.watch(cluster.caches[number], kind, chance.randint(1, 4))
            case 7 | 8:
                await cluster.lead(0 if chance.random() < 0.7 else 1)
            case 9:
                await cluster.presences[number]._turn(research.team.seconds)
            case 10:
                research.team.seconds += chance.choice([1, 1, 1, 15, 40])
            case 11:
                cluster.caches[number].round.forget()
        cluster.check()
    await cluster.settle()
    research.team.seconds += 121
    await cluster.settle()
    for document in research.sandbox.objects("GPUQuotaGroup"):
        names = [each for each, number in cluster.labels.items() if f"t{number}" == document["spec"]["group"]]
        stored = sum(len(research.sandbox.objects("Pod", each)) for each in names)
        assert document["status"]["summary"] == f"all {stored} of 100"
