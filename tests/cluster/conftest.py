"""Each scenario runs on the sandbox, and on a real control plane where one is given.

    KUBEBUILDER_ASSETS=FOLDER .venv/bin/pytest tests/cluster      starts etcd, kube-apiserver and what else is there;
                                                                  emulates the version EMULATED_VERSION, if it is set
    KUBECONFIG=FILE .venv/bin/pytest -n 0 tests/cluster           any cluster of Kubernetes 1.34 or newer

A cluster of somebody's is used by one process at a time, and never because of `make test` alone: hence `-n 0`. Of its
objects none is changed; what the scenarios made is removed, and also what a run left that was interrupted.
"""

import os
from http import HTTPStatus
from pathlib import Path

import pytest

from testbed.background import Background
from testbed.real_cluster import RealCluster
from testbed.sandbox_cluster import SandboxCluster
from tests.forked_services import forked_services

_NONE = "no cluster: set KUBECONFIG or KUBEBUILDER_ASSETS"
_SHARED = "the cluster of KUBECONFIG is used with -n 0 only, by one process at a time"
_GIVEN = "test_real_control_plane_is_given"
_API = "scheduling.k8s.io/v1alpha2"
"""Of PodGroups in Kubernetes 1.36."""
_GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")
"""What PodGroups with claims need, in Kubernetes 1.36."""
_GATES_SINCE = 36
"""The minor version."""
_SECONDS = 180
"""For a scenario together with the start of a control plane, for which it may be the first."""


def pytest_collection_modifyitems(config, items):
    """Without a real control plane, one test says so, and the others are not there.

    The scenarios stand together at the beginning, which one process gets, so that each cluster is started once.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in here:
        item.add_marker(pytest.mark.timeout(_SECONDS))
    if why := _why_not():
        dropped = {item for item in here if _needs_a_real_one(item)}
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=list(dropped))
        for item in here:
            if item.name == _GIVEN:
                item.add_marker(pytest.mark.skip(reason=why))


def _needs_a_real_one(item):
    params = item.callspec.params if hasattr(item, "callspec") else {}
    needs = "real" in params.values() or {"real", "guarded", "fresh", "fresh_with_groups"} & {*item.fixturenames}
    return item.name != _GIVEN and bool(needs)


def _why_not():
    if os.environ.get("KUBECONFIG"):
        return _SHARED if "PYTEST_XDIST_WORKER" in os.environ else ""
    return "" if os.environ.get("KUBEBUILDER_ASSETS") else _NONE


@pytest.fixture(scope="package")
def background():
    background = Background()
    with forked_services():
        yield background
    background.close()


def _running(cluster):
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="package")
def _sandbox(background, tmp_path_factory):
    cluster = SandboxCluster(background, tmp_path_factory.mktemp("sandbox"))
    yield from _running(cluster)


@pytest.fixture(scope="package")
def _real(background, tmp_path_factory):
    cluster = RealCluster.of(background, os.environ, tmp_path_factory.mktemp("real"))
    yield from _running(cluster)


@pytest.fixture(scope="module")
def _sandbox_with_groups(background, tmp_path_factory):
    cluster = SandboxCluster(background, tmp_path_factory.mktemp("groups"), feature_gates=_GATES)
    yield from _running(cluster)


@pytest.fixture(scope="module")
def _newer_with_groups(background, tmp_path_factory):
    """A sandbox that serves PodGroups as Kubernetes 1.37 does: in v1beta1 and v1alpha3."""
    cluster = SandboxCluster(background, tmp_path_factory.mktemp("newer"), version="1.37.0", feature_gates=_GATES)
    yield from _running(cluster)


@pytest.fixture(scope="module")
def _real_with_groups(background, tmp_path_factory, request):
    """A control plane of our own with the gates on; a cluster of somebody's as it is."""
    real = request.getfixturevalue("_real")
    if os.environ.get("KUBECONFIG"):
        yield real
        return
    if real.minor < _GATES_SINCE:
        pytest.skip(f"Kubernetes 1.{real.minor} does not have the feature gates {' and '.join(_GATES)}")
    folder = tmp_path_factory.mktemp("real-groups")
    cluster = RealCluster.of(background, os.environ, folder, feature_gates=_GATES, apis=[_API])
    yield from _running(cluster)


@pytest.fixture
def sandbox(request):
    """The sandbox, for what only it can tell."""
    yield from _used(request.getfixturevalue("_sandbox"))


@pytest.fixture
def real(request):
    """The real control plane, for what the sandbox does not do."""
    yield from _used(request.getfixturevalue("_real"))


@pytest.fixture(params=["sandbox", "real"])
def cluster(request):
    """A cluster with the service running in it."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["sandbox", "newer", "real"])
def grouping(request):
    """A cluster that serves PodGroups, with the service running in it; where it does not, the scenario is skipped."""
    cluster = request.getfixturevalue(f"_{request.param}_with_groups")
    if cluster.api.request("GET", cluster.api.served_resource("PodGroup").path()).code == HTTPStatus.NOT_FOUND:
        pytest.skip("this cluster serves no PodGroups: the feature gate GenericWorkload is off")
    yield from _used(cluster)


def _used(cluster):
    """A cluster for one scenario; what the service wrote meanwhile is shown where the scenario fails."""
    cluster.service.start()
    before = len(cluster.service.log())
    yield cluster
    print(cluster.service.log()[before:])  # noqa: T201 - pytest shows it with failures
    cluster.tidy()
