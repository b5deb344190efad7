"""Resources and their paths."""

import pytest

from webhook.cluster.resources import RESOURCES


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        ("Pod", (), "/api/v1/pods"),
        ("Pod", ("a",), "/api/v1/namespaces/a/pods"),
        ("Pod", ("a", "x"), "/api/v1/namespaces/a/pods/x"),
        ("Pod", ("a", "x", "status"), "/api/v1/namespaces/a/pods/x/status"),
        ("Node", ("", "x"), "/api/v1/nodes/x"),
        ("ResourceSlice", (), "/apis/resource.k8s.io/v1/resourceslices"),
        ("Prometheus", ("m", "k"), "/apis/monitoring.coreos.com/v1/namespaces/m/prometheuses/k"),
        ("ClusterRole", ("", "system:node é"), "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%20%C3%A9"),
    ],
)
def test_path_names_collection_object_or_subresource(kind, arguments, path):
    assert RESOURCES[kind].path(*arguments) == path


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        ("Node", ("a",), "a Node has no namespace, but 'a' was given"),
        ("Pod", ("", "x"), "a Pod needs a namespace, but none was given for 'x'"),
        ("Pod", ("a", "", "status"), "subresource 'status' needs the name of a Pod"),
        ("Pod", ("a", ".."), 'invalid name \'..\': must not be "." or "..", and must not contain "/" or "%"'),
        ("Pod", ("a/b",), 'invalid name \'a/b\': must not be "." or "..", and must not contain "/" or "%"'),
        ("Pod", ("a", "%2e"), 'invalid name \'%2e\': must not be "." or "..", and must not contain "/" or "%"'),
    ],
)
def test_path_that_no_object_has_is_refused(kind, arguments, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its whole text is compared
        RESOURCES[kind].path(*arguments)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("kind", "version", "name"),
    [
        ("Pod", "v1", "pods"),
        ("Job", "batch/v1", "jobs.batch"),
        ("ClusterPolicy", "nvidia.com/v1", "clusterpolicies.nvidia.com"),
    ],
)
def test_resource_says_what_it_is_called(kind, version, name):
    assert (RESOURCES[kind].api_version, RESOURCES[kind].name) == (version, name)


def test_every_resource_is_found_by_its_kind():
    assert all(resource.kind == kind for kind, resource in RESOURCES.items())
