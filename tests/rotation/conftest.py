"""A rotation state, and the times of a small policy."""

from datetime import UTC, datetime, timedelta

import pytest

from certs.rotation import Observed, RotationPolicy, next_state

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Rotating:
    """A state that is stepped while time passes; webhook configurations follow at once unless a test says otherwise."""

    def __init__(self, policy):
        self.policy, self.now, self.state, self.asked = policy, BEGIN, None, ""
        self.bundles = (b"", b"")

    def step(self, *, publish=True):
        step = next_state(self.state, self.now, Observed(self.bundles, self.asked), self.policy)
        self.state = step.state
        if publish:
            self.bundles = (step.state.bundle,) * 2
        return step

    def steps(self, **options):
        """Step until there is nothing more to do right now; gives the kinds of all changes."""
        kinds = []
        while changes := self.step(**options).changes:
            kinds += [change.kind for change in changes]
        return kinds

    def pass_time(self, **time):
        self.now += timedelta(**time)


@pytest.fixture
def policy():
    return RotationPolicy(names=("gpu-admission.gpu-admission.svc", "127.0.0.1"))


@pytest.fixture
def rotating(policy):
    rotating = Rotating(policy)
    rotating.steps()
    return rotating


@pytest.fixture
def unmade(policy):
    return Rotating(policy)


@pytest.fixture
def announced(rotating):
    """Somebody asked, and the successor is known and published nowhere yet."""
    rotating.asked = "please"
    rotating.step(publish=False)
    return rotating
