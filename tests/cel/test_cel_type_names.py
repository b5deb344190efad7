import pytest

from policies.cel import types
from policies.cel.types import declared_name, list_of, map_of, optional_of, result_name, runtime_name


@pytest.mark.parametrize(
    ("type_", "as_declared", "at_run_time"),
    [
        pytest.param(types.INT, "int", "int", id="int"),
        pytest.param(types.NULL, "null", "null_type", id="null"),
        pytest.param(types.ANY, "any", "google.protobuf.Any", id="any"),
        pytest.param(
            map_of(types.STRING, list_of(types.DURATION)),
            "map(string, list(duration))",
            "map(string, list(google.protobuf.Duration))",
            id="a map of lists of durations",
        ),
        pytest.param(
            optional_of(types.TIMESTAMP),
            "optional_type(timestamp)",
            "optional_type(google.protobuf.Timestamp)",
            id="an optional timestamp",
        ),
    ],
)
def test_type_is_spelled_in_two_ways(type_, as_declared, at_run_time):
    assert (declared_name(type_), result_name(type_)) == (as_declared, at_run_time)


def test_name_at_run_time_has_no_parameters():
    assert runtime_name(list_of(types.INT)) == "list"


def test_type_of_endless_size_is_cut():
    type_ = types.INT
    for _ in range(100):
        type_ = map_of(type_, type_)
    assert declared_name(type_).endswith("…")
