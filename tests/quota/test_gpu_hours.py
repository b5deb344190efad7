"""GPU hours: sums by day and kind, gaps, and what limits them."""

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota.counter import Counter, Terms
from policies.quota.ledger.gpu_hours import MOST_DAYS, OTHERS, Day, GPUHours, GPUKind, total_seconds
from policies.quota.limits.quota import parse_quota
from policies.rules.charges import OWN
from policies.rules.settings.choices import Quotas
from tests.quota.counted_objects import claim, document, pod, status_of
from tests.quota.test_quota_counting import H100, T4, node
from webhook.cluster.manifests import ManifestsView

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
WHOLE, SLICE = GPUKind("team-a", "H100", ""), GPUKind("team-a", "H100", "1g.10gb")
HOUR = timedelta(hours=1)


def begun(gpus, time=NOON):
    return GPUHours(time, {}).with_count(gpus, time, time)


def hours(days):
    return {kind: seconds / 3600 for kind, seconds in total_seconds(days).items()}


def test_four_pods_with_a_quarter_of_a_gpu_for_an_hour_are_one_gpu_hour():
    ended = begun({WHOLE: 4 * Fraction(1, 4)}).with_count({}, NOON + HOUR, NOON + HOUR)
    assert hours(ended.days) == {WHOLE: 1}
    assert ended.now == {}


def test_amounts_count_up_to_the_count_that_changes_them():
    changed = begun({WHOLE: Fraction(2)}).with_count({WHOLE: Fraction(5)}, NOON + HOUR, NOON + HOUR)
    later = changed.with_count({}, NOON + 2 * HOUR, NOON + 2 * HOUR)
    assert hours(later.days) == {WHOLE: 2 + 5}


def test_night_is_divided_at_midnight_in_utc():
    found = begun({WHOLE: Fraction(1)}).up_to(NOON + 18 * HOUR, NOON + 18 * HOUR)
    assert [(each.day, hours([each])) for each in found.days] == [
        (date(2027, 3, 1), {WHOLE: 12}),
        (date(2027, 3, 2), {WHOLE: 6}),
    ]


def test_time_that_nobody_counted_is_a_gap_and_has_no_hours():
    found = begun({WHOLE: Fraction(1)}).up_to(NOON + 3 * HOUR, NOON + HOUR)
    assert found.days == (Day(date(2027, 3, 1), {WHOLE: Fraction(3600)}, gap=7200),)


def test_short_time_that_nobody_counted_is_no_gap():
    time = NOON + timedelta(minutes=10)
    assert begun({WHOLE: Fraction(1)}).up_to(time, NOON).days == (Day(date(2027, 3, 1), {WHOLE: Fraction(600)}),)


def test_nothing_is_summed_while_the_clock_is_behind():
    first = begun({WHOLE: Fraction(1)})
    assert first.up_to(NOON - HOUR, NOON) == first
    assert first.with_count({}, NOON - HOUR, NOON).until == NOON


def test_clock_that_was_far_ahead_neither_stops_the_sums_nor_loses_days():
    first = begun({WHOLE: Fraction(1)}).up_to(NOON + 20 * 24 * HOUR, NOON + 20 * 24 * HOUR)
    ahead = first.up_to(NOON + timedelta(days=4000), NOON + 20 * 24 * HOUR)
    again = ahead.up_to(NOON + 21 * 24 * HOUR, NOON).up_to(NOON + 22 * 24 * HOUR, NOON + 22 * 24 * HOUR)
    assert hours(again.days) == {WHOLE: 21 * 24}
    assert again.until == NOON + 22 * 24 * HOUR


def test_days_beyond_the_last_32_are_dropped():
    found = begun({WHOLE: Fraction(1)})
    for day in range(1, 41):
        found = found.up_to(NOON + timedelta(days=day), NOON + timedelta(days=day))
    assert [each.day for each in found.days][:: MOST_DAYS - 1] == [date(2027, 3, 10), date(2027, 4, 10)]


def test_years_in_one_step_need_no_more_days():
    later = NOON + timedelta(days=4000)
    found = begun({WHOLE: Fraction(1)}).up_to(later, later)
    assert len(found.days) == MOST_DAYS


def test_day_has_16_kinds_and_the_smallest_are_one_sum():
    kinds = {GPUKind("team-a", f"product-{number:02}", ""): Fraction(number) for number in range(1, 21)}
    (day,) = begun(kinds).up_to(NOON + HOUR, NOON + HOUR).days
    assert len(day.seconds) == 16
    assert day.seconds[OTHERS] == 3600 * sum(range(1, 6))
    assert sum(day.seconds.values()) == 3600 * sum(range(1, 21))


def test_kind_that_comes_late_in_a_full_day_is_among_the_others():
    kinds = {GPUKind("team-a", f"product-{number:02}", ""): Fraction(1) for number in range(15)}
    full = begun(kinds).with_count({WHOLE: Fraction(8)}, NOON + HOUR, NOON + HOUR)
    (day,) = full.up_to(NOON + 2 * HOUR, NOON + 2 * HOUR).days
    assert (len(day.seconds), day.seconds[OTHERS]) == (16, 8 * 3600)


