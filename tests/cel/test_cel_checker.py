import pytest

from policies.cel import compile_selector, types
from policies.cel.checker import check
from policies.cel.environment import CelFeatures, selector_environment
from policies.cel.errors import CelCompileError
from policies.cel.parser import parse
from policies.cel.syntax import Call, Identifier, Select
from policies.cel.types import list_of, map_of, optional_of


def checked(text, **features):
    return check(parse(text), text, selector_environment(CelFeatures(**features)))


def refusal(text, **features):
    with pytest.raises(CelCompileError) as refused:
        checked(text, **features)
    return refused.value


def type_of_first_argument(text, **features):
    """The type of `x` in `dyn(x) == 1`."""
    result = checked(f"dyn({text}) == 1", **features)
    return result.types[result.root.arguments[0].arguments[0]]


def test_place_of_an_issue_is_reported_by_line_and_code_point():
    issues = refusal('true &&\n  "é" == "" && 1 ||\n\ty').issues
    assert [(issue.line, issue.column) for issue in issues] == [(2, 16), (3, 2)]


def test_issues_are_in_the_order_of_their_places():
    columns = [issue.column for issue in refusal("b.a(c).d(e)").issues]
    assert columns == sorted(columns)


def test_no_more_than_a_hundred_issues_are_reported():
    assert len(refusal(f"[{', '.join(['x'] * 150)}] == []").issues) == 100


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        pytest.param("null", types.NULL, id="null"),
        pytest.param("true", types.BOOL, id="bool"),
        pytest.param("1", types.INT, id="int"),
        pytest.param("1u", types.UINT, id="uint"),
        pytest.param("1.0", types.DOUBLE, id="double"),
        pytest.param("''", types.STRING, id="string"),
        pytest.param("b''", types.BYTES, id="bytes"),
        pytest.param("[]", list_of(types.DYN), id="an empty list"),
        pytest.param("{}", map_of(types.DYN, types.DYN), id="an empty map"),
        pytest.param("[[], [1]]", list_of(list_of(types.INT)), id="an empty list beside another"),
        pytest.param("[?optional.of(1)]", list_of(types.INT), id="a list with an optional element"),
        pytest.param("{'a': 1}", map_of(types.STRING, types.INT), id="a map"),
        pytest.param("device.driver", types.STRING, id="the driver"),
        pytest.param("device.attributes['a'].b", types.DYN, id="an attribute"),
        pytest.param("device.attributes['a'].b.c.d", types.DYN, id="a field of dyn"),
        pytest.param("device.attributes['a'].?b", optional_of(types.DYN), id="an attribute that may be missing"),
        pytest.param("device.attributes[?'a'].b", optional_of(types.DYN), id="a field of an optional"),
        pytest.param("has(device.attributes['a'].b)", types.BOOL, id="a test for presence"),
        pytest.param("1 < 2.0", types.BOOL, id="numbers of two types compared"),
        pytest.param("[1] + []", list_of(types.INT), id="an empty list added"),
        pytest.param("dyn(1) + dyn(2)", types.DYN, id="a sum of dyn"),
        pytest.param("device.attributes['a'].b + 1", types.INT, id="a sum that only one overload can give"),
        pytest.param("true ? 1 : dyn('')", types.DYN, id="a choice between int and dyn"),
        pytest.param("[1, 2].map(x, [x])", list_of(list_of(types.INT)), id="map"),
        pytest.param("[1, 2].filter(x, x > 1)", list_of(types.INT), id="filter"),
        pytest.param("{'a': 1}.transformMap(k, v, [v])", map_of(types.STRING, list_of(types.INT)), id="transformMap"),
        pytest.param("dyn([]).map(x, x.y)", list_of(types.DYN), id="map over dyn"),
        pytest.param("optional.none()", optional_of(types.DYN), id="no value"),
        pytest.param("optional.of(1).optMap(x, [x])", optional_of(list_of(types.INT)), id="optMap"),
        pytest.param("optional.none().orValue('')", types.STRING, id="no value or a string"),
        pytest.param("[[1]].flatten()", list_of(types.INT), id="flatten"),
        pytest.param("cel.bind(x, [], x + [1])", list_of(types.INT), id="bind"),
        pytest.param("type(1)", types.type_of(types.INT), id="a type"),
    ],
)
def test_expression_has_type(text, type_):
    assert type_of_first_argument(text) == type_


