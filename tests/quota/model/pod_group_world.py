"""The world of the quota model with PodGroups, whose pods share a claim."""

from __future__ import annotations

from dataclasses import replace

from policies.quota.ledger.recount import SharedClaims
from policies.rules.charges import OWN, Charge
from tests.quota.model.state import bill
from tests.quota.model.world import World

SHARED = "claim-0"
"""The entry that every group has, from the template `t`."""


class WorldWithPodGroups(World):
    def __init__(self, replicas=2):
        super().__init__(replicas)
        self.groups = {}
        self.groups_then = [{}]
        """The groups at each resourceVersion."""

    def change(self):
        super().change()
        self.groups_then.append(dict(self.groups))

    def make_group(self, name):
        """Somebody creates a PodGroup, perhaps again under its name."""
        if not any(group.name == name for group in self.groups.values()):
            group = replace(self.new("PodGroup", ("h100", 0), templates=((SHARED, "t"),)), name=name)
            self.groups[group.uid] = group
            self.change()

    def group_of(self, pod, groups):
        """The PodGroup that a pod belongs to, if it has an entry to share."""
        is_sharing = any(piece == SHARED for piece, _ in pod.templates)
        return next((each for each in groups.values() if is_sharing and each.name == pod.group), None)

    def generated(self, lag, which, *, knows_groups):
        """The claim controller makes a claim of a group, or one of a pod; it may have the feature gate or not."""
        pods, claims = self.seen_at(lag)
        groups = self.groups_then[max(0, len(self.groups_then) - 1 - lag)]
        owners = [pod for pod in pods.values() if not pod.has_ended] + (list(groups.values()) if knows_groups else [])
        wanted = [
            (owner, piece, template)
            for owner in owners
            for piece, template in owner.templates
            if not (knows_groups and owner.group and piece == SHARED)
            and not any((each.owner, each.piece) == (owner.uid, piece) for each in claims.values())
        ]
        if not wanted:
            return None
        owner, piece, template = wanted[which % len(wanted)]
        self.origin_of[owner.uid, piece] += 1
        return self.new("ResourceClaim", self.templates[template], owner=owner.uid, piece=piece, is_made=True)

    def charge_of(self, thing, quota):
        """The group of a pod is charged for what the pod shares; it is read live, as is the claim that its status names.

        While groups are unknown, claims from templates are charged when they are made.
        """
        charge = super().charge_of(thing, quota)
        if thing.group and thing.sees_group is None:
            return replace(charge, pieces={OWN: charge.pieces[OWN]})
        group = self.group_of(thing, self.groups) if thing.sees_group else None
        if group is None:
            return charge
        own = {piece: amounts for piece, amounts in charge.pieces.items() if piece != SHARED}
        if group.named in self.claims:
            return replace(charge, pieces=own)
        pieces = {SHARED: bill(self.templates["t"], quota)}
        return replace(charge, pieces=own, shared=Charge(group.uid, group.kind, "team-a", group.name, pieces))

    def promised_to(self, charge, thing):
        """A group that was charged gets its claim; a pod that came before its group may have to wait."""
        if not thing.group:
            return super().promised_to(charge, thing)
        return () if charge.shared is None else ((charge.shared.uid, SHARED, self.templates["t"]),)

    def is_promised(self, claim):
        group = self.groups.get(claim.owner)
        if group is None:
            return super().is_promised(claim)
        waiting = [pod for pod in self.pods.values() if not pod.has_ended and self.group_of(pod, self.groups) == group]
        is_charged = any((claim.owner, claim.piece, claim.demand) in pod.promised for pod in waiting)
        return claim.is_made and is_charged and self.is_first(claim)

    def snapshot(self, leader, quota, ledger):
        groups, before = self.groups_then[leader.pods_at], self.groups_then[: leader.pods_at]
        gone = {uid for then in before for uid in then} - groups.keys()
        found = {uid: self.group_of(pod, groups) for uid, pod in self.history[leader.pods_at][0].items()}
        shares = {
            uid: SharedClaims(group.uid, group.name, frozenset({SHARED}))
            for uid, group in found.items()
            if group is not None and ledger.reservations.get(uid) is not None
        }
        return replace(super().snapshot(leader, quota, ledger), gone=gone, shares=shares)

    def exists(self, charge):
        """Whether a charge is for something that is stored; that of a group, whether one of its pods is there."""
        if charge.kind != "PodGroup":
            return super().exists(charge)
        members = (self.group_of(pod, self.groups) for pod in self.pods.values() if not pod.has_ended)
        return any(group is not None and group.uid == charge.uid for group in members)

    def awaited(self):
        groups = (self.group_of(pod, self.groups) for pod in self.pods.values() if not pod.has_ended)
        return super().awaited() | {(group.uid, SHARED) for group in groups if group is not None}
