"""Templates are marked, unmarked and deleted at the right time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.conversion.templates import ExactRequest, claim_template, mark, next_step, references, used_by_pods
from policies.kubernetes.names import UNUSED_SINCE

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
GRACE = timedelta(hours=1)
TEMPLATE = claim_template("team-a", [ExactRequest("main", "gpu.nvidia.com", 1)])


def template(since=None, **metadata):
    document = TEMPLATE.manifest()
    annotations = {} if since is None else {UNUSED_SINCE: since}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations, **metadata}}


def step(document, *, used=False, now=NOW):
    return next_step(document, used=used, now=now, grace=GRACE)


@pytest.mark.parametrize(
    ("since", "used", "expected"),
    [
        (None, True, None),
        (None, False, "mark"),
        ("2027-01-01T11:00:00Z", False, "delete"),
        ("2027-01-01T11:00:01Z", False, None),
        ("2027-01-01T11:00:00Z", True, "unmark"),
        ("2027-01-01T12:59:00Z", False, None),
        ("2027-01-01T13:00:01Z", False, "mark"),
        ("yesterday", False, "mark"),
        (7, False, "mark"),
    ],
    ids=["used", "new", "old", "young", "used again", "skewed", "of the future", "no time", "no text"],
)
def test_step_follows_from_use_and_mark(since, used, expected):
    assert step(template(since), used=used) == expected


OLD = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "document",
    [
        template(OLD, labels={}),
        template(OLD, labels={"gpu-admission.io/managed": "false"}),
        template(OLD, name="mine"),
        template(OLD, name="gpu-0123456789abcdef"),
        {**template(OLD), "spec": {"spec": {}}},
        {**template(OLD), "spec": None},
        template(OLD, deletionTimestamp="2027-01-01T00:00:00Z"),
        {},
    ],
    ids=["no label", "other label", "other name", "other hash", "edited", "no spec", "being deleted", "nothing"],
)
def test_what_is_not_ours_is_never_touched(document):
    assert step(document) is None


def test_nulls_of_other_clients_leave_it_ours():
    assert step({**template(OLD), "spec": {**TEMPLATE.spec, "more": None}}) == "delete"


@given(
    st.datetimes(timezones=st.just(UTC)).filter(lambda moment: 2000 < moment.year < 9000),
    st.timedeltas(timedelta(), 9 * GRACE),
)
def test_template_is_deleted_only_a_whole_grace_after_its_mark(moment, later):
    document = template(mark(moment)[UNUSED_SINCE])
    assert (step(document, now=moment + later) == "delete") == (
        later + timedelta(microseconds=moment.microsecond) >= GRACE
    )


POD = {
    "metadata": {"namespace": "team-a"},
    "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
}


@pytest.mark.parametrize(
    ("phase", "used"), [("Pending", 1), ("Running", 1), ("Succeeded", 0), ("Failed", 0), (None, 1)]
)
def test_pods_use_templates_until_they_end(phase, used):
    assert used_by_pods([{**POD, "status": {"phase": phase}}]) == frozenset([("team-a", "t")] * used)


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"spec": None},
        {"spec": {"resourceClaims": "x"}},
        {"spec": {"resourceClaims": [None, {"resourceClaimTemplateName": 7}]}},
    ],
)
def test_pods_of_any_shape_refer_to_nothing(pod):
    assert references(pod) == frozenset()
