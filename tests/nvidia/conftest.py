"""An independent CEL: cel-python with the functions that Kubernetes adds for devices."""

import re
from decimal import Decimal
from functools import cache, total_ordering

import celpy
import pytest
from celpy import celtypes

DRIVER = "gpu.nvidia.com"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_FACTORS = {"": 1, "m": Decimal("0.001"), "k": 1000, "M": 10**6, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


@total_ordering
class Semver:
    """A version as github.com/blang/semver compares it; build metadata does not count."""

    def __init__(self, text):
        match = _VERSION.fullmatch(text)
        if match is None:
            raise ValueError(f"not a version: {text}")
        self.numbers = tuple(map(int, match.group(1, 2, 3)))
        self.key = (self.numbers, match.group(4) is None, match.group(4) or "")

    def __eq__(self, other):
        return self.key == other.key

    def __lt__(self, other):
        return self.key < other.key

    def __hash__(self):
        return hash(self.key)


def quantity(text):
    number, suffix = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()
    return Decimal(number) * _FACTORS[suffix]


def compare(one, other):
    if type(one) is not type(other):
        raise TypeError(f"no such overload: {type(one)}.compareTo({type(other)})")
    return celtypes.IntType((one > other) - (one < other))


def replace(text, old, new):
    if not isinstance(text, celtypes.StringType):
        raise TypeError("no such overload: replace")
    return celtypes.StringType(str(text).replace(str(old), str(new)))


def lower_ascii(text):
    if not isinstance(text, celtypes.StringType):
        raise TypeError("no such overload: lowerAscii")
    return celtypes.StringType("".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in str(text)))


FUNCTIONS = {
    "quantity": quantity,
    "semver": lambda text: Semver(str(text)),
    "compareTo": compare,
    "major": lambda version: celtypes.IntType(version.numbers[0]),
    "minor": lambda version: celtypes.IntType(version.numbers[1]),
    "patch": lambda version: celtypes.IntType(version.numbers[2]),
    "replace": replace,
    "lowerAscii": lower_ascii,
}
VERSIONS = {f"{DRIVER}/{name}" for name in ("cudaComputeCapability", "driverVersion", "cudaDriverVersion")}


def mapping(items):
    return celtypes.MapType({celtypes.StringType(name): value for name, value in items})


def attribute(name, value):
    if name in VERSIONS:
        return Semver(value)
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    return celtypes.StringType(value) if isinstance(value, str) else celtypes.IntType(value)


def activation(device):
    """The variable `device`; a domain without attributes is an empty map, as in Kubernetes."""
    prefix = f"{DRIVER}/"
    attributes = mapping(
        (name.removeprefix(prefix), attribute(name, value)) for name, value in device.attributes.items()
    )
    capacity = mapping(
        (name.removeprefix(prefix), Decimal(value.numerator) / Decimal(value.denominator))
        for name, value in device.capacity.items()
    )
    return {
        "device": mapping(
            [
                ("driver", celtypes.StringType(device.driver)),
                ("attributes", mapping([(DRIVER, attributes)])),
                ("capacity", mapping([(DRIVER, capacity)])),
            ]
        )
    }


@pytest.fixture(scope="session")
def cel():
    """Evaluate an expression on a device, or by itself; any CEL error is an exception."""
    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)

    @cache
    def program(expression):
        return environment.program(environment.compile(expression), functions=FUNCTIONS)

    def evaluate(expression, device=None):
        return program(expression).evaluate(activation(device) if device else {})

    return evaluate
