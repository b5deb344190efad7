from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.times import (
    LIBRARY,
    Duration,
    Timestamp,
    add,
    civil_time,
    days_since_epoch,
    duration_text,
    parse_duration,
    parse_timestamp,
    subtract,
    timestamp_text,
)
from policies.cel.types import DURATION, TIMESTAMP

OVERLOADS = {overload.id: overload for overload in LIBRARY}
SECOND = 10**9
HOUR = 3600 * SECOND
FIRST = Timestamp(-62_135_596_800 * SECOND)
LAST = Timestamp(253_402_300_800 * SECOND - 1)
LONGEST = Duration(2**63 - 1)
SHORTEST = Duration(-(2**63))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def call(overload, *arguments):
    return OVERLOADS[overload].implementation(*arguments)


def failure(run, *arguments):
    with pytest.raises(CelRuntimeError) as raised:
        run(*arguments)
    return raised.value.message


def timestamp(text):
    read = parse_timestamp(text)
    assert read is not None
    return Timestamp(*read)


@pytest.mark.parametrize(
    ("text", "nanoseconds", "offset"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("2009-02-13T23:31:30+01:00", 1_234_564_290 * SECOND, 3600),
        ("2009-02-13T23:31:30.1234567899Z", 1_234_567_890 * SECOND + 123_456_789, 0),
        ("2020-01-01T1:02:03Z", 1_577_840_523 * SECOND, 0),
        ("2020-01-01T01:02:03,5Z", 1_577_840_523 * SECOND + 500_000_000, 0),
        ("2020-01-01T00:00:00+24:60", 1_577_746_800 * SECOND, 90_000),
        ("2020-02-29T00:00:00-00:00", 1_582_934_400 * SECOND, 0),
    ],
)
def test_timestamp_texts_are_read_as_go_reads_them(text, nanoseconds, offset):
    assert parse_timestamp(text) == (nanoseconds, offset)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-01",
        "2020-01-01T00:00:00",
        "2020-01-01T00:00:00z",
        "2020-01-01t00:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T00:60:00Z",
        "2020-01-01T00:00:60Z",
        "2019-02-29T00:00:00Z",
        "2020-00-01T00:00:00Z",
        "2020-01-01T00:00:00.Z",
        "2020-01-01T00:00:00+25:00",
        "2020-01-01T00:00:00+00:61",
        "2020-01-01T00:00:00+0100",
        "2020-01-01T00:00:00Z ",
        "\u0662020-01-01T00:00:00Z",
        f"2020-01-01T00:00:00.{'0' * 300}Z",
    ],
)
def test_other_timestamp_texts_are_refused(text):
    assert parse_timestamp(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "0000-12-31T23:30:00-01:00",
        "9999-12-31T23:59:59.999999999Z",
        "2009-02-13T23:31:30.12+05:30",
    ],
)
def test_timestamp_text_is_what_was_written(text):
    assert timestamp_text(*parse_timestamp(text)) == text


def test_timestamp_text_knows_the_year_10000():
    moved = add(timestamp("9999-12-31T23:00:00+01:00"), Duration(3 * HOUR // 2))

    assert timestamp_text(moved.nanoseconds, moved.offset) == "10000-01-01T00:30:00+01:00"


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("-1.5ms", -1_500_000),
        ("+5s", 5 * SECOND),
        ("1us", 1000),
        ("1\u00b5s", 1000),
        ("1\u03bcs", 1000),
        (".5s", 500_000_000),
        ("5.s", 5 * SECOND),
        ("0", 0),
        ("-0", 0),
        ("1.9999999999s", 1_999_999_999),
        ("0.1234567891234567891234567891s", 123_456_789),
        ("2562047h47m16.854775807s", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_duration_texts_are_read_as_go_reads_them(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "-", "5", "s", ".s", "1d", "1h-1m", "1 s", "1h ", "2562048h", "9223372036854775808ns", "\u0661s", "1s" * 200],
)
def test_other_duration_texts_are_refused(text):
    assert parse_duration(text) is None


@given(st.integers(-(2**50), 2**50))
@example(3_882_895_926)
def test_duration_text_of_a_fortnight_is_true_to_the_nanosecond(nanoseconds):
    # The text is that of a double, as cel-go writes it: 3.8828959259999998s for 3.882895926.
    assert abs(parse_duration(duration_text(nanoseconds)) - nanoseconds) <= 1


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1500, "1.5\u00b5s"),
        (-2_000_000, "-2ms"),
        (SECOND, "1s"),
        (90 * SECOND, "1m30s"),
        (HOUR, "1h0m0s"),
        (-(HOUR + 1), "-1h0m0.000000001s"),
    ],
)
def test_durations_are_shown_in_messages_as_go_prints_them(duration, text):
    assert str(Duration(duration)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1970-01-01T00:00:00Z", "1970-01-01 00:00:00 +0000 UTC"),
        ("2009-02-13T23:31:30.5+01:00", "2009-02-13 23:31:30.5 +0100 +0100"),
    ],
)
def test_timestamps_are_shown_in_messages_as_go_prints_them(text, shown):
    assert str(timestamp(text)) == shown


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))  # noqa: DTZ001 - naive is meant
def test_civil_time_is_that_of_the_calendar(moment):
    civil = civil_time((moment.replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1))

    assert civil == (
        *moment.timetuple()[:6],
        moment.isoweekday() % 7,
        moment.timetuple().tm_yday - 1,
    )


