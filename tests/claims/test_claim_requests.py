"""Requests: exact or with alternatives, with class, count, tolerations and capacity."""

import pytest

HEAD = "apiVersion: resource.k8s.io/{version}\nkind: ResourceClaim\nmetadata: {{name: gpu, namespace: team-a}}\nspec: "
REQUEST = "spec.devices.requests[0]"
EXACT = f"{REQUEST}.exactly"


def request(fields, version="v1"):
    return HEAD.format(version=version) + f"{{devices: {{requests: [{{name: gpu, {fields}}}]}}}}"


def exact(fields):
    return request(f"exactly: {{deviceClassName: gpu.nvidia.com, {fields}}}")


@pytest.mark.parametrize(
    ("fields", "version", "expected"),
    [
        (
            "",
            "v1",
            (
                f"{REQUEST}: Required value: exactly one of `exactly` or `firstAvailable` is required; write exactly for one kind "
                "of device, or firstAvailable for alternatives in the order of preference"
            ),
        ),
        (
            "exactly: null, firstAvailable: []",
            "v1beta2",
            (
                f"{REQUEST}: Required value: exactly one of `exactly` or `firstAvailable` is required; write exactly for one kind "
                "of device, or firstAvailable for alternatives in the order of preference"
            ),
        ),
        (
            "exactly: {deviceClassName: a}, firstAvailable: [{name: a, deviceClassName: a}]",
            "v1",
            (
                f"{REQUEST}: Invalid value: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set; "
                "move what is under exactly into the alternatives, or remove firstAvailable"
            ),
        ),
        (
            "deviceClassName: a, count: 2, firstAvailable: [{name: a, deviceClassName: a}]",
            "v1beta1",
            (
                f"{REQUEST}: Invalid value: exactly one of `deviceClassName` or `firstAvailable` is required, but multiple fields "
                "are set; move deviceClassName, count into the alternatives, or remove firstAvailable"
            ),
        ),
    ],
)
def test_request_is_exact_or_has_alternatives(findings_of, fields, version, expected):
    assert findings_of("GA205", request(fields, version)) == [expected]


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ("exactly: {deviceClassName: gpu.nvidia.com}", "v1"),
        ("exactly: {deviceClassName: gpu.nvidia.com, count: 2}", "v1beta2"),
        ("deviceClassName: gpu.nvidia.com, allocationMode: All", "v1beta1"),
        ("firstAvailable: [{name: a, deviceClassName: gpu.nvidia.com}]", "v1"),
        ("firstAvailable: [{name: a, deviceClassName: gpu.nvidia.com}]", "v1beta1"),
    ],
)
def test_request_of_each_version_is_fine(examined, fields, version):
    assert examined(request(fields, version)) == ()


REQUIRED = "Required value; add deviceClassName, such as gpu.nvidia.com for whole GPUs or mig.nvidia.com for slices"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character"
)


@pytest.mark.parametrize(
    ("fields", "version", "expected"),
    [
        ("exactly: {}", "v1", f"{EXACT}.deviceClassName: {REQUIRED}"),
        ("count: 2", "v1beta1", f"{REQUEST}.deviceClassName: {REQUIRED}"),
        ("firstAvailable: [{name: a}]", "v1", f"{REQUEST}.firstAvailable[0].deviceClassName: {REQUIRED}"),
        (
            "exactly: {deviceClassName: nvidia.com/gpu}",
            "v1",
            f'{EXACT}.deviceClassName: Invalid value: "nvidia.com/gpu": {SUBDOMAIN}; write "gpu.nvidia.com"',
        ),
        (
            "exactly: {deviceClassName: '?'}",
            "v1",
            f'{EXACT}.deviceClassName: Invalid value: "?": {SUBDOMAIN}; write the name of a DeviceClass',
        ),
    ],
)
def test_request_names_a_class(findings_of, fields, version, expected):
    assert findings_of("GA206", request(fields, version)) == [expected]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "allocationMode: all",
            'allocationMode: Unsupported value: "all": supported values: "All", "ExactCount"; write "All"',
        ),
        (
            "allocationMode: Some",
            'allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"; write "ExactCount" or "All"',
        ),
        (
            "allocationMode: All, count: 2",
            (
                "count: Invalid value: 2: must not be specified when allocationMode is 'All'; remove count, or write "
                "allocationMode: ExactCount"
            ),
        ),
        (
            "count: -1",
            (
                "count: Invalid value: -1: must be greater than zero; write count: 1 or more, or allocationMode: All without a "
                "count"
            ),
        ),
        (
            "count: 0",
            (
                "count: is 0, which the API server takes for a count that is missing: it stands for 1; write count: 1, or remove "
                "the request"
            ),
        ),
    ],
)
def test_amount_that_cannot_be_met_is_reported(findings_of, fields, expected):
    assert findings_of("GA207", exact(fields)) == [f"{EXACT}.{expected}"]


