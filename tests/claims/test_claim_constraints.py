"""Constraints, and the requests that constraints and configs refer to."""

import pytest

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: gpu, namespace: team-a}}
spec:
  devices:
    requests:
    - {{name: one, exactly: {{deviceClassName: gpu.nvidia.com}}}}
    - name: two
      firstAvailable: [{{name: large, deviceClassName: gpu.nvidia.com}}]
    constraints: {constraints}
    config: {config}
"""
UNKNOWN = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
AS_PUBLISHED = "write the name as the ResourceSlices have it, with its domain"


def constrained(constraint):
    return CLAIM.format(constraints=f"[{{{constraint}}}]", config="[]")


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (
            "requests: [one]",
            (
                ': Required value: exactly one of "matchAttribute" or "distinctAttribute" is required; write matchAttribute: '
                "resource.kubernetes.io/pcieRoot, or another attribute with its domain"
            ),
        ),
        (
            "matchAttribute: parentUUID",
            (
                '.matchAttribute: Invalid value: "parentUUID": a fully qualified name must be a domain and a name separated by a '
                "slash; write gpu.nvidia.com/parentUUID"
            ),
        ),
        (
            "distinctAttribute: numaNode",
            (
                '.distinctAttribute: Invalid value: "numaNode": a fully qualified name must be a domain and a name separated by a '
                "slash; write resource.kubernetes.io/numaNode"
            ),
        ),
        (
            "matchAttribute: a/b/c",
            f'.matchAttribute: Invalid value: "a/b/c": must not contain more than one slash; {AS_PUBLISHED}',
        ),
        (
            "matchAttribute: gpu.nvidia.com/parent-uuid",
            (
                '.matchAttribute: Invalid value: "gpu.nvidia.com/parent-uuid": a valid C identifier must start with alphabetic '
                f"character or '_', followed by a string of alphanumeric characters or '_'; {AS_PUBLISHED}"
            ),
        ),
        (
            f"matchAttribute: a/{'b' * 33}",
            f'.matchAttribute: Invalid value: "a/{"b" * 33}": may not be more than 32 bytes; {AS_PUBLISHED}',
        ),
        (
            f"matchAttribute: {'a' * 64}/b",
            f'.matchAttribute: Invalid value: "{"a" * 64}/b": may not be more than 63 bytes; {AS_PUBLISHED}',
        ),
        (
            "matchAttribute: 'a b/c'",
            (
                ".matchAttribute: Invalid value: \"a b/c\": an RFC 1123 subdomain must consist of alphanumeric characters, '-' or "
                f"'.', and must start and end with an alphanumeric character; {AS_PUBLISHED}"
            ),
        ),
        (
            "matchAttribute: a/b, distinctAttribute: a/c",
            (
                ".distinctAttribute: is never looked at beside matchAttribute; a constraint has one attribute; write it as a "
                "constraint of its own"
            ),
        ),
    ],
)
def test_attribute_that_no_constraint_can_be_on_is_reported(findings_of, constraint, expected):
    assert findings_of("GA211", constrained(constraint)) == [f"spec.devices.constraints[0]{expected}"]


def test_second_attribute_only_warns(examined):
    found = examined(constrained("matchAttribute: a/b, distinctAttribute: a/c"))
    assert [finding.severity for finding in found if finding.rule.id == "GA211"] == ["warn"]


@pytest.mark.parametrize("domain", ["gpu.nvidia.com", "GPU.nvidia.com"])
def test_attribute_with_its_domain_is_fine(findings_of, domain):
    assert findings_of("GA211", constrained(f"matchAttribute: {domain}/parentUUID")) == []


@pytest.mark.parametrize("names", ["one", "two", "two/large", "one, two/large"])
def test_reference_to_a_request_or_an_alternative_is_fine(findings_of, names):
    assert findings_of("GA212", constrained(f"requests: [{names}], matchAttribute: a/b")) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("three", f'[0]: Invalid value: "three": {UNKNOWN}; write one of one, two, two/large'),
        ("large", f'[0]: Invalid value: "large": {UNKNOWN}; write "two/large"'),
        ("tow/large", f'[0]: Invalid value: "tow/large": {UNKNOWN}; write "two/large"'),
        ("one/large", f'[0]: Invalid value: "one/large": {UNKNOWN}; write "two/large"'),
        ("one, one", '[1]: Duplicate value: "one"; name each request once'),
    ],
)
def test_reference_to_no_request_is_reported(findings_of, names, expected):
    constraint = constrained(f"requests: [{names}], matchAttribute: a/b")
    assert findings_of("GA212", constraint) == [f"spec.devices.constraints[0].requests{expected}"]


def test_configs_refer_to_requests_as_well(findings_of):
    config = "[{requests: [gpu], opaque: {driver: a, parameters: {}}}]"
    (text,) = findings_of("GA212", CLAIM.format(constraints="[]", config=config))
    assert text.startswith(f'spec.devices.config[0].requests[0]: Invalid value: "gpu": {UNKNOWN}; ')


def test_reference_in_a_claim_without_requests_is_reported(findings_of):
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\n"
    text += "spec: {devices: {constraints: [{requests: [gpu], matchAttribute: a/b}]}}"
    assert findings_of("GA212", text) == [
        (
            f'spec.devices.constraints[0].requests[0]: Invalid value: "gpu": {UNKNOWN}; write the name of a request, or leave '
            "requests out to mean all"
        )
    ]
