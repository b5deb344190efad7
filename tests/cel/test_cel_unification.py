import pytest

from policies.cel import types
from policies.cel.resolution import Substitution, TypesTooLargeError
from policies.cel.types import Type, list_of, map_of, optional_of, type_of, type_parameter

ADDRESS = types.opaque("net.IP")
DEVICE = Type("kubernetes.DRADevice", kind="object")


def assigns(given, wanted):
    return Substitution().assign((given,), (wanted,))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(types.INT, types.INT, id="the same"),
        pytest.param(types.DYN, types.INT, id="dyn to anything"),
        pytest.param(types.INT, types.DYN, id="anything to dyn"),
        pytest.param(types.ANY, types.STRING, id="any to anything"),
        pytest.param(types.ERROR, types.INT, id="what was refused already"),
        pytest.param(types.NULL, ADDRESS, id="null to an opaque type"),
        pytest.param(types.NULL, DEVICE, id="null to an object"),
        pytest.param(types.NULL, types.DURATION, id="null to a duration"),
        pytest.param(types.TIMESTAMP, types.NULL, id="a timestamp to null"),
        pytest.param(optional_of(types.INT), types.NULL, id="an optional to null"),
        pytest.param(type_of(types.INT), type_of(types.STRING), id="types of different types"),
        pytest.param(list_of(types.DYN), list_of(types.INT), id="a list of dyn to a list of anything"),
        pytest.param(map_of(types.STRING, types.INT), map_of(types.DYN, types.DYN), id="a map to a map of dyn"),
    ],
)
def test_types_that_agree_can_be_assigned(given, wanted):
    assert assigns(given, wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(types.INT, types.UINT, id="int and uint"),
        pytest.param(types.INT, types.DOUBLE, id="int and double"),
        pytest.param(types.NULL, types.INT, id="null to a primitive"),
        pytest.param(types.NULL, list_of(types.INT), id="null to a list"),
        pytest.param(map_of(types.STRING, types.INT), types.NULL, id="a map to null"),
        pytest.param(list_of(types.INT), list_of(types.STRING), id="lists of different elements"),
        pytest.param(list_of(types.INT), map_of(types.INT, types.INT), id="a list to a map"),
        pytest.param(optional_of(types.INT), types.INT, id="an optional to its value"),
        pytest.param(type_of(types.INT), types.INT, id="a type to a value of it"),
        pytest.param(ADDRESS, types.opaque("net.CIDR"), id="different opaque types"),
    ],
)
def test_types_that_differ_cannot_be_assigned(given, wanted):
    assert not assigns(given, wanted)


def test_assign_refuses_another_number_of_arguments():
    assert not Substitution().assign((types.INT,), (types.INT, types.INT))


def test_parameter_stands_for_what_is_assigned_to_it():
    known = Substitution()
    parameter = known.fresh()
    assert known.assign((types.INT,), (parameter,))
    assert known.resolve(list_of(parameter)) == list_of(types.INT)


def test_parameter_takes_no_second_type():
    known = Substitution()
    parameter = known.fresh()
    assert not known.assign((types.INT, types.STRING), (parameter, parameter))


def test_failed_assignment_leaves_nothing_behind():
    known = Substitution()
    parameter = known.fresh()
    known.assign((types.INT, types.INT), (parameter, types.STRING))
    assert known.resolve(parameter) is parameter


def test_failed_assignment_undoes_a_widening():
    known = Substitution()
    parameter = known.fresh()
    known.assign((types.INT,), (parameter,))
    known.assign((types.DYN, types.INT), (parameter, types.STRING))
    assert known.resolve(parameter) == types.INT


def test_parameter_widens_to_dyn():
    known = Substitution()
    parameter = known.fresh()
    assert known.assign((types.INT, types.DYN), (parameter, parameter))
    assert known.resolve(parameter) == types.DYN


def test_parameter_of_an_empty_list_becomes_known_later():
    known = Substitution()
    empty = list_of(known.fresh())
    assert known.assign((empty,), (list_of(types.INT),))
    assert known.resolve(empty) == list_of(types.INT)


def test_parameter_cannot_contain_itself():
    known = Substitution()
    parameter = known.fresh()
    assert not known.assign((list_of(parameter),), (parameter,))


def test_parameters_cannot_contain_themselves_by_way_of_others():
    known = Substitution()
    first, second = known.fresh(), known.fresh()
    assert known.assign((list_of(second),), (first,))
    assert not known.assign((list_of(first),), (second,))


def test_unknown_parameters_become_what_is_requested():
    known = Substitution()
    assert known.resolve(list_of(known.fresh()), unknown=types.DYN) == list_of(types.DYN)


def test_resolve_keeps_a_type_without_parameters_as_it_is():
    type_ = map_of(types.STRING, list_of(types.INT))
    assert Substitution().resolve(type_) is type_


def test_instantiate_gives_one_signature_the_same_fresh_parameters():
    known = Substitution()
    element, elements = known.instantiate((type_parameter("A"), list_of(type_parameter("A"))))
    assert elements == list_of(element)
    assert element != type_parameter("A")


def test_instantiate_gives_two_signatures_different_parameters():
    known = Substitution()
    assert known.instantiate((type_parameter("A"),)) != known.instantiate((type_parameter("A"),))


@pytest.mark.parametrize(
    ("previous", "current", "joined"),
    [
        pytest.param(types.INT, types.INT, types.INT, id="the same"),
        pytest.param(types.INT, types.DYN, types.DYN, id="dyn is more general"),
        pytest.param(types.DYN, types.INT, types.DYN, id="dyn stays"),
        pytest.param(types.INT, types.STRING, types.DYN, id="what differs is dyn"),
        pytest.param(types.NULL, types.DURATION, types.DURATION, id="null and a duration"),
        pytest.param(list_of(types.INT), list_of(types.DYN), list_of(types.DYN), id="a list of dyn is more general"),
    ],
)
def test_join_is_the_more_general_type(previous, current, joined):
    assert Substitution().join(previous, current) == joined


def nested(depth, innermost=types.INT):
    type_ = innermost
    for _ in range(depth):
        type_ = list_of(type_)
    return type_


def test_deep_types_are_compared_without_recursion():
    assert assigns(nested(5000), nested(5000))
    assert not assigns(nested(5000), nested(5000, types.STRING))


def test_deep_types_are_resolved_without_recursion():
    known = Substitution()
    parameter = known.fresh()
    known.assign((types.STRING,), (parameter,))
    assert known.same(known.resolve(nested(900, parameter)), nested(900, types.STRING))


def doubled(times):
    type_ = types.INT
    for _ in range(times):
        type_ = map_of(type_, type_)
    return type_


@pytest.mark.parametrize("type_", [doubled(200), nested(1000)], ids=["shared parts", "deep"])
def test_type_of_more_than_a_thousand_parts_is_given_up(type_):
    with pytest.raises(TypesTooLargeError):
        Substitution().resolve(type_)


def test_comparing_types_of_endless_size_is_given_up():
    with pytest.raises(TypesTooLargeError):
        assigns(doubled(200), doubled(200))
