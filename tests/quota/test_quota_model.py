"""Quotas hold whatever happens: replicas with lagging caches, crashes, lost answers, leaders on stale lists.

What is proved is at `Machine`.
"""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from policies.quota.ledger import recount as recounts
from tests.quota import quota_world
from tests.quota.quota_machine import Machine, MachineWithScheduler, MachineWithSpecs


def run(machine, **more):
    chosen = {
        "max_examples": 150,
        "stateful_step_count": 60,
        "deadline": None,
        "suppress_health_check": list(HealthCheck),
    }
    run_state_machine_as_test(machine, settings=settings(**chosen | more))


@pytest.mark.parametrize("machine", [Machine, MachineWithSpecs, MachineWithScheduler])
def test_quota_holds_whatever_happens(machine):
    run(machine)


def forgets_charges(monkeypatch):
    monkeypatch.setattr(recounts, "_unseen", lambda *_: None)


def gives_up_at_once(monkeypatch):
    monkeypatch.setattr(quota_world, "UNSEEN_FOR", 0)


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