def test_count_of_zero_only_warns(examined):
    assert [finding.severity for finding in examined(exact("count: 0"))] == ["warn"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "key: a b",
            (
                "key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start "
                "and end with an alphanumeric character; write the key as the device's taint has it"
            ),
        ),
        (
            "key: a, operator: exists",
            'operator: Unsupported value: "exists": supported values: "Equal", "Exists"; write "Exists"',
        ),
        (
            "key: a, effect: Never",
            (
                'effect: Unsupported value: "Never": supported values: "NoExecute", "NoSchedule", "None"; write one of NoExecute, '
                "NoSchedule, None"
            ),
        ),
        (
            "key: a, operator: Exists, value: b",
            'value: Invalid value: "b": must be empty for operator `Exists`; remove value, or write operator: Equal',
        ),
        (
            "key: a, value: b c",
            (
                "value: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', "
                "'_' or '.', and must start and end with an alphanumeric character; write the value as the device's taint has it"
            ),
        ),
        (
            "effect: NoSchedule",
            (
                "key: is missing, which stands for all keys, and that is meant to go with operator: Exists; write a key, or "
                "operator: Exists"
            ),
        ),
        (
            "key: a, effect: NoSchedule, tolerationSeconds: 30",
            (
                "tolerationSeconds: has no effect without effect: NoExecute, since only that takes pods off their devices; remove "
                "tolerationSeconds, or write effect: NoExecute"
            ),
        ),
    ],
)
def test_toleration_of_no_taint_is_reported(findings_of, fields, expected):
    assert findings_of("GA209", exact(f"tolerations: [{{{fields}}}]")) == [f"{EXACT}.tolerations[0].{expected}"]


@pytest.mark.parametrize(
    "fields",
    ["operator: Exists", "key: a.com/b, value: c", "key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 3"],
)
def test_toleration_of_a_taint_is_fine(findings_of, fields):
    assert findings_of("GA209", exact(f"tolerations: [{{{fields}}}]")) == []


IDENTIFIER = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'"


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        (
            "gpu-memory: 1Gi",
            (
                f'[gpu-memory]: Invalid value: "gpu-memory": {IDENTIFIER}, so no device has it; write the name as the '
                "ResourceSlices have it"
            ),
        ),
        (
            "a/b/c: 1",
            (
                '[a/b/c]: Invalid value: "a/b/c": must not contain more than one slash, so no device has it; write the name as the '
                "ResourceSlices have it"
            ),
        ),
        (
            "/b: 1",
            (
                '[/b]: Invalid value: "/b": the domain must not be empty, so no device has it; write the name as the ResourceSlices '
                "have it"
            ),
        ),
        (
            "a/: 1",
            (
                '[a/]: Invalid value: "a/": the name must not be empty, so no device has it; write the name as the ResourceSlices '
                "have it"
            ),
        ),
        ("memory: -1Gi", '.memory: Invalid value: "-1Gi": must be greater than or equal to 0; write an amount'),
    ],
)
def test_capacity_that_no_device_has_is_reported(findings_of, amounts, expected):
    assert findings_of("GA210", exact(f"capacity: {{requests: {{{amounts}}}}}")) == [
        f"{EXACT}.capacity.requests{expected}"
    ]


@pytest.mark.parametrize(("release", "severity"), [("v1.35.0", "warn"), ("v1.36.0", "deny")])
def test_capacity_that_no_device_has_is_refused_where_kubernetes_keeps_it(examined, release, severity):
    text = exact("capacity: {requests: {a/: 1}}") + f"\n---\nserverVersion: {{gitVersion: {release}}}"
    assert [str(found.severity) for found in examined(text) if found.rule.id == "GA210"] == [severity]


@pytest.mark.parametrize("amounts", ["memory: 1Gi", "gpu.nvidia.com/memory: 1Gi", "shares: 0"])
def test_capacity_that_a_device_can_have_is_fine(findings_of, amounts):
    assert findings_of("GA210", exact(f"capacity: {{requests: {{{amounts}}}}}")) == []