@given(st.integers(-800_000, 3_000_000))
def test_days_and_dates_are_each_others_inverse(days):
    civil = civil_time(days * 86_400)

    assert days_since_epoch(civil.year, civil.month, civil.day) == days


def test_moments_are_equal_wherever_they_were_written():
    here, there = timestamp("2020-01-01T01:00:00+01:00"), timestamp("2020-01-01T00:00:00Z")

    assert here == there
    assert hash(here) == hash(there)


def test_moments_and_durations_have_an_order():
    assert FIRST < LAST
    assert SHORTEST < LONGEST


def test_values_know_their_types():
    assert (FIRST.cel_type, LONGEST.cel_type) == (TIMESTAMP, DURATION)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (Duration(1), Duration(2), Duration(3)),
        (Timestamp(1), Duration(2), Timestamp(3)),
        (Duration(1), Timestamp(2), Timestamp(3)),
    ],
    ids=["durations", "timestamp and duration", "duration and timestamp"],
)
def test_add_is_a_sum(left, right, result):
    assert add(left, right) == result


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (LONGEST, Duration(1), "integer overflow"),
        (SHORTEST, Duration(-1), "integer overflow"),
        (LAST, Duration(1), "timestamp overflow"),
        (Duration(-1), FIRST, "timestamp overflow"),
        (FIRST, LAST, "no such overload"),
    ],
    ids=["long", "short", "late", "early", "two timestamps"],
)
def test_add_out_of_range_fails(left, right, message):
    assert failure(add, left, right) == message


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (Duration(1), Duration(2), Duration(-1)),
        (Timestamp(1), Duration(2), Timestamp(-1)),
        (Timestamp(0), Timestamp(SECOND // 2), Duration(-SECOND // 2)),
        (timestamp("2262-04-11T23:47:16.854775807Z"), Timestamp(0), LONGEST),
    ],
    ids=["durations", "timestamp and duration", "timestamps", "the longest"],
)
def test_subtract_is_a_difference(left, right, result):
    assert subtract(left, right) == result


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (SHORTEST, Duration(1), "integer overflow"),
        (Timestamp(0), SHORTEST, "integer overflow"),
        (FIRST, Duration(1), "timestamp overflow"),
        (LAST, FIRST, "integer overflow"),
        (timestamp("1677-09-21T00:12:43.145224192Z"), Timestamp(0), "integer overflow"),
        (Duration(1), Timestamp(1), "no such overload"),
    ],
    ids=["short", "negated", "early", "far apart", "whole seconds too many", "timestamp from duration"],
)
def test_subtract_out_of_range_fails(left, right, message):
    assert failure(subtract, left, right) == message


def test_sums_keep_the_zone_of_the_timestamp():
    assert add(Duration(1), Timestamp(0, 3600)).offset == 3600


MOMENT = timestamp("2024-12-31T23:45:59.987654321Z")


@pytest.mark.parametrize(
    ("overload", "value"),
    [
        ("timestamp_to_year", 2024),
        ("timestamp_to_month", 11),
        ("timestamp_to_day_of_year", 365),
        ("timestamp_to_day_of_month", 30),
        ("timestamp_to_day_of_month_1_based", 31),
        ("timestamp_to_day_of_week", 2),
        ("timestamp_to_hours", 23),
        ("timestamp_to_minutes", 45),
        ("timestamp_to_seconds", 59),
        ("timestamp_to_milliseconds", 987),
    ],
)
def test_fields_of_a_timestamp_are_those_of_utc(overload, value):
    assert call(overload, MOMENT) == value


def test_fields_of_a_timestamp_do_not_know_where_it_was_written():
    assert call("timestamp_to_hours", timestamp("2020-01-01T01:00:00+01:00")) == 0


