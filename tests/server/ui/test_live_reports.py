"""Live reports: made once for each audience and change, one at a time, within bounds."""

import asyncio
import threading

import pytest

from policies.outcome import EVERYTHING, Audience
from tests.server.ui.serving import Changing
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.live import LiveView
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.store import Listing, Store
from webhook.cluster.watched_kinds import watched_kinds
from webhook.server import live_reports
from webhook.server.live_reports import LARGEST_REPORT, MOST_BYTES, LiveReports, ReportUnavailableError

TEAM_A, TEAM_B = Audience("team-a", sees_nodes=False), Audience("team-b", sees_nodes=False)


class Maker:
    """Makes reports of one part, as large as the test wants; slowly if its gate is closed."""

    def __init__(self):
        self.made = []
        self.size = 0
        self.gate = threading.Event()
        self.gate.set()
        self.running = self.most_running = 0

    def __call__(self, audience, now):
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.gate.wait(60)
        self.running -= 1
        self.made.append(audience)
        return {"part": f"{len(self.made)}{'x' * self.size}", "same": "same"}


@pytest.fixture
def maker():
    return Maker()


@pytest.fixture
def view():
    return Changing(ManifestsView([]))


@pytest.fixture
def seconds():
    """What the reports took, for the metric."""
    return []


@pytest.fixture
def reports(view, maker, clock, seconds):
    return LiveReports(view, maker, seconds.append, Clockwork(clock=clock))


async def test_report_is_made_once_while_nothing_changes(reports, maker, clock):
    first = await reports.latest(EVERYTHING)
    clock.seconds += 59
    assert await reports.latest(EVERYTHING) is first
    assert maker.made == [EVERYTHING]


async def test_report_is_made_again_after_a_minute(reports, maker, clock):
    await reports.latest(EVERYTHING)
    clock.seconds += 60
    await reports.latest(EVERYTHING)
    assert len(maker.made) == 2


async def test_report_is_made_again_after_a_change_and_a_rest(reports, maker, view, clock):
    await reports.latest(EVERYTHING)
    view.become(ManifestsView([]))
    clock.seconds += 4.9
    await reports.latest(EVERYTHING)
    assert len(maker.made) == 1
    clock.seconds += 0.1
    await reports.latest(EVERYTHING)
    assert len(maker.made) == 2


def test_change_of_every_watched_kind_is_a_change():
    pairs = [(watched, Store(watched.resource)) for watched in watched_kinds(["gpu-operator"])]
    for _, store in pairs:
        Listing(store).finish("1")
    live = LiveView(pairs)
    for _, store in pairs:
        mark = live.derive(live_reports._change_mark)
        assert live.derive(live_reports._change_mark) is mark
        new = {"metadata": {"name": "gpu-operator", "namespace": "gpu-operator", "resourceVersion": "2"}}
        store.apply({"type": "ADDED", "object": new})
        assert live.derive(live_reports._change_mark) is not mark


async def test_report_that_is_outdated_is_made_again_after_a_rest(reports, maker, clock):
    await reports.latest(EVERYTHING)
    reports.outdate()
    await reports.latest(EVERYTHING)
    clock.seconds += 5
    await reports.latest(EVERYTHING)
    assert len(maker.made) == 2


async def test_rest_grows_with_the_work_and_the_audiences(view, clock):
    def slow(audience, now):
        clock.seconds += 2
        return {}

    reports = LiveReports(view, slow, [].append, Clockwork(clock=clock), cpu_clock=clock)
    await reports.latest(TEAM_A)
    await reports.latest(TEAM_B)
    assert [kept.rests_until - clock.seconds for kept in reports._kept.values()] == [18, 40]


async def test_streams_that_come_at_once_share_one_report(reports, maker):
    found = await asyncio.gather(*(reports.latest(EVERYTHING) for _ in range(10)))
    assert all(each is found[0] for each in found)
    assert maker.made == [EVERYTHING]


