"""The page's port, served over TLS for tests."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from certs import issue_serving
from policies.kubernetes.view import PassingView
from policies.rules.settings import DEFAULTS
from webhook.cluster.clockwork import Clockwork
from webhook.server.app import Traffic
from webhook.server.config import ConnectionLimits
from webhook.server.guarded_connection import Endpoint, OpenConnections
from webhook.server.guarded_site import GuardedSite, create_runner, protocol_factory
from webhook.server.live_reports import LiveReports
from webhook.server.metrics import Metrics
from webhook.server.questions import Explainer, Questions
from webhook.server.report_streams import ReportStreams, StreamTimes
from webhook.server.tls import server_context
from webhook.server.ui_calls import UICalls, part_maker


class Changing(PassingView):
    """A cluster that a test replaces by another one."""

    def become(self, view):
        self._view = view


@dataclass
class ServedUI:
    """A port that answers."""

    port: int
    calls: UICalls
    metrics: Metrics
    traffic: Traffic
    view: Changing


@asynccontextmanager
async def served_ui(view, gate, authority, clock, *, parts=None, audit=None, times=None, port=0, limits=None):
    """Serve the page about a cluster; `parts` makes the report, if it is not the real one."""
    view, metrics, traffic = Changing(view), Metrics(), Traffic()
    questions = Questions(Explainer(view, lambda: DEFAULTS), gate, metrics)
    make_parts = parts or part_maker(view, lambda: DEFAULTS, lambda: audit)
    reports = LiveReports(view, make_parts, metrics.time_report, Clockwork(clock=clock))
    streams = ReportStreams(reports, questions, traffic, times or StreamTimes(between=0.01, beat=1e9), clock)
    calls = UICalls(questions, streams, traffic)
    runner = create_runner(calls.handle)
    await runner.setup()
    connections = OpenConnections(limits or ConnectionLimits(), metrics.closed_by("ui"))
    try:
        pair = issue_serving(authority, ["localhost"], now=datetime.now(UTC))
        endpoint = Endpoint(protocol_factory(runner), connections, server_context(pair, None), frozenset())
        site = GuardedSite(runner, "127.0.0.1", port, endpoint)
        await site.start()
        yield ServedUI(site.port, calls, metrics, traffic, view)
    finally:
        await runner.cleanup()
        connections.abort_all()
        await asyncio.sleep(0)  # asyncio closes sockets in the next turn of the loop
