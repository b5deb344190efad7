"""The API server of the quota model: stored objects, their history, and their total."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import Limit, Quota
from policies.quota.limits.selectors import Selector
from policies.rules.charges import OWN
from tests.quota.model.state import Thing, amounts


class Server:
    def __init__(self):
        self.now = 1000
        self.pods, self.claims = {}, {}
        self.history = [({}, {})]
        self.quota = Quota(
            (Limit("h100", "gpus", Fraction(3), Selector(("h100",))), Limit("all", "devices", Fraction(4)))
        )
        self.documents = [{"version": 1, "quota": self.quota, "status": None}]
        self.made = 0

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

    def new(self, kind, demand, **more):
        self.made += 1
        return Thing(f"uid-{self.made}", kind, f"name-{self.made}", demand, **more)

    def truth(self, quota):
        """What live pods and claims cost: a pod and claims made for its extended resources are for the same devices."""
        total = {limit.name: Fraction(0) for limit in quota.limits}
        for pod in self.pods.values():
            made = self.extended(pod.uid, self.claims)
            own = {} if pod.has_ended else amounts(pod.demand, quota, pod.got)
            for name in total:
                claims = sum(amounts(claim.demand, quota, claim.got).get(name, 0) for claim in made)
                total[name] += max(Fraction(0), own.get(name, 0) - claims)
        for claim in self.claims.values():
            for name, amount in amounts(claim.demand, quota, claim.got).items():
                total[name] += amount
        return total

    def extended(self, pod, claims):
        return [claim for claim in claims.values() if claim.owner == pod and claim.piece == OWN and claim.is_made]

    @staticmethod
    def ledger(document):
        return Ledger.read({"status": document["status"]})

    def becomes(self, stored, uid, change):
        """A thing changes, or is gone where there is no change."""
        if change is None:
            del stored[uid]
        else:
            stored[uid] = replace(stored[uid], **change)
        self.change()
