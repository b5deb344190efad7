"""Events of PodGroups in the world of the quota model."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.quota.model.machine import ANY, FAR, FEW, LAG, Machine, chosen
from tests.quota.model.pod_group_world import SHARED, WorldWithPodGroups

NAMES = st.sampled_from(["ring", "ring", "mesh"])
TEMPLATES = st.sampled_from(
    [((SHARED, "t"),), ((SHARED, "t"),), ((SHARED, "t"), ("claim-1", "t")), (("claim-1", "t"),)]
)


class MachineWithPodGroups(Machine):
    """Little else than PodGroups, their pods, and the claims that are made for both."""

    world_of = WorldWithPodGroups
    create_pod = forge_claim = forge_origin = schedule = covers_are_read = generate_claim = None

    @rule(name=NAMES)
    def create_group(self, name):
        self.world.make_group(name)

    @rule(replica=FEW, name=NAMES, templates=TEMPLATES, sees_group=st.sampled_from([True, True, False, None]), far=FAR)
    def create_pod_of_a_group(self, replica, name, templates, sees_group, far):
        more = {"templates": templates, "group": name, "sees_group": sees_group}
        self.create(replica, self.world.new("Pod", ("h100", 0), **more), far)

    @precondition(lambda self: len(self.world.history) > 1)
    @rule(replica=FEW, lag=LAG, which=ANY, knows_groups=st.sampled_from([True, True, False]), far=FAR)
    def generate_claim_of_a_group(self, replica, lag, which, knows_groups, far):
        claim = self.world.generated(lag, which, knows_groups=knows_groups)
        if claim is not None:
            self.create(replica, claim, far)

    @precondition(lambda self: self.world.groups)
    @rule(replica=FEW, which=ANY, far=FAR)
    def forge_claim_of_a_group(self, replica, which, far):
        owner = chosen(self.world.groups, which)
        self.create(replica, self.world.new("ResourceClaim", ("h100", 1), owner=owner, piece=SHARED), far)

    @precondition(lambda self: self.world.groups)
    @rule(which=ANY, becomes=st.sampled_from(["gone", "named", "named"]))
    def group_becomes(self, which, becomes):
        """A group is gone, or its status names the claim that was made for it."""
        uid, world = chosen(self.world.groups, which), self.world
        made = [claim.uid for claim in world.claims.values() if claim.owner == uid and claim.is_made]
        if becomes == "gone":
            world.becomes(world.groups, uid, None)
        elif made:
            world.becomes(world.groups, uid, {"named": made[0]})
