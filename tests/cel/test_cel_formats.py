"""Formats, with the results of Kubernetes 1.36.2."""

from __future__ import annotations

import pytest

from policies.cel.libraries.formats import LIBRARY
from policies.cel.values import Optional

OVERLOADS = {overload.id: overload for overload in LIBRARY}

NAMES = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "labelValue", "uri", "uuid", "byte"),
    *("date", "datetime", "dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix"),
)

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
OLD_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def run(overload_id, *arguments):
    return OVERLOADS[overload_id].implementation(*arguments)


def validate(name, text):
    return run("format-validate", run(f"format.{name}"), text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("dns1123Label", "1-a"),
        ("dns1123Label", "a" * 63),
        ("dns1123Subdomain", "a.b-c.1"),
        ("dns1035Label", "a-1"),
        ("qualifiedName", "A_b.c"),
        ("qualifiedName", "example.com/My-Name"),
        ("labelValue", ""),
        ("labelValue", "A.b_c-1"),
        ("dns1123LabelPrefix", "ab-"),
        ("dns1123SubdomainPrefix", "a.b-"),
        ("dns1035LabelPrefix", "a-"),
        ("dns1123LabelPrefix", "ab--"),
        ("uri", "/a"),
        ("uri", "https://example.com"),
        ("uuid", "550E8400-e29b-41d4-a716-446655440000"),
        ("uuid", "550e8400e29b41d4a716446655440000"),
        ("byte", "YQ=="),
        ("byte", "YWFhYWE="),
        ("date", "2024-02-29"),
        ("date", "0000-02-29"),
        ("datetime", "2024-12-31t23:59:59.5z"),
        ("datetime", "2024-12-31T23:59:59x5+01:00"),
        ("datetime", "2024-12-31T23:59:59ZTanything"),
    ],
)
def test_text_of_the_format_has_no_problems(name, text):
    assert validate(name, text) == Optional()


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        ("dns1123Label", "", (LABEL,)),
        ("dns1123Label", "A", (LABEL,)),
        ("dns1123Label", "a\n", (LABEL,)),
        ("dns1123Label", "a.b", ("must not contain dots",)),
        ("dns1123Label", "a" * 64, ("must be no more than 63 characters",)),
        ("dns1123Label", "é" * 32, ("must be no more than 63 characters", LABEL)),
        ("dns1123Subdomain", "a..b", (SUBDOMAIN,)),
        ("dns1123Subdomain", "a" * 254, ("must be no more than 253 characters",)),
        ("dns1035Label", "1a", (OLD_LABEL,)),
        ("dns1123LabelPrefix", "-", (LABEL,)),
        ("dns1123LabelPrefix", "a.b-", ("must not contain dots",)),
        ("qualifiedName", "", ("name part must be non-empty", f"name part {KEY}")),
        ("qualifiedName", "/a", ("prefix part must be non-empty",)),
        ("qualifiedName", "A/a_", (f"prefix part {SUBDOMAIN}", f"name part {KEY}")),
        ("qualifiedName", "a" * 64, ("name part must be no more than 63 bytes",)),
        ("qualifiedName", f"{'a' * 254}/a", ("prefix part must be no more than 253 bytes",)),
        (
            "qualifiedName",
            "a/b/c",
            (f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",),
        ),
        ("labelValue", "a b", (LABEL_VALUE,)),
        ("labelValue", "a" * 64, ("must be no more than 63 bytes",)),
        ("uri", "a b", ('parse "a b": invalid URI for request',)),
        ("uuid", "550e8400", ("does not match the UUID format",)),
        ("byte", "", ("invalid base64",)),
        ("byte", "YQ=", ("invalid base64",)),
        ("date", "2023-02-29", ("invalid date",)),
        ("date", "2024-2-9", ("invalid date",)),
        ("date", "2024-00-01", ("invalid date",)),
        ("datetime", "2024-12-31T23:59:59", ("invalid datetime",)),
        ("datetime", "2024-12-31T23:59:60Z", ("invalid datetime",)),
        ("datetime", "2024-12-31T24:00:00Z", ("invalid datetime",)),
        ("datetime", "2023-02-29T00:00:00Z", ("invalid datetime",)),
    ],
)
def test_text_against_the_format_has_problems_in_kubernetes_words(name, text, problems):
    assert validate(name, text) == Optional(problems)


@pytest.mark.parametrize("name", NAMES)
def test_format_is_found_by_its_name(name):
    assert run("format-named", name) == Optional(run(f"format.{name}"))


@pytest.mark.parametrize("name", ["", "DNS1123Label", "email"])
def test_unknown_name_finds_no_format(name):
    assert run("format-named", name) == Optional()


def test_formats_are_equal_by_name():
    assert len({run(f"format.{name}") for name in NAMES}) == len(NAMES)
    assert run("format.uri") != "URI"


def test_long_text_against_a_format_is_reported_in_time():
    assert validate("dns1123Subdomain", "a.b-" * 25_000 + "!") == Optional(
        ("must be no more than 253 characters", SUBDOMAIN)
    )
