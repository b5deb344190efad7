"""Settings of access rules: exempt namespaces and service accounts."""

import pytest


@pytest.mark.parametrize(
    "access",
    [
        {},
        {"mode": "deny", "exemptNamespaces": []},
        {"mode": "deny", "legacyRuntime": True},
        {"exemptNamespaces": ["monitoring", "team-*"]},
        {"exemptServiceAccounts": ["monitoring/dcgm-exporter", "monitoring/*", "*/node.agent", "team-[ab]/x", "*/*"]},
    ],
)
def test_access_is_accepted(problems_of, access):
    assert problems_of({"access": access}) == []


@pytest.mark.parametrize(
    ("access", "problem"),
    [
        ({"mode": "audit"}, ("mode", 'is "audit"; write warn or deny')),
        ({"mode": False}, ("mode", "is false; write warn or deny")),
        (
            {"exemptNamespaces": "monitoring"},
            ("exemptNamespaces", 'is "monitoring"; it must be a list; put a dash before each entry'),
        ),
        ({"exemptServiceAccounts": [7]}, ("exemptServiceAccounts[0]", "is 7; it must be text; put it in quotes")),
        ({"exemptUsers": []}, ("exemptUsers", "is unknown; write a setting that docs/settings.md lists")),
    ],
)
def test_setting_of_access_is_checked(problems_of, access, problem):
    path, sentence = problem
    assert problems_of({"access": access}) == [(f"spec.access.{path}", sentence)]


@pytest.mark.parametrize("account", ["", "*", "dcgm-exporter", "/a", "a/", "a/b/c", "Monitoring/dcgm", "a / b", "a:b"])
def test_service_account_has_its_namespace(problems_of, account):
    assert problems_of({"access": {"exemptServiceAccounts": ["a/b", account]}}) == [
        (
            "spec.access.exemptServiceAccounts[1]",
            f'is "{account}"; write namespace/name, such as monitoring/dcgm-exporter',
        )
    ]


def test_service_account_that_is_spelled_as_a_user_is_put_right(problems_of):
    assert problems_of({"access": {"exemptServiceAccounts": ["system:serviceaccount:monitoring:dcgm"]}}) == [
        ("spec.access.exemptServiceAccounts[0]", 'is "system:serviceaccount:monitoring:dcgm"; write "monitoring/dcgm"')
    ]
