"""Protobuf as kubectl sends it for objects from its command line."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.sandbox.request_bodies import UnreadableProtobuf, read_protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(number):
    text = b""
    while number >= 0x80:
        text += bytes([number & 0x7F | 0x80])
        number >>= 7
    return text + bytes([number])


def field(number, value):
    """One field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(key, value):
    return field(1, key) + field(2, value)


def sent(api_version, kind, *fields):
    """A body as kubectl sends it."""
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, b"".join(fields)) + field(3, "")


def metadata(name, *more):
    # Go writes what is empty too: the namespace, the time of creation.
    return field(1, field(1, name) + field(3, "") + field(8, b"") + b"".join(more))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            sent("v1", "Namespace", metadata("n"), field(2, b""), field(3, field(1, ""))),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {}},
            id="namespace",
        ),
        pytest.param(
            sent("v1", "ConfigMap", metadata("c", field(11, entry("l", "m"))), field(2, entry("a", "b"))),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c", "labels": {"l": "m"}},
                "data": {"a": "b"},
            },
            id="config-map",
        ),
        pytest.param(
            sent("v1", "Secret", metadata("s"), field(2, entry("a", "b")), field(3, "Opaque")),
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "data": {"a": "Yg=="},
                "type": "Opaque",
            },
            id="secret",
        ),
        pytest.param(
            sent("v1", "ResourceQuota", metadata("q"), field(2, field(1, entry("pods", field(1, "4"))))),
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q"},
                "spec": {"hard": {"pods": "4"}},
            },
            id="quota",
        ),
        pytest.param(
            sent(
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                metadata("b"),
                field(2, entry("User", "rbac.authorization.k8s.io") + field(3, "alice") + field(4, "")),
                field(3, entry("rbac.authorization.k8s.io", "ClusterRole") + field(3, "view")),
            ),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "b"},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            },
            id="role-binding",
        ),
        pytest.param(
            sent("scheduling.k8s.io/v1", "PriorityClass", metadata("p"), field(2, -5), field(3, 1)),
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "p"},
                "value": -5,
                "globalDefault": True,
            },
            id="priority-class",
        ),
    ],
)
def test_small_kinds_are_read(body, expected):
    assert read_protobuf(body) == expected


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "the body does not begin like protobuf of Kubernetes"),
        (sent("apps/v1", "Deployment", metadata("d")), "its kind is Deployment"),
        (sent("v1", "ConfigMap", field(9, "x")), "unknown field 9"),
        (sent("v1", "ConfigMap", metadata("c"))[:-9], "the body is cut off"),
        (sent("v1", "ConfigMap", field(1, 7)), "expected bytes, found a number"),
        (
            sent("scheduling.k8s.io/v1", "PriorityClass", field(2, "x")),
            "expected a number, found bytes",
        ),
        (sent("v1", "ConfigMap", field(1, field(1, b"\xff"))), "a string is not UTF-8"),
        (b"k8s\0\xff", "the body is cut off in a number"),
        (b"k8s\0\x0d", "unsupported wire type 5"),
    ],
)
def test_what_is_not_read_is_reported(body, why):
    with pytest.raises(UnreadableProtobuf) as caught:
        read_protobuf(body)
    assert str(caught.value) == why


@given(st.binary(max_size=60), st.sampled_from(["ConfigMap", "Namespace", "RoleBinding", "PriorityClass"]))
def test_damage_never_raises_anything_else(damage, kind):
    for body in (b"k8s\0" + damage, sent("v1", kind, damage)):
        with suppress(UnreadableProtobuf):
            read_protobuf(body)


async def test_namespace_is_created_from_protobuf(api):
    body = sent("v1", "Namespace", metadata("n"))
    answer = await api("POST", "/api/v1/namespaces", data=body, content_type=PROTOBUF)
    assert (answer.code, answer.body["metadata"]["name"]) == (201, "n")


async def test_large_kind_is_415_with_a_way_out(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    answer = await api("POST", path, data=sent("apps/v1", "Deployment", metadata("d")), content_type=PROTOBUF)
    assert answer.code == 415
    assert answer.message == (
        "the sandbox reads JSON, and protobuf, which kubectl sends for a few of its commands, only of small kinds (its kind"
        " is Deployment); have the command print the object (--dry-run=client -o yaml) and pipe it into kubectl apply -f -"
    )