def test_attributes_are_any_without_list_type_attributes():
    assert type_of_first_argument("device.attributes['a'].b", list_type_attributes=False) == types.ANY


def test_any_is_no_range_of_a_comprehension():
    assert refusal("device.attributes['a'].b.all(x, true)", list_type_attributes=False).message == (
        "expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)"
    )


@pytest.mark.parametrize("text", ["device.attributes['a'].b", "true", "!device.attributes['a'].b"])
@pytest.mark.parametrize("list_type_attributes", [True, False])
def test_result_may_be_bool_or_an_attribute(text, list_type_attributes):
    assert checked(text, list_type_attributes=list_type_attributes)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        pytest.param("1", "int", id="int"),
        pytest.param("device", "kubernetes.DRADevice", id="the device"),
        pytest.param("device.attributes", "map(string, map(string, dyn))", id="a map"),
        pytest.param("null", "null_type", id="null"),
        pytest.param("duration('1s')", "google.protobuf.Duration", id="a duration"),
        pytest.param("[duration('1s')]", "list(google.protobuf.Duration)", id="a list of durations"),
        pytest.param("optional.none()", "optional_type(dyn)", id="an optional"),
        pytest.param("type(1)", "type(int)", id="a type"),
        pytest.param("list", "type(list(dyn))", id="the type of lists"),
        pytest.param("timestamp", "type(google.protobuf.Timestamp)", id="the type of timestamps"),
        pytest.param("kubernetes.DRADevice", "type(kubernetes.DRADevice)", id="the type of the device"),
        pytest.param("optional_type", "type(optional_type)", id="the type of optionals"),
        pytest.param("kubernetes.DRADevice{}", "kubernetes.DRADevice", id="a message"),
    ],
)
def test_result_of_another_type_is_refused(text, type_):
    assert str(refusal(text)) == f"must evaluate to bool or the unknown type, not {type_}"


def test_dyn_is_no_result_without_list_type_attributes():
    assert str(refusal("dyn(true)", list_type_attributes=False)) == (
        "must evaluate to bool or the unknown type, not dyn"
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("type(device.driver) == duration", "duration", id="a short name"),
        pytest.param("type(device) == kubernetes.DRADevice", "kubernetes.DRADevice", id="the device"),
        pytest.param("type({}) == kubernetes.DRADevice.capacity", "kubernetes.DRADevice.capacity", id="a field's type"),
        pytest.param("cel.bind(t, type(1), t == int)", "t", id="a variable that is a type"),
    ],
)
def test_type_without_a_value_is_refused(text, name):
    assert str(refusal(text)) == f"program instantiation failed: reference to undefined type: {name}"


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        pytest.param("int", types.INT, id="int"),
        pytest.param("null_type", types.NULL, id="null_type"),
        pytest.param("list", list_of(types.DYN), id="list"),
        pytest.param("map", map_of(types.DYN, types.DYN), id="map"),
        pytest.param("type", types.type_of(types.DYN), id="type"),
        pytest.param("optional_type", optional_of(types.DYN), id="optional_type"),
        pytest.param("google.protobuf.Duration", types.DURATION, id="google.protobuf.Duration"),
        pytest.param("net.IP", types.opaque("net.IP"), id="net.IP"),
        pytest.param(".net.CIDR", types.opaque("net.CIDR"), id=".net.CIDR"),
    ],
)
def test_name_of_a_type_stands_for_the_type(name, type_):
    result = checked(f"type(1) == {name}")
    assert result.names[result.root.arguments[1]].type_value == type_


