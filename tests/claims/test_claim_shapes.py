"""Fields in the wrong place, misspelt fields, wrong types."""

import pytest

from tests.findings import plain_text

CLAIM = """
apiVersion: resource.k8s.io/{version}
kind: ResourceClaim
metadata: {{name: gpu, namespace: team-a}}
spec:
  devices: {devices}
"""
ASKED = "{{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com, {fields}}}}}]}}"
HEAD = "apiVersion: resource.k8s.io/v1\nkind: {kind}\nmetadata: {{name: gpu}}\n"


def claim(devices, version="v1"):
    return CLAIM.format(devices=devices, version=version)


def asked(fields):
    return claim(ASKED.format(fields=fields))


@pytest.mark.parametrize(
    ("request_", "path", "sentence"),
    [
        (
            "deviceClassName: gpu.nvidia.com",
            "deviceClassName",
            "which has it under exactly; write exactly: {deviceClassName: gpu.nvidia.com}",
        ),
        (
            "count: 2, deviceClassName: gpu.nvidia.com, adminAccess: true",
            "deviceClassName",
            (
                "which has them under exactly; "
                "write exactly: {count: 2, deviceClassName: gpu.nvidia.com, adminAccess: true}"
            ),
        ),
        (
            "deviceClassName: gpu.nvidia.com, selectors: []",
            "deviceClassName",
            "which has them under exactly; indent deviceClassName, selectors below exactly",
        ),
    ],
)
def test_flat_request_is_reported_once_where_v1_has_its_fields(examined, request_, path, sentence):
    (found,) = examined(claim(f"{{requests: [{{name: gpu, {request_}}}]}}"))
    fields = "unknown fields" if "has them" in sentence else "unknown field"
    assert plain_text(found) == f"spec.devices.requests[0].{path}: {fields} in resource.k8s.io/v1, {sentence}"


def test_request_of_v1_in_v1beta1_must_be_flat(examined):
    (found,) = examined(claim("{requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}", "v1beta1"))
    assert plain_text(found) == (
        "spec.devices.requests[0].exactly: unknown field in resource.k8s.io/v1beta1; write what is in it in the request "
        "itself, or apiVersion: resource.k8s.io/v1"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD.format(kind="ResourceClaim") + "devices: {}", "devices: unknown field in {v}; indent it below spec"),
        (
            HEAD.format(kind="ResourceClaim") + "spec: {requests: []}",
            "spec.requests: unknown field in {v}; write it under devices",
        ),
        (
            HEAD.format(kind="ResourceClaim") + "spec: {spec: {devices: {}}}",
            "spec.spec: unknown field in {v}; write what is in it under spec; only a template has spec.spec",
        ),
        (
            HEAD.format(kind="ResourceClaimTemplate") + "spec: {devices: {}}",
            "spec.devices: unknown field in {v}; write it under spec.spec, one level deeper than in a claim",
        ),
        (
            HEAD.format(kind="ResourceClaim") + "spec: {resourceClassName: gpu}",
            (
                "spec.resourceClassName: unknown field in {v}; remove it, and request devices of a DeviceClass under devices; it "
                "is a field of versions before v1alpha3"
            ),
        ),
        (
            HEAD.format(kind="DeviceClass") + "spec: {suitableNodes: {}}",
            "spec.suitableNodes: unknown field in {v}; remove it; Kubernetes 1.32 dropped it, and pods choose their nodes",
        ),
        (
            HEAD.format(kind="DeviceClass")
            + "spec: {config: [{requests: [gpu], opaque: {driver: a, parameters: {}}}]}",
            "spec.config[0].requests: unknown field in {v}; remove it; the config of a class is for all its devices",
        ),
        (
            asked("tolerance: []"),
            'spec.devices.requests[0].exactly.tolerance: unknown field in {v}; write "tolerations"',
        ),
        (
            asked("capacity: {memory: 10Gi}"),
            "spec.devices.requests[0].exactly.capacity.memory: unknown field in {v}; write it under requests",
        ),
        (
            asked("selectors: [{expression: 'true'}]"),
            "spec.devices.requests[0].exactly.selectors[0].expression: unknown field in {v}; write it under cel",
        ),
        (
            claim("{requests: [{name: gpu, firstAvailable: [{name: a, deviceClassName: a, adminAccess: true}]}]}"),
            (
                "spec.devices.requests[0].firstAvailable[0].adminAccess: unknown field in {v}; remove it; only an exact request "
                "can have it"
            ),
        ),
        (
            claim("{config: [{driver: gpu.nvidia.com, opaque: {driver: gpu.nvidia.com, parameters: {}}}]}"),
            "spec.devices.config[0].driver: unknown field in {v}; write it under opaque",
        ),
        (
            claim("{gpus: 2}"),
            "spec.devices.gpus: unknown field in {v}; remove it; there are config, constraints, requests",
        ),
    ],
)
def test_remedy_for_a_field_in_the_wrong_place_says_where_it_belongs(findings_of, text, expected):
    assert findings_of("GA201", text) == [expected.replace("{v}", "resource.k8s.io/v1")]


