"""Quotas hold whatever happens: replicas with lagging caches, crashes, lost answers, leaders on stale lists.

`World` is an API server with what admits, makes claims, schedules, and counts around it, in steps that interleave as
hypothesis likes. What is proved is at `Machine`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from policies.quota import ledger as ledgers
from policies.quota import recount as recounts
from policies.quota.charges import OWN, Bill, Charge
from policies.quota.quota import Limit, Quota
from policies.quota.reservations import beyond
from policies.quota.selectors import Selector

STORED_WITHIN = 34
"""Seconds after an answer in which the API server may still store the object."""
ANSWERED_WITHIN = 10
UNSEEN_FOR = 120
NOTHING = ("none", 0)


@dataclass(frozen=True)
class Thing:
    """A pod or a claim."""

    uid: str
    kind: str
    name: str
    asks: tuple[str, int]
    templates: tuple[tuple[str, str], ...] = ()
    owner: str = ""
    piece: str = OWN
    is_made: bool = False
    """By the claim controller or the scheduler, not by somebody who says so."""
    got: str = ""
    has_ended: bool = False
    promised: tuple[tuple[str, tuple[str, int]], ...] = ()
    """What a pod was charged for its claims from templates."""
    is_named: bool = False
    """Whether the pod's status names it as its claim for extended resources."""


@dataclass
class Admission:
    """A CREATE on its way."""

    thing: Thing
    started: int
    charge: Charge | None = None
    counted: dict[str, Fraction] = field(default_factory=dict)
    promised: tuple[tuple[str, tuple[str, int]], ...] = ()
    answered: int | None = None


@dataclass
class Replica:
    waiting: list[Admission] = field(default_factory=list)
    batch: list[Admission] = field(default_factory=list)
    document: dict | None = None


@dataclass
class Leader:
    pods_at: int = 0
    claims_at: int = 0
    watched: dict[str, int] = field(default_factory=dict)
    document: dict | None = None
    write: ledgers.Ledger | None = None


def amounts(asks, quota, got=""):
    product, count = asks
    product = got or product
    return {
        limit.name: Fraction(count)
        for limit in quota.limits
        if count and (product == "any" or not limit.selector.products or product in limit.selector.products)
    }


def bill(asks, quota):
    return Bill(amounts(asks, quota), {unit: Fraction(asks[1]) for unit in ("gpus", "memory", "devices")})


