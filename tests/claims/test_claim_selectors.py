"""Selectors: errors of the API server's compiler, and cost limits."""

import pytest
import yaml

from policies.kubernetes.objects import FieldPath
from policies.rules.decision import Place
from tests.findings import plain_text

PATH = ("spec", "devices", "requests", 0, "exactly", "selectors", 0, "cel", "expression")
WHERE = "spec.devices.requests[0].exactly.selectors[0].cel.expression"


def claim(*expressions, version="v1"):
    asked = {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": expression}} for expression in expressions],
    }
    request = {"name": "gpu", **(asked if version == "v1beta1" else {"exactly": asked})}
    document = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu"},
        "spec": {"devices": {"requests": [request]}},
    }
    return yaml.safe_dump(document)


def device_class(expression):
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    return yaml.safe_dump(document)


@pytest.mark.parametrize(
    ("expression", "column", "expected"),
    [
        (
            'device.attribute["gpu.nvidia.com"].type == "gpu"',
            7,
            'undefined field \'attribute\', at .attribute["gpu.nvidia.com"].type == "gpu"; write attributes',
        ),
        (
            'devices.driver == "gpu.nvidia.com"',
            1,
            "undeclared reference to 'devices' (in container ''), at devices.driver == \"gpu.nvidia.com\"; write device",
        ),
        (
            "device.driver == gpu",
            18,
            "undeclared reference to 'gpu' (in container ''), at gpu; put text in quotes; the only variable is device",
        ),
        (
            'device.capacity["gpu.nvidia.com"].memory >= 40',
            42,
            (
                "found no matching overload for '_>=_' applied to '(kubernetes.Quantity, int)', at >= 40; compare amounts by "
                'compareTo(quantity("40Gi")) and the like'
            ),
        ),
    ],
)
def test_expression_that_does_not_compile_is_reported_with_its_place(examined, expression, column, expected):
    (found,) = examined(claim(expression))
    assert plain_text(found) == f"{WHERE}: compilation failed: ERROR: <input>:1:{column}: {expected}"
    assert found.place == Place(FieldPath(PATH), 1, column)


A_MAP = "found no matching overload for '{}' applied to '{}', at {}; write "


@pytest.mark.parametrize(
    ("expression", "column", "expected"),
    [
        (
            'device.attributes.productName == "x"',
            31,
            A_MAP.format("_==_", "(map(string, any), string)", '== "x"')
            + 'device.attributes["gpu.nvidia.com"].productName',
        ),
        (
            'device.attributes["productName"] == "x"',
            34,
            A_MAP.format("_==_", "(map(string, any), string)", '== "x"')
            + 'device.attributes["gpu.nvidia.com"].productName',
        ),
        (
            '"x" == device.attributes["gpu.nvidia.com/productName"]',
            5,
            A_MAP.format("_==_", "(string, map(string, any))", '== device.attributes["gpu.nvidia.com/productName"]')
            + 'device.attributes["gpu.nvidia.com"].productName',
        ),
        (
            'device.attributes["example.com"] == "x"',
            34,
            A_MAP.format("_==_", "(map(string, any), string)", '== "x"')
            + 'device.attributes["example.com"].productName or the like',
        ),
        (
            'device.attributes.pcieRoot == "x"',
            28,
            A_MAP.format("_==_", "(map(string, any), string)", '== "x"')
            + 'device.attributes["resource.kubernetes.io"].pcieRoot',
        ),
        (
            "device.capacity.memory >= 40",
            24,
            A_MAP.format("_>=_", "(map(string, kubernetes.Quantity), int)", ">= 40")
            + 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0 or the like',
        ),
    ],
)
def test_attribute_without_its_domain_is_reported_as_it_is_written(findings_of, expression, column, expected):
    assert findings_of("GA215", claim(expression)) == [
        f"{WHERE}: compilation failed: ERROR: <input>:1:{column}: {expected}"
    ]


def test_domain_is_the_driver_that_the_class_selects(findings_of):
    driver = claim('device.attributes.model == "x"') + (
        "\n---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.nvidia.com}\n"
        "spec: {selectors: [{cel: {expression: \"device.driver == 'gpu.example.com'\"}}]}"
    )
    (text,) = findings_of("GA215", driver)
    assert text.endswith('; write device.attributes["gpu.example.com"].model')


@pytest.mark.parametrize(
    ("expression", "column", "expected"),
    [
        ('device.driver == "a"\u200b', 21, "'U+200B', at U+200B; remove U+200B, which cannot be seen"),
        ('device.driver\u00a0== "a"', 14, "'U+00A0', at U+00A0== \"a\"; remove U+00A0, which cannot be seen"),
    ],
)
def test_character_that_cannot_be_seen_is_reported_by_its_code_point(findings_of, expression, column, expected):
    assert findings_of("GA215", claim(expression)) == [
        f"{WHERE}: compilation failed: ERROR: <input>:1:{column}: Syntax error: token recognition error at: {expected}"
    ]


