import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.sandbox.patches import BadPatch, apply_strategic_patch

STRATEGIC = "application/strategic-merge-patch+json"
FIELDS = st.sampled_from(
    [
        *("spec", "metadata", "containers", "name", "volumes", "finalizers", "tolerations", "selector"),
        *("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"),
    ]
)
POD = "/api/v1/namespaces/default/pods/job"


def containers(*items):
    return {"spec": {"containers": list(items)}}


A, B, C = ({"name": name, "image": f"{name}:1"} for name in "abc")


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        pytest.param({"data": {"a": "1"}}, {"data": {"a": None, "b": "2"}}, {"data": {"b": "2"}}, id="plain"),
        pytest.param(
            containers(A, B),
            containers({"name": "b", "image": "b:2"}),
            containers(A, {"name": "b", "image": "b:2"}),
            id="item",
        ),
        pytest.param(containers(A), containers(B), containers(A, B), id="new-item"),
        pytest.param(containers(A, B), containers({"name": "a", "$patch": "delete"}), containers(B), id="item-deleted"),
        pytest.param(containers(A, B), containers(C, {"$patch": "replace"}), containers(C), id="list-replaced"),
        pytest.param(
            containers(A, B),
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            containers(B, A),
            id="order",
        ),
        pytest.param(
            containers(A, B, C),
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}},
            containers(B, C, A),
            id="order-of-some",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "x"}]}},
            {"spec": {"tolerations": [{"key": "y"}]}},
            {"spec": {"tolerations": [{"key": "y"}]}},
            id="list-without-a-key",
        ),
        pytest.param(
            containers({**A, "ports": [{"containerPort": 80}]}),
            containers({"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}),
            containers({**A, "ports": [{"containerPort": 80, "name": "web"}]}),
            id="container-ports",
        ),
        pytest.param(
            {"spec": {"ports": [{"port": 80, "targetPort": 1}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": 2}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": 2}]}},
            id="service-ports",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
            id="retained-keys",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
            id="finalizers",
        ),
        pytest.param({"spec": {"a": 1}}, {"spec": {"$patch": "replace", "b": 2}}, {"spec": {"b": 2}}, id="replace"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"$patch": "delete"}}, {"spec": {}}, id="delete"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"$patch": "merge", "b": 2}}, {"spec": {"a": 1, "b": 2}}, id="merge"),
        pytest.param(
            {},
            containers({"name": "a", "env": [{"name": "X", "value": None}]}),
            containers({"name": "a", "env": [{"name": "X"}]}),
            id="nulls-of-what-is-new",
        ),
        pytest.param(
            {"kind": "PodDisruptionBudget", "spec": {"selector": {"matchLabels": {"a": "1"}}}},
            {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
            {"kind": "PodDisruptionBudget", "spec": {"selector": {"matchLabels": {"b": "2"}}}},
            id="selector-of-a-budget",
        ),
        pytest.param(
            {"kind": "Service", "spec": {"selector": {"app": "a", "tier": "x"}}},
            {"spec": {"selector": {"app": "b"}}},
            {"kind": "Service", "spec": {"selector": {"app": "b", "tier": "x"}}},
            id="selector-of-a-service",
        ),
    ],
)
def test_strategic_patch_applies(document, patch, expected):
    assert apply_strategic_patch(document, patch) == expected


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            {"spec": {"$patch": "keep"}}, "$patch is keep; it can be replace, merge or delete", id="directive"
        ),
        pytest.param(
            containers({"image": "x"}),
            "an item of containers has no name, by which the items are merged",
            id="item-without-its-key",
        ),
        pytest.param(
            containers({"name": {}}),
            "an item of containers has no name, by which the items are merged",
            id="item-whose-key-is-an-object",
        ),
        pytest.param(
            containers("a"),
            "an item of containers must be an object, because the items are merged by their name",
            id="text",
        ),
        pytest.param({"$retainKeys": "spec"}, "$retainKeys must be a list of strings", id="retained-keys"),
    ],
)
def test_invalid_patch_is_reported(patch, message):
    with pytest.raises(BadPatch) as caught:
        apply_strategic_patch(containers(A), patch)
    assert str(caught.value) == message


async def test_pod_takes_what_kubectl_apply_sends(api, sandbox, pod):
    sandbox.create(pod())
    patch = {
        "spec": {"$setElementOrder/containers": [{"name": "main"}], "containers": [{"name": "main", "image": "cuda:2"}]}
    }
    answer = await api("PATCH", POD, patch, content_type=STRATEGIC)
    assert answer.code == 200
    assert answer.body["spec"]["containers"][0]["image"] == "cuda:2"
    assert answer.body["spec"]["containers"][0]["terminationMessagePolicy"] == "File"


async def test_patch_that_cannot_be_read_is_400(api, sandbox, pod):
    sandbox.create(pod())
    answer = await api("PATCH", POD, {"spec": {"$patch": "keep"}}, content_type=STRATEGIC)
    assert (answer.code, answer.message) == (
        400,
        "error decoding patch: $patch is keep; it can be replace, merge or delete",
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["a", "merge", "replace", "delete"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@given(document=JSON, patch=st.dictionaries(FIELDS, JSON))
def test_patch_of_any_shape_is_applied_or_reported(document, patch):
    before = copy.deepcopy((document, patch))
    try:
        applied = apply_strategic_patch(document, patch)
    except BadPatch:
        return
    finally:
        assert (document, patch) == before
    assert isinstance(applied, dict)
