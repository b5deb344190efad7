"""The selectors and restart policies that we call refused, and those that we accept, before a real API server."""

import pytest

from tests.kubernetes.refused_workloads import ACCEPTED, REFUSED


@pytest.fixture
def stored(real):
    """The answer of the API server to a workload."""
    team = real.namespace()
    return lambda workload: real.create(
        {**workload, "metadata": {**workload["metadata"], "namespace": team}}, dry_run=True
    )


@pytest.mark.parametrize("name", REFUSED)
def test_refused_workload_is_not_stored(stored, name):
    assert stored(REFUSED[name][0]).code in (400, 422)


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_workload_is_stored(stored, name):
    answer = stored(ACCEPTED[name])
    assert answer.accepted, answer.message
