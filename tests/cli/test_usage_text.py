"""Usage as text: widths, long tables, kinds of holders, and amounts that are no whole numbers."""

from __future__ import annotations

import re

import click
import pytest

from tests.usage.usage_objects import claim, devices, node, pod, report, resource_slice
from webhook.cli.reports.usage_reports import Usage, View, text


def shown(found, by=None, width=100):
    return click.unstyle(text(Usage(found), by, width)).splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("by", [None, *View])
def test_lines_fit_the_terminal(width, by):
    objects = [node(f"node-{number}", gpus=8, unschedulable=True) for number in range(3)]
    held = [claim(*[f"gpu-{number}" for number in range(8)], name="pretraining", pods=())]
    lines = shown(report(*objects, resource_slice(devices(8), "node-9"), *held, pod()), by, width)
    narrowest = 72  # numbers and names are not wrapped
    assert max(map(len, lines)) <= max(width, narrowest)


def test_long_table_is_cut_unless_it_is_named():
    found = report(*(node(f"node-{number:02}", gpus=1) for number in range(25)))
    assert "and 5 more; -o json shows all" in shown(found)
    assert sum(line.startswith("node-") for line in shown(found, View.NODE)) == 25


@pytest.mark.parametrize(
    ("users", "resource", "expected"),
    [
        (("train",), "pods", "team-a/train"),
        (("a", "b", "c"), "pods", "team-a/a and 2 more"),
        (("ring",), "podgroups", "team-a/ring (PodGroup)"),
        ((), "pods", "team-a/gpus (claim)"),
    ],
    ids=["pod", "pods", "group", "none"],
)
def test_holder_of_a_claim_is_named(users, resource, expected):
    found = report(node(), resource_slice(devices(1)), claim("gpu-0", pods=users, resource=resource))
    assert re.split(r"  +", shown(found, View.POD)[-1])[0] == expected


def test_devices_of_a_claim_are_named():
    found = report(node(), resource_slice(devices(8)), claim(*(f"gpu-{number}" for number in range(6))))
    assert shown(found, View.POD)[-1].endswith("6 NVIDIA-H100-80GB-HBM3 by claim gpus: gpu-0..gpu-5")


def test_claim_that_no_pod_uses_is_named():
    found = report(node(), resource_slice(devices(1)), claim("gpu-0", pods=()))
    assert shown(found, View.POD)[-1].endswith("by claim gpus, which no pod uses: gpu-0")


def test_parts_of_a_gpu_are_written_with_one_decimal():
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "Tesla-T4-SHARED"}
    found = report(node(gpus=8, labels=labels), pod(gpus=6))
    assert "8 shares (2 GPUs x 4): 6 held, 2 free" in shown(found)
    assert re.split(r"  +", shown(found, View.NAMESPACE)[-1])[2:] == ["1.5", "1", "6 Tesla-T4 shares (4 per GPU)"]


def test_namespace_of_a_busy_cluster_has_a_bar_of_all_gpus():
    found = report(node(gpus=8), pod(gpus=2))
    assert "team-a     [#####...............]     2     1  2 NVIDIA-H100-80GB-HBM3" in shown(found)


def test_text_of_the_cluster_cannot_control_the_terminal():
    found = report(
        node("\x1b[31mred", gpus=1, labels={"nvidia.com/gpu.product": "\x1b[2J"}), pod("\x1b]0;", node_name="x")
    )
    assert not any("\x1b" in line for line in text(Usage(found), None, 100).splitlines() if "node" in line.lower())


def test_nothing_can_be_seen_without_any_kind():
    found = report(without=("Node", "Pod", "ResourceClaim", "ResourceSlice"))
    assert shown(found)[-1] == "No GPU can be seen."
