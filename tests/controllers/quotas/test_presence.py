"""Replicas say in Leases which GPUQuotas they have seen, and a new quota holds once all have."""

import asyncio
import contextlib
import random

import pytest

from tests.properties import examples
from webhook.cluster.answers import Unreachable
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.leases import LEASE
from webhook.controllers.presence import Presence, Presences, PresenceTiming

OURS = "gpu-admission"
TIMING = PresenceTiming()
SEEN = ("GPUQuota", "ClusterGPUQuota", "GPUQuotaGroup", "Namespace")


class Place:
    """Replicas with Leases and caches of their own, and the leader that reads the Leases."""

    def __init__(self, team, caches):
        self.team = team
        self.caches = caches
        self.client = caches[0].client
        self.cut = set()
        self.replicas = [self._replica(number, each) for number, each in enumerate(caches)]
        self.presences = Presences(self.client, OURS, clock=self.clock)

    def clock(self):
        return self.team.seconds

    def _replica(self, number, caches):
        return Presence(
            Cut(caches.client, lambda: number in self.cut),
            OURS,
            f"replica-{number}",
            lambda: caches.stores,
            clockwork=Clockwork(clock=self.clock),
        )

    async def turn(self, number=0):
        await self.replicas[number]._turn(self.clock())

    async def see(self, number=0, *kinds):
        await self.caches[number].see(*kinds or SEEN)

    async def settle(self):
        """All replicas have seen everything, and have said so."""
        for number in range(len(self.replicas)):
            await self.see(number)
            await self.turn(number)

    def quota(self, namespace):
        if self.team.sandbox.get("Namespace", namespace) is None:
            self.team.sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        stored = self.team.sandbox.create(
            {
                "apiVersion": "gpu-admission.io/v1alpha1",
                "kind": "GPUQuota",
                "metadata": {"name": "gpu", "namespace": namespace},
                "spec": {"limits": [{"name": "all", "gpus": 8}]},
            }
        )
        return stored["metadata"]["resourceVersion"]

    def namespace(self, name, **labels):
        """Create a namespace, or give it other labels; returns the version."""
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        stored = self.team.sandbox.get("Namespace", name)
        write = self.team.sandbox.create if stored is None else self.team.sandbox.replace
        return write(document)["metadata"]["resourceVersion"]

    def cluster_quota(self, name):
        return self.team.sandbox.create(
            {
                "apiVersion": "gpu-admission.io/v1alpha1",
                "kind": "ClusterGPUQuota",
                "metadata": {"name": name},
                "spec": {"limits": [{"name": "all", "gpus": 8}], "namespaceSelector": {"matchLabels": {"team": name}}},
            }
        )["metadata"]["resourceVersion"]

    def watch(self, number, kind, most=1):
        """A replica's watch of a kind brings its next events."""
        cluster, store = self.team.sandbox._cluster, self.caches[number].stores[kind]
        served = cluster.kinds.find(kind)
        for change in cluster.store.collection(served).history.after(int(store.resource_version))[:most]:
            store.apply({"type": change.type, "object": change.entry.decode(served)})

    @property
    def leases(self):
        return self.team.sandbox.objects("Lease")

    async def why(self, version):
        await self.presences.look()
        return self.presences.why_unseen({"GPUQuota": version})


class Cut:
    """A client whose calls do not arrive while it is cut off."""

    def __init__(self, client, is_cut):
        self._client, self._is_cut = client, is_cut

    def __getattr__(self, name):
        call = getattr(self._client, name)

        async def send(*arguments, **options):
            if self._is_cut():
                raise Unreachable("cut off")
            return await call(*arguments, **options)

        return send


@pytest.fixture
async def place(team, replica):
    team.sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS}})
    return Place(team, [await replica(), await replica()])


async def test_replica_trusts_its_cache_once_it_has_a_lease_and_has_compared(place):
    assert not place.replicas[0].is_trusted
    await place.see()
    await place.turn()
    assert place.replicas[0].is_trusted


async def test_replica_whose_cache_lacks_a_quota_does_not_trust_it(place):
    await place.see()
    place.quota("team-a")
    await place.turn()
    assert not place.replicas[0].is_trusted
    await place.see()
    await place.turn()
    assert place.replicas[0].is_trusted


async def test_trust_ends_without_renewals(place):
    await place.settle()
    place.cut.add(0)
    place.team.seconds += TIMING.trusted - 0.1
    await place.turn()
    assert place.replicas[0].is_trusted
    place.team.seconds += 0.2
    assert not place.replicas[0].is_trusted


async def test_replica_compares_again_after_a_gap(place):
    await place.settle()
    place.cut.add(0)
    place.team.seconds += TIMING.trusted
    place.quota("team-a")
    place.cut.clear()
    await place.turn()
    assert not place.replicas[0].is_trusted
    await place.see()
    await place.turn()
    assert place.replicas[0].is_trusted


