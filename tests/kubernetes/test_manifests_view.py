"""The view over manifests: known and unknown kinds of a folder of files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.published_devices import published_devices
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.manifests import ManifestsView, unwrap_lists

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
OTHER_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}
VERSION = {"clientVersion": {"gitVersion": "v1.30.0"}, "serverVersion": {"gitVersion": "v1.36.2", "minor": "36"}}


def template(name, namespace=None, **more):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, **more}


def test_empty_view_knows_nothing():
    view = ManifestsView()
    assert view.get("Node", "a") is UNKNOWN
    assert view.list("Node") is UNKNOWN
    assert view.server_version() is UNKNOWN
    assert view.derive(published_devices) is UNKNOWN


def test_kind_that_occurs_is_known():
    view = ManifestsView([NODE])
    assert view.get("Node", "a") is NODE
    assert view.get("Node", "missing") is None
    assert view.list("Node") == [NODE]


def test_kind_that_does_not_occur_stays_unknown():
    view = ManifestsView([NODE])
    assert view.get("DeviceClass", "gpu.nvidia.com") is UNKNOWN
    assert view.list("DeviceClass") is UNKNOWN


def test_list_of_anything_is_unwrapped():
    view = ManifestsView([{"apiVersion": "v1", "kind": "List", "items": [NODE, template("t")]}])
    assert view.list("Node") == [NODE]
    assert view.get("ResourceClaimTemplate", "t", "default") == template("t")
    assert view.list("List") is UNKNOWN


def test_items_of_a_typed_list_get_their_kind():
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "apiVersion": "v2"}]
    view = ManifestsView([{"apiVersion": "v1", "kind": "NodeList", "items": items}])
    assert view.get("Node", "a") == NODE
    assert view.get("Node", "b") == {**OTHER_NODE, "apiVersion": "v2"}
    assert view.list("NodeList") is UNKNOWN


@pytest.mark.parametrize("items", [[], None])
def test_empty_typed_list_makes_its_kind_known(items):
    view = ManifestsView([{"apiVersion": "v1", "kind": "PodList", "items": items}])
    assert view.list("Pod") == []
    assert view.get("Pod", "p", "ns") is None
    assert view.list("PodList") is UNKNOWN


@pytest.mark.parametrize("items", [[], None])
def test_empty_list_of_anything_tells_nothing(items):
    view = ManifestsView([{"apiVersion": "v1", "kind": "List", "items": items}])
    assert view.list("Pod") is UNKNOWN
    assert view.list("") is UNKNOWN


def test_lists_inside_lists_are_unwrapped():
    inner = {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}
    assert ManifestsView([{"kind": "List", "items": [inner]}]).list("Node") == [NODE]


def test_kind_that_merely_ends_in_list_is_an_object():
    document = {"kind": "AllowList", "metadata": {"name": "a"}, "spec": {"items": []}}
    view = ManifestsView([document])
    assert view.get("AllowList", "a") is document
    assert view.list("Allow") is UNKNOWN


def test_reviewed_objects_can_be_found_but_make_no_kind_known():
    view = ManifestsView(reviewed=[NODE])
    assert view.get("Node", "a") is NODE
    assert view.get("Node", "b") is UNKNOWN
    assert view.list("Node") is UNKNOWN


def test_reviewed_objects_join_a_kind_that_is_known():
    view = ManifestsView([NODE], reviewed=[OTHER_NODE])
    assert view.list("Node") == [NODE, OTHER_NODE]
    assert view.get("Node", "c") is None


def test_reviewed_object_stands_for_the_one_in_the_cluster():
    old, new = template("t", "ns", spec={"old": True}), template("t", "ns", spec={"new": True})
    view = ManifestsView([old], reviewed=[{"kind": "List", "items": [new]}])
    assert view.get("ResourceClaimTemplate", "t", "ns") is new
    assert view.list("ResourceClaimTemplate", "ns") == [new]


def test_namespaced_objects_are_found_in_their_namespace_only():
    one, two = template("t", "one"), template("t", "two")
    view = ManifestsView([one, two])
    assert view.get("ResourceClaimTemplate", "t", "one") is one
    assert view.get("ResourceClaimTemplate", "t", "two") is two
    assert view.get("ResourceClaimTemplate", "t", "three") is None
    assert view.list("ResourceClaimTemplate", "two") == [two]
    assert view.list("ResourceClaimTemplate", "three") == []
    assert view.list("ResourceClaimTemplate") == [one, two]


def test_namespaced_object_without_namespace_is_in_default():
    view = ManifestsView([template("t")])
    assert view.get("ResourceClaimTemplate", "t", "default") == template("t")


def test_object_says_itself_where_it_is():
    document = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {"name": "m"}}
    inside = {**document, "metadata": {"name": "m", "namespace": "ns"}}
    view = ManifestsView([document, inside])
    assert view.get("PodMonitor", "m") is document
    assert view.get("PodMonitor", "m", "ns") is inside
    assert view.list("PodMonitor", "ns") == [inside]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Secret"), ("v1", "ConfigMap"), ("resource.k8s.io/v1beta1", "ResourceClaim"), ("v1", "Pod")],
)
def test_namespaced_kind_of_any_version_is_in_default_without_namespace(api_version, kind):
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    assert ManifestsView([document]).get(kind, "a", "default") is document


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("longhorn.io/v1beta2", "Node"),
        ("kyverno.io/v1", "ClusterPolicy"),
        ("v1", "DeviceClass"),
        ("example.com/v1", "ResourceSlice"),
        ("management.cattle.io/v3", "Namespace"),
        ("batch.volcano.sh/v1", "Pod"),
    ],
)
def test_namesake_of_another_group_is_left_out(api_version, kind):
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    listed = {"apiVersion": api_version, "kind": f"{kind}List", "items": [{"metadata": {"name": "a"}}]}
    mixed = {"apiVersion": "v1", "kind": "List", "items": [document]}
    view = ManifestsView([document, listed, {**listed, "items": []}, mixed], reviewed=[document])
    assert view.get(kind, "a") is UNKNOWN
    assert view.list(kind) is UNKNOWN


def test_namesake_of_another_group_does_not_stand_for_the_object():
    longhorn = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "a", "namespace": "longhorn"}}
    view = ManifestsView([NODE, longhorn], reviewed=[longhorn])
    assert view.get("Node", "a") is NODE
    assert view.list("Node") == [NODE]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("resource.k8s.io/v1beta2", "DeviceClass"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("nvidia.com/v1", "ClusterPolicy"),
        ("nvidia.com/v1alpha1", "NVIDIADriver"),
        ("nvidia.com/v1alpha1", "GPUCluster"),
        ("example.com/v1", "Anything"),
    ],
)
def test_kind_is_known_from_its_group(api_version, kind):
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
    view = ManifestsView([document])
    assert view.get(kind, "a") is document
    assert view.list(kind) == [document]


def test_cluster_scoped_object_has_no_namespace():
    document = {"kind": "Node", "metadata": {"name": "a", "namespace": "stray"}}
    assert ManifestsView([document]).get("Node", "a") is document


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v1.36.2", (1, 36)),
        ("1.34.0-gke.100", (1, 34)),
        ("v1.35.1-eks-1234", (1, 35)),
        ("", UNKNOWN),
        ("latest", UNKNOWN),
        (None, UNKNOWN),
        (1.36, UNKNOWN),
    ],
)
def test_kubectl_version_tells_the_servers_version(version, expected):
    assert ManifestsView([{"serverVersion": {"gitVersion": version}}]).server_version() == expected


def test_kubectl_version_is_no_object():
    view = ManifestsView([VERSION, NODE])
    assert view.server_version() == (1, 36)
    assert view.list("Node") == [NODE]


def test_version_among_reviewed_files_says_nothing_of_the_cluster():
    assert ManifestsView(reviewed=[VERSION]).server_version() is UNKNOWN


def test_what_is_derived_is_computed_once():
    calls = []

    def count(view):
        calls.append("count")
        return len(view.list("Node"))

    view = ManifestsView([NODE])
    assert [view.derive(count), view.derive(count)] == [1, 1]
    assert calls == ["count"]


@pytest.mark.parametrize(
    "document",
    [
        *(None, [], "text", 1, {}, {"kind": None}, {"kind": 1}, {"kind": ["Node"]}, {"metadata": {"name": "a"}}),
        *({"kind": "List"}, {"kind": "List", "items": "x"}, {"kind": "NodeList", "items": {}}),
        *({"kind": "List", "items": [None, 1, "x", [], {}, {"kind": 1}]}, {"serverVersion": "v1.36"}),
    ],
)
def test_what_is_no_object_tells_nothing(document):
    view = ManifestsView([document], reviewed=[document])
    assert view.list("Node") is UNKNOWN
    assert view.server_version() is UNKNOWN


@pytest.mark.parametrize("metadata", [None, "x", [], {}, {"name": None}, {"name": 1}, {"namespace": 1}])
def test_object_without_a_name_is_there_without_one(metadata):
    document = {"kind": "Node", "metadata": metadata}
    view = ManifestsView([document])
    assert view.list("Node") == [document]
    assert view.get("Node", "a") is None


def test_kind_without_name_part_is_left_alone():
    assert list(unwrap_lists({"kind": "List", "items": [{"kind": "", "metadata": {}}]})) == [
        {"kind": "", "metadata": {}}
    ]


keys = st.sampled_from(["kind", "items", "metadata", "name", "namespace", "serverVersion", "gitVersion"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["List", "PodList", "Pod", "v1.36.0", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(anything, max_size=3), st.lists(anything, max_size=2))
def test_view_is_made_of_anything(cluster, reviewed):
    view = ManifestsView(cluster, reviewed)
    for kind in ("Pod", "List", ""):
        known = view.list(kind)
        assert known is UNKNOWN or all(item["kind"] == kind for item in known)
        assert view.get(kind, "a", "ns") is not UNKNOWN or known is UNKNOWN


def of_team_a(kind, *names, api_version="v1"):
    """A list of the objects of one namespace, as snapshots have it."""
    items = [{"metadata": {"name": name, "namespace": "team-a"}} for name in names]
    return {"apiVersion": api_version, "kind": f"{kind}List", "metadata": {"namespace": "team-a"}, "items": items}


def test_list_of_one_namespace_makes_its_kind_known_there_only():
    view = ManifestsView([of_team_a("Pod", "train")])
    assert [each["metadata"]["name"] for each in view.list("Pod", "team-a")] == ["train"]
    assert view.get("Pod", "other", "team-a") is None
    assert view.get("Pod", "train", "team-b") is UNKNOWN


@pytest.mark.parametrize(
    "question",
    [
        lambda view: view.list("Pod"),
        lambda view: view.list("Pod", "team-b"),
        lambda view: view.derive_each("Pod", str),
        lambda view: view.count_each("Pod", str, bool),
        lambda view: view.others_on("node-1"),
    ],
)
def test_list_of_one_namespace_says_nothing_about_others(question):
    assert question(ManifestsView([of_team_a("Pod", "train")])) is UNKNOWN


def test_empty_list_of_one_namespace_makes_its_kind_known_there():
    view = ManifestsView([of_team_a("LimitRange")])
    assert view.list("LimitRange", "team-a") == []
    assert view.list("LimitRange", "team-b") is UNKNOWN


def test_list_of_the_namespace_itself_says_nothing_about_other_namespaces():
    item = {"metadata": {"name": "team-a"}}
    view = ManifestsView([{**of_team_a("Namespace"), "items": [item]}])
    assert view.get("Namespace", "team-a")["metadata"] == {"name": "team-a"}
    assert view.get("Namespace", "team-b") is UNKNOWN
    assert view.list("Namespace") is UNKNOWN


def test_namespace_that_was_not_found_alone_does_not_exist():
    assert ManifestsView([of_team_a("Namespace")]).get("Namespace", "team-a") is None


def test_stored_objects_are_those_of_the_cluster_as_it_has_them():
    before, after = ({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": name}} for name in ("old", "new"))
    new = {"kind": "Pod", "metadata": {"name": "b"}}
    view = ManifestsView([before], reviewed=[after, new])
    assert (view.before_review("Pod").list("Pod"), view.list("Pod")) == ([before], [after, new])


def test_stored_objects_that_become_known_later_are_kept_beside_those_under_review():
    before, after = (
        {"kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "spec": {"nodeName": name}}
        for name in ("old", "new")
    )
    view = ManifestsView((), reviewed=[after])
    view.add_known("Pod", "", [before])
    assert (view.before_review("Pod").list("Pod"), view.list("Pod")) == ([before], [after])


def test_stored_objects_of_a_kind_under_review_alone_are_unknown():
    assert (
        ManifestsView((), reviewed=[{"kind": "Pod", "metadata": {"name": "a"}}]).before_review("Pod").list("Pod")
        is UNKNOWN
    )


def test_objects_that_become_known_later_are_listed_with_those_of_their_namespace():
    view = ManifestsView([of_team_a("Pod", "train")])
    before = [*view.list("Pod", "team-a")]
    later = {"kind": "Pod", "metadata": {"name": "web", "namespace": "team-a"}}
    view.add_known("Pod", "team-a", [later])
    assert view.list("Pod", "team-a") == [*before, later]
