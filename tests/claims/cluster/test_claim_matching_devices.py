"""Devices that match a request, and the nearest ones that do not."""

import pytest
import yaml

A = 'device.attributes["gpu.nvidia.com"]'
C = 'device.capacity["gpu.nvidia.com"]'
LARGE = f'{C}.memory.compareTo(quantity("81559Mi")) >= 0'
NO_SLICES = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}
PENDING = "so the pod would stay Pending"
COMPARE = "select devices that exist, or wait for such a node"


@pytest.fixture
def cluster(device_class, gpu, on_node):
    """Two nodes: two H100 with 81559Mi, three A100 with 40Gi."""
    hopper = [gpu(f"gpu-{number}") for number in range(2)]
    older = {"architecture": "Ampere", "productName": "NVIDIA A100-SXM4-40GB", "memory": "40Gi"}
    ampere = [gpu(f"gpu-{number}", **older) for number in range(3)]
    return [device_class(), on_node("node-h", *hopper), on_node("node-a", *ampere)]


def test_request_that_some_device_matches_is_fine(said, asking, cluster):
    assert said("GA222", asking(LARGE), *cluster) == []


def test_near_misses_are_reported_with_what_they_have(said, asking, cluster):
    claim = asking(f'{LARGE} && {A}.architecture == "Ampere"')
    assert said("GA222", claim, *cluster) == [
        (
            f'selectors: none of the 5 devices of class "gpu.nvidia.com" matches, {PENDING}; 3 devices fail only one condition: '
            "they have 40Gi of memory, 81559Mi requested; 2 devices fail only one condition: they have architecture Hopper, Ampere "
            f"requested; {COMPARE}"
        )
    ]


def test_near_misses_are_found_over_all_selectors(said, asking, cluster):
    claim = asking(
        f'{A}.architecture == "Ampere"', f'{C}.memory.compareTo(quantity("60Gi")) >= 0 && {A}.brand == "Nvidia"'
    )
    (text,) = said("GA222", claim, *cluster)
    assert "3 devices fail only one condition: they have 40Gi of memory, 60Gi requested" in text


def test_device_that_fails_several_terms_is_no_near_miss(said, asking, cluster):
    claim = asking(f'{A}.architecture == "Blackwell" && {A}.brand == "Titan"')
    assert said("GA222", claim, *cluster) == [
        f'selectors: none of the 5 devices of class "gpu.nvidia.com" matches, {PENDING}; {COMPARE}'
    ]


def test_only_device_that_does_not_match_is_reported(said, asking, device_class, gpu, on_node):
    claim = asking(f'{A}.architecture == "Blackwell"')
    assert said("GA222", claim, device_class(), on_node("node-h", gpu())) == [
        (
            f'selectors: the only device of class "gpu.nvidia.com" does not match, {PENDING}; 1 device fails only '
            f"one condition: it has architecture Hopper, Blackwell requested; {COMPARE}"
        )
    ]


@pytest.mark.parametrize("slices", [[NO_SLICES], []], ids=["none", "of others"])
def test_class_without_devices_is_reported_in_other_words(said, asking, device_class, on_node, slices):
    slices = slices or [on_node("node-1", {"name": "nic-0"}, driver="nic.example.com")]
    assert said("GA222", asking(), device_class(), *slices) == [
        (
            f'deviceClassName: no ResourceSlice has a device of class "gpu.nvidia.com" now, {PENDING}; wait for a node with such '
            "devices and their driver"
        )
    ]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, None),
        (
            4,
            "count: requests 4 devices, and no node has more than 3 of this kind (node-a); a claim is for one node; request at most 3, and use more pods for more nodes",
        ),
        (
            6,
            "count: requests 6 devices, and no node has more than 3 of this kind (node-a); a claim is for one node; request at most 3, and use more pods for more nodes",
        ),
    ],
)
def test_more_devices_than_there_are_is_reported(said, asking, cluster, count, expected):
    assert said("GA222", asking(count=count), *cluster) == ([expected] if expected else [])


def test_count_is_of_the_devices_that_match(said, asking, cluster):
    (text,) = said("GA222", asking(LARGE, count=3), *cluster)
    assert text.startswith("count: requests 3 devices, and no node has more than 2 of this kind (node-h)")


def requests_for(claim, *counts, **fields):
    exactly = {"deviceClassName": "gpu.nvidia.com", **fields}
    claim["spec"]["devices"]["requests"] = [
        {"name": f"gpu-{number}", "exactly": {**exactly, "count": count}} for number, count in enumerate(counts)
    ]
    return claim


def test_requests_that_no_node_meets_together_are_reported(said, asking, cluster):
    assert said("GA222", requests_for(asking(), 2, 2), *cluster) == [
        (
            'spec.devices.requests: 4 devices of class "gpu.nvidia.com" are requested together, and no node has more than 3 '
            "(node-a); a claim is for one node; request at most 3, and use more pods for more nodes"
        )
    ]


def test_requests_that_a_node_meets_together_are_fine(said, asking, cluster):
    assert said("GA222", requests_for(asking(), 2, 1), *cluster) == []


def test_request_that_is_too_large_alone_is_reported_alone(said, asking, cluster):
    (text,) = said("GA222", requests_for(asking(), 1, 4), *cluster)
    assert "requests 4 devices, and no node has more than 3 of this kind" in text


