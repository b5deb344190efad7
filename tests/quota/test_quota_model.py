"""Quotas hold whatever happens: replicas with lagging caches, crashes, lost answers, leaders on stale lists.

What is proved is at `Machine`.
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from policies.quota.ledger import ledger as ledgers
from policies.quota.ledger import recount as recounts
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import OpenCharge
from tests.quota.model import world
from tests.quota.model.machine import Machine
from tests.quota.model.pod_group_machine import MachineWithPodGroups
from tests.quota.model.pod_group_world import WorldWithPodGroups
from tests.quota.model.small_machines import (
    MachineWithAllowances,
    MachineWithCallers,
    MachineWithFewKinds,
    MachineWithOrigins,
    MachineWithScheduler,
    MachineWithSpecs,
)
from tests.quota.model.world import World


def run(machine, **more):
    chosen = {"stateful_step_count": 60, "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(machine, settings=settings(**chosen | more))


@pytest.mark.hypothesis  # like tests with @given: `make properties` runs it long
@pytest.mark.parametrize(
    "machine",
    [
        Machine,
        MachineWithAllowances,
        MachineWithFewKinds,
        MachineWithSpecs,
        MachineWithScheduler,
        MachineWithCallers,
        MachineWithOrigins,
        MachineWithPodGroups,
    ],
)
def test_quota_holds_whatever_happens(machine):
    run(machine)


def forgets_charges(monkeypatch):
    monkeypatch.setattr(recounts, "_open_part", lambda *_: None)


def gives_up_at_once(monkeypatch):
    monkeypatch.setattr(world, "UNSEEN_FOR", 0)


def takes_back_by_uid(monkeypatch):
    """What was done before charges told which call made them."""
    monkeypatch.setattr(Ledger, "take_back", lambda ledger, uid, _call: ledger.release(uid))


def lets_calls_share_what_one_takes_back(monkeypatch):
    """A call that is answered on the charge of another one leaves it to that one."""
    monkeypatch.setattr(ledgers, "_without_call", lambda charge: charge)


def believes_of_any_claim_that_a_controller_makes_it(monkeypatch):
    """What was done before it was looked up whether the claim is stored already."""
    monkeypatch.setattr(World, "is_stored", lambda *_: False)


def believes_charges_of_another_name(monkeypatch):
    monkeypatch.setattr(World, "confirms", lambda _, charge, claim: charge.of == (claim.owner, claim.piece))


def writes_what_was_spent_under_the_former_spec(monkeypatch):
    monkeypatch.setattr(OpenCharge, "with_limits", lambda charge, _new, _names: charge)


def leaves_claims_of_groups_to_their_pods(monkeypatch):
    charge_of = WorldWithPodGroups.charge_of

    def charged(world, thing, quota):
        charge = charge_of(world, thing, quota)
        return replace(charge, pieces={}) if thing.owner in world.groups else charge

    monkeypatch.setattr(WorldWithPodGroups, "charge_of", charged)


@pytest.mark.timeout(400)  # most take seconds; chance makes some take a minute
@pytest.mark.parametrize(
    ("wrong", "machine", "soon"),
    [
        (forgets_charges, Machine, 0),
        (gives_up_at_once, Machine, 4),
        (takes_back_by_uid, MachineWithCallers, 0),
        (lets_calls_share_what_one_takes_back, MachineWithCallers, 15),
        (believes_of_any_claim_that_a_controller_makes_it, MachineWithOrigins, 15),
        (believes_charges_of_another_name, MachineWithOrigins, 10),
        (leaves_claims_of_groups_to_their_pods, MachineWithPodGroups, 0),
        (writes_what_was_spent_under_the_former_spec, MachineWithFewKinds, 15),
    ],
)
def test_the_model_catches_what_is_wrong(wrong, machine, soon, monkeypatch):
    """Any seed finds it; the one called `soon` does so within half a second, until the machine changes."""
    wrong(monkeypatch)
    seeded = seed(soon)(type(machine.__name__, (machine,), {}))
    with pytest.raises((AssertionError, ExceptionGroup)):
        run(seeded, max_examples=2000, phases=[Phase.generate], database=None, report_multiple_bugs=False)