async def test_old_report_is_shown_while_a_new_one_is_made(reports, maker, clock, until):
    old = await reports.latest(EVERYTHING)
    clock.seconds += 60
    maker.gate.clear()
    making = asyncio.create_task(reports.latest(EVERYTHING))
    await until(lambda: maker.running)
    assert await reports.latest(EVERYTHING) is old
    maker.gate.set()
    assert await making is not old


async def test_audiences_have_reports_of_their_own_that_are_made_one_at_a_time(reports, maker):
    audiences = [EVERYTHING, TEAM_A, Audience("team-a"), TEAM_B]
    found = await asyncio.gather(*(reports.latest(each) for each in audiences))
    assert len({id(each) for each in found}) == 4
    assert sorted(map(str, maker.made)) == sorted(map(str, audiences))
    assert maker.most_running == 1


async def test_line_that_has_not_changed_is_in_memory_once(reports, clock):
    before = await reports.latest(EVERYTHING)
    clock.seconds += 60
    after = await reports.latest(EVERYTHING)
    assert after.parts["same"] is before.parts["same"]
    assert after.parts["part"] != before.parts["part"]


async def test_report_that_is_too_large_is_refused(reports, maker):
    maker.size = LARGEST_REPORT
    with pytest.raises(ReportUnavailableError, match=r"^The report is larger than 12 MiB; sign in to one namespace\.$"):
        await reports.latest(EVERYTHING)
    assert len(reports) == 0


async def test_report_that_cannot_be_made_is_tried_again_after_a_rest(reports, maker, clock):
    """Pages come back within seconds, each with the same work."""
    maker.size = LARGEST_REPORT
    for _ in range(3):
        with pytest.raises(ReportUnavailableError, match="larger than 12 MiB"):
            await reports.latest(EVERYTHING)
    assert maker.made == [EVERYTHING]
    maker.size = 0
    clock.seconds += 5
    assert (await reports.latest(EVERYTHING)).parts
    assert maker.made == [EVERYTHING] * 2


async def test_defect_is_met_once_in_a_while(view, clock):
    met = []

    def defective(audience, now):
        met.append(audience)
        raise ZeroDivisionError

    reports = LiveReports(view, defective, print, Clockwork(clock=clock))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await reports.latest(EVERYTHING)
    assert met == [EVERYTHING]


async def test_all_reports_are_bounded_in_bytes(reports, maker):
    maker.size = LARGEST_REPORT - 1000
    for number in range(MOST_BYTES // LARGEST_REPORT):
        await reports.latest(Audience(f"team-{number}"))
    with pytest.raises(ReportUnavailableError, match=r"^Too many large reports are open; try again later\.$"):
        await reports.latest(EVERYTHING)
    assert sum(kept.report.size for kept in reports._kept.values()) <= MOST_BYTES


async def test_report_without_readers_is_dropped(reports, clock):
    await reports.latest(EVERYTHING)
    clock.seconds += 61
    await reports.latest(TEAM_A)
    assert [*reports._kept] == [TEAM_A]
    assert len(reports._locks) <= 1


async def test_report_that_takes_too_long_is_given_up(view, clock, monkeypatch, until):
    ended = threading.Event()

    def endless(audience, now):
        from policies.kubernetes.bounds import count_work

        try:
            while True:
                count_work(1)
        finally:
            ended.set()

    monkeypatch.setattr(live_reports, "LONGEST_SECONDS", 1.0)
    reports = LiveReports(view, endless, [].append, Clockwork(clock=clock))
    with pytest.raises(
        ReportUnavailableError,
        match=r"^The report was not ready within 30 seconds; try again later, or make it with gpu-admission report\.$",
    ):
        await reports.latest(EVERYTHING)
    assert await asyncio.to_thread(ended.wait, 10)


async def test_duration_is_measured(reports, seconds):
    await reports.latest(EVERYTHING)
    assert seconds == [0.0]