async def test_replica_without_its_lease_trusts_nothing_until_it_has_another(place):
    await place.settle()
    (name,) = [each["metadata"]["name"] for each in place.leases if each["spec"]["holderIdentity"] == "replica-0"]
    await place.client.delete(LEASE.path(OURS, name))
    await place.turn()
    assert not place.replicas[0].is_trusted
    await place.turn()
    assert place.replicas[0].is_trusted


async def test_leader_waits_for_replicas_that_have_not_seen_a_quota(place):
    await place.settle()
    version = place.quota("team-a")
    assert await place.why(version) == "replica-0, replica-1 have not seen it"
    await place.see(0)
    await place.turn(0)
    assert await place.why(version) == "replica-1 has not seen it"
    await place.settle()
    assert await place.why(version) == ""


async def test_leader_waits_for_a_replica_that_is_silent_until_its_lease_expires(place):
    await place.settle()
    version = place.quota("team-a")
    await place.see(0)
    await place.turn(0)
    await place.presences.look()
    place.team.seconds += TIMING.expired - 0.1
    assert await place.why(version) == "replica-1 has not seen it"
    place.team.seconds += 0.2
    assert await place.why(version) == ""


async def test_leader_waits_for_a_lease_that_somebody_deleted(place):
    await place.settle()
    await place.presences.look()
    version = place.quota("team-a")
    for lease in place.leases:
        await place.client.delete(LEASE.path(OURS, lease["metadata"]["name"]))
    assert await place.why(version) == "replica-0, replica-1 have not seen it"


async def test_leader_does_not_wait_for_a_replica_that_has_withdrawn(place):
    await place.settle()
    version = place.quota("team-a")
    for replica in place.replicas:
        await replica.withdraw()
        assert not replica.is_trusted
    assert await place.why(version) == ""
    assert place.leases == []


async def test_lease_that_nobody_renews_is_deleted_in_the_end(place):
    await place.settle()
    await place.presences.look()
    place.team.seconds += TIMING.forgotten
    await place.presences.look()
    assert place.leases == []


async def test_leases_of_stopped_replicas_are_deleted_although_no_quota_is_awaited(place):
    """A replica that is killed leaves its Lease behind, so those of a crash loop would pile up."""
    await place.settle()
    await place.replicas[0].withdraw()
    leader = place.caches[0]
    await leader.round.round()
    assert [each["spec"]["holderIdentity"] for each in place.leases] == ["replica-1"]
    for _ in range(2):
        place.team.seconds += TIMING.forgotten / 2
        await leader.count_what_was_seen()
    assert place.leases == []


async def test_leader_that_cannot_read_leases_says_so(place):
    presences = Presences(Cut(place.client, lambda: True), OURS, clock=place.clock)
    await presences.look()
    assert presences.why_unseen({"GPUQuota": "1"}) == "the Leases of the replicas cannot be read: cut off"


@pytest.mark.hypothesis  # like tests with @given: `make properties` runs more of it
@pytest.mark.parametrize("seed", range(examples(20)))
async def test_quota_that_all_have_seen_is_in_every_cache_that_is_trusted(place, seed):
    """The end of the condition Unknown: no replica admits by an older cache any more, in any order of events."""
    chance = random.Random(seed)
    awaited, seen = {}, set()
    for step in range(60):
        number = chance.randrange(2)
        match chance.randrange(8):
            case 0:
                awaited[f"team-{step}"] = place.quota(f"team-{step}")
            case 1 | 2:
                await place.see(number)
            case 3 | 4:
                await place.turn(number)
            case 5:
                place.cut ^= {number}
            case 6:
                place.team.seconds += chance.choice([1, 5, 9, 15, 40])
            case 7:
                await place.presences.look()
                seen |= {
                    name for name, version in awaited.items() if not place.presences.why_unseen({"GPUQuota": version})
                }
        for namespace in seen:
            for replica, caches in zip(place.replicas, place.caches, strict=True):
                assert not replica.is_trusted or caches.stores["GPUQuota"].get(namespace, "gpu") is not None


async def test_groups_are_trusted_once_the_caches_show_every_change(place):
    place.cluster_quota("research")
    place.namespace("lab", team="research")
    await place.settle()
    assert place.replicas[0].is_trusted_with_groups
    place.team.seconds += TIMING.trusted
    place.namespace("lab", team="sales")
    await place.turn()
    assert place.replicas[0].is_trusted
    assert not place.replicas[0].is_trusted_with_groups
    place.watch(0, "Namespace")
    await place.turn()
    assert place.replicas[0].is_trusted_with_groups


