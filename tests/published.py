"""Devices as NVIDIA's DRA driver publishes them."""

from policies.fleet.offers.hardware import DriverState
from policies.fleet.offers.published import gated_device
from policies.kubernetes.resourceslices import Device

DRIVER = "gpu.nvidia.com"


def published_device(attributes, capacity=None):
    """A device with these attributes and capacities, whose names get the driver's domain; texts are strings."""
    body = {
        "attributes": {f"{DRIVER}/{name}": _value(value) for name, value in attributes.items()},
        "capacity": {f"{DRIVER}/{name}": {"value": _amount(value)} for name, value in (capacity or {}).items()},
    }
    return Device(DRIVER, "a", "gpu-0", "a", body)


def shared_device(device, shares):
    """A device of a ResourceSlice as the driver shares it: `memory`, `unlimited`, a number, or empty."""
    return gated_device(device, DriverState(frozenset({"ConsumableShares"}), shares))


def _value(value):
    return {{bool: "bool", int: "int", str: "string"}[type(value)]: value}


def _amount(value):
    return str(value) if value == int(value) else str(float(value))
