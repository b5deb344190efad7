"""Clocks, aggregated APIs, caBundles and the network."""

from datetime import UTC, datetime, timedelta

import pytest

from policies.analyses.installation.component_versions import (
    ServerFeatures,
    api_checks,
    conversion_checks,
    feature_checks,
    features_in,
)
from policies.analyses.installation.network import Clock, called_ports, clock_checks, egress_checks, network_checks
from policies.analyses.installation.other_webhooks import bundle_checks
from policies.kubernetes.view import UNKNOWN
from testbed import deploy
from tests.installation.planned_objects import planned, texts

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def clock(server=0.0, before=0.0, after=0.1):
    return Clock(*(NOW + timedelta(seconds=each) for each in (server, before, after)))


@pytest.mark.parametrize(
    ("reading", "seconds"),
    [
        (clock(), 0),
        (clock(before=0.9, after=1.1), 0),  # the Date is cut to whole seconds
        (clock(before=3, after=20), -2),
        (clock(server=10), 9.9),
        (clock(before=100, after=101), -99),
    ],
)
def test_skew_is_what_the_reading_proves(reading, seconds):
    assert reading.skew.total_seconds() == pytest.approx(seconds)


def lease(name, seconds):
    return {"metadata": {"name": name}, "spec": {"renewTime": (NOW + timedelta(seconds=seconds)).isoformat()}}


AGREE = "the clocks of this machine, the API server and the ready nodes agree"


@pytest.mark.parametrize(
    ("reading", "leases", "expected"),
    [
        (clock(), [lease("a", -9), lease("b", 1)], [("ok", AGREE)]),
        (clock(), [lease("gone", -9000)], [("ok", AGREE)]),
        (clock(), [{"metadata": {"name": "a"}, "spec": {"renewTime": "soon"}}], [("ok", AGREE)]),
        (clock(server=61), [], [("warning", "the API server is 61 seconds ahead of this machine")]),
        (clock(before=61, after=62), [], [("warning", "the API server is 60 seconds behind this machine")]),
        (
            clock(),
            [lease("a", 30), lease("b", -600), lease("c", -601)],
            [
                ("warning", "clocks of nodes are 30 seconds ahead of the API server: a"),
                ("warning", "clocks of nodes are 10 minutes behind the API server: b and c"),
            ],
        ),
        (clock(), UNKNOWN, [("unknown", "the clocks of the nodes are unknown")]),
        (None, [], [("unknown", "the clock of the API server is unknown")]),
    ],
)
def test_clocks_that_differ_are_reported(reading, leases, expected):
    assert texts(clock_checks(reading, leases, frozenset("abc")), "what") == expected


def service(status):
    condition = {
        "type": "Available",
        "status": status,
        "reason": "ServiceNotFound",
        "message": "service/a is not present",
    }
    return {"metadata": {"name": "v1.example.com"}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        ([], ("ok", "every aggregated API is available")),
        ([service("True")], ("ok", "every aggregated API is available")),
        ([service("True"), service("False")], ("warning", "aggregated API v1.example.com is not available")),
        (UNKNOWN, ("unknown", "it is unknown whether all aggregated APIs are available")),
    ],
)
def test_aggregated_apis_that_are_not_available_are_named(services, expected):
    assert texts(api_checks(services), "what") == [expected]


def test_conversion_that_fails_is_named():
    found = conversion_checks([("clusterpolicies.nvidia.com", "conversion webhook failed")])
    assert texts(found, "what", "why") == [
        ("warning", "objects of clusterpolicies.nvidia.com cannot be read", "conversion webhook failed")
    ]


def test_conversions_that_may_not_be_listed_are_unknown():
    found = conversion_checks(UNKNOWN)
    assert texts(found, "why") == [("unknown", "you may not list customresourcedefinitions.apiextensions.k8s.io")]


def node(provider=None):
    return {"metadata": {"name": "a"}, "spec": {"providerID": provider}}


CILIUM = {"metadata": {"name": "cilium"}}


@pytest.mark.parametrize(
    ("daemon_sets", "nodes", "options", "expected"),
    [
        ([CILIUM], [node()], {}, [("ok", "NetworkPolicies are enforced by cilium")]),
        ([], [], {}, [("warning", "no network plugin is seen that enforces NetworkPolicies")]),
        ([], [], {"has_policy": False}, []),
        (UNKNOWN, UNKNOWN, {}, [("unknown", "it is unknown whether a network plugin enforces NetworkPolicies")]),
        (
            [CILIUM],
            [node("gce://p/z/n")],
            {},
            [
                ("ok", "NetworkPolicies are enforced by cilium"),
                ("unknown", "it is unknown whether API servers reach ports 8443 and 8445 of the pods"),
            ],
        ),
        ([CILIUM], [node("gce://p/z/n")], {"is_installed": True}, [("ok", "NetworkPolicies are enforced by cilium")]),
    ],
)
def test_network_is_checked_as_far_as_objects_show(daemon_sets, nodes, options, expected):
    found = network_checks(daemon_sets, nodes, [8443, 8445], **{"has_policy": True, "is_installed": False, **options})
    assert texts(found, "what") == expected