def test_name_of_a_type_stands_for_it_even_where_a_variable_of_types_has_it():
    result = checked("cel.bind(int, type(''), int == string)")
    shadowed = next(node for node in result.names if isinstance(node, Identifier) and node.name == "int")
    assert result.names[shadowed].type_value == types.INT


def test_variable_is_known_by_its_name_without_a_dot():
    result = checked(".device.driver == ''")
    driver = result.root.arguments[0]
    assert isinstance(driver, Select)
    assert (result.names[driver.operand].name, result.names[driver.operand].type_value) == ("device", None)


def test_qualified_name_is_the_whole_of_a_select():
    result = checked("type(1) == net.IP")
    ip = result.root.arguments[1]
    assert isinstance(ip, Select)
    assert result.names[ip].name == "net.IP"
    assert ip.operand not in result.types


def test_call_knows_its_overload():
    result = checked("1 < 2.0")
    assert [overload.id for overload in result.calls[result.root].overloads] == ["less_int64_double"]


def test_call_on_dyn_knows_every_overload_that_may_run():
    result = checked("device.attributes['a'].b > 1")
    assert [overload.id for overload in result.calls[result.root].overloads] == [
        "greater_int64",
        "greater_uint64_int64",
        "greater_double_int64",
    ]


def test_function_with_a_namespace_has_no_target():
    result = checked("sets.contains([1], [1])")
    assert result.calls[result.root].is_namespaced
    assert result.root.target not in result.types


def test_method_has_a_target():
    result = checked("'a'.contains('a')")
    assert not result.calls[result.root].is_namespaced
    assert result.types[result.root.target] == types.STRING


def test_optional_selection_refers_to_its_overload():
    result = checked("device.?driver == optional.none()")
    selection = result.root.arguments[0]
    assert isinstance(selection, Call)
    assert [overload.id for overload in result.calls[selection].overloads] == ["select_optional_field"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[1].exists(x, [''].exists(x, x == ''))", id="in an inner comprehension"),
        pytest.param("cel.bind(device, 1, device == 1)", id="of the device"),
        pytest.param("[1].all(int, int == 1)", id="of a type"),
        pytest.param("cel.bind(x, 1, cel.bind(x, [x], x == [1]))", id="by what is made of it"),
    ],
)
def test_variable_hides_another(text):
    assert checked(text)


def test_leading_dot_reaches_the_device_behind_a_variable_of_its_name_since_cel_go_0_29():
    text = "[1].all(device, .device.driver == 'd')"
    assert compile_selector(text, CelFeatures(cel_go_029=True)).matches({"driver": "d"})
    assert refusal(text).message == "type 'int' does not support field selection"


def test_type_is_hidden_by_a_variable_of_its_first_name_since_cel_go_0_29():
    text = "[ip('::')].all(net, type(net) == net.IP)"
    assert compile_selector(text).matches({"driver": "d"})
    with pytest.raises(CelCompileError, match=r"type 'net\.IP' does not support field selection"):
        compile_selector(text, CelFeatures(cel_go_029=True))


def test_variable_ends_with_its_comprehension():
    assert refusal("[1].all(x, x == 1) && [''].all(y, x == 1)").message == (
        "undeclared reference to 'x' (in container '')"
    )


def test_deep_expression_is_checked_without_recursion():
    text = f"{'[' * 200}{']' * 200} == []"
    assert checked(text)


def test_deep_type_is_spelled_without_recursion():
    assert refusal("[" * 200 + "]" * 200).message.count("list(") == 200


def test_types_that_double_with_every_variable_are_refused_before_they_fill_memory():
    x, y = ("".join(f"cel.bind({name}{n + 1}, {{{name}{n}: {name}{n}}}, " for n in range(19)) for name in "xy")
    text = f"cel.bind(x0, 1, cel.bind(y0, 1, {x}{y}x19 == y19{')' * 40}"
    assert str(refusal(text)) == "the types of lists, maps or optionals within each other grow too large to be checked"


def test_list_of_ten_kilobytes_is_checked():
    checked(f"[{', '.join(['1'] * 3000)}].size() == 3000")
