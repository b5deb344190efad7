"""Immutable fields of claims, templates and ComputeDomains."""

import pytest

HEAD = "apiVersion: resource.k8s.io/{version}\nkind: {kind}\nmetadata: {{name: gpu}}\nspec: "


def claim(fields, version="v1", kind="ResourceClaim"):
    fields = f"deviceClassName: gpu.nvidia.com, {fields}"
    request = fields if version == "v1beta1" else f"exactly: {{{fields}}}"
    spec = f"{{devices: {{requests: [{{name: gpu, {request}}}]}}}}"
    return HEAD.format(version=version, kind=kind) + (f"{{spec: {spec}}}" if kind.endswith("Template") else spec)


def updated(old, new):
    return f"{new}\n--- # before\n{old}"


CREATE_AGAIN = "delete the claim and create it again, or give it another name"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (claim(""), claim("count: 1, allocationMode: ExactCount")),
        (claim("count: 2"), claim("count: 2", version="v1beta1")),
        (claim("count: 2", version="v1beta1"), claim("count: 2", version="v1beta2")),
        (
            claim("count: 2", version="v1beta1"),
            claim("count: 2, exactly: {count: 3}", version="v1beta1"),
        ),
        (claim("tolerations: [{key: a}]"), claim("tolerations: [{key: a, operator: Equal}], selectors: []")),
        (claim("capacity: {requests: {memory: 1Gi}}"), claim("capacity: {requests: {memory: 1024Mi}}")),
        (claim("", kind="ResourceClaimTemplate"), claim("count: 1", kind="ResourceClaimTemplate")),
        (
            HEAD.format(version="v1", kind="DeviceClass") + "{}",
            HEAD.format(version="v1", kind="DeviceClass") + "{config: []}",
        ),
    ],
)
def test_another_spelling_of_the_same_is_no_change(findings_of, old, new):
    assert findings_of("GA217", updated(old, new)) == []
    assert findings_of("GA217", updated(new, old)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            claim("count: 1"),
            claim("count: 2"),
            f"spec.devices.requests[0].exactly.count: Invalid value: 2: field is immutable, and was 1; {CREATE_AGAIN}",
        ),
        (
            claim("", version="v1beta1"),
            claim("count: 2", version="v1beta1"),
            f"spec.devices.requests[0].count: Invalid value: 2: field is immutable, and was 1; {CREATE_AGAIN}",
        ),
        (
            claim("count: 2"),
            claim("count: 2, adminAccess: true"),
            (
                "spec.devices.requests[0].exactly.adminAccess: Invalid value: true: field is immutable, and was not there; "
                f"{CREATE_AGAIN}"
            ),
        ),
        (
            claim("selectors: [{cel: {expression: 'true'}}]"),
            claim("count: 2"),
            (
                "spec.devices.requests[0].exactly.count: Invalid value: 2: field is immutable, and was 1; 1 other field differs as "
                f"well; {CREATE_AGAIN}"
            ),
        ),
        (
            claim("count: 1", kind="ResourceClaimTemplate"),
            claim("count: 2", kind="ResourceClaimTemplate"),
            (
                "spec.spec.devices.requests[0].exactly.count: Invalid value: 2: field is immutable, and was 1; create a template of "
                "another name, and let the pods name that one"
            ),
        ),
        (
            HEAD.format(version="v1", kind="ResourceClaimTemplate") + "{}",
            HEAD.format(version="v1", kind="ResourceClaimTemplate") + "{metadata: {labels: {team: a}}}",
            (
                "spec: Invalid value: field is immutable; create a template of another name, and let the pods "
                "name that one"
            ),
        ),
        (
            claim("count: 1"),
            claim("count: 1").replace("name: gpu,", "name: gpus,"),
            f'spec.devices.requests[0].name: Invalid value: "gpus": field is immutable, and was "gpu"; {CREATE_AGAIN}',
        ),
    ],
)
def test_change_of_what_is_requested_is_reported_once(findings_of, old, new, expected):
    assert findings_of("GA217", updated(old, new)) == [expected]


DOMAIN = """
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {{name: domain}}
spec: {{{nodes}channel: {{resourceClaimTemplate: {{name: {name}}}}}}}
"""


def test_compute_domain_cannot_change(findings_of):
    text = updated(DOMAIN.format(nodes="", name="a"), DOMAIN.format(nodes="", name="b"))
    assert findings_of("GA217", text) == [
        (
            'spec.channel.resourceClaimTemplate.name: Invalid value: "b": A computeDomain.spec is immutable, and was "a"; delete '
            "the ComputeDomain and create it again, or give it another name"
        )
    ]


def test_default_of_a_compute_domain_is_no_change(findings_of):
    text = updated(DOMAIN.format(nodes="", name="a"), DOMAIN.format(nodes="numNodes: 0, ", name="a"))
    assert findings_of("GA217", text) == []
