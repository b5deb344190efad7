"""A storm rages on the sandbox, and on a real control plane where one is given as for tests/cluster.

    make storm                       2,000 pods by 64 clients
    make storm STORM_SEED=7          the same once more, as far as chance goes
    KUBEBUILDER_ASSETS=FOLDER make storm

Without STORM=full, which `make storm` sets, it is a small one; that is part of every test run.
"""

import os
import random

import pytest

from testbed.background import Background
from testbed.replicated_clusters import replicated_cluster
from tests.forked_services import forked_services
from tests.storm.harness.refuser import Refuser
from tests.storm.harness.storm import FULL, SMALL, Storm

_NONE = "no cluster: set KUBECONFIG or KUBEBUILDER_ASSETS"
_SHARED = "the cluster of KUBECONFIG is used with -n 0 only, by one process at a time"

_SIZE = FULL if os.environ.get("STORM") == "full" else SMALL
_PREPARATION_SECONDS = 100


def pytest_collection_modifyitems(items):
    """Begin with storms, and give them their time. A small one that hangs must not hold up a test run for an hour.

    At the end of a run, the other processes would have no tests left while a storm goes on for a minute.
    """
    items.sort(key=lambda item: "storm" not in item.fixturenames)
    for item in items:
        if "storm" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(_SIZE.limit + _PREPARATION_SECONDS))


def _why_not():
    if os.environ.get("KUBECONFIG"):
        return _SHARED if "PYTEST_XDIST_WORKER" in os.environ else ""
    return "" if os.environ.get("KUBEBUILDER_ASSETS") else _NONE


@pytest.fixture
def background():
    background = Background()
    with forked_services():
        yield background
    background.close()


@pytest.fixture
def replica_options():
    """Options of the replicas; a file of tests may have others."""
    return {}


@pytest.fixture(params=["sandbox", "real"])
def cluster(request, background, tmp_path, replica_options):
    """A cluster with replicas in front of it, and another webhook that refuses pods."""
    is_real = request.param == "real"
    if is_real and (why := _why_not()):
        pytest.skip(why)
    cluster = replicated_cluster(background, tmp_path, is_real=is_real, api_servers=2, audits=True)
    cluster.replica_options = replica_options
    refuser = Refuser()
    try:
        cluster.begin()
        cluster.belongings.add(background.run(refuser.listen("127.0.0.1")))
        yield cluster
        cluster.tidy()
    finally:
        cluster.close()
        background.run(refuser.close())


@pytest.fixture
def seed():
    """What all chance comes from; STORM_SEED has it again."""
    seed = int(os.environ.get("STORM_SEED") or random.randrange(10**6))
    print(f"\nSTORM_SEED={seed}")  # noqa: T201 - pytest shows it with failures
    return seed


@pytest.fixture
def size():
    return _SIZE


@pytest.fixture
def storm(cluster, size, seed):
    """A storm that was prepared."""
    storm = Storm(cluster, size, seed)
    storm.prepare()
    return storm
