"""Events in the world of the quota model, in any order, and the invariants."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policies.rules.charges import OWN
from tests.quota.model.state import Admission, Leader
from tests.quota.model.world import World

ANY = st.integers(0, 11)
FEW = st.integers(0, 1)
LAG = st.sampled_from([0, 0, 1, 2, 3, 5])
PRODUCTS = st.sampled_from(["h100", "h100", "h100/4", "h100/3", "any", "a100"])
"""Of `h100/4` a pod or claim gets a share: a quarter of a GPU."""
FAR = st.sampled_from(["submitted", "answered", "stored", "stored"])
UNLIKE = st.sampled_from(["nothing", "nothing", "name", "kind", "more", "less", "pieces", "maker"])
LUCK = st.sampled_from(["fine", "fine", "fine", "lost", "crash", "refused", "name taken", "stopped"])


class Machine(RuleBasedStateMachine):
    """Three things hold after every step, whatever calls are repeated, forged and cancelled:

    - What live pods and claims cost is within every limit, or within what was taken of it, reservations included, when
      it was last changed to less or to count something else.
    - A ledger that is primed says no less than what is there.
    - The claim that a pod was charged for is admitted.

    And when nobody does anything any more, two minutes later the ledger says what is there, and nothing is reserved but
    claims that pods still wait for.
    """

    world_of = World

    def __init__(self):
        super().__init__()
        self.world = self.world_of()
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
        claim = self.world.generated(lag, which)
        if claim is not None:
            self.create(replica, claim, far)

    @precondition(lambda self: len(self.world.history) > 2)
    @rule(replica=FEW, lag=LAG, which=ANY, far=FAR)
    def schedule(self, replica, lag, which, far):
        claim = self.world.scheduled(self.world.seen_at(lag), which)
        if claim is not None:
            self.create(replica, claim, far)

    @precondition(lambda self: self.world.submitted)
    @rule(replica=FEW, which=ANY, unlike=UNLIKE, far=st.sampled_from(["submitted", "submitted", "answered"]))
    def repeat_a_call(self, replica, which, unlike, far):
        """A caller that is no API server repeats a call, the last ones rather than those long ago; or forges it.

        What becomes of it, `replica_goes_on` chooses: it may be refused, lost, or cancelled while the write is under way.
        """
        thing = list(self.world.submitted.values())[-1 - which % len(self.world.submitted)]
        is_known = any(each.thing.uid == thing.uid for each in self.world.coming) or thing.uid in self.world.claims
        if thing.kind == "Pod" or is_known:
            thing = forged(thing, unlike)
        self.world.submit(self.world.replicas[replica], Admission(thing, self.world.now, is_forged=True))
        if far == "answered":
            self.answer_at_once(replica)

    @precondition(lambda self: self.world.claims)
    @rule(replica=FEW, which=ANY, name=st.sampled_from(["", "", "another"]), far=FAR)
    def forge_origin(self, replica, which, name, far):
        """A caller says of a claim that is stored that a controller makes it for the pod that it names."""
        claim = self.world.claims[chosen(self.world.claims, which)]
        thing = replace(claim, is_made=True, name=name or claim.name)
        self.world.submit(self.world.replicas[replica], Admission(thing, self.world.now, is_forged=True))
        if far != "submitted":
            self.answer_at_once(replica)

    def create(self, replica, thing, far):
        """Somebody creates something, and it goes so far before anything else happens."""
        world = self.world
        world.submit(world.replicas[replica], Admission(thing, world.now))
        if far != "submitted":
            self.answer_at_once(replica)
        if far == "stored" and world.coming and world.coming[-1].thing.uid == thing.uid:
            world.store(-1, "fine")

    def answer_at_once(self, replica):
        """A replica answers at once, after a second try where it has to read a cover."""
        world, chosen_replica = self.world, self.world.replicas[replica]
        for _ in range(2):
            world.read(chosen_replica, 0)
            world.answer(chosen_replica, "fine")
            if not chosen_replica.uncovered:
                return
            world.read_covers(chosen_replica)

    @rule(product=st.sampled_from(["h100", "h100/4", "a100"]), count=st.integers(0, 2))
    def swap_template(self, product, count):
        self.world.templates["t"] = (product, count)

    @precondition(lambda self: any(each.is_busy for each in self.world.replicas))
    @rule(which=FEW, lag=LAG, luck=LUCK, leads=st.booleans())
    def replica_goes_on(self, which, lag, luck, leads):
        replica = self.world.replicas[which]
        if replica.document is None:
            self.world.read(replica, lag)
        else:
            self.world.answer(replica, luck, self.world.leaders[which] if leads else None)

    @precondition(lambda self: any(each.uncovered for each in self.world.replicas))
    @rule(which=FEW)
    def covers_are_read(self, which):
        self.world.read_covers(self.world.replicas[which])

    @precondition(lambda self: self.world.coming)
    @rule(which=ANY, luck=LUCK, replica=FEW, at_once=st.booleans())
    def store(self, which, luck, replica, at_once):
        again = self.world.store(which % len(self.world.coming), luck)
        if again is not None:
            self.world.submit(self.world.replicas[replica], again)
            if at_once:
                self.answer_at_once(replica)

    @precondition(lambda self: self.world.pods)
    @rule(which=ANY, becomes=st.sampled_from(["gone", "gone", "ended", "bound", "given a share"]))
    def pod_becomes(self, which, becomes):
        uid, pods = chosen(self.world.pods, which), self.world.pods
        is_any = pods[uid].demand[0] == "any"
        changes = {
            "ended": {"has_ended": True},
            "bound": {"got": "h100" if is_any else ""},
            "given a share": {"got": "h100/4" if is_any else ""},
        }
        self.world.becomes(pods, uid, changes.get(becomes))

    @precondition(lambda self: self.world.claims)
    @rule(which=ANY, becomes=st.sampled_from(["gone", "allocated", "given a share", "named", "freed"]))
    def claim_becomes(self, which, becomes):
        uid, claims = chosen(self.world.claims, which), self.world.claims
        changes = {
            "allocated": {"got": "a100" if claims[uid].demand[0] == "any" else ""},
            "given a share": {"got": "h100/4" if claims[uid].demand[0] == "any" else ""},
            "named": {"is_named": claims[uid].is_made},
            "freed": {"got": claims[uid].got if claims[uid].keeps_what_it_got else ""},
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
            used = ledger.used_amount(limit)
            if used is not None:
                assert truth[limit.name] <= used + reserved.get(limit.name, 0), limit

    @invariant()
    def claims_that_were_charged_with_their_pods_are_admitted(self):
        assert not self.world.broken

    def teardown(self):
        world = self.world
        world.quiet()
        ledger, truth = world.ledger(world.document), world.truth(world.quota)
        assert {limit.name: ledger.used_amount(limit) for limit in world.quota.limits} == truth
        assert {(charge.uid, piece) for charge in ledger.reservations for piece in charge.pieces} <= world.awaited()
        world.pods.clear()
        world.change()
        world.quiet()
        assert list(world.ledger(world.document).reservations) == []


def forged(thing, unlike):
    """A thing of the same uid that differs in something."""
    product, count = thing.demand
    changes = {
        "name": {"name": "another"},
        "kind": {"kind": "ResourceClaim" if thing.kind == "Pod" else "Pod", "owner": "", "is_made": False},
        "more": {"demand": (product, count + 1)},
        "less": {"demand": (product, 0)},
        "pieces": {"templates": (*thing.templates, ("claim-9", "t"))},
        "maker": {"owner": "", "piece": OWN, "is_made": False},
    }
    return replace(thing, **changes.get(unlike, {}))


def chosen(stored, which):
    return list(stored)[which % len(stored)]