@pytest.mark.parametrize(
    ("port", "remedy"),
    [
        (8443, "let the control plane reach these ports, or use the component port-10250 in a private cluster of GKE"),
        (10250, "let the control plane reach these ports"),
    ],
)
def test_ports_are_those_of_the_manifests(port, remedy):
    ports = [
        {"name": "webhook", "containerPort": port},
        {"name": "probes", "containerPort": 8080},
        {"name": "explain", "containerPort": 8445},
    ]
    deployment = {"spec": {"template": {"spec": {"containers": [{"ports": ports}]}}}}
    found = network_checks([], [node("gce://p/z/n")], called_ports(deployment), has_policy=False, is_installed=False)
    what = f"it is unknown whether API servers reach ports {port} and 8445 of the pods"
    assert texts(found, "what", "remedy") == [("unknown", what, remedy)]


def endpoint_slice(port, service="kubernetes"):
    return {"metadata": {"labels": {"kubernetes.io/service-name": service}}, "ports": [{"name": "https", "port": port}]}


def shipped_policy():
    (policy,) = (each for each in deploy.all_objects() if each["kind"] == "NetworkPolicy")
    return policy


@pytest.mark.parametrize("slices", [[], [endpoint_slice(6443)], [endpoint_slice(443), endpoint_slice(7443, "other")]])
def test_network_policy_of_the_manifests_lets_replicas_call_usual_ports(slices):
    assert texts(egress_checks([shipped_policy()], slices), "what") == []


def test_port_of_api_servers_that_the_network_policy_closes_is_named():
    assert texts(egress_checks([shipped_policy()], [endpoint_slice(7443)]), "what", "remedy") == [
        (
            "warning",
            "the NetworkPolicy lets no replica call API servers at port 7443",
            "add port 7443 to spec.egress; with the chart, to networkPolicy.egress.ports",
        )
    ]


def test_network_policy_without_egress_closes_no_port():
    assert texts(egress_checks([{"spec": {"policyTypes": ["Ingress"]}}], [endpoint_slice(7443)]), "what") == []


def test_unread_ports_of_api_servers_are_unknown():
    assert texts(egress_checks([shipped_policy()], UNKNOWN), "what") == [
        ("unknown", "it is unknown whether the NetworkPolicy lets replicas call API servers")
    ]


def test_ca_bundles_of_manifests_and_missing_ones_are_warned_about():
    with_bundle = [{"name": "a.gpu-admission.io", "clientConfig": {"caBundle": "x"}}]
    without = {"webhooks": [{"name": "b.gpu-admission.io", "clientConfig": {}}]}
    found = bundle_checks(
        [planned("MutatingWebhookConfiguration", "gpu-admission", stored=without, webhooks=with_bundle)]
    )
    assert texts(found, "what") == [
        ("warning", "the manifests write the caBundle of a.gpu-admission.io"),
        ("warning", "installed webhooks have no caBundle: b.gpu-admission.io"),
    ]


METRICS = """\
apiserver_admission_controller_admission_duration_seconds_count{name="MutatingAdmissionWebhook",operation="CREATE"} 3
apiserver_admission_controller_admission_duration_seconds_count{name="ValidatingAdmissionWebhook",operation="CREATE"} 3
kubernetes_feature_enabled{name="DRAExtendedResource",stage="BETA"} 0
kubernetes_feature_enabled{name="DynamicResourceAllocation",stage=""} 1
process_cpu_seconds_total 3
"""


def test_features_are_read_from_metrics():
    assert features_in(METRICS.splitlines()) == ServerFeatures(
        frozenset({"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}),
        {"DRAExtendedResource": False, "DynamicResourceAllocation": True},
    )


ALL = frozenset({"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "ValidatingAdmissionPolicy"})


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (None, []),
        (ServerFeatures(frozenset(), {}), []),
        (ServerFeatures(ALL, {}), [("ok", "the API server calls webhooks and policies, and serves dynamic resources")]),
        (
            features_in(METRICS.splitlines()),
            [
                (
                    "warning",
                    "the API server has not called ValidatingAdmissionPolicy since its start",
                ),
                ("warning", "the feature gate DRAExtendedResource is off"),
            ],
        ),
        (UNKNOWN, [("unknown", "it is unknown which admission plugins and feature gates the API server has")]),
    ],
)
def test_features_that_are_off_are_warned_about(features, expected):
    assert texts(feature_checks(features, (1, 36)), "what") == expected


def test_feature_gate_that_is_not_used_in_a_version_may_be_off():
    features = ServerFeatures(ALL, {"DRAExtendedResource": False})
    assert [str(each.status) for each in feature_checks(features, (1, 35))] == ["ok"]
