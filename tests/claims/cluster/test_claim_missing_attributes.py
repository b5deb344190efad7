"""Abstract interpretation: whether a selector can fail on a device that lacks an attribute."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.cel import CelCompileError, CelFeatures, CelRuntimeError, compile_selector
from policies.claims.absence import Assumption, outcome

FEATURES = CelFeatures(list_type_attributes=False, new_expressions=True)
MISSING = ("attributes", "d", "P")
A = 'device.attributes["d"]'


def can_fail(text, **known):
    return outcome(compile_selector(text, FEATURES), Assumption(MISSING, **known)).error is not None


@pytest.mark.parametrize(
    "text",
    [
        f'"P" in {A} && {A}.P == "x"',
        f'{A}.P == "x" && "P" in {A}',
        f"has({A}.P) && {A}.P",
        f'!has({A}.P) || {A}.P == "x"',
        f'{A}.P == "x" || !("P" in {A})',
        f'has({A}.P) ? {A}.P == "x" : {A}.Q == "x"',
        f'{A}.?P.orValue("") == "x"',
        f'{A}[?"P"].orValue("") == "x"',
        'device.attributes[?"d"].?P.orValue("") == "x"',
        'device.attributes[?"d"].P.orValue("") == "x"',
        f'{A}.?P.hasValue() && {A}.?P.value() == "x"',
        f'{A}.?P.optMap(v, v == "x").orValue(false)',
        f'{A}.?P.or({A}.?Q).orValue("") == "x"',
        f'cel.bind(a, {A}, has(a.P) && a.P == "x")',
        f'cel.bind(p, {A}.P, has({A}.P) && p == "x")',
        f'cel.bind(known, "P" in {A}, known && {A}.P == "x")',
        f'({{"a": "P" in {A}}}.a || true) && ("P" in {A}) == true && {A}.P == "x"',
        f'{A}.all(k, {A}[k] != "x")',
        f'{A}.all(k, v, v != "x")',
        f'{A}.exists(k, k == "P")',
        f"[1, 2].all(x, has({A}.P) && {A}.P == x)",
        f'{A}.Q == "x" && device.attributes["e"].P == "x"',
        'device.capacity["d"].P.compareTo(quantity("1")) == 0',
        f"false && {A}.P",
        f"true || {A}.P",
        f"has({A}.P) && [1].exists(x, {A}.P == x)",
    ],
)
def test_guarded_selector_cannot_fail(text):
    assert not can_fail(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{A}.P",
        f'{A}["P"] == "x"',
        f'"d" in device.attributes && {A}.P == "x"',
        f'{A}.Q == "x" && {A}.P == "x"',
        f'{A}.P == "x" || {A}.Q == "x"',
        f'"P" in {A} || {A}.P == "x"',
        f'!("P" in {A}) && {A}.P == "x"',
        f'has({A}.P) ? true : {A}.P == "x"',
        f"{A}.?P.value() == 1",
        f"{A}.?Q.orValue({A}.P)",
        f"cel.bind(p, {A}.P, p == 1)",
        f"cel.bind(a, {A}, a.P == 1)",
        f"[{A}][0].P == 1",
        f'{{"m": {A}}}.m.P == 1',
        f"dyn({A}).P == 1",
        f'(has({A}.Q) ? {A} : device.attributes["e"]).P == 1',
        f"[1].exists(x, {A}.P == x)",
        f"{A}.P.startsWith('x')",
        f"[{A}.P].size() == 1",
        f'{{"a": {A}.P}}.size() == 1',
        f'{A}["P" + ""] == 1',
        f'["Q", "P"].all(k, {A}[k] == 1)',
        f"has({A}.P.x)",
        "device.attributes.all(d, device.attributes[d].P == 1)",
        "device.attributes.all(d, items, items.P == 1)",
    ],
)
def test_unguarded_selector_can_fail(text):
    assert can_fail(text)


def test_failing_read_is_found_in_the_text():
    text = f"has({A}.P) && true || {A}.Q == 1 && {A}.P == 1"
    offset = outcome(compile_selector(text, FEATURES), Assumption(MISSING)).error
    assert text[offset:] == ".P == 1"


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        (f'device.driver == "d" && {A}.type == "gpu" && {A}.P == 1', True),
        (f'device.driver == "other" && {A}.P == 1', False),
        (f'{A}.type != "gpu" && {A}.P == 1', False),
        (f'!({A}.type == "gpu") && {A}.P == 1', False),
        (f'{A}.type == "mig" ? {A}.P == 1 : true', False),
        (f'cel.bind(a, {A}, a.type == "gpu" || a.P == 1)', False),
    ],
)
def test_what_is_known_of_the_device_decides(text, fails):
    known = {("driver",): "d", ("attributes", "d", "type"): "gpu"}
    assert can_fail(text, known=known) is fails


def test_deep_expression_needs_no_deep_stack():
    text = "".join(f"(true ? {A}.Q == {depth} : " for depth in range(100)) + "false" + ")" * 100
    assert not can_fail(text)


MAPS = st.sampled_from(
    [
        A,
        'device.attributes["e"]',
        f"[{A}][0]",
        f"dyn({A})",
        f'{{"m": {A}}}["m"]',
        'device.attributes["" + "d"]',
        f"cel.bind(y, {A}, y)",
    ]
)


def over(container):
    """Conditions on one map."""
    return st.sampled_from(
        [
            f"{container}.P",
            f'{container}["P"] == true',
            f"has({container}.P)",
            f'"P" in {container}',
            f"{container}.Q",
            f'"Q" in {container}',
            f"{container}.?P.orValue(true)",
            f'{container}[?"P"].hasValue()',
            f"{container}.?P.or({container}.?Q).orValue(false)",
            f"{container}.?P.optMap(v, v == true).orValue(true)",
            f"{container}.?Q.optFlatMap(v, {container}.?P).orValue(false)",
            f"{container}.?Q.orValue({container}.P)",
            f"{container}.?P.value() == true",
            f"{container}.exists(k, {container}[k] == true)",
            f'{container}.all(k, v, k == "Q" && v == true)',
            f'["P", "Q"].exists(k, {container}[k] == true)',
            f"({container}.P == true) == true",
            f"[{container}.P, true].exists_one(x, x == true)",
        ]
    )


ATOMS = (
    MAPS.flatmap(over)
    | over("x").map(lambda inner: f"cel.bind(x, {A}, {inner})")
    | over("x").map(lambda inner: f"device.attributes.exists(d, x, {inner})")
    | st.tuples(MAPS, MAPS, over("x")).map(lambda it: f"cel.bind(x, has({A}.Q) ? {it[0]} : {it[1]}, {it[2]})")
    | st.sampled_from(
        [
            "true",
            "false",
            'device.driver == "driver"',
            '"d" in device.attributes',
            'device.attributes[?"d"].P.orValue(true)',
            'device.attributes[?"d"].?P.hasValue()',
            "device.attributes.exists(d, device.attributes[d].P == true)",
            f"cel.bind(p, {A}.P, has({A}.P) && p == true)",
        ]
    )
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda it: f"({it[0]}) && ({it[1]})"),
        st.tuples(inner, inner).map(lambda it: f"({it[0]}) || ({it[1]})"),
        st.tuples(inner, inner).map(lambda it: f"({it[0]}) == ({it[1]})"),
        st.tuples(inner, inner, inner).map(lambda it: f"({it[0]}) ? ({it[1]}) : ({it[2]})"),
        inner.map(lambda it: f"!({it})"),
        inner.map(lambda it: f"[true, false].all(z, z || ({it}))"),
        inner.map(lambda it: f"[true, false].exists(z, z && ({it}))"),
        inner.map(lambda it: f"[1, 2].filter(z, z == 1 && ({it})).size() == 1"),
        st.tuples(inner, inner).map(lambda it: f"cel.bind(b, {it[0]}, ({it[1]}) && b)"),
        st.tuples(inner, inner).map(lambda it: f"optional.of({it[0]}).orValue({it[1]})"),
    ),
    max_leaves=8,
)
BOOLS = st.none() | st.booleans()


@given(text=CONDITIONS, in_d=BOOLS, more=BOOLS, in_e=BOOLS, driver=st.sampled_from(["driver", "other"]))
def test_selector_called_guarded_never_fails_for_what_is_missing(text, in_d, more, in_e, driver):
    try:
        selector = compile_selector(text, FEATURES)
    except CelCompileError:
        assume(False)
    found = outcome(selector, Assumption(MISSING))
    values = {"d/Q": in_d, "d/R": more, "e/Q": in_e, "e/P": True}
    attributes = {name: {"bool": value} for name, value in values.items() if value is not None}
    (verdict,) = selector.matches_all([{"driver": driver, "attributes": attributes}])
    if isinstance(verdict, CelRuntimeError):
        assert found.error is not None or verdict.message != "no such key: P"
    else:
        assert found.can_be_true if verdict else found.can_be_false


def test_selector_on_devices_with_lists_is_fine(said, asking, device_class, gpu, on_node):
    listed = gpu(**{"resource.kubernetes.io__numaNode": ("ints", [0])})
    claim = asking("device.attributes['resource.kubernetes.io'].numaNode.exists(node, node == 0)")
    cluster = device_class(), on_node("node-1", listed)
    assert [said(rule, claim, *cluster) for rule in ("GA215", "GA221", "GA222", "GA224")] == [[]] * 4
