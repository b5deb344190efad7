"""A view after a change: lists, single objects and digests follow."""

from policies.kubernetes.objects import name_of
from policies.kubernetes.view import UNKNOWN, ChangedView
from webhook.cluster.manifests import ManifestsView


def pod(name, namespace="team-a", **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def names(view):
    return [name_of(each) for each in view.list("Pod")]


BEFORE = ManifestsView([pod("a"), pod("b", "team-b"), pod("c")])
AFTER = ChangedView(
    BEFORE,
    {("Pod", "team-a", "a"): None, ("Pod", "team-a", "c"): pod("c", nodeName="n"), ("Pod", "team-a", "d"): pod("d")},
)


def test_objects_are_replaced_created_and_deleted():
    assert names(AFTER) == ["b", "c", "d"]
    assert AFTER.get("Pod", "a", "team-a") is None
    assert AFTER.get("Pod", "c", "team-a")["spec"] == {"nodeName": "n"}
    assert [name_of(each) for each in AFTER.list("Pod", "team-b")] == ["b"]
    assert [name_of(each) for each in AFTER.list("Pod", "team-a")] == ["c", "d"]


def test_digests_are_computed_anew_and_the_other_view_keeps_its_own():
    assert (BEFORE.derive(names), AFTER.derive(names)) == (["a", "b", "c"], ["b", "c", "d"])


def test_results_for_each_object_follow_and_unchanged_objects_are_not_read_again():
    read = []

    def name(document):
        read.append(name_of(document))
        return name_of(document)

    assert AFTER.derive_each("Pod", name) == ["b", "c", "d"]
    assert AFTER.derive_each("Pod", name) == ["b", "c", "d"]
    assert read == ["a", "b", "c", "c", "d"]
    assert AFTER.count_each("Pod", name, lambda found: found != "b") == {"c": 1, "d": 1}


def test_kind_that_is_not_known_stays_unknown_but_for_the_changed_object():
    view = ChangedView(ManifestsView(), {("Pod", "team-a", "a"): pod("a")})
    assert view.list("Pod") is UNKNOWN
    assert view.get("Pod", "b", "team-a") is UNKNOWN
    assert (view.get("Pod", "a", "team-a"), view.objects_under_review("Pod")) == (pod("a"), [pod("a")])


def test_manifest_without_a_namespace_is_the_one_of_the_default_namespace():
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    view = ChangedView(ManifestsView([plain]), {("Pod", "default", "a"): None})
    assert view.list("Pod") == []


def test_digest_that_read_no_changed_kind_is_that_of_the_other_view():
    computed = []

    def nodes(view):
        computed.append("nodes")
        return view.list("Node")

    view = ManifestsView([pod("a"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}])
    found = ChangedView(view, {("Pod", "team-a", "a"): None}).derive(nodes)
    assert found is view.derive(nodes)
    assert computed == ["nodes"]


def test_digest_of_a_digest_that_read_a_changed_kind_is_computed_anew():
    def count(view):
        return len(view.derive(names))

    assert (BEFORE.derive(count), AFTER.derive(count)) == (3, 3)
    assert ChangedView(AFTER, {("Pod", "team-a", "d"): None}).derive(count) == 2


def test_object_that_is_found_later_is_computed_when_it_is_needed():
    computed = []

    def later():
        computed.append("d")
        return pod("d")

    view = ChangedView(BEFORE, {("Pod", "team-a", "d"): later})
    assert [name_of(each) for each in view.list("Pod", "team-b")] == ["b"]
    assert computed == []
    assert (view.get("Pod", "d", "team-a"), names(view)) == (pod("d"), ["a", "b", "c", "d"])


def test_list_with_an_unknown_object_is_unknown():
    view = ChangedView(BEFORE, {("Pod", "team-a", "a"): lambda: UNKNOWN})
    assert (view.get("Pod", "a", "team-a"), view.list("Pod"), view.list("Pod", "team-a")) == (UNKNOWN,) * 3
    assert [name_of(each) for each in view.list("Pod", "team-b")] == ["b"]


def test_objects_for_get_alone_are_in_no_list_and_digest():
    view = ChangedView(BEFORE, {("Pod", "team-a", "d"): pod("d")}, lists=False)
    assert view.get("Pod", "d", "team-a") == pod("d")
    assert (names(view), view.derive(names)) == (["a", "b", "c"], ["a", "b", "c"])
    assert view.derive_each("Pod", name_of) == ["a", "b", "c"]


def test_lists_follow_the_other_view():
    reviewed = ManifestsView([pod("a")])
    view = ChangedView(reviewed, {("Pod", "team-a", "d"): pod("d")})
    assert (names(view), view.derive_each("Pod", name_of)) == (["a", "d"], ["a", "d"])
    reviewed.add_known("Pod", "", [pod("e")])
    assert (names(view), view.derive_each("Pod", name_of)) == (["a", "e", "d"], ["a", "e", "d"])
