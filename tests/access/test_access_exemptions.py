"""Exemptions from the access rules."""

import pytest

from policies.rules.settings import Access, GPUAdmissionPolicy

SPEC = {"containers": [{"name": "a", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}


@pytest.mark.parametrize(
    ("patterns", "account", "expected"),
    [
        (["team-a/dcgm"], "dcgm", []),
        (["team-a/dcgm-*"], "dcgm-exporter", []),
        (["*/dcgm"], "dcgm", []),
        (["other/x", "team-a/dcgm"], "dcgm", []),
        (["team-b/dcgm"], "dcgm", ["GA601"]),
        (["team-a/dcgm"], "dcgm2", ["GA601"]),
        (["team-a/DCGM"], "dcgm", ["GA601"]),
        (["dcgm"], "dcgm", ["GA601"]),
        (["*"], "dcgm", ["GA601"]),
        (["team-a/*"], "dcgm", []),
        (["team-a/default"], None, []),
        (["team-a/default"], "", []),
        (["team-a/default"], "dcgm", ["GA601"]),
        ([], None, ["GA601"]),
    ],
    ids=str,
)
def test_service_accounts_are_exempt_by_pattern(rules, patterns, account, expected):
    settings = GPUAdmissionPolicy(access=Access(exempt_service_accounts=tuple(patterns)))
    assert rules({**SPEC, "serviceAccountName": account}, settings=settings) == expected


def test_old_name_of_the_service_account_counts(rules):
    settings = GPUAdmissionPolicy(access=Access(exempt_service_accounts=("team-a/dcgm",)))
    assert rules({**SPEC, "serviceAccount": "dcgm"}, settings=settings) == []
    assert rules({**SPEC, "serviceAccount": "dcgm", "serviceAccountName": "x"}, settings=settings) == ["GA601"]