class World:
    def __init__(self, replicas=2):
        self.now = 1000
        self.pods, self.claims = {}, {}
        self.history = [({}, {})]
        self.templates = {"t": ("h100", 1)}
        self.quota = Quota(
            (Limit("h100", "gpus", Fraction(3), Selector(("h100",))), Limit("all", "devices", Fraction(4)))
        )
        self.documents = [{"version": 1, "quota": self.quota, "status": None}]
        self.replicas = [Replica() for _ in range(replicas)]
        self.leaders = [Leader(), Leader()]
        self.coming: list[Admission] = []
        self.made = 0
        self.made_for: Counter[tuple[str, str]] = Counter()
        self.broken: list[Thing] = []
        self.excused = {limit.name: Fraction(0) for limit in self.quota.limits}

    # the API server

    @property
    def document(self):
        return self.documents[-1]

    def change(self):
        """Something was stored: one more resourceVersion."""
        self.history.append((dict(self.pods), dict(self.claims)))

    def write(self, read, ledger):
        """Compare and swap the status."""
        if read["version"] != self.document["version"]:
            return False
        status = ledger.status(read["quota"], 1)
        self.documents.append({"version": read["version"] + 1, "quota": read["quota"], "status": status})
        return True

    def new(self, kind, asks, **more):
        self.made += 1
        return Thing(f"uid-{self.made}", kind, f"name-{self.made}", asks, **more)

    def truth(self, quota):
        """What live pods and claims cost: a pod and claims made for its extended resources are for the same devices."""
        total = {limit.name: Fraction(0) for limit in quota.limits}
        for pod in self.pods.values():
            made = self.extended(pod.uid, self.claims)
            own = {} if pod.has_ended else amounts(pod.asks, quota, pod.got)
            for name in total:
                claims = sum(amounts(claim.asks, quota, claim.got).get(name, 0) for claim in made)
                total[name] += max(Fraction(0), own.get(name, 0) - claims)
        for claim in self.claims.values():
            for name, amount in amounts(claim.asks, quota, claim.got).items():
                total[name] += amount
        return total

    def extended(self, pod, claims):
        return [claim for claim in claims.values() if claim.owner == pod and claim.piece == OWN and claim.is_made]

    # people and controllers who create

    def seen_at(self, lag):
        return self.history[max(0, len(self.history) - 1 - lag)]

    def generated(self, seen, which):
        """The claim controller, on a cache that may lag, makes a claim that it sees none of."""
        pods, claims = seen
        wanted = [
            (pod, piece, template)
            for pod in pods.values()
            for piece, template in pod.templates
            if not pod.has_ended and not any(each.owner == pod.uid and each.piece == piece for each in claims.values())
        ]
        if not wanted:
            return None
        pod, piece, template = wanted[which % len(wanted)]
        self.made_for[pod.uid, piece] += 1
        return self.new("ResourceClaim", self.templates[template], owner=pod.uid, piece=piece, is_made=True)

    def scheduled(self, seen, which):
        """The scheduler makes a claim for a pod's extended resources."""
        pods, claims = seen
        wanted = [
            pod for pod in pods.values() if pod.asks[1] and not pod.has_ended and not self.extended(pod.uid, claims)
        ]
        if not wanted:
            return None
        pod = wanted[which % len(wanted)]
        return self.new("ResourceClaim", pod.asks, owner=pod.uid, is_made=True)

    # replicas

    def read(self, replica, age):
        """A replica reads the ledger, perhaps from its cache, and then what charges need."""
        replica.document = self.documents[max(0, len(self.documents) - 1 - age)]
        replica.batch, replica.waiting = replica.batch + replica.waiting, []
        for admission in replica.batch:
            admission.charge, admission.counted = self.charge_of(admission.thing, replica.document)
            admission.promised = tuple(
                (piece, self.templates[template]) for piece, template in admission.thing.templates
            )

    def charge_of(self, thing, document):
        quota = document["quota"]
        pieces = {OWN: bill(thing.asks, quota)}
        pieces |= {piece: bill(self.templates[template], quota) for piece, template in thing.templates}
        of = (thing.owner, thing.piece) if thing.is_made else None
        charge = Charge(thing.uid, thing.kind, "team-a", thing.name, pieces, of)
        counted: dict[str, Fraction] = {}
        pod = self.pods.get(thing.owner)
        if of is not None and of[1] == OWN and pod is not None and not pod.has_ended:
            counted = amounts(pod.asks, quota, pod.got)
            for claim in self.extended(pod.uid, self.claims):
                counted = beyond(counted, amounts(claim.asks, quota, claim.got))
        return charge, counted

    def answer(self, replica, luck):
        """A replica charges its batch in one write and answers; its answers, or that of the write, may be lost.

        It refuses on what it has read last from the API server, never on a cache that may lag.
        """
        if replica.document is None:
            return
        read, batch = replica.document, replica.batch
        ledger, allowed = self.ledger(read), []
        for admission in batch:
            verdict = ledger.charge(admission.charge, read["quota"], time="now", counted=admission.counted)
            if isinstance(verdict, ledgers.Ledger):
                ledger = verdict
                allowed.append(admission)
            elif read["version"] != self.document["version"]:
                replica.waiting.append(admission)
            elif self.is_promised(admission.thing):
                self.broken.append(admission.thing)
        replica.document, replica.batch = None, []
        if ledger.reservations != self.ledger(read).reservations and not self.write(read, ledger):
            replica.waiting += [each for each in batch if each not in replica.waiting]
            return
        if luck == "lost":
            replica.waiting += [each for each in batch if each not in replica.waiting]
        elif luck != "crash":
            for admission in allowed:
                if self.now - admission.started <= ANSWERED_WITHIN:
                    admission.answered = self.now
                    admission.thing = replace(admission.thing, promised=admission.promised)
                    self.coming.append(admission)

    def is_promised(self, claim):
        """Whether a claim is the first for its piece of a pod that runs, and asks for no more than the pod was charged."""
        pod = self.pods.get(claim.owner)
        if pod is None or pod.has_ended or not claim.is_made or claim.piece == OWN:
            return False
        if self.made_for[claim.owner, claim.piece] > 1 or claim.uid.endswith("+"):
            return False
        first = not any(
            (each.owner, each.piece) == (claim.owner, claim.piece) for _, then in self.history for each in then.values()
        )
        return first and claim.asks in [asks for piece, asks in pod.promised if piece == claim.piece]

    @staticmethod
    def ledger(document):
        return ledgers.Ledger.read({"status": document["status"]})

    def store(self, which, luck):
        """The API server stores what was allowed, or something else refuses it, or its generated name is taken."""
        admission = self.coming.pop(which)
        if self.now - admission.answered > STORED_WITHIN or luck in ("refused", "crash"):
            return None
        if luck == "name taken":
            again = replace(admission.thing, uid=f"{admission.thing.uid}+", name=f"{admission.thing.name}+")
            return Admission(again, admission.started)
        stored = self.pods if admission.thing.kind == "Pod" else self.claims
        stored[admission.thing.uid] = admission.thing
        self.change()
        return None

    # what becomes of things

    def becomes(self, stored, uid, change):
        """A thing changes, or is gone where there is no change."""
        if change is None:
            del stored[uid]
        else:
            stored[uid] = replace(stored[uid], **change)
        self.change()

    # leaders

    def snapshot(self, leader, quota):
        pods, claims = self.history[leader.pods_at][0], self.history[leader.claims_at][1]
        return recounts.Snapshot(
            {uid: self.seen(pod, quota) for uid, pod in pods.items()},
            {uid: self.seen(claim, quota) for uid, claim in claims.items()},
            str(leader.pods_at + 9),
            str(leader.claims_at + 9),
        )

    @staticmethod
    def seen(thing, quota):
        is_believed = thing.piece != OWN or thing.is_named
        return recounts.Counted(
            thing.uid,
            thing.kind,
            thing.name,
            thing.owner if is_believed else "",
            thing.piece if is_believed else OWN,
            {} if thing.has_ended else amounts(thing.asks, quota, thing.got),
            thing.has_ended,
        )

    def count(self, leader, age):
        """A leader works out what to write, on a ledger that may be old."""
        leader.document = self.documents[max(0, len(self.documents) - 1 - age)]
        quota = leader.document["quota"]
        leader.write = recounts.recount(self.ledger(leader.document), quota, self.snapshot(leader, quota))

    def watch(self, leader):
        """A leader looks how long charges have not been seen, and live for those that it has watched long enough."""
        leader.document = self.document
        ledger = self.ledger(leader.document)
        unseen = {charge.uid for charge in ledger.reservations if OWN in charge.pieces}
        leader.watched = {uid: leader.watched.get(uid, self.now) for uid in sorted(unseen)}
        leader.write = ledger
        for uid, since in leader.watched.items():
            if self.now - since >= UNSEEN_FOR and uid not in self.pods and uid not in self.claims:
                leader.write = leader.write.release(uid)

    def finish(self, leader):
        if leader.document is not None and leader.write is not None:
            self.write(leader.document, leader.write)
        leader.document = leader.write = None

    # people who change the quota

    def respec(self, quota):
        """Over a limit may then be what the ledger says is taken, or was there or reserved where it was not counted."""
        self.quota = quota
        self.documents.append({**self.document, "version": self.document["version"] + 1, "quota": quota})
        ledger, truth = self.ledger(self.document), self.truth(quota)
        reserved = ledger.under(quota).reservations.total
        for limit in quota.limits:
            used = ledger.used(limit)
            self.excused[limit.name] = (truth[limit.name] if used is None else used) + reserved.get(limit.name, 0)

    def quiet(self):
        """Nobody does anything any more, but for those who put things right."""
        for replica in self.replicas:
            replica.waiting, replica.batch, replica.document = [], [], None
        self.coming.clear()
        for claim in list(self.claims.values()):
            self.claims[claim.uid] = replace(claim, is_named=claim.is_made)
        self.change()
        leader = self.leaders[0]
        for each in self.leaders:
            each.document = each.write = None
        for _ in range(3):
            leader.pods_at = leader.claims_at = len(self.history) - 1
            self.count(leader, 0)
            self.finish(leader)
            self.watch(leader)
            self.finish(leader)
            self.now += UNSEEN_FOR


