"""A charge on the ledgers of a namespace and of its group is on both or on none, whatever fails in between."""

import asyncio
import copy
import random
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.ledger.allowances import NoQuota
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import Snapshot, recount
from policies.quota.ledger.status import charge_items
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN, Charge
from tests.ledger.conftest import bill
from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.clockwork import Clockwork
from webhook.ledger.documents import LedgerKey
from webhook.ledger.writer import LedgerWriter

GROUP = LedgerKey.of_group("research")
TEAMS = [LedgerKey.of_namespace(name) for name in ("team-a", "team-b")]


class API:
    """Ledgers in memory, behind requests that take turns, conflict, and lose their answers."""

    def __init__(self, seed=0, faults=()):
        self.random = random.Random(seed)
        self.faults = faults
        self.stored, self.requests = {}, []
        self.on_put = {}
        """Coroutine functions by path, each run before the next write of that ledger."""

    def make(self, key, hard):
        kind = {"GPUQuota": {}, "GPUQuotaGroup": {"quota": "research"}}[key.kind]
        document = {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": key.kind,
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": str(key), "generation": 1},
            "spec": {**kind, "limits": [{"name": "all", "gpus": hard}]},
        }
        document["metadata"]["resourceVersion"] = "1"
        quota = parse_quota(document)
        document["status"] = recount(Ledger(), quota, Snapshot({}, {}, "1", "1")).status(quota, 1)
        self.stored[key.path()] = document

    async def get(self, path, **_options):
        await self.turns()
        self.requests.append(("get", path))
        if path not in self.stored:
            raise APIError(404, "NotFound", "not found")
        return copy.deepcopy(self.stored[path])

    async def put(self, path, body, **_options):
        await self.turns()
        path = path.removesuffix("/status")
        self.requests.append(("put", path))
        if (before := self.on_put.pop(path, None)) is not None:
            await before()
        luck = self.random.choice(self.faults) if self.faults else "fine"
        if luck == "unsent":
            raise Unreachable("unsent")
        stored = self.stored[path]
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise APIError(409, "Conflict", "changed")
        version = str(int(stored["metadata"]["resourceVersion"]) + 1)
        written = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        self.stored[path] = copy.deepcopy(written)
        await self.turns()
        if luck == "lost":
            raise Unreachable("lost")
        return written

    async def turns(self):
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)

    def reserved(self, key):
        return sum(Fraction(limit["reserved"]) for limit in self.stored[key.path()]["status"]["limits"])

    def writes(self, key):
        return self.requests.count(("put", key.path()))


class Hurry(Clockwork):
    """Time that passes as fast as anybody waits for it."""

    def __new__(cls):
        passed = [0.0]

        async def sleep(seconds):
            passed[0] += seconds
            await asyncio.sleep(0)

        return Clockwork(clock=lambda: passed[0], sleep=sleep)


@pytest.fixture
def api():
    api = API()
    api.make(GROUP, 6)
    for team in TEAMS:
        api.make(team, 4)
    return api


@pytest.fixture
def writer(api):
    return LedgerWriter(api, clockwork=Hurry())


def create(writer, team, uid, gpus, **options):
    charge = Charge(uid, "Pod", team.namespace, f"pod-{uid}", {OWN: bill(gpus)})
    return writer.charge_each(dict.fromkeys((GROUP, team), lambda _quota: charge), uid, **{"enforced": True, **options})


def is_admitted(verdicts):
    return all(isinstance(each, NoQuota) or each.allowed for each in verdicts.values())


async def test_charge_is_on_both_ledgers(api, writer):
    assert is_admitted(await create(writer, TEAMS[0], "a", 3))
    assert (api.reserved(GROUP), api.reserved(TEAMS[0]), api.reserved(TEAMS[1])) == (3, 3, 0)


async def test_each_ledger_has_a_call_of_its_own(api, writer):
    """Otherwise a late answer of the owner of one would be taken for that of the other."""
    await create(writer, TEAMS[0], "a", 3)
    charged = [charge_items(api.stored[key.path()]["status"]) for key in (GROUP, TEAMS[0])]
    assert len({charge["call"] for (charge,) in charged}) == 2


async def test_refusal_of_the_group_charges_no_namespace(api, writer):
    await create(writer, TEAMS[0], "a", 4)
    verdicts = await create(writer, TEAMS[1], "b", 3)
    assert [(key, verdict.allowed) for key, verdict in verdicts.items()] == [(GROUP, False)]
    assert (api.reserved(GROUP), api.reserved(TEAMS[1]), api.writes(TEAMS[1])) == (4, 0, 0)


async def test_full_namespace_costs_its_group_no_write(api, writer):
    await create(writer, TEAMS[0], "a", 4)
    before = api.writes(GROUP)
    verdicts = await create(writer, TEAMS[0], "b", 1)
    assert [(key, verdict.allowed) for key, verdict in verdicts.items()] == [(TEAMS[0], False)]
    assert (api.reserved(GROUP), api.writes(GROUP)) == (4, before)


async def test_namespace_that_another_replica_fills_meanwhile_takes_the_charge_of_the_group_back(api, writer):
    other = LedgerWriter(api, clockwork=Hurry())
    api.on_put[TEAMS[0].path()] = lambda: create(other, TEAMS[0], "b", 3)
    verdicts = await create(writer, TEAMS[0], "a", 3)
    await writer.close()
    assert [verdict.allowed for verdict in verdicts.values()] == [True, False]
    assert (api.reserved(GROUP), api.reserved(TEAMS[0])) == (3, 3)


