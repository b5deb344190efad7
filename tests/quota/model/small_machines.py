"""The same machine with few kinds of events, which finds rare combinations sooner."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import rule

from policies.quota.charges import OWN
from policies.quota.limits.quota import Quota
from policies.quota.limits.selectors import Selector
from tests.quota.model.machine import FAR, FEW, LUCK, PRODUCTS, Machine
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
