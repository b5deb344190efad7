"""The fields around devices that we call refused, and pods that we accept, before a real API server with strict validation."""

import pytest

from tests.kubernetes.refused_pods import ACCEPTED, REFUSED


@pytest.fixture
def team(real):
    return real.namespace()


def stored(real, team, pod):
    return real.create({**pod, "metadata": {**pod["metadata"], "namespace": team}}, dry_run=True)


@pytest.mark.parametrize("name", REFUSED)
def test_pod_with_a_refused_field_is_not_stored(real, team, name):
    assert stored(real, team, REFUSED[name][0]).code in (400, 422)


@pytest.mark.parametrize("name", ACCEPTED)
def test_pod_without_one_is_stored(real, team, name):
    answer = stored(real, team, ACCEPTED[name])
    assert answer.accepted, answer.message
