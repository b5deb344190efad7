"""Known and unknown objects of a live view, and the lifetime of its digests."""

import pytest

from policies.kubernetes.view import UNKNOWN
from webhook.cluster.store import TRUSTED_SECONDS

CLASS = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": []}}
POD = {
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}
CONFIG = {"metadata": {"name": "plugin", "namespace": "gpu-operator"}, "data": {"any": "text"}}
DRA_KINDS = ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate")
OPERATORS_KINDS = ("ClusterPolicy", "NVIDIADriver", "GPUCluster")


def node(name, **labels):
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": []}}


def node_names(view):
    nodes = view.list("Node")
    return UNKNOWN if nodes is UNKNOWN else tuple(each["metadata"]["name"] for each in nodes)


def names_and_classes(view):
    return view.derive(node_names), view.list("DeviceClass")


def version_of(view):
    return view.server_version()


class Counted:
    """A digest that counts how often it is made."""

    def __init__(self, function):
        self.function = function
        self.made = 0

    def __call__(self, view):
        self.made += 1
        return self.function(view)


def test_kind_that_was_not_listed_is_unknown(cluster):
    assert cluster.view.list("Node") is UNKNOWN
    assert cluster.view.get("Node", "a") is UNKNOWN
    assert cluster.view.server_version() is UNKNOWN


def test_kind_that_is_not_watched_is_unknown(cluster):
    assert cluster.view.list("StatefulSet") is UNKNOWN
    assert cluster.view.get("StatefulSet", "a", "team-a") is UNKNOWN


def test_kind_that_was_listed_is_known(cluster):
    cluster.fill("Node", node("a"))
    assert node_names(cluster.view) == ("a",)
    assert cluster.view.get("Node", "a")["metadata"]["name"] == "a"
    assert cluster.view.get("Node", "b") is None


def test_list_of_one_namespace_has_no_others(cluster):
    quota = {"metadata": {"name": "q", "namespace": "team-a"}, "spec": {}}
    cluster.fill("ResourceQuota", quota, {**quota, "metadata": {"name": "q", "namespace": "team-b"}})
    (found,) = cluster.view.list("ResourceQuota", "team-a")
    assert found["metadata"]["namespace"] == "team-a"


def test_pod_that_is_not_kept_may_exist(cluster):
    cluster.fill("Pod", POD)
    assert cluster.view.get("Pod", "train", "team-a")["kind"] == "Pod"
    assert cluster.view.get("Pod", "web", "team-a") is UNKNOWN


def test_config_map_of_the_operator_is_known(cluster):
    cluster.fill("ConfigMap", CONFIG)
    assert cluster.view.get("ConfigMap", "plugin", "gpu-operator")["data"] == {"any": "text"}
    assert cluster.view.get("ConfigMap", "other", "gpu-operator") is None
    assert [each["metadata"]["name"] for each in cluster.view.list("ConfigMap")] == ["plugin"]


def test_config_map_of_another_namespace_is_unknown(cluster):
    cluster.fill("ConfigMap", CONFIG)
    assert cluster.view.get("ConfigMap", "plugin", "team-a") is UNKNOWN
    assert cluster.view.list("ConfigMap", "team-a") is UNKNOWN


def test_crd_that_is_not_looked_for_is_unknown(cluster):
    cluster.fill("CustomResourceDefinition")
    assert cluster.view.get("CustomResourceDefinition", "servicemonitors.monitoring.coreos.com") is None
    assert cluster.view.get("CustomResourceDefinition", "jobsets.jobset.x-k8s.io") is UNKNOWN


@pytest.mark.parametrize("kind", [*OPERATORS_KINDS, "ComputeDomain", "Prometheus"])
def test_kind_whose_crd_is_not_installed_has_no_objects(cluster, kind):
    cluster.store(kind).mark("absent", "it is not served")
    assert list(cluster.view.list(kind)) == []
    assert cluster.view.get(kind, "any") is None


