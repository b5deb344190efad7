"""A storm: with any failures, no namespace exceeds its quota, and no charge stays without an object."""

from tests.storm.harness.storm import FULL

HAPPENED = {
    "said that not all have seen them",
    "objects stored without a quota",
    "objects missed",
    "objects admitted by an enforced quota",
}
"""What happens around new quotas in a large storm."""


def test_quotas_hold_in_a_storm(storm, background, size):
    outcome = background.run(storm.run(), size.limit)
    print(outcome)  # noqa: T201 - the report of `make storm`
    assert [str(broken) for broken in outcome.over] == []
    assert [str(broken) for broken in outcome.under] == []
    assert outcome.new_quotas.broken == []
    assert outcome.quiet_calls == []
    assert "\n".join(outcome.tracebacks) == ""
    assert outcome.tally.stored >= size.pods
    assert size is not FULL or outcome.new_quotas.counts.keys() >= HAPPENED