def test_misspelt_class_is_reported_once(examined):
    (found,) = examined(claim("{requests: [{name: gpu, exactly: {deviceClass: gpu.nvidia.com}}]}"))
    assert plain_text(found) == (
        'spec.devices.requests[0].exactly.deviceClass: unknown field in resource.k8s.io/v1; write "deviceClassName"'
    )


@pytest.mark.parametrize(("release", "severity"), [("v1.36.2", "deny"), ("v1.37.0", "warn")])
def test_field_that_a_newer_cluster_may_have_only_warns(examined, release, severity):
    (found,) = examined(claim("{gpus: 2}") + f"---\nserverVersion: {{gitVersion: {release}}}")
    assert found.severity == severity


def test_fields_that_the_api_server_has_let_through_are_not_questioned(examined):
    assert examined(claim("{gpus: 2}"), entry="claims") == ()


def test_fields_of_a_version_that_does_not_exist_are_not_judged(examined):
    text = (
        "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {resourceClassName: a}"
    )
    assert [finding.rule.id for finding in examined(text)] == ["GA200"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            asked('count: "2"'),
            'spec.devices.requests[0].exactly.count: is "2"; it must be a whole number; write 2, without quotes',
        ),
        (
            asked("count: .nan"),
            "spec.devices.requests[0].exactly.count: is nan; it must be a whole number; write one such as 1",
        ),
        (
            asked("count: two"),
            'spec.devices.requests[0].exactly.count: is "two"; it must be a whole number; write one such as 1',
        ),
        (
            asked("allocationMode: 1"),
            "spec.devices.requests[0].exactly.allocationMode: is 1; it must be text; put it in quotes",
        ),
        (
            asked("count: 9223372036854775808"),
            (
                "spec.devices.requests[0].exactly.count: is 9223372036854775808; the most is 9223372036854775807; write "
                "9223372036854775807 or less"
            ),
        ),
        (
            asked("selectors: ['true']"),
            (
                'spec.devices.requests[0].exactly.selectors[0]: is "true"; it must be a mapping; '
                'write a condition such as cel: {expression: device.driver == "gpu.nvidia.com"}'
            ),
        ),
        (
            asked("selectors: [{cel: 'true'}]"),
            (
                'spec.devices.requests[0].exactly.selectors[0].cel: is "true"; it must be a mapping; '
                'write a condition such as cel: {expression: device.driver == "gpu.nvidia.com"}'
            ),
        ),
        (
            asked("capacity: {requests: {memory: 8x}}"),
            (
                'spec.devices.requests[0].exactly.capacity.requests.memory: "8x" has the unknown suffix "x"; write a quantity '
                'such as "1Gi"'
            ),
        ),
        (
            claim("{requests: {name: gpu}}"),
            "spec.devices.requests: is a mapping; it must be a list; write a list: a dash before each entry",
        ),
        (
            claim("{requests: [null]}"),
            "spec.devices.requests[0]: is null; it must be a mapping; write its fields below it",
        ),
        (
            HEAD.format(kind="DeviceClass") + "spec: []",
            "spec: is a list; it must be a mapping; write its fields below it",
        ),
        (
            "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: [gpu]",
            "metadata: is a list; it must be a mapping; write its fields below it",
        ),
    ],
)
def test_wrong_type_is_reported_once(examined, text, expected):
    assert [plain_text(finding) for finding in examined(text)] == [expected]


@pytest.mark.parametrize(
    "fields", ["count: null", "selectors: null", "capacity: {requests: {memory: null}}", "capacity: null"]
)
def test_null_counts_as_missing(examined, fields):
    assert examined(asked(fields)) == ()


DOMAIN = "apiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\nmetadata: {name: domain}\nspec: "


@pytest.mark.parametrize(
    ("spec", "rule", "expected"),
    [
        (
            "{resourceClaimTemplate: {name: channel}}",
            "GA201",
            "spec.resourceClaimTemplate: unknown field in resource.nvidia.com/v1beta1; write it under channel",
        ),
        (
            "{channel: {resourceClaimTemplate: channel}}",
            "GA202",
            (
                'spec.channel.resourceClaimTemplate: is "channel"; it must be a mapping; write resourceClaimTemplate: {name: '
                "channel}"
            ),
        ),
        (
            "{channel: {allocationMode: all, resourceClaimTemplate: {name: channel}}}",
            "GA202",
            'spec.channel.allocationMode: Unsupported value: "all": supported values: "All", "Single"; write "All"',
        ),
        (
            "{numNodes: -1, channel: {resourceClaimTemplate: {name: channel}}}",
            "GA202",
            "spec.numNodes: is -1; the least is 0; write 0 or more",
        ),
    ],
)
def test_compute_domain_is_what_its_crd_allows(findings_of, spec, rule, expected):
    assert findings_of(rule, DOMAIN + spec) == [expected]
