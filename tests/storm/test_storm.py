"""A storm: with any failures, no namespace exceeds its quota, and no charge stays without an object."""


def test_quotas_hold_in_a_storm(storm, background, size):
    outcome = background.run(storm.run(), size.limit)
    print(outcome)  # noqa: T201 - the report of `make storm`
    assert [str(broken) for broken in outcome.over] == []
    assert [str(broken) for broken in outcome.under] == []
    assert "\n".join(outcome.tracebacks) == ""
    assert outcome.tally.stored >= size.pods
