"""Where variables and ternaries unwrap optionals, as measured on Kubernetes 1.36.2."""

import pytest

from policies.cel import CelDevice, CelRuntimeError, compile_selector
from policies.cel.selectors import _compile
from tests.cel.costs import actual_cost

ATTRIBUTES = {"version": {"version": "1.2.3-rc.1+b"}, "index": {"int": 1}}
DEVICE = CelDevice.read({"driver": "d", "attributes": ATTRIBUTES, "capacity": {"memory": {"value": "1.5Gi"}}})
LOST = "unsupported conversion to ref.Val: "
ADDRESS = f"{LOST}(netip.Addr)::1"
VERSION = f"{LOST}(semver.Version)1.2.3-rc.1+b"


def bound(value, body):
    return f"cel.bind(v, {value}, {body})"


OUTCOMES = [
    (bound('device.attributes["d"].?version', "v.hasValue()"), True, 6),
    (bound('device.attributes["d"].?version', "v.value().major() == 1"), VERSION, 8),
    (bound('device.attributes["d"].?version', 'v.orValue(semver("1.0.0")).major() == 1'), VERSION, 7),
    (bound('device.attributes["d"].?version', "v.optMap(x, x.major()).value() == 1"), VERSION, 13),
    (bound('device.attributes["d"].?index', "v.value() == 1"), True, 7),
    (bound('device.capacity["d"].?memory', "v.value().isInteger()"), f"{LOST}(*resource.Quantity)1536Mi", 7),
    (bound('optional.of(cidr("10.1.2.3/8"))', "v.value().prefixLength() == 8"), f"{LOST}(netip.Prefix)10.1.2.3/8", 6),
    (bound('optional.of(url("/a b"))', 'v.value().getHost() == ""'), f"{LOST}(*url.URL)/a%20b", 5),
    (bound('optional.of(ip("::1"))', "v == v"), ADDRESS, 5),
    (bound('optional.of(ip("::1"))', "v != v"), True, 5),
    (bound('optional.of(ip("::1"))', "v in [v]"), False, 15),
    (bound('optional.of(ip("::1"))', "[v] == [v]"), True, 25),
    (bound('optional.of(ip("::1"))', "[?v][0].family() == 6"), ADDRESS, None),
    (bound('optional.of(ip("::1"))', '{?"a": v}.a.family() == 6'), ADDRESS, None),
    (bound('optional.of(ip("::1"))', "optional.unwrap([v])[0].family() == 6"), ADDRESS, None),
    (
        bound('optional.of(ip("::1"))', "cel.bind(w, v, w.value().family() == 6)"),
        f"{LOST}(*errors.errorString){ADDRESS}",
        7,
    ),
    (
        bound('optional.of(ip("::1"))', "dyn(v)"),
        f"CEL result of type optional_type could not be converted to bool: {ADDRESS}",
        4,
    ),
    (bound('dyn(optional.of(ip("::1")))', "has(v.a)"), ADDRESS, 3),
    (bound("optional.of(optional.of(1))", "v.value().value() == 1"), "no such overload: value(int)", 6),
    (bound("optional.of(optional.none())", "v.value() == null"), True, 5),
    (bound("optional.of(int)", 'dyn(v.value()) == "int"'), True, 5),
    (bound("optional.of(device.attributes)", 'v.value()["x"].size() == 0'), "no such key: x", 9),
    ('[optional.of(ip("::1"))].all(v, v.value().family() == 6)', ADDRESS, 20),
    ('(device.driver == "d" ? optional.of(ip("::1")) : optional.none()).value().family() == 6', ADDRESS, 8),
    ('optional.of(1).optMap(x, ip("::1")).value().family() == 6', ADDRESS, 7),
    ('optional.of(1).optMap(x, [ip("::1")]).value()[0].family() == 6', True, 19),
    ('dyn(optional.of(ip("::1"))).a.hasValue()', ADDRESS, 5),
    ('optional.of(ip("::1")).value().family() == 6', True, 5),
]


def outcome(selector):
    try:
        return selector.matches(DEVICE)
    except CelRuntimeError as error:
        return error.message


@pytest.mark.parametrize(("text", "expected", "cost"), OUTCOMES, ids=[text for text, _, _ in OUTCOMES])
def test_optional_comes_out_as_in_kubernetes(text, expected, cost):
    selector = compile_selector(text)

    assert outcome(selector) == expected
    assert cost is None or actual_cost(selector, DEVICE) == cost


@pytest.mark.parametrize(("text", "expected"), [found[:2] for found in OUTCOMES], ids=[text for text, _, _ in OUTCOMES])
def test_meter_changes_no_outcome_of_an_optional(text, expected):
    selector = _compile(text, compile_selector(text)._environment.features)
    selector.__dict__["_code"] = None

    assert outcome(selector) == expected


@pytest.mark.parametrize(
    ("quantity", "spelled"),
    [
        *(('"0"', "0"), ('"0Ki"', "0"), ('"1000Ki"', "1000Ki"), ('"0.5Ki"', "512"), ('"1.0001Ki"', "1024102400u")),
        *(('"-2048Ki"', "-2Mi"), ('"1.1"', "1100m"), ('"0.1n"', "1n"), ('"1E1"', "10"), ('"1e3"', "1e3")),
        *(('"123456e-4"', "12345600e-6"), ('"10E"', "10E"), ('"12345678901234567890"', "12345678901234567890")),
    ],
    ids=lambda value: value.strip('"'),
)
def test_lost_quantity_is_spelled_canonically(quantity, spelled):
    selector = compile_selector(bound(f"optional.of(quantity({quantity}))", "v.value().isInteger()"))

    assert outcome(selector) == f"{LOST}(*resource.Quantity){spelled}"


@pytest.mark.parametrize(
    ("total", "spelled"),
    [
        ('quantity("1Ki").add(quantity("1"))', "1025"),
        ('quantity("1Gi").add(quantity("1k"))', "1073742824"),
        ('quantity("0").add(quantity("1Ki"))', "1Ki"),
        ('quantity("1Ki").sub(quantity("0.1"))', "1023900m"),
        ('quantity("100e1").add(1)', "1001"),
    ],
    ids=["binary", "binary-first", "zero", "decimals", "exponent"],
)
def test_lost_sum_is_spelled_like_its_first_part(total, spelled):
    selector = compile_selector(bound(f"optional.of({total})", "v.value().isInteger()"))

    assert outcome(selector) == f"{LOST}(*resource.Quantity){spelled}"
