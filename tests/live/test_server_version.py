"""The version of the API server and its feature gates, as a replica reads them."""

import pytest

from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.answers import Unreachable
from webhook.cluster.kind_reads import ServerVersion, read_gates
from webhook.cluster.live import LiveView

METRICS = """# HELP kubernetes_feature_enabled [BETA] ...
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRAExtendedResource",stage="BETA"} 0
kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 1
kubernetes_feature_enabled{name="NotInTheTable",stage="ALPHA"} 1
apiserver_request_total{code="200",verb="LIST"} 12
"""


@pytest.fixture
async def reads(client):
    """`await reads()`: what a view shows after one more read, and the seconds until the next."""
    reader, view = ServerVersion(client), LiveView()

    async def read():
        seconds = await reader.read(view)
        return view.server_version(), dict(view.feature_gates()), seconds

    return read


async def test_gates_that_the_api_server_lists_are_stronger_than_its_version(reads, api):
    api.metrics = METRICS
    assert await reads() == ((1, 36), {"DRAExtendedResource": False, "GenericWorkload": True}, 300.0)


async def test_table_is_asked_with_the_gates_of_the_cluster(client, sync, api):
    api.metrics = METRICS
    await ServerVersion(client).read(sync.view)
    assert Feature.DRAExtendedResource.is_on(sync.view) is False
    assert Feature.GenericWorkload.is_on(sync.view) is True
    assert Feature.DRAPartitionableDevices.is_on(sync.view) is True


@pytest.mark.parametrize("hidden", ["forbidden", "absent"])
async def test_version_decides_without_the_right_to_the_metrics(reads, api, hidden):
    getattr(api, hidden).add("/metrics")
    assert await reads() == ((1, 36), {}, 300.0)


async def test_metrics_are_read_again_only_after_the_version_has_changed(reads, api):
    api.metrics = METRICS
    for _ in range(3):
        await reads()
    assert api.asked.count("/metrics") == 1
    api.minor, api.metrics = "37", METRICS.replace("} 0", "} 1")
    assert await reads() == ((1, 37), {"DRAExtendedResource": True, "GenericWorkload": True}, 300.0)
    assert api.asked.count("/metrics") == 2


async def test_gates_of_the_version_before_are_dropped_while_the_new_ones_cannot_be_read(reads, api):
    api.metrics = METRICS
    await reads()
    api.minor = "37"
    api.broken.add("/metrics")
    assert await reads() == ((1, 37), {}, 10.0)
    api.broken.clear()
    assert (await reads())[1]["GenericWorkload"] is True


async def test_line_without_an_end_is_a_bad_answer(client, api):
    api.metrics = "kubernetes_feature_enabled{" + "x" * (17 * 2**20)
    with pytest.raises(Unreachable, match="a line has more than"):
        await read_gates(client)


async def test_hidden_metrics_are_unknown(client, api):
    api.forbidden.add("/metrics")
    assert await read_gates(client) is UNKNOWN