async def test_cache_that_still_has_to_show_labels_in_between_is_not_trusted(place):
    """It shows the same labels as the API server, and would show others in a moment."""
    place.cluster_quota("research")
    place.namespace("lab", team="research")
    await place.settle()
    place.team.seconds += TIMING.trusted
    place.namespace("lab", team="sales")
    place.namespace("lab", team="research")
    await place.turn()
    assert not place.replicas[0].is_trusted_with_groups
    place.watch(0, "Namespace", 2)
    await place.turn()
    assert place.replicas[0].is_trusted_with_groups


async def test_cache_that_shows_a_deleted_quota_of_the_cluster_is_not_trusted_with_groups(place):
    """While it shows the older one, it charges the older one's group in place of that of the younger one."""
    place.cluster_quota("older")
    place.cluster_quota("younger")
    await place.settle()
    place.team.seconds += TIMING.trusted
    place.team.sandbox.remove("ClusterGPUQuota", "older")
    await place.turn()
    assert not place.replicas[0].is_trusted_with_groups
    place.watch(0, "ClusterGPUQuota")
    await place.turn()
    assert place.replicas[0].is_trusted_with_groups


async def test_namespaces_are_not_compared_without_quotas_of_the_cluster(place):
    await place.see()
    lists = place.team.requests("list", "namespaces")
    await place.turn()
    assert place.replicas[0].is_trusted_with_groups
    assert place.team.requests("list", "namespaces") == lists


async def test_replica_trusts_that_there_are_no_groups_until_their_kind_is_served(place):
    definition = place.team.sandbox.get("CustomResourceDefinition", "clustergpuquotas.gpu-admission.io")
    place.team.sandbox.remove("CustomResourceDefinition", definition["metadata"]["name"])
    await place.settle()
    assert place.replicas[0].is_trusted_with_groups
    place.team.sandbox.create(definition)
    place.cluster_quota("research")
    await place.see(0, "ClusterGPUQuota")
    assert not place.replicas[0].is_trusted_with_groups
    await place.turn()
    assert place.replicas[0].is_trusted_with_groups


async def test_leader_waits_for_replicas_that_have_not_seen_a_label(place):
    await place.settle()
    version = place.namespace("lab", team="research")
    await place.presences.look()
    wanted = {"GPUQuota": "1", "Namespace": version}
    assert place.presences.why_unseen(wanted) == "replica-0, replica-1 have not seen it"
    place.watch(0, "Namespace")
    await place.turn()
    await place.presences.look()
    assert place.presences.why_unseen(wanted) == "replica-1 has not seen it"
    assert place.presences.why_unseen({"GPUQuota": "1"}) == ""


async def test_leader_waits_for_no_bookmark_of_others(place):
    """A bookmark comes once a minute to each watch, so the version that another has reached by one says nothing."""
    await place.settle()
    store, replica = place.caches[0].stores["Namespace"], place.caches[1].stores["Namespace"]
    place.namespace("lab", team="research")
    for number in range(2):
        place.watch(number, "Namespace")
    version = place.cluster_quota("research")
    store.apply({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}})
    assert store.resource_version == version
    assert store.changed_version == replica.resource_version


class Membership:
    """Labels and ClusterGPUQuotas that change, and never come back to an earlier state."""

    def __init__(self, place):
        self.place = place
        self.numbers = iter(range(1000))
        self.quotas = []
        self.states = {"Namespace": [], "ClusterGPUQuota": []}
        self.relabel()
        self.add_quota()

    def relabel(self):
        label = f"t{next(self.numbers)}"
        self.place.namespace("lab", team=label)
        self.states["Namespace"].append({label})

    def add_quota(self):
        self.quotas.append(f"q{next(self.numbers)}")
        self.place.cluster_quota(self.quotas[-1])
        self.states["ClusterGPUQuota"].append({*self.quotas})

    def remove_quota(self):
        if len(self.quotas) > 1:
            self.place.team.sandbox.remove("ClusterGPUQuota", self.quotas.pop(0))
            self.states["ClusterGPUQuota"].append({*self.quotas})

    def age(self, stores, kind):
        """The number of the state that a cache shows; a later one is greater."""
        store = stores[kind]
        if kind == "Namespace":
            return self.states[kind].index({store.get("", "lab")["metadata"]["labels"]["team"]})
        return self.states[kind].index({each["metadata"]["name"] for each in store.list()})


