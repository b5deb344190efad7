"""Who may take GPUs without asking."""

import pytest

from policies.settings import DEFAULTS, Access, Configuration, GPUAdmissionPolicy

SPEC = {"containers": [{"name": "a", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("kube-system", []),
        ("gpu-operator", []),
        ("nvidia-gpu-operator", []),
        ("gpu-admission", []),
        ("team-a", ["GA601"]),
        ("gpu-admission-2", ["GA601"]),
        ("", ["GA601"]),
    ],
)
def test_namespaces_of_those_who_hand_out_gpus_are_exempt(rules, namespace, expected):
    assert rules(SPEC, namespace=namespace, settings=DEFAULTS) == expected


@pytest.mark.parametrize(
    ("namespace", "expected"), [("nvidia", []), ("monitoring-eu", []), ("gpu-operator", ["GA601"])]
)
def test_namespaces_are_settings(rules, namespace, expected):
    settings = GPUAdmissionPolicy(
        configuration=Configuration(operator_namespaces=("nvidia",)),
        access=Access(exempt_namespaces=("monitoring-*",)),
    )
    assert rules(SPEC, namespace=namespace, settings=settings) == expected


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


def test_namespace_is_that_of_the_request(rules):
    assert rules(SPEC, metadata={"name": "p", "namespace": "kube-system"}) == ["GA601"]
