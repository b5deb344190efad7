"""Configs of claims for any driver, extended resources of classes, and statuses."""

import pytest

HEAD = "apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: gpu}}\n"


def config(text, kind="ResourceClaim"):
    spec = f"{{config: [{{{text}}}]}}"
    return HEAD.format(kind=kind) + f"spec: {spec if kind == 'DeviceClass' else f'{{devices: {spec}}}'}"


PATH = "spec.devices.config[0].opaque"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "",
            [
                (
                    f"{PATH}: Required value; write a config such as opaque: {{driver: gpu.nvidia.com, parameters: "
                    "{apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig}}"
                )
            ],
        ),
        (
            "opaque: {}",
            [
                f"{PATH}.driver: Required value; add driver: gpu.nvidia.com, or whose config it is",
                f"{PATH}.parameters: Required value; add parameters, with the apiVersion and kind of a config",
            ],
        ),
        (
            "opaque: {driver: a_b, parameters: {}}",
            [
                (
                    f"{PATH}.driver: Invalid value: \"a_b\": an RFC 1123 subdomain must consist of alphanumeric characters, '-' or "
                    "'.', and must start and end with an alphanumeric character; write the name of the driver as its ResourceSlices "
                    "have it"
                )
            ],
        ),
        (
            f"opaque: {{driver: {'a' * 64}, parameters: {{}}}}",
            [
                (
                    f'{PATH}.driver: Invalid value: "{"a" * 64}": may not be more than 63 bytes; write the name of the driver as '
                    "its ResourceSlices have it"
                )
            ],
        ),
        (
            "opaque: {driver: a, parameters: 'kind: GpuConfig'}",
            [
                (
                    f"{PATH}.parameters: Invalid value: must be a valid JSON object; remove the | or the quotes, so that it is a "
                    "mapping"
                )
            ],
        ),
        (
            "opaque: {driver: a, parameters: [1]}",
            [f"{PATH}.parameters: Invalid value: must be a valid JSON object; write a mapping"],
        ),
        (
            f"opaque: {{driver: a, parameters: {{a: {'b' * 10233}}}}}",
            [f"{PATH}.parameters: Too long: may not be more than 10240 bytes, and has 10241; shorten the parameters"],
        ),
        (f"opaque: {{driver: a, parameters: {{a: {'b' * 10232}}}}}", []),
        ("driver: a, parameters: {}", []),
        ("opaque: {driver: GPU.nvidia.com, parameters: {}}", []),
    ],
)
def test_config_without_what_the_api_server_demands_is_reported(findings_of, text, expected):
    assert findings_of("GA213", config(text)) == expected


def test_parameters_are_counted_however_deep_they_are(findings_of):
    deep = f"{'[' * 80}{']' * 80}"
    assert findings_of("GA213", config(f"opaque: {{driver: a, parameters: {{a: {deep}, b: {'c' * 10067}}}}}")) == []
    (text,) = findings_of("GA213", config(f"opaque: {{driver: a, parameters: {{a: {deep}, b: {'c' * 10068}}}}}"))
    assert "and has 10241; " in text


def test_config_of_a_class_is_held_to_the_same(findings_of):
    (text,) = findings_of("GA213", config("opaque: {driver: a}", kind="DeviceClass"))
    assert text.startswith("spec.config[0].opaque.parameters: Required value; ")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("gpu", "a name must be a domain-prefixed path, such as 'example.com/my-prop'"),
        ("kubernetes.io/gpu", 'must not have "kubernetes.io/" domain'),
        ("requests.nvidia.com/gpu", 'must not have "requests." prefix'),
        ("nvidia.com/gpu gpu", 'must be a label key with "requests." before it, as in a quota'),
    ],
)
def test_name_that_no_extended_resource_has_is_reported(findings_of, name, error):
    text = HEAD.format(kind="DeviceClass") + f"spec: {{extendedResourceName: {name}}}"
    assert findings_of("GA214", text) == [
        (
            f'spec.extendedResourceName: Invalid value: "{name}": must be a valid extended resource name: {error}; write a name '
            "such as nvidia.com/gpu"
        )
    ]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (
            "v1.33.0",
            ["unknown field in Kubernetes 1.33; it came with 1.34; remove it, or upgrade the cluster"],
        ),
        (
            "v1.35.0",
            [
                (
                    "is dropped by Kubernetes 1.35 unless the feature gate DRAExtendedResource is on; turn the gate on, or "
                    "upgrade the cluster to 1.36"
                )
            ],
        ),
        ("v1.36.0", []),
    ],
)
def test_extended_resource_that_the_cluster_does_not_know_is_reported(findings_of, release, expected):
    text = HEAD.format(kind="DeviceClass") + "spec: {extendedResourceName: nvidia.com/gpu}"
    text += f"\n---\nserverVersion: {{gitVersion: {release}}}"
    assert findings_of("GA214", text) == [f"spec.extendedResourceName: {sentence}" for sentence in expected]
    assert findings_of("GA214", text, entry="claims") == []


def test_extended_resource_is_kept_where_another_class_has_one(findings_of):
    text = HEAD.format(kind="DeviceClass") + "spec: {extendedResourceName: nvidia.com/gpu}"
    other = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: b}, spec: {extendedResourceName: a.com/b}}"
    assert findings_of("GA214", f"{text}\n---\nserverVersion: {{gitVersion: v1.35.0}}\n---\n{other}") == []


def test_extended_resource_is_kept_where_the_stored_copy_of_the_class_has_it(findings_of):
    text = HEAD.format(kind="DeviceClass") + "spec: {extendedResourceName: nvidia.com/gpu}"
    version = "serverVersion: {gitVersion: v1.35.0}"
    assert findings_of("GA214", f"{text}\n---\n{version}\n---\n{text}") == []
    without = HEAD.format(kind="DeviceClass") + "spec: {}"
    assert len(findings_of("GA214", f"{text}\n---\n{version}\n---\n{without}")) == 1


def test_status_of_a_new_claim_is_reported(findings_of):
    assert findings_of("GA218", HEAD.format(kind="ResourceClaim") + "status: {reservedFor: []}") == [
        "status: is dropped when the object is created; Kubernetes writes it later; remove it"
    ]


@pytest.mark.parametrize("status", ["{}", "null"])
def test_empty_status_is_not_reported(findings_of, status):
    assert findings_of("GA218", HEAD.format(kind="ResourceClaim") + f"status: {status}") == []


def test_status_of_a_claim_that_is_there_is_not_reported(findings_of):
    text = HEAD.format(kind="ResourceClaim") + "status: {reservedFor: []}"
    assert findings_of("GA218", f"{text}\n--- # before\n{text}") == []
