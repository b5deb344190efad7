"""Admin access, which exact requests can ask for."""

NAMESPACE = "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}"
LABEL = 'resource.kubernetes.io/admin-access: "true"'


def claim(request):
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: all, namespace: team-a}\n"
        f"spec: {{devices: {{requests: [{{name: all, {request}}}]}}}}{NAMESPACE}"
    )


def test_exact_request_needs_the_label_of_its_namespace(told):
    assert told("GA220", claim("exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}")) == [
        (
            f'spec.devices.requests[0].exactly.adminAccess: needs the label {LABEL} on namespace "team-a", which does not '
            f"have it; label the namespace {LABEL}, or remove adminAccess"
        )
    ]


def test_alternative_has_no_such_field(examined):
    found = examined(claim("firstAvailable: [{name: a, deviceClassName: gpu.nvidia.com, adminAccess: true}]"))
    assert [finding.rule for finding in found] == ["GA201"]
