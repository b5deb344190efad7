"""The ResourceClaimTemplate that the controller of a ComputeDomain makes."""

from __future__ import annotations

import pytest

from policies.outcome import Feasibility, ObstacleKind, pod_question, simulate
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "compute-domain-default-channel.nvidia.com"},
    "spec": {
        "selectors": [
            {
                "cel": {
                    "expression": "device.driver == 'compute-domain.nvidia.com' && "
                    "device.attributes['compute-domain.nvidia.com'].type == 'channel'"
                }
            }
        ]
    },
}
OTHER_TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "other", "namespace": "team"},
    "spec": {"spec": {}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {
        "containers": [{"name": "c", "image": "x", "resources": {"claims": [{"name": "ch"}]}}],
        "resourceClaims": [{"name": "ch", "resourceClaimTemplateName": "dom-channel"}],
    },
}


def domain(name="dom-channel", namespace="team", **channel):
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "dom", "namespace": namespace, "uid": "d0"},
        "spec": {"channel": {"resourceClaimTemplate": {"name": name}, **channel}},
    }


def node(name, *types):
    devices = [{"name": f"{each}-0", "attributes": {"type": {"string": each}}} for each in types]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "compute-domain.nvidia.com", "nodeName": name, "pool": pool, "devices": devices}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"pods": "10"}}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec},
    ]


CLUSTER = [NAMESPACE, CLASS, OTHER_TEMPLATE, *node("a", "channel", "daemon"), *node("b", "daemon")]


def question(*cluster, files=()):
    view = ManifestsView([*CLUSTER, *cluster], files)
    return pod_question(POD, "pod team/train", "team", view, DEFAULTS, stored=False), view


@pytest.mark.parametrize("place", ["cluster", "files"])
def test_template_of_a_domain_is_the_one_that_its_controller_makes(place):
    found = domain(allocationMode="All")
    asked, _ = question(found) if place == "cluster" else question(files=[found])
    (claim,) = asked.claims
    assert claim.claim.document["spec"] == {
        "devices": {
            "requests": [
                {
                    "name": "channel",
                    "exactly": {
                        "deviceClassName": "compute-domain-default-channel.nvidia.com",
                        "allocationMode": "ExactCount",
                        "count": 1,
                    },
                }
            ],
            "config": [
                {
                    "requests": ["channel"],
                    "opaque": {
                        "driver": "compute-domain.nvidia.com",
                        "parameters": {
                            "apiVersion": "resource.nvidia.com/v1beta1",
                            "kind": "ComputeDomainChannelConfig",
                            "domainID": "d0",
                            "allocationMode": "All",
                        },
                    },
                }
            ],
        }
    }


def test_pod_of_a_domain_fits_where_a_channel_is_free():
    asked, view = question(files=[domain()])
    assert simulate(asked, view, DEFAULTS).verdict is Feasibility.FITS


def test_pod_of_a_domain_never_fits_without_channels():
    view = ManifestsView([NAMESPACE, CLASS, OTHER_TEMPLATE, *node("b", "daemon")], [domain()])
    asked = pod_question(POD, "pod team/train", "team", view, DEFAULTS, stored=False)
    assert simulate(asked, view, DEFAULTS).verdict is Feasibility.IMPOSSIBLE


@pytest.mark.parametrize(
    "other", [domain(name="another"), domain(namespace="elsewhere"), {**domain(), "spec": None}], ids=str
)
def test_template_that_no_domain_names_here_does_not_exist(other):
    asked, _ = question(other)
    assert [each.kind for each in asked.obstacles] == [ObstacleKind.MISSING]


def test_template_that_exists_counts_before_that_of_a_domain():
    stored = {**OTHER_TEMPLATE, "metadata": {"name": "dom-channel", "namespace": "team"}}
    devices = {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
    asked, _ = question({**stored, "spec": {"spec": {"devices": devices}}}, domain())
    (claim,) = asked.claims
    assert claim.claim.document["spec"] == {"devices": devices}