@pytest.mark.hypothesis  # like tests with @given: `make properties` runs more of it
@pytest.mark.parametrize("seed", range(examples(30)))
async def test_membership_that_all_have_seen_is_shown_by_every_cache_that_is_trusted(place, seed):
    """The end of the condition Unknown of a group: no replica charges by older labels any more, in any order of events."""
    chance = random.Random(seed)
    membership, leader = Membership(place), place.caches[0].stores
    await place.settle()
    seen = dict.fromkeys(membership.states, 0)
    for _ in range(80):
        number = chance.randrange(2)
        match chance.randrange(10):
            case 0:
                membership.relabel()
            case 1:
                chance.choice([membership.add_quota, membership.remove_quota])()
            case 2 | 3:
                place.watch(number, chance.choice([*membership.states]), chance.randint(1, 3))
            case 4 | 5:
                await place.turn(number)
            case 6:
                place.cut ^= {number}
            case 7:
                place.team.seconds += chance.choice([1, 5, 9, 15, 40])
            case 8 | 9:
                ages = {kind: membership.age(leader, kind) for kind in seen}
                versions = {kind: leader[kind].changed_version for kind in seen}
                await place.presences.look()
                seen = seen if place.presences.why_unseen(versions) else ages
        for replica, caches in zip(place.replicas, place.caches, strict=True):
            if replica.is_trusted_with_groups:
                assert all(membership.age(caches.stores, kind) >= age for kind, age in seen.items())


async def renewals(place, seconds, *, is_held):
    """How often a Lease is written while a ledger changes at each look at the cache."""
    seen = {
        "type": "Enforced",
        "status": "True" if is_held else "Unknown",
        "reason": "Enforced" if is_held else "NotSeen",
    }
    store, version = place.caches[0].stores["GPUQuota"], [100]
    before = len(place.team.sandbox.requests)

    async def sleep(pause):
        place.team.seconds += pause
        version[0] += 1
        metadata = {"name": "gpu", "namespace": "team-a", "uid": "u", "resourceVersion": str(version[0])}
        status = {"summary": str(version[0]), "conditions": [seen]}
        store.apply({"type": "MODIFIED", "object": {"metadata": metadata, "spec": {}, "status": status}})
        if place.team.seconds >= 1000.0 + seconds:
            raise asyncio.CancelledError

    replica = Presence(
        place.client,
        OURS,
        "replica",
        lambda: place.caches[0].stores,
        clockwork=Clockwork(clock=place.clock, sleep=sleep),
    )
    with contextlib.suppress(asyncio.CancelledError):
        await replica.run()
    requests = [*place.team.sandbox.requests][before:]
    return [request.verb for request in requests if request.resource == "leases"]


async def test_charges_renew_no_lease_once_the_quota_holds(place):
    await place.see()
    assert await renewals(place, 9, is_held=True) == ["create"]


async def test_changes_renew_the_lease_while_replicas_may_not_have_seen_a_quota(place):
    await place.see()
    assert len(await renewals(place, 9, is_held=False)) > 30


async def test_change_of_labels_renews_the_lease_while_replicas_may_not_have_seen_a_member(place):
    await place.settle()
    place.team.sandbox.create(
        {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "GPUQuotaGroup",
            "metadata": {"name": "research"},
            "spec": {"quota": "research", "limits": [{"name": "all", "gpus": 8}]},
        }
    )
    await place.see()
    seen = place.replicas[0]._versions()
    assert not place.replicas[0]._is_awaited(seen)
    place.namespace("lab", team="research")
    place.watch(0, "Namespace")
    assert place.replicas[0]._is_awaited(seen)


@pytest.fixture
def silent(place):
    """The kinds of which each replica has heard nothing for too long, by its number."""
    kinds = [set(), set()]
    for replica, silent in zip(place.replicas, kinds, strict=True):
        replica.silent_kinds = lambda silent=silent: silent
    return kinds


async def look_twice(place, *renewed):
    """The leader looks at the Leases before and after some replicas have renewed theirs."""
    await place.presences.look()
    place.team.seconds += TIMING.renew
    for number in renewed:
        await place.turn(number)
    await place.presences.look()


async def test_replica_that_hears_of_all_wanted_kinds_is_found(place, silent):
    await place.settle()
    silent[1].add("Node")
    await look_twice(place, 0, 1)
    assert place.presences.replica_that_hears({"Pod", "Node"}, "replica-9") == "replica-0"
    assert place.presences.replica_that_hears({"Pod"}, "replica-0") == "replica-1"
    assert place.presences.replica_that_hears({"Pod", "Node"}, "replica-0") == ""


async def test_replica_that_did_not_renew_its_lease_is_not_relied_on(place, silent):
    await place.settle()
    await look_twice(place, 0)
    assert place.presences.replica_that_hears({"Pod"}, "replica-0") == ""


async def test_lease_that_was_renewed_long_ago_is_no_proof_that_its_replica_runs(place, silent):
    await place.settle()
    await look_twice(place, 1)
    place.team.seconds += TIMING.expired
    assert place.presences.replica_that_hears({"Pod"}, "replica-0") == ""


async def test_first_look_after_a_long_time_is_no_proof_that_a_replica_runs(place, silent):
    await place.settle()
    await place.presences.look()
    await place.turn(1)
    place.team.seconds += TIMING.expired
    await place.presences.look()
    assert place.presences.replica_that_hears({"Pod"}, "replica-0") == ""
