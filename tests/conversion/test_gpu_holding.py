"""What a running pod holds, for conversions that lose preemption."""

import pytest

from policies.conversion.preemption import gpu_holding
from tests.fleet.fleet_objects import container, pod


@pytest.mark.parametrize(
    ("limits", "holds"), [({"nvidia.com/gpu": "1"}, True), ({"nvidia.com/gpu": "0"}, False), ({}, False)]
)
def test_pod_holds_gpus_that_it_requests(limits, holds):
    assert (gpu_holding(pod(container(limits=limits), nodeName="a")) is not None) is holds