def test_group_that_a_pod_names_is_unknown_where_groups_are_not_served(cluster):
    """The API server keeps the name only if it has PodGroups, in a version that is not read."""
    cluster.store("PodGroup").mark("absent", "it is not served")
    assert list(cluster.view.list("PodGroup")) == []
    assert cluster.view.get("PodGroup", "ring", "team-a") is UNKNOWN


@pytest.mark.parametrize("kind", DRA_KINDS)
def test_dra_that_is_switched_off_has_no_objects(cluster, kind):
    cluster.store(kind).mark("absent", "it is not served")
    cluster.view.set_server_version((1, 34))
    assert list(cluster.view.list(kind)) == []


@pytest.mark.parametrize("version", [UNKNOWN, (1, 33)], ids=["unknown", "1.33"])
def test_dra_that_may_be_served_in_an_older_version_is_unknown(cluster, version):
    cluster.store("ResourceSlice").mark("absent", "it is not served")
    cluster.view.set_server_version(version)
    assert cluster.view.list("ResourceSlice") is UNKNOWN


def test_kind_that_is_forbidden_is_unknown(cluster):
    cluster.fill("Node", node("a"))
    cluster.store("Node").mark("forbidden", "RBAC")
    assert cluster.view.list("Node") is UNKNOWN
    assert cluster.view.get("Node", "a") is UNKNOWN


def test_nothing_is_in_a_namespace_that_does_not_exist(cluster):
    cluster.fill("ConfigMap", CONFIG)
    cluster.store("ConfigMap", "nvidia-gpu-operator").mark("forbidden", "RBAC")
    assert cluster.view.get("ConfigMap", "plugin", "nvidia-gpu-operator") is UNKNOWN
    cluster.fill("Namespace", {"metadata": {"name": "gpu-operator"}})
    assert cluster.view.get("ConfigMap", "plugin", "nvidia-gpu-operator") is None


def test_namespace_that_is_forbidden_and_exists_stays_unknown(cluster):
    cluster.fill("Namespace", {"metadata": {"name": "gpu-operator"}})
    cluster.store("ConfigMap", "gpu-operator").mark("forbidden", "RBAC")
    assert cluster.view.get("ConfigMap", "plugin", "gpu-operator") is UNKNOWN


def test_secrets_are_unknown(cluster):
    assert cluster.view.get("Secret", "pull", "gpu-operator") is UNKNOWN


def test_broken_watch_is_believed_for_a_while(cluster, clock):
    cluster.fill("Node", node("a"))
    cluster.store("Node").mark("stale", "the connection broke")
    clock.now += TRUSTED_SECONDS - 1
    assert node_names(cluster.view) == ("a",)
    clock.now += 1
    assert cluster.view.list("Node") is UNKNOWN
    assert cluster.view.get("Node", "a") is UNKNOWN


def test_open_watch_that_is_silent_is_believed_for_a_while(cluster, clock):
    cluster.fill("Node", node("a"))
    clock.now += TRUSTED_SECONDS - 1
    assert node_names(cluster.view) == ("a",)
    clock.now += 1
    assert cluster.view.list("Node") is UNKNOWN


def test_trust_counts_from_the_last_contact_and_not_from_the_break(cluster, clock):
    cluster.fill("Node", node("a"))
    clock.now += TRUSTED_SECONDS - 1
    cluster.store("Node").mark("stale", "the connection broke")
    clock.now += 1
    assert cluster.view.list("Node") is UNKNOWN


def test_bookmark_of_a_silent_watch_makes_its_kind_known_again(cluster, clock):
    cluster.fill("Node", node("a"))
    known, clock.now = cluster.view.generation("Node"), clock.now + TRUSTED_SECONDS
    unknown = cluster.view.generation("Node")
    cluster.store("Node").apply({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}})
    assert node_names(cluster.view) == ("a",)
    assert known < unknown < cluster.view.generation("Node")


def test_watch_that_is_back_is_believed_again(cluster, clock):
    cluster.fill("Node", node("a"))
    cluster.store("Node").mark("stale", "the connection broke")
    clock.now += TRUSTED_SECONDS
    cluster.store("Node").mark("synced")
    assert node_names(cluster.view) == ("a",)


