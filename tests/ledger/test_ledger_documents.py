"""Cached GPUQuotas, and the ledgers that were parsed from them."""

from fractions import Fraction

from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import OpenCharge, Reservations
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN, Bill
from webhook.ledger.documents import Documents

TIME = "2026-01-01T00:00:00Z"


def quota(version, *uids):
    """A GPUQuota with open charges."""
    metadata = {"name": "gpu", "namespace": "team-a", "uid": "q", "generation": 1, "resourceVersion": version}
    document = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota", "metadata": metadata}
    document["spec"] = {"limits": [{"name": "all", "gpus": 8}]}
    bill = Bill({"all": Fraction(1)}, {"gpus": Fraction(1)})
    charges = Reservations(OpenCharge(uid, "Pod", uid, TIME, {OWN: bill}) for uid in uids)
    return {**document, "status": Ledger(reservations=charges).status(parse_quota(document), 1)}


def test_ledger_that_is_parsed_while_a_newer_document_is_watched_is_not_kept_for_it():
    shown = [quota("1", "a")]
    documents = Documents(None, lambda _namespace: shown[-1])
    older = documents.cached_document("team-a")
    shown.append(quota("2", "a", "b"))
    newer = documents.cached_document("team-a")
    uids = [
        [charge.uid for charge in documents.parse("team-a", each, TIME).ledger.reservations] for each in (older, newer)
    ]
    assert uids == [["a"], ["a", "b"]]


def test_ledger_of_a_document_that_was_forgotten_meanwhile_is_parsed():
    documents = Documents(None, lambda _namespace: quota("1", "a"))
    document = documents.cached_document("team-a")
    documents.forget("team-a")
    assert len(documents.parse("team-a", document, TIME).ledger.reservations) == 1
