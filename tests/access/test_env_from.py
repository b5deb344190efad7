"""NVIDIA_VISIBLE_DEVICES from ConfigMaps and Secrets."""

import pytest

REMEDY = "remove the variable there, or set it to void in the container's env, which wins"
CLUSTER = """
{apiVersion: v1, kind: ConfigMap, metadata: {name: all, namespace: team-a}, data: {NVIDIA_VISIBLE_DEVICES: all}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: short, namespace: team-a}, data: {VISIBLE_DEVICES: all}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: void, namespace: team-a}, data: {NVIDIA_VISIBLE_DEVICES: void}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: team-a}, data: {A: b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: odd, namespace: team-a}, data: [NVIDIA_VISIBLE_DEVICES]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: far, namespace: team-b}, data: {NVIDIA_VISIBLE_DEVICES: all}}
---
{apiVersion: v1, kind: Secret, metadata: {name: all, namespace: team-a}, data: {NVIDIA_VISIBLE_DEVICES: YWxs}}
---
{apiVersion: v1, kind: Secret, metadata: {name: void, namespace: team-a}, data: {NVIDIA_VISIBLE_DEVICES: dm9pZA==}}
---
{apiVersion: v1, kind: Secret, metadata: {name: plain, namespace: team-a}, stringData: {NVIDIA_VISIBLE_DEVICES: none}}
---
{apiVersion: v1, kind: Secret, metadata: {name: bad, namespace: team-a}, data: {NVIDIA_VISIBLE_DEVICES: a}}
"""


def pod(*sources, **fields):
    return {"containers": [{"name": "a", "envFrom": list(sources), **fields}]}


def config_map(name, **fields):
    return {"configMapRef": {"name": name}, **fields}


def secret(name, **fields):
    return {"secretRef": {"name": name}, **fields}


def test_config_map_is_reported_and_only_warns(findings_of):
    assert findings_of(pod(config_map("plain"), config_map("all")), cluster=CLUSTER) == [
        (
            'GA607 warn spec.containers[0].envFrom[1].configMapRef: ConfigMap "all" sets NVIDIA_VISIBLE_DEVICES in '
            f'container "a", which requests no GPU; {REMEDY}'
        )
    ]


def test_secret_is_reported_without_what_it_holds(findings_of):
    assert findings_of(pod(secret("all"), resources={"limits": {"nvidia.com/gpu": 1}}), cluster=CLUSTER) == [
        (
            'GA607 warn spec.containers[0].envFrom[0].secretRef: Secret "all" sets NVIDIA_VISIBLE_DEVICES in '
            f'container "a"; {REMEDY}'
        )
    ]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([config_map("void")], []),
        ([secret("void")], []),
        ([secret("plain")], []),
        ([secret("bad")], ["GA607"]),
        ([config_map("plain")], []),
        ([config_map("odd")], []),
        ([config_map("far")], []),
        ([config_map("missing")], []),
        ([config_map("short")], []),
        ([config_map("short", prefix="NVIDIA_")], ["GA607"]),
        ([config_map("all", prefix="NVIDIA_")], []),
        ([config_map("all", prefix="X")], []),
        ([config_map("all", prefix=None)], ["GA607"]),
        ([config_map("all"), config_map("void")], []),
        ([config_map("void"), config_map("all")], ["GA607"]),
        ([config_map("all"), config_map("missing")], ["GA607"]),
        ([None, {}, {"configMapRef": None}, {"configMapRef": {"name": []}}, {"secretRef": "x"}], []),
    ],
    ids=str,
)
def test_last_source_that_sets_it_counts(rules, sources, expected):
    assert rules(pod(*sources), cluster=CLUSTER) == expected


def test_list_with_void_is_nothing(rules):
    void = """
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: list, namespace: team-a}
    data: {NVIDIA_VISIBLE_DEVICES: "all, void"}"""
    assert rules(pod(config_map("list")), cluster=void) == []


def test_config_map_that_cannot_be_seen_is_nothing(rules):
    assert rules(pod(config_map("all"))) == []


def test_env_wins(rules):
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert rules(pod(config_map("all"), env=env), cluster=CLUSTER) == []
