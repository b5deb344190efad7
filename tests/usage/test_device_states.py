"""Devices by node, kind and state, as metrics show them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.usage import DeviceState, device_states
from policies.analyses.usage.node_gpus import NodeGPUs, OfferedKind, UnusableKind, UnusableReason
from policies.analyses.usage.usage_report import DeviceStates, UsageReport
from tests.usage.usage_objects import PRODUCT, claim, devices, node, pod, report, resource_slice

MANY = 100
KINDS = (OfferedKind("A100"), OfferedKind("A100", "1g.10gb"), OfferedKind("T4", "", 4))


def states(*objects, without=(), most_rows=MANY):
    """The amounts by node, product and state."""
    return {
        (row.node, row.kind.product): {str(state): str(amount) for state, amount in row.amounts.items()}
        for row in device_states(report(*objects, without=without), most_rows).rows
    }


def test_devices_of_a_node_are_held_free_or_unusable():
    found = states(node(gpus=6, capacity={"nvidia.com/gpu": "8"}), pod(gpus=2))
    assert found == {("node-1", PRODUCT): {"held": "2", "free": "4", "unusable": "2", "over": "0"}}


def test_devices_that_are_given_out_twice_are_over():
    both = (node(gpus=4), resource_slice(devices(4)), pod("plain", 3), claim("gpu-0", "gpu-1", "gpu-2"))
    assert states(*both) == {("node-1", PRODUCT): {"held": "4", "free": "0", "unusable": "0", "over": "2"}}


def test_held_devices_that_no_node_shows_are_missing():
    assert states(node(), claim("gpu-0")) == {("node-1", ""): {"missing": "1"}}


@pytest.mark.parametrize(
    ("without", "expected"),
    [(["Pod"], {}), (["Node"], {"held": "1"})],
    ids=["pods are unknown", "nodes are unknown"],
)
def test_unknown_amounts_are_absent(without, expected):
    objects = [node(gpus=8)] if without == ["Pod"] else [pod()]
    (found,) = states(*objects, without=without).values()
    assert found == expected


def test_nodes_are_summed_beyond_the_most_rows():
    nodes = [node(f"node-{number}", gpus=8) for number in range(3)]
    counts = device_states(report(*nodes, pod(gpus=3, node_name="node-2")), 2)
    (row,) = counts.rows
    assert (row.node, row.kind.product, counts.summed_nodes) == ("", PRODUCT, 3)
    assert row.amounts == {
        DeviceState.HELD: 3,
        DeviceState.FREE: 21,
        DeviceState.UNUSABLE: 0,
        DeviceState.OVER: 0,
    }


def test_nodes_are_not_summed_up_to_the_most_rows():
    nodes = [node(f"node-{number}", gpus=8) for number in range(3)]
    counts = device_states(report(*nodes), 3)
    assert ([row.node for row in counts.rows], counts.summed_nodes) == (["node-0", "node-1", "node-2"], 0)


def test_sums_do_not_hide_a_node_whose_devices_are_given_out_twice():
    over = (node(gpus=4), resource_slice(devices(4)), pod("plain", 3), claim("gpu-0", "gpu-1", "gpu-2"))
    ((_, amounts),) = states(*over, node("node-2", gpus=8), most_rows=1).items()
    assert amounts == {"held": "4", "free": "8", "unusable": "0", "over": "2"}


amounts = st.none() | st.integers(0, 9).map(Fraction)


@st.composite
def reports(draw):
    """Reports with any amounts, known or not."""
    gpus = []
    for name in draw(st.lists(st.sampled_from(["", "a", "b", "c"]), unique=True)):
        for kind in draw(st.lists(st.sampled_from(KINDS), unique=True)):
            total, held = draw(amounts), draw(amounts)
            over = max(held - total, Fraction(0)) if total is not None and held is not None else Fraction(0)
            held = None if held is None else held - over
            left = None if total is None or held is None else total - held
            lost = Fraction(0) if not left else draw(st.sampled_from([Fraction(0), left / 2, left]))
            reasons = (UnusableReason(UnusableKind.CORDONED, "", lost),) if lost else ()
            gpus.append(NodeGPUs(name, kind, frozenset(), total, held, (), reasons, over=over))
    return UsageReport(tuple(gpus))


@given(reports())
def test_held_free_and_unusable_devices_are_all_that_exist(found):
    for gpus, row in zip(found.gpus, device_states(found, MANY).rows, strict=True):
        if gpus.total and gpus.held is not None:
            assert sum(row.amounts[state] for state in ("held", "free", "unusable")) == gpus.total
            assert (row.amounts[DeviceState.HELD], row.amounts[DeviceState.OVER]) == (gpus.held, gpus.over)
        assert all(amount >= 0 for amount in row.amounts.values())


@given(reports())
def test_a_sum_is_that_of_its_nodes_and_known_only_if_they_all_are(found):
    single = device_states(found, MANY).rows
    if not single:
        assert device_states(found, 0) == DeviceStates(())
        return
    for row in device_states(found, 0).rows:
        parts = [each.amounts for each in single if each.kind == row.kind]
        for state, amount in row.amounts.items():
            assert amount == sum(each.get(state, 0) for each in parts)
