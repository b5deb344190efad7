"""Versions of the API: existing ones, and those that the cluster serves."""

import pytest

CLASS = (
    "apiVersion: {version}\nkind: DeviceClass\nmetadata: {{name: gpu}}\n---\nserverVersion: {{gitVersion: {release}}}"
)
BETA = "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: gpu}\nspec: {}"
DOMAIN = "apiVersion: resource.nvidia.com/v1\nkind: ComputeDomain\nmetadata: {name: domain}\nspec: {}"


@pytest.mark.parametrize(
    ("version", "release", "expected"),
    [
        ("resource.k8s.io/v1", "v1.34.0", []),
        ("resource.k8s.io/v1", "v1.40.0", []),
        (
            "resource.k8s.io/v1",
            "v1.33.4",
            [
                (
                    'apiVersion: no matches for kind "DeviceClass" in version "resource.k8s.io/v1", which came with '
                    "Kubernetes 1.34; the cluster runs 1.33; upgrade the cluster, or write apiVersion: "
                    "resource.k8s.io/v1beta2 once it is turned on"
                )
            ],
        ),
        (
            "resource.k8s.io/v1",
            "v1.31.0",
            [
                (
                    'apiVersion: no matches for kind "DeviceClass" in version "resource.k8s.io/v1", which came with '
                    "Kubernetes 1.34; the cluster runs 1.31; upgrade the cluster"
                )
            ],
        ),
        ("resource.k8s.io/v1beta1", "v1.33.0", []),
        (
            "resource.k8s.io/v1beta1",
            "v1.36.2",
            [
                (
                    "apiVersion: is served by Kubernetes 1.36 only where the administrator has turned it on; write "
                    "apiVersion: resource.k8s.io/v1"
                )
            ],
        ),
        (
            "resource.k8s.io/v1beta2",
            "v1.39.0",
            [
                (
                    'apiVersion: no matches for kind "DeviceClass" in version "resource.k8s.io/v1beta2", which is gone '
                    "from Kubernetes 1.39; write apiVersion: resource.k8s.io/v1"
                )
            ],
        ),
        (
            "resource.k8s.io/v1alpha3",
            "v1.36.2",
            [
                (
                    'apiVersion: no matches for kind "DeviceClass" in version "resource.k8s.io/v1alpha3"; write '
                    "apiVersion: resource.k8s.io/v1"
                )
            ],
        ),
    ],
)
def test_version_that_the_cluster_does_not_serve_is_reported(findings_of, version, release, expected):
    assert findings_of("GA200", CLASS.format(version=version, release=release)) == expected


def test_beta_that_may_be_turned_on_only_warns(examined):
    text = CLASS.format(version="resource.k8s.io/v1beta2", release="v1.36.2")
    assert [(finding.rule.id, finding.severity) for finding in examined(text)] == [("GA200", "warn")]


def test_remedy_for_a_claim_of_the_flat_version_moves_its_fields(findings_of):
    (text,) = findings_of("GA200", f"{BETA}\n---\nserverVersion: {{gitVersion: v1.35.1}}")
    assert text.endswith("; write apiVersion: resource.k8s.io/v1, with the fields of the request under exactly")


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1beta2"])
def test_version_that_exists_is_fine_where_the_cluster_is_not_known(findings_of, version):
    assert findings_of("GA200", BETA.replace("v1beta1", version)) == []


def test_compute_domain_has_one_version(findings_of):
    assert findings_of("GA200", DOMAIN) == [
        (
            'apiVersion: no matches for kind "ComputeDomain" in version "resource.nvidia.com/v1"; write apiVersion: '
            "resource.nvidia.com/v1beta1"
        )
    ]


def test_version_of_a_request_that_the_api_server_sends_is_not_questioned(findings_of):
    assert (
        findings_of("GA200", CLASS.format(version="resource.k8s.io/v1beta1", release="v1.36.2"), entry="claims") == []
    )
