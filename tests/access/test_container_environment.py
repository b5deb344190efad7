"""The environment of a container: order, references and unknown values."""

import pytest

from policies.access.subject import read_environment


def values(*entries):
    env = [{"name": name, **({"value": value} if value is not None else {"valueFrom": {}})} for name, value in entries]
    return {name: variable.value for name, variable in read_environment(env).items()}


def test_last_of_several_entries_counts():
    env = [{"name": "A", "value": "void"}, {"name": "A", "value": "all"}]
    assert read_environment(env) == {"A": (1, "all")}


def test_last_entry_from_elsewhere_is_not_known():
    assert values(("A", "void"), ("A", None)) == {"A": None}


def test_last_entry_with_a_value_is_known():
    assert values(("A", None), ("A", "void")) == {"A": "void"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(B)", "b"),
        ("x$(B)y$(B)", "xbyb"),
        ("$(C)", None),
        ("$(D)", None),
        ("$(A)", None),
        ("$$(B)", "$(B)"),
        ("$$$(B)", "$b"),
        ("$B", "$B"),
        ("$(B", "$(B"),
        ("$()", None),
        ("a$", "a$"),
        ("$(E)", ""),
    ],
)
def test_reference_means_what_came_before(text, value):
    assert values(("B", "b"), ("D", None), ("E", ""), ("A", text), ("C", "later"))["A"] == value


def test_variable_can_refer_to_its_former_value():
    assert values(("A", "1"), ("A", "$(A),2")) == {"A": "1,2"}


def test_variables_that_double_each_other_end():
    entries = [("V0", "x" * 1000), *((f"V{index}", f"$(V{index - 1})$(V{index - 1})") for index in range(1, 200))]
    assert values(*entries)["V199"] is None


@pytest.mark.parametrize(
    "env", [None, {}, "x", 1, [None, 1, "x", [], {}, {"name": 1}, {"name": []}, {"name": {}}]], ids=repr
)
def test_environment_of_another_shape_is_empty(env):
    assert read_environment(env) == {}


@pytest.mark.parametrize("value", [0, True, [], {"a": 1}, 1.5], ids=repr)
def test_value_that_is_no_text_is_not_known(value):
    assert read_environment([{"name": "A", "value": value}])["A"].value is None


@pytest.mark.parametrize(("gpus", "expected"), [("all", ["GA601"]), ("void", [])])
def test_reference_in_visible_devices_is_followed(rules, gpus, expected):
    env = [{"name": "GPUS", "value": gpus}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "$(GPUS)"}]
    assert rules({"containers": [{"name": "a", "env": env}]}) == expected


@pytest.mark.parametrize(("order", "expected"), [(["all", "void"], []), (["void", "all"], ["GA601"])])
def test_last_visible_devices_counts(rules, order, expected):
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value} for value in order]
    assert rules({"containers": [{"name": "a", "env": env}]}) == expected
