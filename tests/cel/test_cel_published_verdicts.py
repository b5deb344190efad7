"""The verdicts of Kubernetes 1.36.2 on expressions of the kind that selectors are made of.

They were taken from k8s.io/dynamic-resource-allocation/cel itself; `compile` and `run` say when the expression fails.
"""

import pytest

from policies.cel import CelCompileError, CelRuntimeError, compile_selector

DEVICE = {
    "driver": "gpu.nvidia.com",
    "attributes": {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "index": {"int": 0},
        "cudaComputeCapability": {"version": "9.0.0"},
    },
    "capacity": {"memory": {"value": "81920Mi"}},
}
VERDICTS = [
    ('device.driver == "gpu.nvidia.com"', True),
    ('device.attributes["x.com"].foo == "a"', "run"),
    ('has(device.attributes["x.com"].foo)', False),
    ('has(device.attributes["gpu.nvidia.com"].nope)', False),
    ('"nope" in device.attributes["gpu.nvidia.com"]', False),
    ('"x.com" in device.attributes', False),
    ('device.attributes["gpu.nvidia.com"].nope == 1', "run"),
    ('device.attributes["gpu.nvidia.com"].nope == 1 || true', True),
    ('device.attributes["gpu.nvidia.com"].nope == 1 && false', False),
    ('device.attributes["gpu.nvidia.com"].index == "x"', False),
    ('device.attributes["gpu.nvidia.com"].index != "x"', True),
    ('device.attributes["gpu.nvidia.com"].index == 0.0', True),
    ('device.attributes["gpu.nvidia.com"].index < 1.5', True),
    ('device.attributes["gpu.nvidia.com"].productName > 1', "run"),
    ('device.attributes["gpu.nvidia.com"].index in [0, 1]', True),
    ('device.attributes["gpu.nvidia.com"].productName in [1, "x"]', "compile"),
    ('device.attributes["gpu.nvidia.com"].?productName.orValue("x") == "x"', False),
    ('device.attributes[?"x.com"].hasValue()', True),
    ('device.attributes["gpu.nvidia.com"][?"nope"].orValue("d") == "d"', True),
    ('cel.bind(a, device.attributes["gpu.nvidia.com"], a.productName.startsWith("NV"))', True),
    ('device.attributes["gpu.nvidia.com"].productName.lowerAscii() == "nvidia h100 80gb hbm3"', True),
    ('device.attributes["gpu.nvidia.com"].productName.split(" ").size() == 4', True),
    ('device.attributes["gpu.nvidia.com"].productName.substring(0, 6) == "NVIDIA"', True),
    ('device.attributes["gpu.nvidia.com"].productName.replace(" ", "-") == "x"', False),
    ('device.attributes["gpu.nvidia.com"].productName.indexOf("H100") > 0', True),
    ('"%d".format([1]) == "1"', True),
    ('["a","b"].join("-") == "a-b"', True),
    ('device.attributes["gpu.nvidia.com"].productName.matches("(?i)h100")', True),
    ('device.attributes["gpu.nvidia.com"].productName.matches("(?=x)")', "compile"),
    ('device.attributes["gpu.nvidia.com"].productName.find("H[0-9]+") == "H100"', True),
    ('device.attributes.exists(d, d == "gpu.nvidia.com")', True),
    ("device.attributes.all(d, device.attributes[d].size() > 0)", True),
    ('device.attributes["gpu.nvidia.com"].exists_one(k, k == "type")', True),
    ("[1,2,3].map(x, x > 1, x * 2) == [4, 6]", True),
    ("[0,1].exists(x, 1/x == 1)", True),
    ('sets.contains(["a","b"], ["a"])', True),
    ("[1,2].sum() == 3", True),
    ("[2,1].isSorted()", False),
    ("[1,1].distinct().size() == 1", True),
    ('device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
    ('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))', True),
    ('device.capacity["gpu.nvidia.com"].memory >= quantity("40Gi")', "compile"),
    ('device.capacity["gpu.nvidia.com"].memory == quantity("81920Mi")', True),
    ('device.capacity["gpu.nvidia.com"].nope.isGreaterThan(quantity("1"))', "run"),
    ('device.capacity["x.com"].memory.isGreaterThan(quantity("1"))', "run"),
    ('quantity("1Gi").sub(quantity("1Mi")).isLessThan(quantity("1Gi"))', True),
    ('quantity("1Gi").asInteger() == 1073741824', True),
    ('isQuantity("1Gi") && !isQuantity("bogus")', True),
    ('quantity("bogus") == quantity("1")', "run"),
    ('device.attributes["gpu.nvidia.com"].cudaComputeCapability.isGreaterThan(semver("8.0.0"))', True),
    ('device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("9.0.0")) == 0', True),
    ('device.attributes["gpu.nvidia.com"].cudaComputeCapability.major() == 9', True),
    ('semver("v1.2", true).major() == 1', True),
    ('semver("1.2").major() == 1', "run"),
    ('isSemver("1.2.3")', True),
    ('type(device.attributes["gpu.nvidia.com"].productName) == string', True),
    ('string(device.attributes["gpu.nvidia.com"].index) == "0"', True),
    ('string(true) == "true"', True),
    ('string(1.0) == "1"', True),
    ('int("12") == 12', True),
    ("1 == 1.0", "compile"),
    ("dyn(1) == 1.0", True),
    ('device.`driver` == "x"', "compile"),
    ("[1,2,].size() == 2", True),
    ("true && 1", "compile"),
    ("device.nosuch == 1", "compile"),
    ("nosuch == 1", "compile"),
    ("device.allowMultipleAllocations", False),
    ('device.attributes["gpu.nvidia.com"].type.includes("gpu")', True),
    ('device.attributes["gpu.nvidia.com"].index.includes(0)', True),
    ('ip.isCanonical("1.1.1.1")', True),
    ('url("http://x").getHost() == "x"', True),
    ('cidr("10.0.0.0/8").containsIP("10.1.1.1")', True),
    ('format.dns1123Label().validate("a").hasValue()', False),
    ("1 +", "compile"),
    ("device.driver", "compile"),
]


@pytest.mark.parametrize(("text", "verdict"), VERDICTS, ids=[text for text, _ in VERDICTS])
def test_verdict_is_that_of_kubernetes(text, verdict):
    assert outcome(text) == verdict


def outcome(text):
    try:
        selector = compile_selector(text)
    except CelCompileError:
        return "compile"
    try:
        return selector.matches(DEVICE)
    except CelRuntimeError:
        return "run"
