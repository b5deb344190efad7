"""Tasks of the leader continue after a failed round, and stop when they are cancelled."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from webhook.cluster.answers import APIError
from webhook.controllers.metrics import ControllerMetrics, IncompleteRound, PeriodicTask, run_tasks


@pytest.fixture
def registry():
    return CollectorRegistry()


class Rounds:
    """A task that notes when its rounds begin; `does` has what each of them does, in turn."""

    def __init__(self, *does):
        self.began, self.does = [], iter(does)

    async def __call__(self):
        self.began.append(asyncio.get_running_loop().time())
        does = next(self.does, None)
        if isinstance(does, Exception):
            raise does
        if does is not None:
            await asyncio.sleep(does)


@pytest.fixture
def run_for(in_virtual_time, clockwork, registry):
    """Run tasks for so many seconds."""

    def run(seconds, *tasks):
        async def story():
            running = asyncio.create_task(run_tasks(tasks, ControllerMetrics(registry), clockwork=clockwork()))
            await asyncio.wait({running}, timeout=seconds)
            running.cancel()
            await asyncio.wait({running})
            assert running.cancelled()

        in_virtual_time(story())

    return run


def test_rounds_come_at_their_pace(run_for):
    slow, quick = Rounds(), Rounds(5, 5)
    run_for(99, PeriodicTask("slow", slow, 60), PeriodicTask("quick", quick, 30))
    assert (slow.began, quick.began) == ([0, 60], [0, 35, 70])


def test_failed_rounds_come_again_sooner_and_ever_later(run_for, registry, caplog):
    rounds = Rounds(*[ValueError("no")] * 4)
    run_for(400, PeriodicTask("templates-repair", rounds, 300))
    assert rounds.began == [0, 1, 3, 7, 15, 315]
    assert caplog.messages == ["templates-repair failed: no"]
    assert (
        registry.get_sample_value(
            "gpu_admission_controller_rounds_total", {"task": "templates-repair", "outcome": "failed"}
        )
        == 4
    )


@pytest.mark.parametrize(
    ("error", "is_traced"),
    [(APIError(403, "Forbidden", "no"), False), (IncompleteRound("no"), False), (ValueError("no"), True)],
    ids=["refused", "incomplete", "mistake"],
)
def test_only_mistakes_of_ours_are_traced(run_for, caplog, error, is_traced):
    run_for(1, PeriodicTask("policy-status", Rounds(error), 60))
    (record,) = caplog.records
    assert (record.getMessage(), bool(record.exc_info)) == ("policy-status failed: no", is_traced)


def test_trouble_that_comes_again_after_a_good_round_is_logged_again(run_for, caplog):
    run_for(10, PeriodicTask("often", Rounds(ValueError("no"), None, ValueError("no")), 3))
    assert caplog.messages == ["often failed: no"] * 2


def test_failed_rounds_never_wait_longer_than_good_ones(run_for):
    rounds = Rounds(*[ValueError("no")] * 10)
    run_for(20, PeriodicTask("often", rounds, 3))
    assert rounds.began == [0, 1, 3, 6, 9, 12, 15, 18]


def test_one_that_fails_does_not_stop_the_others(run_for):
    good = Rounds()
    run_for(100, PeriodicTask("bad", Rounds(*[ValueError("no")] * 100), 30), PeriodicTask("good", good, 30))
    assert good.began == [0, 30, 60, 90]


def test_hung_round_is_cut_off(run_for, registry, caplog):
    rounds = Rounds(1e6)
    run_for(100, PeriodicTask("audit", rounds, 30, limit=60))
    assert rounds.began == [0, 61, 91]
    assert caplog.messages == ["audit was cut off after 60 seconds"]


def test_last_good_round_is_shown(run_for, registry, midnight):
    run_for(100, PeriodicTask("audit", Rounds(None, None, ValueError("no")), 40))
    shown = registry.get_sample_value("gpu_admission_controller_last_round_timestamp_seconds", {"task": "audit"})
    assert shown == midnight.timestamp() + 81


def test_leader_is_shown(registry):
    leading = iter([True, False])
    ControllerMetrics(registry).watch_leader(lambda: next(leading))
    assert [registry.get_sample_value("gpu_admission_leader") for _ in range(2)] == [1, 0]
