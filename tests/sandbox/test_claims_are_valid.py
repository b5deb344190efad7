"""Validation of claims, with the messages of Kubernetes 1.36.2."""

import pytest

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/default/resourceclaimtemplates"
ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"


def exactly(name="a", **more):
    return {"name": name, "exactly": {"deviceClassName": "gpu.nvidia.com", **more}}


def selecting(*expressions):
    return exactly(selectors=[{"cel": {"expression": expression}} for expression in expressions])


CASES = [
    ([{"name": "a", "exactly": {}}], "[0].exactly.deviceClassName: Required value"),
    ([{"name": "a"}], f"[0]: Required value: {ONE_OF}"),
    (
        [{**exactly(), "firstAvailable": [{"name": "x", "deviceClassName": "c"}]}],
        f"[0]: Invalid value: null: {ONE_OF}, but multiple fields are set",
    ),
    ([exactly(), exactly()], '[1]: Duplicate value: "a"'),
    ([exactly(count=-1)], "[0].exactly.count: Invalid value: -1: must be greater than zero"),
    (
        [exactly(allocationMode="All", count=2)],
        "[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
    ),
    (
        [exactly(allocationMode="Foo")],
        '[0].exactly.allocationMode: Unsupported value: "Foo": supported values: "All", "ExactCount"',
    ),
    ([exactly(selectors=[{}])], "[0].exactly.selectors[0].cel: Required value"),
    (
        [selecting("device.driver")],
        (
            '[0].exactly.selectors[0].cel.expression: Invalid value: "device.driver": must evaluate to bool or the unknown'
            " type, not string"
        ),
    ),
    (
        [selecting("foo == 1")],
        (
            '[0].exactly.selectors[0].cel.expression: Invalid value: "foo == 1": compilation failed: ERROR: <input>:1:1:'
            " undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^"
        ),
    ),
    ([selecting(*["true"] * 33)], "[0].exactly.selectors: Too many: 33: must have at most 32 items"),
    ([exactly(f"r{number}") for number in range(33)], ": Too many: 33: must have at most 32 items"),
]


@pytest.mark.parametrize(("requests", "cause"), CASES)
async def test_claim_that_is_not_valid_is_422(api, requests, cause):
    answer = await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}})
    named = 'ResourceClaim.resource.k8s.io "c" is invalid: spec.devices.requests'
    assert (answer.code, answer.message) == (422, named + cause)


@pytest.mark.parametrize(("requests", "cause"), CASES[:3])
async def test_template_that_is_not_valid_is_422(api, requests, cause):
    spec = {"spec": {"devices": {"requests": requests}}}
    answer = await api.post(TEMPLATES, {"metadata": {"name": "c"}, "spec": spec})
    named = 'ResourceClaimTemplate.resource.k8s.io "c" is invalid: spec.spec.devices.requests'
    assert (answer.code, answer.message) == (422, named + cause)


async def test_class_with_a_selector_that_does_not_compile_is_422(api):
    spec = {"selectors": [{"cel": {"expression": "device.foo"}}]}
    answer = await api.post(f"{GROUP}/deviceclasses", {"metadata": {"name": "c"}, "spec": spec})
    assert answer.code == 422
    assert answer.message.startswith(
        'DeviceClass.resource.k8s.io "c" is invalid: spec.selectors[0].cel.expression: Invalid value: "device.foo":'
        " compilation failed: ERROR: <input>:1:7: undefined field 'foo'"
    )


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([], id="none"),
        pytest.param([exactly(), exactly("b", count=2)], id="counted"),
        pytest.param([exactly(allocationMode="All")], id="all"),
        pytest.param([selecting("device.driver == 'gpu.nvidia.com'")], id="selector"),
        pytest.param(
            [{"name": "a", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]}],
            id="alternatives",
        ),
    ],
)
async def test_valid_claim_is_stored(api, requests):
    answer = await api.post(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}})
    assert answer.code == 201


@pytest.mark.parametrize("path", [CLAIMS, TEMPLATES])
async def test_delete_answers_with_the_claim(api, path):
    spec = {"devices": {"requests": [exactly()]}}
    await api.post(path, {"metadata": {"name": "c"}, "spec": spec if path == CLAIMS else {"spec": spec}})
    assert (await api.delete(f"{path}/c")).body["metadata"]["name"] == "c"