def test_of_many_issues_the_first_are_reported(findings_of):
    assert len(findings_of("GA215", claim("= " * 5000))) == 20


def test_what_only_follows_from_a_stray_sign_is_not_reported(examined):
    (found,) = examined(claim('device.driver = "x"'))
    assert plain_text(found) == (
        f"{WHERE}: compilation failed: ERROR: <input>:1:15: Syntax error: token recognition error at: '= ', at = \"x\"; "
        "write =="
    )
    assert found.place == Place(FieldPath(PATH), 1, 15)


@pytest.mark.parametrize(("expression", "place"), [("true &&", Place(FieldPath(PATH), 1, 8)), ("", None)])
def test_expression_that_ends_early_is_reported_at_its_end(examined, expression, place):
    (found,) = examined(claim(expression))
    where = "1:8" if place else "1:0"
    assert found.message == (
        f"compilation failed: ERROR: <input>:{where}: Syntax error: mismatched input '<EOF>' expecting a value, at its end"
    )
    assert found.place == place


def test_every_issue_is_reported_at_its_place(examined):
    found = examined(claim("a.b == 1 &&\n  c.d == 2"))
    assert [(finding.place.line, finding.place.column) for finding in found] == [(1, 1), (2, 3)]


@pytest.mark.parametrize(("written", "meant"), [("and", "&&"), ("or", "||"), ("=", "==")])
def test_operator_of_other_languages_is_reported_as_cel_has_it(findings_of, written, meant):
    texts = findings_of("GA215", claim(f'device.driver {written} "a" == "b"'))
    assert any(text.endswith(f"; write {meant}") for text in texts)


def test_expression_that_is_neither_true_nor_false_is_reported(examined):
    (found,) = examined(claim("device.driver"))
    assert plain_text(found) == (
        f'{WHERE}: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string; compare the value, '
        "as in device.driver == ..."
    )
    assert found.place is None


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(
    "expression", ["true", 'device.attributes["gpu.nvidia.com"].type', 'device.driver == "gpu.nvidia.com"']
)
def test_expression_that_compiles_is_fine(findings_of, expression, version):
    assert findings_of("GA215", claim(expression, version=version)) == []


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("{}", 'cel: Required value; write a condition such as cel: {expression: device.driver == "gpu.nvidia.com"}'),
        ("{cel: {}}", "cel.expression: Required value; add an expression over device"),
        ("{cel: {expression: null}}", "cel.expression: Required value; add an expression over device"),
    ],
)
def test_selector_without_expression_is_reported(findings_of, selector, expected):
    text = (
        f"apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {{name: a}}\nspec: {{selectors: [{selector}]}}"
    )
    assert findings_of("GA215", text) == [f"spec.selectors[0].{expected}"]


@pytest.mark.parametrize(("release", "found"), [("v1.35.0", 1), ("v1.36.0", 0)])
def test_what_compiles_depends_on_the_version_of_the_cluster(findings_of, release, found):
    text = claim("device.allowMultipleAllocations")
    assert len(findings_of("GA215", f"{text}\n---\nserverVersion: {{gitVersion: {release}}}")) == found


def test_expression_that_is_too_long_is_reported_and_not_compiled(examined):
    (found,) = examined(claim("?" * 10241))
    assert plain_text(found) == (
        f"{WHERE}: Too long: may not be more than 10240 bytes, and has 10241; split it into several selectors, which must all "
        "be true"
    )


def test_length_is_of_bytes(findings_of):
    assert findings_of("GA216", claim(f'device.driver == "{"é" * 5110}"')) == []
    assert len(findings_of("GA216", claim(f'device.driver == "{"é" * 5111}"'))) == 1


def test_expression_that_costs_too_much_is_reported(findings_of):
    nested = (
        "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a != b))))"
    )
    (text,) = findings_of("GA216", claim(nested))
    assert text.startswith(f"{WHERE}: Forbidden: too complex, exceeds cost limit: the estimate is ")
    assert text.endswith(
        ", and the limit is 1000000; avoid loops in loops: all, exists, filter and map over what may be long"
    )


def test_selectors_of_a_class_that_stay_are_not_compiled_again(findings_of):
    text = device_class("nonsense")
    assert findings_of("GA215", f"{text}\n--- # before\n{text}") == []
    assert len(findings_of("GA215", f"{text}\n--- # before\n{device_class('true')}")) == 1


def test_selectors_beyond_the_length_of_the_list_are_not_compiled(findings_of):
    assert findings_of("GA215", claim(*["true"] * 32, "nonsense")) == []


def test_selector_that_the_api_server_has_compiled_is_not_questioned(examined):
    assert examined(device_class("of.a.later.version()"), entry="claims") == ()
