"""Lists with more items than the API server accepts."""

import pytest

HEAD = "apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: gpu}}\nspec: "


def claim(requests="[]", constraints="[]", config="[]"):
    return (
        HEAD.format(kind="ResourceClaim")
        + f"{{devices: {{requests: {requests}, constraints: {constraints}, config: {config}}}}}"
    )


def exact(fields):
    return claim(f"[{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com, {fields}}}}}]")


def many(item, count):
    return f"[{', '.join(item.replace('#', str(number)) for number in range(count))}]"


NAMED = "{name: r#, exactly: {deviceClassName: gpu.nvidia.com}}"
CONSTRAINT = "{matchAttribute: gpu.nvidia.com/a}"
CONFIG = "{opaque: {driver: gpu.nvidia.com, parameters: {}}}"
SELECTOR = "{cel: {expression: 'true'}}"
ALTERNATIVE = "{name: a#, deviceClassName: gpu.nvidia.com}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            claim(many(NAMED, 33)),
            "spec.devices.requests: Too many: 33: must have at most 32 items; split the claim: a pod can have several",
        ),
        (
            claim(constraints=many(CONSTRAINT, 33)),
            "spec.devices.constraints: Too many: 33: must have at most 32 items; name several requests in one constraint",
        ),
        (
            claim(config=many(CONFIG, 33)),
            "spec.devices.config: Too many: 33: must have at most 32 items; name several requests in one config",
        ),
        (
            exact(f"selectors: {many(SELECTOR, 33)}"),
            (
                "spec.devices.requests[0].exactly.selectors: Too many: 33: must have at most 32 items; join selectors by && in one "
                "expression"
            ),
        ),
        (
            HEAD.format(kind="DeviceClass") + f"{{selectors: {many(SELECTOR, 33)}}}",
            "spec.selectors: Too many: 33: must have at most 32 items; join selectors by && in one expression",
        ),
        (
            claim(f"[{{name: gpu, firstAvailable: {many(ALTERNATIVE, 9)}}}]"),
            (
                "spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items; keep the alternatives that matter "
                "most"
            ),
        ),
        (
            claim(f"[{NAMED}]", constraints=f"[{{requests: {many('r#', 33)}, matchAttribute: gpu.nvidia.com/a}}]"),
            "spec.devices.constraints[0].requests: Too many: 33: must have at most 32 items; leave it out to mean all requests",
        ),
        (
            exact(f"tolerations: {many('{key: t#, operator: Exists}', 17)}"),
            (
                "spec.devices.requests[0].exactly.tolerations: has 17 items; 16 is the documented limit; tolerate all of a kind by "
                "operator: Exists"
            ),
        ),
    ],
)
def test_list_that_is_too_long_is_reported(findings_of, text, expected):
    assert findings_of("GA208", text) == [expected]


def test_documented_limit_that_is_not_enforced_only_warns(examined):
    found = examined(exact(f"tolerations: {many('{key: t#, operator: Exists}', 17)}"))
    assert [finding.severity for finding in found] == ["warn"]


def test_lists_as_long_as_they_may_be_are_fine(findings_of):
    text = claim(many(NAMED, 32), many(CONSTRAINT, 32), many(CONFIG, 32))
    assert findings_of("GA208", text) == []