@pytest.mark.parametrize(("enforced", "left"), [(True, 0), (False, 3)])
async def test_call_that_ends_in_between_leaves_a_charge_only_if_its_object_is_created(api, writer, enforced, left):
    waiting = asyncio.Event()

    async def hang():
        waiting.set()
        await asyncio.Event().wait()

    api.on_put[TEAMS[0].path()] = hang
    call = asyncio.create_task(create(writer, TEAMS[0], "a", 3, enforced=enforced))
    await waiting.wait()
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    await asyncio.wait([writer._workers[GROUP]] if GROUP in writer._workers else [asyncio.create_task(api.turns())])
    assert api.reserved(GROUP) == left
    for worker in writer._workers.values():
        worker.cancel()


async def test_dry_run_writes_to_neither(api, writer):
    assert is_admitted(await create(writer, TEAMS[0], "a", 3, dry_run=True))
    assert (api.writes(GROUP), api.writes(TEAMS[0])) == (0, 0)


async def test_namespace_without_a_quota_is_charged_in_its_group(api, writer):
    del api.stored[TEAMS[0].path()]
    verdicts = await create(writer, TEAMS[0], "a", 3)
    assert (is_admitted(verdicts), verdicts[TEAMS[0]], api.reserved(GROUP)) == (True, NoQuota(), 3)


async def test_group_that_does_not_exist_yet_is_told_from_one_that_admits(api, writer):
    del api.stored[GROUP.path()]
    assert (await create(writer, TEAMS[0], "a", 3))[GROUP] == NoQuota()


FAULTS = st.sampled_from([(), ("fine", "fine", "lost"), ("fine", "fine", "lost", "unsent")])
CALLS = st.lists(
    st.tuples(
        st.integers(0, 2),  # the replica
        st.integers(0, 1),  # the namespace
        st.integers(0, 5),  # the pod, so that some calls are repeated
        st.integers(1, 3),  # GPUs
        st.sampled_from(["waits", "waits", "waits", "is cancelled"]),
        st.integers(0, 12),  # turns before it comes
    ),
    max_size=12,
)


@given(CALLS, FAULTS, st.integers(0, 2**32), st.integers(0, 30) | st.none())
def test_no_limit_is_exceeded_whatever_ends_in_between(calls, faults, seed, crash_after):
    asyncio.run(Run(calls, faults, seed).run(crash_after))


class Run:
    """Replicas that charge pods, of which one may end without a word; what they admit is stored."""

    def __init__(self, calls, faults, seed):
        self.api = API(seed, faults)
        self.api.make(GROUP, 6)
        for team in TEAMS:
            self.api.make(team, 4)
        self.calls = calls
        self.replicas = [LedgerWriter(_Alive(self.api), clockwork=Hurry()) for _ in range(3)]
        self.pods = {}
        # A repeated call is charged, and stores nothing.
        self.is_exact = not faults and len({each[1:3] for each in calls}) == len(calls)

    async def run(self, crash_after):
        tasks = [asyncio.create_task(self.call(number, *each)) for number, each in enumerate(self.calls)]
        if crash_after is not None:
            for _ in range(crash_after):
                await asyncio.sleep(0)
            self.replicas[0]._documents._client.is_alive = False
            self.is_exact = False
        for task, (replica, *_) in zip(tasks, self.calls, strict=True):
            if replica == 0 and crash_after is not None:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for replica in self.replicas[1:] if crash_after is not None else self.replicas:
            await replica.close()
        for worker in self.replicas[0]._workers.values():
            worker.cancel()
        self.check()
        if self.is_exact:
            for key in (GROUP, *TEAMS):
                assert self.api.reserved(key) == self.held(key), key

    async def call(self, number, replica, team, pod, gpus, fate, turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        uid, team = f"uid-{team}-{pod}", TEAMS[team]
        is_first = not any(each[1:3] == self.calls[number][1:3] for each in self.calls[:number])
        call = asyncio.create_task(create(self.replicas[replica], team, uid, gpus))
        if fate == "is cancelled":
            await self.api.turns()
            call.cancel()
        try:
            verdicts = await call
        except (Unreachable, asyncio.CancelledError):
            return
        await self.api.turns()
        # A repeated call stores nothing: the API server answers each create once.
        if is_first and is_admitted(verdicts) and self.replicas[replica]._documents._client.is_alive:
            self.pods[uid] = (team, gpus)
        self.check()

    def held(self, key):
        return sum(gpus for team, gpus in self.pods.values() if key in (GROUP, team))

    def check(self):
        for key, hard in ((GROUP, 6), *((team, 4) for team in TEAMS)):
            assert self.held(key) <= hard, key
            assert self.held(key) <= self.api.reserved(key), key


class _Alive:
    """The connection of one replica, until it ends."""

    def __init__(self, api):
        self.api, self.is_alive = api, True

    async def get(self, path, **options):
        return await self._ask(self.api.get, path, **options)

    async def put(self, path, body, **options):
        return await self._ask(self.api.put, path, body, **options)

    async def _ask(self, request, *arguments, **options):
        if not self.is_alive:
            await asyncio.Event().wait()
        answer = await request(*arguments, **options)
        if not self.is_alive:
            await asyncio.Event().wait()
        return answer