def test_devices_that_are_seen_by_admin_access_are_not_added(said, asking, cluster):
    assert said("GA222", requests_for(asking(), 2, 2, adminAccess=True), *cluster) == []


def test_devices_that_every_node_reaches_count_for_each(said, asking, device_class, gpu, on_node):
    cluster = [device_class(), on_node("node-1", gpu("gpu-0")), on_node("", gpu("gpu-1"), gpu("gpu-2"))]
    assert said("GA222", asking(count=3), *cluster) == []
    assert len(said("GA222", asking(count=4), *cluster)) == 1


def test_shareable_devices_are_not_counted(said, asking, device_class, gpu, on_node):
    assert said("GA222", asking(count=8), device_class(), on_node("node-1", gpu(shareable=True))) == []


def test_older_generation_of_a_pool_does_not_count(said, asking, device_class, gpu, on_node):
    old = on_node("node-1", gpu("gpu-0"), gpu("gpu-1"))
    new = on_node("node-1", gpu("gpu-0"), generation=2)
    assert len(said("GA222", asking(count=2), device_class(), old, new)) == 1


@pytest.mark.parametrize("seen", ["class", "slices"])
def test_missing_facts_give_no_finding(said, asking, device_class, gpu, on_node, seen):
    facts = [device_class()] if seen == "class" else [on_node("node-1", gpu())]
    assert said("GA222", asking(f'{A}.architecture == "Blackwell"'), *facts) == []


@pytest.mark.parametrize("text", [f"{A}.nothing == 1", "?!", f'{A}.productName == "NVIDIA-H100-80GB-HBM3"'])
def test_what_another_rule_says_is_not_said_again(said, asking, cluster, text):
    assert said("GA222", asking(text), *cluster) == []


@pytest.mark.parametrize(("architecture", "times"), [("Hopper", 0), ("Rubin", 2)])
def test_prioritized_list_is_reported_if_no_alternative_matches(said, asking, cluster, architecture, times):
    alternatives = [
        {
            "name": name,
            "deviceClassName": "gpu.nvidia.com",
            "selectors": [{"cel": {"expression": f'{A}.architecture == "{wanted}"'}}],
        }
        for name, wanted in (("first", "Blackwell"), ("second", architecture))
    ]
    claim = asking()
    claim["spec"]["devices"]["requests"] = [{"name": "any", "firstAvailable": alternatives}]
    assert len(said("GA222", claim, *cluster)) == times


def test_selector_on_what_tells_devices_apart_finds_the_device(said, asking, cluster):
    assert said("GA222", asking(f'{A}.uuid == "GPU-gpu-1"'), *cluster) == []
    (text,) = said("GA222", asking(f'{A}.uuid == "GPU-gpu-7"'), *cluster)
    assert "they have uuid GPU-gpu-0 or GPU-gpu-1 or GPU-gpu-2, GPU-gpu-7 requested" in text


def test_condition_without_a_common_form_is_reported_as_it_is_written(said, asking, cluster):
    (text,) = said("GA222", asking(f'{A}.architecture.size() > 6 && {A}.brand == "Nvidia"'), *cluster)
    assert text == (
        f'selectors: none of the 5 devices of class "gpu.nvidia.com" matches, {PENDING}; 5 devices fail only one condition: '
        f"they do not satisfy {A}.architecture.size() > 6 (architecture is Ampere or Hopper); {COMPARE}"
    )


def test_near_misses_are_not_looked_for_where_that_costs_too_much(said, asking, cluster):
    """What the first selector does not choose, the second is not asked about; to ask all could take minutes."""
    numbers = f"[{', '.join(map(str, range(200)))}]"
    costly = f"{numbers}.all(a, {numbers}.all(b, a + b < 999))"
    claim = asking(f'{A}.architecture == "Blackwell"', costly)
    assert said("GA222", claim, *cluster) == [
        f'selectors: none of the 5 devices of class "gpu.nvidia.com" matches, {PENDING}; {COMPARE}'
    ]


def test_devices_of_v1beta1_are_read(said, asking, device_class, gpu, on_node):
    device = gpu()
    basic = {"name": device.pop("name"), "basic": device}
    assert said("GA222", asking(LARGE), device_class(), on_node("node-1", basic)) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"spec": None},
        {"spec": {"driver": "gpu.nvidia.com"}},
        {"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "a", "generation": "x"}}},
        {"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "a"}, "devices": [None, {}, {"name": 1}]}},
        {"spec": {"driver": "gpu.nvidia.com", "pool": {"name": "a"}, "devices": [{"name": "a", "attributes": []}]}},
        {
            "spec": {
                "driver": "gpu.nvidia.com",
                "pool": {"name": "a"},
                "devices": [{"name": "a", "attributes": {"type": 1}}],
            }
        },
    ],
)
def test_broken_slices_are_passed_over(examined, asking, device_class, broken):
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "x"}, **broken}
    text = "\n---\n".join(yaml.safe_dump(each) for each in (asking(LARGE, count=2), device_class(), document))
    assert all(found.rule.id in ("GA221", "GA222", "GA224") for found in examined(text))
