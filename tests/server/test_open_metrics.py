"""The metrics page in OpenMetrics, for scrapers that ask for it."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from policies.rules.settings import DEFAULTS
from tests.usage.usage_objects import NOTHING, node, pod
from webhook.cluster.manifests import ManifestsView
from webhook.controllers.audit_round import DeviceRound
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness, create_probes

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OF_PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus 3 sends."""


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
async def scrape(metrics):
    async with TestClient(TestServer(create_probes(Readiness([]), metrics))) as client:

        async def get(*accepted):
            headers = [("Accept", each) for each in accepted]
            async with client.get("/metrics", headers=headers, skip_auto_headers=["Accept"]) as response:
                return response.status, response.headers["Content-Type"], await response.text()

        yield get


@pytest.mark.parametrize(
    "accepted",
    [
        [OF_PROMETHEUS],
        ["application/openmetrics-text"],
        ["application/openmetrics-text; version=1.0.0; charset=utf-8"],
        ["text/plain", "application/openmetrics-text;version=1.0.0"],
    ],
)
async def test_scraper_that_accepts_open_metrics_gets_it(scrape, accepted):
    status, content_type, text = await scrape(*accepted)
    assert (status, content_type) == (200, OPEN_METRICS)
    assert text.endswith("\n# EOF\n")


@pytest.mark.parametrize(
    "accepted",
    [
        [],
        ["*/*"],
        ["text/plain;version=0.0.4"],
        ["text/plain;version=x"],
        ["application/openmetrics-text;version=0.0.1"],
        ["application/openmetrics-text;version=9.9.9"],
        ["application/openmetrics-text;version=x"],
        ["application/openmetrics-text;version=1.0.0;q=0"],
        [";;,=,q=0"],
    ],
    ids=str,
)
async def test_other_scrapers_get_the_text_format(scrape, accepted):
    status, content_type, text = await scrape(*accepted)
    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert "# EOF" not in text


def values(families):
    """The samples of our metrics; those of the process change between two scrapes."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("gpu_admission_")
    }


async def test_open_metrics_has_the_samples_of_the_text_format(metrics, scrape):
    devices = DeviceRound(ManifestsView([*NOTHING, node(gpus=8), pod(gpus=3)]), lambda: DEFAULTS)
    metrics.registry.register(devices)
    await devices.round()
    metrics.count_answer("claims", "denied", 0.002)
    (_, _, text), (_, _, open_metrics) = await scrape(), await scrape(OF_PROMETHEUS)
    assert values(parse_open_metrics(open_metrics)) == values(parse_text(text))
    assert 'gpu_admission_devices{node="node-1",' in open_metrics
