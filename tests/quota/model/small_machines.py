"""The same machine with few kinds of events, which finds rare combinations sooner."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from policies.quota.limits.quota import Quota
from policies.quota.limits.selectors import Selector
from policies.rules.charges import OWN
from tests.quota.model.machine import ANY, FAR, FEW, LAG, LUCK, PRODUCTS, Machine
from tests.quota.model.state import Admission


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


class MachineWithAllowances(MachineWithSpecs):
    """Replicas admit pods and claims out of allowances, and may all take themselves for the owner; the quota changes."""

    @rule(replica=FEW, count=st.sampled_from([0, 1, 1, 2, 3]))
    def expect(self, replica, count):
        self.world.replicas[replica].expects = count

    @rule(
        replica=FEW,
        product=PRODUCTS,
        count=st.sampled_from([0, 1, 1]),
        templates=st.sampled_from([(), ("t",)]),
        is_stored=st.booleans(),
    )
    def admit_pod(self, replica, product, count, templates, is_stored):
        pieces = tuple((f"claim-{index}", template) for index, template in enumerate(templates))
        self.admit_at_once(replica, self.world.new("Pod", (product, count), templates=pieces), is_stored=is_stored)

    @precondition(lambda self: len(self.world.history) > 2)
    @rule(replica=FEW, lag=LAG, which=ANY, is_stored=st.booleans())
    def admit_generated_claim(self, replica, lag, which, is_stored):
        claim = self.world.generated(lag, which)
        if claim is not None:
            self.admit_at_once(replica, claim, is_stored=is_stored)

    def admit_at_once(self, replica, thing, *, is_stored):
        world = self.world
        world.admit_at_once(world.replicas[replica], Admission(thing, world.now))
        if is_stored and world.coming and world.coming[-1].thing.uid == thing.uid:
            world.store(-1, "fine")


class MachineWithFewKinds(MachineWithAllowances):
    """Little else than pods, their claims, and allowances."""

    create_claim = forge_claim = forge_origin = repeat_a_call = swap_template = schedule = None
    covers_are_read = leader_starts_anew = change_hard = None


class MachineWithScheduler(Machine):
    """Little else than pods with extended resources, and the claims that the scheduler makes for them."""

    create_pod = create_claim = forge_claim = forge_origin = generate_claim = swap_template = None

    @rule(replica=FEW, count=st.sampled_from([1, 2]), far=FAR)
    def create_pod_with_extended_resources(self, replica, count, far):
        self.create(replica, self.world.new("Pod", ("h100", count)), far)


class MachineWithCallers(Machine):
    """Little else than pods, and callers that are no API server."""

    create_claim = forge_claim = forge_origin = generate_claim = schedule = swap_template = None
    covers_are_read = claim_becomes = leader_starts_anew = None

    @rule(product=PRODUCTS, luck=LUCK, far=FAR)
    def create_pod_with_two_calls(self, product, luck, far):
        """Two webhook configurations call; the second one gets no good answer perhaps."""
        world = self.world
        thing = world.new("Pod", (product, 2))
        world.submit(world.replicas[1], Admission(thing, world.now, is_forged=True))
        world.read(world.replicas[1], 0)
        world.answer(world.replicas[1], luck)
        self.create(0, thing, far)


class MachineWithOrigins(Machine):
    """Little else than pods, claims of which their authors say that they were made for pods, and callers that confirm it."""

    create_pod = create_claim = forge_claim = generate_claim = schedule = swap_template = repeat_a_call = None
    covers_are_read = claim_becomes = watch = time_passes = None

    @rule(replica=FEW, piece=st.sampled_from([OWN, OWN, "claim-0"]), far=FAR)
    def create_pod_and_a_claim_that_names_it(self, replica, piece, far):
        pod = self.world.new("Pod", ("h100", 1))
        self.create(replica, pod, "stored")
        self.create(replica, self.world.new("ResourceClaim", ("h100", 1), owner=pod.uid, piece=piece), far)
