"""Names of objects and of requests."""

import pytest

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character"
)


def named(metadata, kind="ResourceClaim", spec="{}"):
    return f"apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{{metadata}}}\nspec: {spec}"


@pytest.mark.parametrize("metadata", ["name: gpu", "name: gpu.large-1", "generateName: gpu-", "generateName: gpu."])
def test_name_that_an_object_can_have_is_fine(examined, metadata):
    assert examined(named(metadata)) == ()


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("", "metadata.name: Required value: name or generateName is required; add a name"),
        ("name: GPU_1", f'metadata.name: Invalid value: "GPU_1": {SUBDOMAIN}; write "gpu-1"'),
        (
            f"name: {'a' * 254}",
            f'metadata.name: Invalid value: "{"a" * 76}...: must be no more than 253 bytes; write a shorter one',
        ),
        (
            "generateName: GPU-",
            (
                f'metadata.generateName: Invalid value: "GPU-": {SUBDOMAIN}; write a name of lower case letters, digits, '
                "'-' and '.'"
            ),
        ),
        (
            "name: gpu, namespace: Team",
            f'metadata.namespace: Invalid value: "Team": {LABEL}; write the name of a namespace',
        ),
    ],
)
def test_name_that_no_object_can_have_is_reported(findings_of, metadata, expected):
    assert findings_of("GA203", named(metadata)) == [expected]


def test_missing_metadata_is_a_missing_name(findings_of):
    assert findings_of("GA203", "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim") == [
        "metadata.name: Required value: name or generateName is required; add a name"
    ]


def test_class_is_in_no_namespace(findings_of):
    assert findings_of("GA203", named("name: gpu, namespace: team-a", kind="DeviceClass")) == [
        "metadata.namespace: Forbidden: not allowed on this type; a DeviceClass is for the whole cluster; remove it"
    ]


def test_template_cannot_name_its_claims(findings_of):
    text = named("name: gpu", kind="ResourceClaimTemplate", spec="{metadata: {name: a, labels: {team: a}}, spec: {}}")
    assert findings_of("GA203", text) == [
        "spec.metadata.name: Forbidden: cannot be set; the claims of a template get labels and annotations from it; remove it"
    ]


def requests(*names):
    listed = ", ".join(f"{{name: {name}, exactly: {{deviceClassName: gpu.nvidia.com}}}}" for name in names)
    return named("name: gpu", spec=f"{{devices: {{requests: [{listed}]}}}}")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["gpu", "gpu"], 'spec.devices.requests[1].name: Duplicate value: "gpu"; give each its own name'),
        (["null"], "spec.devices.requests[0].name: Required value; add a name, such as gpu"),
        (["''"], "spec.devices.requests[0].name: Required value; add a name, such as gpu"),
        (["GPU_1"], f'spec.devices.requests[0].name: Invalid value: "GPU_1": {LABEL}; write "gpu-1"'),
        (
            ["'***'"],
            (
                f'spec.devices.requests[0].name: Invalid value: "***": {LABEL}; write a name of lower case letters, digits '
                "and '-'"
            ),
        ),
        (
            ["a" * 64],
            f'spec.devices.requests[0].name: Invalid value: "{"a" * 64}": must be no more than 63 bytes; write a shorter one',
        ),
    ],
)
def test_name_that_no_request_can_have_is_reported(findings_of, names, expected):
    assert findings_of("GA204", requests(*names)) == [expected]


def test_alternatives_have_names_of_their_own_within_their_list(findings_of):
    alternatives = "[{name: a, deviceClassName: x}, {name: a, deviceClassName: y}]"
    lists = f"[{{name: one, firstAvailable: {alternatives}}}, {{name: two, firstAvailable: [{{name: a, deviceClassName: x}}]}}]"
    assert findings_of("GA204", named("name: gpu", spec=f"{{devices: {{requests: {lists}}}}}")) == [
        'spec.devices.requests[0].firstAvailable[1].name: Duplicate value: "a"; give each its own name'
    ]