@pytest.mark.parametrize(
    ("overload", "value"),
    [
        ("timestamp_to_year_with_tz", 2025),
        ("timestamp_to_month_with_tz", 0),
        ("timestamp_to_day_of_year_with_tz", 0),
        ("timestamp_to_day_of_month_with_tz", 0),
        ("timestamp_to_day_of_month_1_based_with_tz", 1),
        ("timestamp_to_day_of_week_with_tz", 3),
        ("timestamp_to_hours_with_tz", 0),
        ("timestamp_to_minutes_with_tz", 45),
        ("timestamp_to_seconds_tz", 59),
        ("timestamp_to_milliseconds_with_tz", 987),
    ],
)
def test_fields_of_a_timestamp_with_a_zone_are_those_of_the_zone(overload, value):
    assert call(overload, MOMENT, "Europe/Berlin") == value


@pytest.mark.parametrize(
    ("zone", "hour", "minute"),
    [
        ("", 23, 45),
        ("UTC", 23, 45),
        ("Local", 23, 45),
        ("+01:00", 0, 45),
        ("-01:30", 22, 15),
        ("05:45", 5, 30),
        ("1:2", 0, 47),
        ("Asia/Kolkata", 5, 15),
        ("America/New_York", 18, 45),
        ("./Asia//Kolkata", 5, 15),
    ],
)
def test_zones_are_names_and_offsets(zone, hour, minute):
    assert call("timestamp_to_hours_with_tz", MOMENT, zone) == hour
    assert call("timestamp_to_minutes_with_tz", MOMENT, zone) == minute


@pytest.mark.parametrize(
    ("moment", "hour"),
    [("2024-03-31T00:59:59Z", 1), ("2024-03-31T01:00:00Z", 3), ("2024-10-27T01:00:00Z", 2)],
)
def test_zones_know_summer_time(moment, hour):
    assert call("timestamp_to_hours_with_tz", timestamp(moment), "Europe/Berlin") == hour


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("Foo/Bar", "unknown time zone Foo/Bar"),
        ("utc", "unknown time zone utc"),
        ("Asia/Kolkata ", "unknown time zone Asia/Kolkata "),
        ("..", "time: invalid location name"),
        ("/etc/passwd", "time: invalid location name"),
        ("\\x", "time: invalid location name"),
        ("a\0b", "invalid argument"),
        ("America", "is a directory"),
        ("Asia/Kolkata/", "not a directory"),
        ("Asia/Kolkata/x", "not a directory"),
        ("a" * 5000, "file name too long"),
        ("zone.tab", "malformed time zone information"),
        (":30", 'strconv.Atoi: parsing "": invalid syntax'),
        ('a"b:30', 'strconv.Atoi: parsing "a\\"b": invalid syntax'),
        ("01:00:00", 'strconv.Atoi: parsing "00:00": invalid syntax'),
        ("99999999999999999999:30", 'strconv.Atoi: parsing "99999999999999999999": value out of range'),
    ],
)
def test_other_zones_fail(zone, message):
    assert failure(call, "timestamp_to_hours_with_tz", MOMENT, zone) == message
    assert failure(call, "timestamp_to_milliseconds_with_tz", MOMENT, zone) == message


def test_zones_reach_beyond_pythons_calendar():
    assert call("timestamp_to_year_with_tz", LAST, "Asia/Tokyo") == 10000
    assert call("timestamp_to_year_with_tz", FIRST, "America/New_York") == 0


def test_offsets_overflow_as_in_go():
    assert call("timestamp_to_year_with_tz", Timestamp(0), "999999999999:30") == 2198


@pytest.mark.parametrize(
    ("overload", "value"),
    [
        ("duration_to_hours", 2562047),
        ("duration_to_minutes", 153722867),
        ("duration_to_seconds", 9223372036),
        ("duration_to_milliseconds", 9223372036854),
    ],
)
def test_durations_are_cut_towards_zero(overload, value):
    assert call(overload, LONGEST) == value
    assert call(overload, SHORTEST) == -value


def test_functions_have_the_overloads_of_cel_go():
    assert {
        name: [each.id for each in LIBRARY if each.name == name] for name in (overload.name for overload in LIBRARY)
    } == {
        "getFullYear": ["timestamp_to_year", "timestamp_to_year_with_tz"],
        "getMonth": ["timestamp_to_month", "timestamp_to_month_with_tz"],
        "getDayOfYear": ["timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz"],
        "getDayOfMonth": ["timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz"],
        "getDate": ["timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz"],
        "getDayOfWeek": ["timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz"],
        "getHours": ["timestamp_to_hours", "timestamp_to_hours_with_tz", "duration_to_hours"],
        "getMinutes": ["timestamp_to_minutes", "timestamp_to_minutes_with_tz", "duration_to_minutes"],
        "getSeconds": ["timestamp_to_seconds", "timestamp_to_seconds_tz", "duration_to_seconds"],
        "getMilliseconds": [
            "timestamp_to_milliseconds",
            "timestamp_to_milliseconds_with_tz",
            "duration_to_milliseconds",
        ],
    }
