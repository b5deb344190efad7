"""Devices that allocated claims hold."""

from __future__ import annotations

from policies.devices.allocation.usage import Held, Usage
from policies.devices.resource_claims import Claim
from tests.allocations import usage_of


def allocated(*results):
    return {"status": {"allocation": {"devices": {"results": list(results)}}}}


def usage_of_claims(*claims):
    return Usage.of_allocations(Held.by(Claim(claim).allocated_devices) for claim in claims)


def result(**fields):
    return {"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0", **fields}


def test_devices_are_held_alone():
    assert usage_of_claims(allocated(result()), {"status": {}}, {}).devices == {"d/p/gpu-0"}


def test_admin_access_holds_nothing():
    assert usage_of_claims(allocated(result(adminAccess=True))) == usage_of_claims()


def test_shares_of_a_device_are_summed():
    shares = [
        result(shareID="a", consumedCapacity={"memory": "1"}),
        result(shareID="b", consumedCapacity={"memory": "2"}),
    ]

    usage = usage_of_claims(allocated(*shares))
    assert usage == usage_of(shares=["d/p/gpu-0/a"], capacity={"d/p/gpu-0": {"memory": "3"}})
    assert usage.holds("d/p/gpu-0")