ANY = st.integers(0, 11)
FEW = st.integers(0, 1)
LAG = st.sampled_from([0, 0, 1, 2, 3, 5])
PRODUCTS = st.sampled_from(["h100", "h100", "h100", "any", "a100"])
FAR = st.sampled_from(["asked", "answered", "stored", "stored"])
LUCK = st.sampled_from(["fine", "fine", "fine", "lost", "crash", "refused", "name taken"])


class Machine(RuleBasedStateMachine):
    """Three things hold after every step:

    - What live pods and claims cost is within every limit, or within what was taken of it, reservations included, when
      it was last changed to less or to count something else.
    - A ledger that is primed says no less than what is there.
    - The claim that a pod was charged for is admitted.

    And when nobody does anything any more, two minutes later the ledger says what is there, and nothing is reserved but
    claims that pods still wait for.
    """

    def __init__(self):
        super().__init__()
        self.world = World()
        self.lead(0, 0, 0, 0, at_once=True)

    @rule(
        replica=FEW,
        product=PRODUCTS,
        count=st.sampled_from([0, 1, 2]),
        templates=st.sampled_from([(), ("t",), ("t", "t")]),
        far=FAR,
    )
    def create_pod(self, replica, product, count, templates, far):
        pieces = tuple((f"claim-{index}", template) for index, template in enumerate(templates))
        self.create(replica, self.world.new("Pod", (product, count), templates=pieces), far)

    @rule(replica=FEW, product=PRODUCTS, count=st.integers(1, 2), far=FAR)
    def create_claim(self, replica, product, count, far):
        self.create(replica, self.world.new("ResourceClaim", (product, count)), far)

    @precondition(lambda self: self.world.pods)
    @rule(replica=FEW, which=ANY, piece=st.sampled_from([OWN, "claim-0"]), far=FAR)
    def forge_claim(self, replica, which, piece, far):
        owner = chosen(self.world.pods, which)
        self.create(replica, self.world.new("ResourceClaim", ("h100", 1), owner=owner, piece=piece), far)

    @precondition(lambda self: len(self.world.history) > 2)
    @rule(replica=FEW, lag=LAG, which=ANY, far=FAR)
    def generate_claim(self, replica, lag, which, far):
        claim = self.world.generated(self.world.seen_at(lag), which)
        if claim is not None:
            self.create(replica, claim, far)

    @precondition(lambda self: len(self.world.history) > 2)
    @rule(replica=FEW, lag=LAG, which=ANY, far=FAR)
    def schedule(self, replica, lag, which, far):
        claim = self.world.scheduled(self.world.seen_at(lag), which)
        if claim is not None:
            self.create(replica, claim, far)

    def create(self, replica, thing, far):
        """Somebody creates something, and it goes so far before anything else happens."""
        world = self.world
        world.replicas[replica].waiting.append(Admission(thing, world.now))
        if far != "asked":
            world.read(world.replicas[replica], 0)
            world.answer(world.replicas[replica], "fine")
        if far == "stored" and world.coming and world.coming[-1].thing.uid == thing.uid:
            world.store(-1, "fine")

    @rule(product=st.sampled_from(["h100", "h100", "a100"]), count=st.integers(0, 2))
    def swap_template(self, product, count):
        self.world.templates["t"] = (product, count)

    @precondition(lambda self: any(each.waiting or each.document for each in self.world.replicas))
    @rule(which=FEW, lag=LAG, luck=LUCK)
    def replica_goes_on(self, which, lag, luck):
        replica = self.world.replicas[which]
        if replica.document is None:
            self.world.read(replica, lag)
        else:
            self.world.answer(replica, luck)

    @precondition(lambda self: self.world.coming)
    @rule(which=ANY, luck=LUCK, replica=FEW, at_once=st.booleans())
    def store(self, which, luck, replica, at_once):
        again = self.world.store(which % len(self.world.coming), luck)
        if again is not None:
            self.world.replicas[replica].waiting.append(again)
            if at_once:
                self.world.read(self.world.replicas[replica], 0)
                self.world.answer(self.world.replicas[replica], "fine")

    @precondition(lambda self: self.world.pods)
    @rule(which=ANY, becomes=st.sampled_from(["gone", "gone", "ended", "bound"]))
    def pod_becomes(self, which, becomes):
        uid, pods = chosen(self.world.pods, which), self.world.pods
        changes = {"ended": {"has_ended": True}, "bound": {"got": "h100" if pods[uid].asks[0] == "any" else ""}}
        self.world.becomes(pods, uid, changes.get(becomes))

    @precondition(lambda self: self.world.claims)
    @rule(which=ANY, becomes=st.sampled_from(["gone", "allocated", "named"]))
    def claim_becomes(self, which, becomes):
        uid, claims = chosen(self.world.claims, which), self.world.claims
        changes = {
            "allocated": {"got": "a100" if claims[uid].asks[0] == "any" else ""},
            "named": {"is_named": claims[uid].is_made},
        }
        self.world.becomes(claims, uid, changes.get(becomes))

    @rule(which=FEW, pods=LAG, claims=LAG, ledger=LAG, at_once=st.booleans())
    def lead(self, which, pods, claims, ledger, at_once):
        leader, latest = self.world.leaders[which], len(self.world.history) - 1
        leader.pods_at, leader.claims_at = max(0, latest - pods), max(0, latest - claims)
        self.world.count(leader, 0 if at_once else ledger)
        if at_once:
            self.world.finish(leader)

    @rule(which=FEW, at_once=st.booleans())
    def watch(self, which, at_once):
        self.world.watch(self.world.leaders[which])
        if at_once:
            self.world.finish(self.world.leaders[which])

    @precondition(lambda self: any(each.document for each in self.world.leaders))
    @rule(which=FEW)
    def leader_writes(self, which):
        self.world.finish(self.world.leaders[which])

    @rule(which=FEW)
    def leader_starts_anew(self, which):
        self.world.leaders[which] = Leader()

    @rule(seconds=st.sampled_from([1, 30, 30, 120]), watched=st.booleans())
    def time_passes(self, seconds, watched):
        """Perhaps while a leader watches."""
        if watched:
            self.watch(0, at_once=True)
        self.world.now += seconds
        if watched:
            self.watch(0, at_once=True)

    @invariant()
    def nothing_is_over_a_limit(self):
        truth = self.world.truth(self.world.quota)
        for limit in self.world.quota.limits:
            assert truth[limit.name] <= max(limit.hard, self.world.excused[limit.name]), limit

    @invariant()
    def the_ledger_says_no_less_than_there_is(self):
        world, ledger = self.world, self.world.ledger(self.world.document)
        truth = world.truth(world.quota)
        reserved = ledger.under(world.quota).reservations.total
        for limit in world.quota.limits:
            used = ledger.used(limit)
            if used is not None:
                assert truth[limit.name] <= used + reserved.get(limit.name, 0), limit

    @invariant()
    def claims_that_were_charged_with_their_pods_are_admitted(self):
        assert not self.world.broken

    def teardown(self):
        world = self.world
        world.quiet()
        ledger, truth = world.ledger(world.document), world.truth(world.quota)
        assert {limit.name: ledger.used(limit) for limit in world.quota.limits} == truth
        waiting = {(pod.uid, piece) for pod in world.pods.values() for piece, _ in pod.templates if not pod.has_ended}
        assert {(charge.uid, piece) for charge in ledger.reservations for piece in charge.pieces} <= waiting
        world.pods.clear()
        world.change()
        world.quiet()
        assert list(world.ledger(world.document).reservations) == []