def test_digest_is_remembered(cluster):
    cluster.fill("Node", node("a"))
    digest = Counted(node_names)
    assert [cluster.view.derive(digest), cluster.view.derive(digest)] == [("a",), ("a",)]
    assert digest.made == 1


def test_digest_is_made_anew_when_its_kind_changes(cluster):
    cluster.fill("Node", node("a"))
    digest = Counted(node_names)
    cluster.view.derive(digest)
    cluster.put("Node", node("b"))
    assert cluster.view.derive(digest) == ("a", "b")


def test_digest_outlives_changes_of_other_kinds(cluster):
    cluster.fill("Node", node("a"))
    cluster.fill("DeviceClass")
    digest = Counted(node_names)
    cluster.view.derive(digest)
    cluster.put("DeviceClass", CLASS)
    cluster.view.derive(digest)
    assert digest.made == 1


def test_digest_outlives_heartbeats(cluster):
    cluster.fill("Node", node("a"))
    digest = Counted(node_names)
    cluster.view.derive(digest)
    cluster.put("Node", {**node("a"), "status": {"conditions": [{"lastHeartbeatTime": "2026-11-22T00:00:00Z"}]}})
    cluster.view.derive(digest)
    assert digest.made == 1


def test_digest_of_a_digest_is_made_anew_with_it(cluster):
    cluster.fill("Node", node("a"))
    cluster.fill("DeviceClass")
    outer = Counted(names_and_classes)
    assert cluster.view.derive(node_names) == ("a",)
    assert cluster.view.derive(outer) == (("a",), ())
    cluster.put("Node", node("b"))
    assert cluster.view.derive(outer) == (("a", "b"), ())
    cluster.put("DeviceClass", CLASS)
    assert len(cluster.view.derive(outer)[1]) == 1
    assert outer.made == 3


def test_digest_of_what_is_unknown_is_made_anew_when_it_is_known(cluster):
    assert cluster.view.derive(node_names) is UNKNOWN
    cluster.fill("Node")
    assert cluster.view.derive(node_names) == ()


def test_digest_is_made_anew_at_every_loss_and_gain_of_trust(cluster, clock):
    cluster.fill("Node", node("a"))
    seen = [cluster.view.derive(node_names)]
    cluster.store("Node").mark("stale", "the connection broke")
    seen.append(cluster.view.derive(node_names))
    clock.now += TRUSTED_SECONDS
    seen.append(cluster.view.derive(node_names))
    cluster.store("Node").mark("synced")
    seen.append(cluster.view.derive(node_names))
    assert seen == [("a",), ("a",), UNKNOWN, ("a",)]


def test_digest_of_the_version_is_made_anew_with_it(cluster):
    assert cluster.view.derive(version_of) is UNKNOWN
    cluster.view.set_server_version((1, 35))
    assert cluster.view.derive(version_of) == (1, 35)
    cluster.view.set_server_version((1, 36))
    assert cluster.view.derive(version_of) == (1, 36)


def test_digest_that_was_outdated_while_it_was_made_is_made_anew(cluster):
    cluster.fill("Node", node("a"))

    def changed_meanwhile(view):
        found = node_names(view)
        cluster.put("Node", node(f"new-{digest.made}"))
        return found

    digest = Counted(changed_meanwhile)
    assert cluster.view.derive(digest) == ("a",)
    assert cluster.view.derive(digest) == ("a", "new-1")


def test_digest_outlives_being_shown_the_same_stores(cluster):
    cluster.fill("Node", node("a"))
    digest = Counted(node_names)
    cluster.view.derive(digest)
    cluster.view.show(cluster.stores.items())
    cluster.view.derive(digest)
    assert digest.made == 1


def test_digests_are_forgotten_with_the_stores_they_are_of(cluster):
    cluster.fill("Node", node("a"))
    assert cluster.view.derive(node_names) == ("a",)
    cluster.view.show([])
    assert cluster.view.derive(node_names) is UNKNOWN
