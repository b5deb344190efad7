"""The world of the quota model: admission, claim controller, scheduler and counting around an API server."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from policies.quota.ledger.allowances import (
    NOTHING,
    Spending,
    covered_charge,
    has_allowance,
    with_allowance,
    with_spending,
    without_allowances,
)
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import ALLOWANCE, OpenCharge
from policies.quota.ledger.recount import Counted, Snapshot, recount
from policies.rules.charges import OWN, Charge
from tests.quota.model.api_server import Server
from tests.quota.model.state import Admission, Cover, Leader, Replica, Thing, amounts, bill

STORED_WITHIN = 34
"""Seconds after an answer in which the API server may still store the object."""
ANSWERED_WITHIN = 10
UNSEEN_FOR = 120
USED_FOR = 10
RESERVED_FOR = 60


class World(Server):
    def __init__(self, replicas=2):
        super().__init__()
        self.templates = {"t": ("h100", 1)}
        self.replicas = [Replica(allowance=f"allowance-of-{number}") for number in range(replicas)]
        self.leaders = [Leader(), Leader()]
        self.coming: list[Admission] = []
        self.submitted: dict[str, Thing] = {}
        """Everything that was ever to be created, by uid."""
        self.calls = 0
        self.origin_of: Counter[tuple[str, str]] = Counter()
        self.broken: list[Thing] = []
        self.excused = {limit.name: Fraction(0) for limit in self.quota.limits}

    # people and controllers who create

    def seen_at(self, lag):
        return self.history[max(0, len(self.history) - 1 - lag)]

    def generated(self, lag, which):
        """The claim controller, on a cache that may lag, makes a claim that it sees none of."""
        pods, claims = self.seen_at(lag)
        wanted = [
            (pod, piece, template)
            for pod in pods.values()
            for piece, template in pod.templates
            if not pod.has_ended and not any(each.owner == pod.uid and each.piece == piece for each in claims.values())
        ]
        if not wanted:
            return None
        pod, piece, template = wanted[which % len(wanted)]
        self.origin_of[pod.uid, piece] += 1
        return self.new("ResourceClaim", self.templates[template], owner=pod.uid, piece=piece, is_made=True)

    def scheduled(self, seen, which):
        """The scheduler makes a claim for a pod's extended resources."""
        pods, claims = seen
        wanted = [
            pod for pod in pods.values() if pod.demand[1] and not pod.has_ended and not self.extended(pod.uid, claims)
        ]
        if not wanted:
            return None
        pod = wanted[which % len(wanted)]
        return self.new("ResourceClaim", pod.demand, owner=pod.uid, is_made=True)

    # replicas

    def submit(self, replica, admission):
        """A call comes to a replica, which gives it a new name; a call for a stored claim charges nothing."""
        if self.is_stored(admission.thing):
            return
        self.calls += 1
        admission.call = f"call-{self.calls}"
        if not admission.is_forged:
            self.submitted[admission.thing.uid] = admission.thing
        replica.waiting.append(admission)

    def is_stored(self, thing):
        """Whether a call says of a claim that is stored already that a controller makes it."""
        stored = self.claims.get(thing.uid) if thing.is_made else None
        return stored is not None and stored.name == thing.name

    def read(self, replica, age):
        """A replica reads the ledger, or remembers an old one, and makes charges by it."""
        replica.document = self.documents[max(0, len(self.documents) - 1 - age)]
        replica.batch, replica.waiting = replica.batch + replica.waiting, []
        for admission in replica.batch:
            admission.charge = self.charge_of(admission.thing, replica.document["quota"])
            admission.promised = self.promised_to(admission.charge, admission.thing)

    def charge_of(self, thing, quota):
        pieces = {OWN: bill(thing.demand, quota)}
        pieces |= {piece: bill(self.templates[template], quota) for piece, template in thing.templates}
        of = (thing.owner, thing.piece) if thing.is_made else None
        return Charge(thing.uid, thing.kind, "team-a", thing.name, pieces, of)

    def promised_to(self, _charge, thing):
        """The claims that are admitted if a pod is."""
        return tuple((thing.uid, piece, self.templates[template]) for piece, template in thing.templates)

    def read_covers(self, replica, lag=0):
        """A replica reads live what `used` holds already for claims that the scheduler makes."""
        pods, claims = self.seen_at(lag)
        for admission in replica.uncovered:
            owner = admission.thing.owner
            others = [claim for claim in self.extended(owner, claims) if claim.uid != admission.thing.uid]
            admission.cover = Cover(pods.get(owner), others)
        again, replica.uncovered = replica.uncovered, []
        for admission in again:
            self.submit(replica, admission)

    def verdict(self, admission, ledger, quota):
        """None where a cover has to be read before, or again."""
        of, counted = admission.charge.of, {}
        if of is not None and of[1] == OWN and not ledger.reservations.is_open(*of):
            if admission.cover is None or not self.holds(admission, ledger):
                admission.since = ledger.counted
                return None
            counted = admission.cover.amounts(quota)
        return ledger.charge(admission.charge, quota, time=admission.call, counted=counted, call=admission.call)

    @staticmethod
    def holds(admission, ledger):
        return admission.since == ledger.counted

    def answer(self, replica, luck, leader=None):
        """A replica charges its batch in one write and answers; its answers, or that of the write, may be lost.

        It refuses on what it has read last from the API server, never on what it remembers. Where it leads, what it
        counts is in the same write, and so is what it takes back.
        """
        if replica.document is None:
            return
        read, batch, waiting = replica.document, replica.batch, []
        before, is_latest = self.ledger(read), read["version"] == self.document["version"]
        ready = self.with_what_was_spent(replica, before, read["quota"])
        ledger, allowed = self.made_ready(replica, leader, ready, read["quota"]), []
        for admission in batch:
            verdict = self.verdict(admission, ledger, read["quota"])
            if verdict is None:
                replica.uncovered.append(admission)
            elif isinstance(verdict, Ledger):
                ledger = verdict
                allowed.append(admission)
            elif not is_latest or self.lacks_an_allowance(admission, ledger, read["quota"]):
                waiting.append(admission)
            elif not admission.is_forged and self.is_promised(admission.thing):
                self.broken.append(admission.thing)
        replica.document, replica.batch = None, []
        ledger = self.with_allowance(replica, ledger, read["quota"])
        is_written = is_latest if ledger == before else self.write(read, ledger)
        self.settle(replica, ledger, read["quota"], is_known=is_written and luck != "lost")
        if luck == "stopped":
            replica.released |= {(admission.thing.uid, admission.call) for admission in allowed}
        elif not is_written or luck == "lost":
            again = [each for each in batch if each not in replica.uncovered]
            replica.waiting += again if not is_written else waiting + allowed
        else:
            replica.waiting += waiting
            replica.released.clear()
            if luck != "crash":
                self.allow(allowed)
        if luck == "crash":
            self.calls += 1
            replica.allowance, replica.spending = f"allowance-{self.calls}", None

    # allowances: any replica may take itself for the owner

    def with_what_was_spent(self, replica, ledger, quota):
        spending = replica.spending or Spending(quota, NOTHING, ledger.counted)
        return with_spending(ledger, replica.allowance, spending, quota)

    def with_allowance(self, replica, ledger, quota):
        expected = bill(("any", replica.expects), quota)
        allowance = OpenCharge(replica.allowance, ALLOWANCE, "replica", f"at-{self.now}", {})
        return with_allowance(ledger, quota, expected, allowance)

    def settle(self, replica, ledger, quota, *, is_known):
        """What a replica knows of its allowance after a write."""
        if not is_known:
            replica.granted_at = -1000
            return
        allowance = ledger.reservations.get(replica.allowance)
        granted = NOTHING if allowance is None else allowance.pieces[OWN]
        replica.spending, replica.granted_at = Spending(quota, granted, ledger.counted), self.now

    def lacks_an_allowance(self, admission, ledger, quota):
        """Whether something fits but for what another replica has reserved; it is tried again."""
        if not has_allowance(ledger):
            return False
        return isinstance(self.verdict(admission, without_allowances(ledger), quota), Ledger)

    def admit_at_once(self, replica, admission):
        """A replica admits something out of its allowance, without a write."""
        spending = replica.spending
        is_usable = spending is not None and self.now - replica.granted_at <= USED_FOR
        is_writing = replica.document is not None or replica.waiting
        if not is_usable or is_writing or self.is_stored(admission.thing):
            return
        self.calls += 1
        admission.call = f"call-{self.calls}"
        self.submitted[admission.thing.uid] = admission.thing
        admission.charge = self.charge_of(admission.thing, spending.quota)
        admission.promised = self.promised_to(admission.charge, admission.thing)
        opened = covered_charge(admission.charge, spending, admission.call, admission.call)
        if opened is not None:
            replica.spending = spending.spend(opened)
            self.allow([admission])

    def made_ready(self, replica, leader, ledger, quota):
        if leader is not None:
            ledger = recount(ledger, quota, self.snapshot(leader, quota, ledger)) or ledger
        for uid, call in sorted(replica.released):
            ledger = ledger.take_back(uid, call)
        return ledger

    def allow(self, admissions):
        for admission in admissions:
            if self.now - admission.started <= ANSWERED_WITHIN and not admission.is_forged:
                admission.answered = self.now
                admission.thing = replace(admission.thing, promised=admission.promised)
                self.coming.append(admission)

    def is_promised(self, claim):
        """Whether a claim is the first for its piece of a pod that runs, and requests no more than the pod was charged."""
        pod = self.pods.get(claim.owner)
        if pod is None or pod.has_ended or not claim.is_made or claim.piece == OWN:
            return False
        return self.is_first(claim) and (claim.owner, claim.piece, claim.demand) in pod.promised

    def is_first(self, claim):
        """Whether no other claim was ever made for the same piece, nor stored that says so."""
        if self.origin_of[claim.owner, claim.piece] > 1 or claim.uid.endswith("+"):
            return False
        return not any(
            (each.owner, each.piece) == (claim.owner, claim.piece) for _, then in self.history for each in then.values()
        )

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

    # leaders

    def snapshot(self, leader, quota, ledger):
        pods, claims = self.history[leader.pods_at][0], self.history[leader.claims_at][1]
        for uid, claim in claims.items():
            charge = ledger.reservations.get(uid)
            if claim.owner in pods and (claim.is_named or (charge is not None and self.confirms(charge, claim))):
                leader.origins.add(uid)
        return Snapshot(
            {uid: self.seen(pod, quota) for uid, pod in pods.items()},
            {uid: self.seen(claim, quota, is_certain=uid in leader.origins) for uid, claim in claims.items()},
            str(leader.pods_at + 9),
            str(leader.claims_at + 9),
        )

    @staticmethod
    def confirms(charge, claim):
        """Whether a claim was charged as made for the pod that it names."""
        return (charge.name, charge.of) == (claim.name, (claim.owner, claim.piece))

    @staticmethod
    def seen(thing, quota, *, is_certain=True):
        is_believed = thing.piece != OWN or is_certain
        return Counted(
            thing.uid,
            thing.kind,
            thing.name,
            thing.owner if is_believed else "",
            thing.piece if is_believed else OWN,
            {} if thing.has_ended else amounts(thing.demand, quota, thing.got if thing.keeps_what_it_got else ""),
            thing.has_ended,
            frozenset(piece for piece, _ in thing.templates) if thing.kind == "Pod" else None,
        )

    def count(self, leader, age):
        """A leader works out what to write, on a ledger that may be old."""
        leader.document = self.documents[max(0, len(self.documents) - 1 - age)]
        quota = leader.document["quota"]
        ledger = self.ledger(leader.document)
        leader.write = recount(ledger, quota, self.snapshot(leader, quota, ledger))

    def watch(self, leader):
        """A leader looks how long charges have not been seen, and live for those that it has watched long enough."""
        leader.document = self.document
        ledger = self.ledger(leader.document)
        unseen = {(each.uid, each.time) for each in ledger.reservations if OWN in each.pieces or each.kind != "Pod"}
        leader.watched = {key: leader.watched.get(key, self.now) for key in sorted(unseen)}
        leader.write = ledger
        for (uid, _), since in leader.watched.items():
            charge = ledger.reservations.get(uid)
            is_due = self.now - since >= (RESERVED_FOR if charge.kind == ALLOWANCE else UNSEEN_FOR)
            if is_due and not self.exists(charge):
                if charge.kind == ALLOWANCE:
                    leader.pods_at = leader.claims_at = len(self.history) - 1
                    quota = leader.document["quota"]
                    counted = recount(leader.write, quota, self.snapshot(leader, quota, leader.write))
                    if counted is None:
                        continue
                    leader.write = counted
                leader.write = leader.write.release(uid)

    def exists(self, charge):
        """Whether there is an object of the kind and name of a charge, and of its uid."""
        if charge.kind == ALLOWANCE:
            return False
        stored = self.pods if charge.kind == "Pod" else self.claims
        return any((thing.uid, thing.name) == (charge.uid, charge.name) for thing in stored.values())

    def awaited(self):
        """The pieces that claims may yet be made for: uids and names."""
        return {(pod.uid, piece) for pod in self.pods.values() for piece, _ in pod.templates if not pod.has_ended}

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
            used = ledger.used_amount(limit)
            self.excused[limit.name] = (truth[limit.name] if used is None else used) + reserved.get(limit.name, 0)

    def quiet(self):
        """Nobody does anything any more, but for those who put things right."""
        for replica in self.replicas:
            replica.waiting, replica.batch, replica.uncovered, replica.document = [], [], [], None
            replica.released.clear()
            replica.spending = None
        self.coming.clear()
        for claim in list(self.claims.values()):
            got = claim.got if claim.keeps_what_it_got else ""
            self.claims[claim.uid] = replace(claim, is_named=claim.is_made, got=got)
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