class MachineWithSpecs(Machine):
    """The same when the quota is changed under way."""

    @rule(hard=st.integers(1, 4), devices=st.integers(2, 5))
    def change_hard(self, hard, devices):
        first, second = self.world.quota.limits
        self.world.respec(Quota((replace(first, hard=Fraction(hard)), replace(second, hard=Fraction(devices)))))

    @rule(products=st.sampled_from([("h100",), ("a100",), ()]))
    def change_selector(self, products):
        first, second = self.world.quota.limits
        self.world.respec(Quota((replace(first, selector=Selector(products)), second)))


def chosen(stored, which):
    return list(stored)[which % len(stored)]


def run(machine, **more):
    chosen = {
        "max_examples": 150,
        "stateful_step_count": 60,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
    }
    run_state_machine_as_test(machine, settings=settings(**chosen | more))


@pytest.mark.parametrize("machine", [Machine, MachineWithSpecs])
def test_quota_holds_whatever_happens(machine):
    run(machine)


def forgets_charges(monkeypatch):
    monkeypatch.setattr(recounts, "_unseen", lambda *_: None)


def gives_up_at_once(monkeypatch):
    monkeypatch.setitem(globals(), "UNSEEN_FOR", 0)


@pytest.mark.parametrize("wrong", [forgets_charges, gives_up_at_once])
def test_the_model_catches_what_is_wrong(wrong, monkeypatch):
    wrong(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run(
            Machine,
            max_examples=400,
            phases=[Phase.generate],
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        )
