"""The common part of pods: pods that rules judge differently never share one, and nothing that rules read is missing in it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from policies.admission import REPEATABLE, as_running, common_part, form_of, review_concern
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, Access, Conversion, GPUAdmissionPolicy
from tests.properties import examples
from tests.robustness.bypass.alike_pods import ALIKE, TOKEN, in_spec, mounting
from tests.robustness.bypass.generated_pods import (
    CLAIMS,
    CLASSES,
    NAMESPACES,
    NODES,
    POLICY,
    SLICES,
    TEMPLATES,
)
from webhook.cluster.manifests import ManifestsView

SETTINGS = st.sampled_from(
    [
        DEFAULTS,
        GPUAdmissionPolicy(access=Access(mode="deny")),
        GPUAdmissionPolicy(conversion=Conversion(schedulers=("default-scheduler", "other"))),
    ]
)
CLUSTERS = st.builds(
    lambda namespace, classes, claims, templates: ManifestsView(
        [namespace, POLICY, *NODES, *SLICES, *classes, *claims, *templates]
    ),
    NAMESPACES,
    CLASSES,
    CLAIMS,
    TEMPLATES,
)


def verdicts(pod, view, chosen):
    """The findings on a pod by every concern whose rules see the common part of a pod only."""
    request = Request(pod, namespace="team-a")
    return {concern: review_concern(concern, request, view, chosen).findings for concern in sorted(REPEATABLE)}


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
@given(pods=ALIKE, view=CLUSTERS, chosen=SETTINGS)
def test_pods_that_are_judged_differently_never_share_a_form(pods, view, chosen):
    running = [as_running(pod, view, chosen) for pod in pods]
    forms = [form_of(common_part(pod)) for pod in running]
    event("one form" if forms[0] == forms[1] else "two forms")
    found = [verdicts(pod, view, chosen) for pod in running]
    assert found[0] == found[1] or forms[0] != forms[1]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
@given(pods=ALIKE, view=CLUSTERS, chosen=SETTINGS)
def test_common_part_of_a_pod_is_judged_as_the_whole_pod(pods, view, chosen):
    pod, _ = pods
    assert verdicts(common_part(pod), view, chosen) == verdicts(pod, view, chosen)


def pod(**fields):
    container = {"name": "main", "image": "train:1", "resources": {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": {"containers": [container], **fields},
    }


@pytest.mark.parametrize(
    "mount",
    [
        lambda name, path: mounting(pod(), name, TOKEN, path),
        lambda name, path: in_spec(
            mounting(pod(), name, TOKEN, path),
            ephemeralContainers=[{"name": "debug", "volumeMounts": [{"name": name, "mountPath": path}]}],
        ),
    ],
    ids=["container", "ephemeral container"],
)
def test_generated_names_of_token_volumes_make_no_difference(mount):
    first, second = mount("kube-api-access-x7b2p", "/a"), mount("kube-api-access-9qk4d", "/a")
    assert common_part(first) == common_part(second)
    assert common_part(first) != common_part(mount("kube-api-access-x7b2p", "/b"))


@pytest.mark.parametrize(
    "source",
    [{"hostPath": {"path": "/dev"}}, {**TOKEN, "hostPath": {"path": "/dev"}}, {"projected": {"sources": []}}],
    ids=["hostPath", "both", "no token"],
)
def test_volumes_that_are_only_named_like_those_of_tokens_are_kept(source):
    named = mounting(pod(), "kube-api-access-x7b2p", source)
    assert common_part(named)["spec"] == named["spec"]


def test_mounts_of_a_host_path_named_like_the_token_volume_beside_it_are_kept():
    named = mounting(pod(), "kube-api-access-x7b2p", {"hostPath": {"path": "/dev/nvidia0"}})
    named["spec"]["volumes"].insert(0, {"name": "kube-api-access-x7b2p", **TOKEN})
    assert common_part(named)["spec"]["containers"] == named["spec"]["containers"]


def test_running_pod_keeps_its_node_only_if_it_lacks_what_it_requests():
    view = ManifestsView(NODES)
    requesting = pod(nodeName="node-1")
    requesting["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    elsewhere = in_spec(requesting, nodeName="node-2")
    assert "nodeName" not in as_running(requesting, view, DEFAULTS)["spec"]
    assert as_running(elsewhere, view, DEFAULTS)["spec"]["nodeName"] == "node-2"