def test_growth_is_what_was_added_since():
    first = begun({WHOLE: Fraction(1)}).up_to(NOON + 11 * HOUR, NOON + 11 * HOUR)
    second = first.up_to(NOON + 13 * HOUR, NOON + 13 * HOUR)
    assert second.growth(first) == {WHOLE: 2 * 3600}
    assert first.growth(None) == {WHOLE: 11 * 3600}


KINDS = st.builds(
    GPUKind, st.sampled_from(["a", "b"]), st.sampled_from(["", "H100", "T4"]), st.sampled_from(["", "1g.10gb"])
)
GPUS = st.dictionaries(KINDS, st.fractions(0, 9, max_denominator=56), max_size=6)
STEPS = st.lists(st.tuples(GPUS, st.integers(0, 200_000), st.booleans()), max_size=6)


@given(STEPS)
def test_seconds_and_gaps_of_all_kinds_are_exact_and_survive_the_text(steps):
    time, found = NOON, GPUHours(NOON, {})
    expected, gap, held = Fraction(), 0, Fraction()
    for gpus, seconds, is_known in steps:
        time += timedelta(seconds=seconds)
        known = time if is_known else time - timedelta(seconds=seconds)
        found = GPUHours.of_text(found.with_count(gpus, time, known).text)
        if is_known or seconds <= 600:
            expected += held * seconds
        else:
            gap += seconds
        held = sum(gpus.values(), Fraction())
    assert sum(total_seconds(found.days).values()) == expected
    assert sum(each.gap for each in found.days) == gap


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"until":"2027-03-01T12:00:00Z","now":{"3":"1"},"days":[],"kinds":[]}',
        '{"until":"2027-03-01T12:00:00Z","now":{"0":"one"},"days":[],"kinds":[["a","b",""]]}',
        '{"until":"2027-03-01T12:00:00Z","now":{},"days":[["yesterday",0,{}]],"kinds":[]}',
        '{"until":5,"now":{},"days":[],"kinds":[]}',
        '{"until":"9999-12-31T23:59:59Z","now":{},"days":[],"kinds":[]}',
        '{"until":"2027-03-01T12:00:00Z","now":{},"days":[["9999-12-31",0,{}]],"kinds":[]}',
        '{"until":"2027-03-01T12:00:00Z","now":{},"days":[],"kinds":[[1,"b",""]]}',
        '{"until":"2027-03-01T12:00:00Z","now":{},"days":[],"kinds":[["a","\\ud800",""]]}',
    ],
)
def test_text_of_another_program_is_no_gpu_hours(text):
    assert GPUHours.of_text(text) is None


def test_text_is_never_longer_than_the_crd_allows():
    time, found = NOON, GPUHours(NOON, {})
    for day in range(1, 40):
        kinds = {
            GPUKind("n" * 63, f"{'p' * 60}-{day}", f"{'m' * 60}{number:02}"): Fraction(1, 7) for number in range(16)
        }
        time = NOON + timedelta(days=day)
        found = found.with_count(kinds, time, time)
    assert len(found.text) <= 120_000
    assert GPUHours.of_text(found.text).days[-1].day == date(2027, 4, 9)


def gpus_of(pods=(), claims=(), nodes=(), charged=()):
    counter, terms = Counter(), Terms(parse_quota(document()), ManifestsView(nodes), Quotas())
    counter.count(pods, claims, terms, charged=dict(charged))
    return {kind[1:]: amount for kind, amount in counter.gpus().items()}


def test_pod_on_a_node_uses_the_product_of_the_node():
    assert gpus_of([pod("train", 2, nodeName="a")], nodes=[node("a", H100), node("b", T4)]) == {(H100[0], ""): 2}


def test_pod_that_waits_uses_a_product_that_is_not_known_yet():
    assert gpus_of([pod("train", 2)], nodes=[node("a", H100), node("b", T4)]) == {("", ""): 2}


def test_pod_that_has_ended_uses_nothing():
    assert gpus_of([pod("train", 2, nodeName="a", status={"phase": "Succeeded"})], nodes=[node("a", H100)]) == {}


def test_claim_for_extended_resources_counts_with_its_pod_until_the_pod_names_it():
    made, nodes = claim("made", 2, of="train"), [node("a", H100)]
    charged = {("uid-of-made", "made"): ("uid-of-train", OWN)}
    assert gpus_of([pod("train", 2, nodeName="a")], [made], nodes, charged) == {(H100[0], ""): 2}


def test_claim_counts_for_itself_once_its_pod_names_it():
    status = status_of(extended="made")
    status["extendedResourceClaimStatus"]["requestMappings"] = [
        {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "gpu"}
    ]
    named = pod("train", 2, status, nodeName="a")
    assert gpus_of([named], [claim("made", 2, of="train")], [node("a", H100)]) == {(H100[0], ""): 2}


def test_gpus_of_two_namespaces_are_told_apart():
    there = pod("train", 1, nodeName="a")
    there["metadata"] = {**there["metadata"], "namespace": "team-b", "uid": "b"}
    counter = Counter()
    view = ManifestsView([node("a", H100)])
    counter.count([pod("train", 2, nodeName="a"), there], [], Terms(parse_quota(document()), view, Quotas()))
    assert counter.gpus() == {GPUKind("team-a", H100[0], ""): 2, GPUKind("team-b", H100[0], ""): 1}
