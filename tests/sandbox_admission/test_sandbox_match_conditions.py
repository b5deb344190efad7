"""matchConditions and the effect of their errors."""

import pytest

from webhook.cluster.resources import RESOURCES

GPU = 'k.startsWith("nvidia.com/") || k.startsWith("deviceclass.resource.kubernetes.io/")'
ASKS = f"has(c.resources.requests) && c.resources.requests.exists(k, {GPU})"
FIN = (
    "has(object.spec) && has(object.spec.containers) && ("
    "(has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) || "
    f"object.spec.containers.exists(c, {ASKS}) || "
    f"(has(object.spec.initContainers) && object.spec.initContainers.exists(c, {ASKS})))"
)
OLD_OR_NEW = f"[object, oldObject].exists(o, o != null && has(o.spec) && o.spec.containers.exists(c, {ASKS}))"
POOL = 'object.metadata.?labels[?"gpu-admission.io/pool"] != oldObject.?metadata.?labels[?"gpu-admission.io/pool"]'
MIG = (
    '["nvidia.com/mig.config", "nvidia.com/device-plugin.config", "nvidia.com/gpu.workload.config"]'
    ".exists(k, object.metadata.?labels[?k] != oldObject.metadata.?labels[?k])"
)
DATA = (
    '[object, oldObject].exists(o, o != null && o.metadata.name in ["device-plugin-config"]) && '
    "(object == null || oldObject == null || object.?data != oldObject.?data)"
)
ORIGINAL = "gpu-admission.io/original-resources"
REAPPLY = (
    f'has(oldObject.metadata.annotations) && "{ORIGINAL}" in oldObject.metadata.annotations && '
    f"object.spec.containers.exists(c, {ASKS})"
)
EVERYTHING = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]


def condition(*expressions):
    return [{"name": f"c{index}", "expression": expression} for index, expression in enumerate(expressions)]


@pytest.fixture
def is_asked(validating, validate, server):
    """Whether a webhook with conditions is asked about an attempt."""

    async def ask(attempt, *expressions, **webhook):
        validating("a", rules=EVERYTHING, matchConditions=condition(*expressions), **webhook)
        await validate(attempt)
        return bool(server.calls)

    return ask


def labelled(kind, labels, **more):
    metadata = {"name": more.pop("name", "x"), **({"labels": labels} if labels is not None else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        pytest.param({}, False, id="no GPUs"),
        pytest.param({"gpus": 1}, True, id="a limit"),
        pytest.param({"gpus": "0"}, True, id="a limit of zero"),
        pytest.param({"resourceClaims": [{"name": "c"}]}, True, id="a claim"),
        pytest.param({"resourceClaims": []}, False, id="no claims"),
        pytest.param(
            {"initContainers": [{"name": "i", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]},
            True,
            id="an init container",
        ),
    ],
)
async def test_pods_with_gpus_are_reported_by_their_requests(is_asked, attempt, pod, spec, asked):
    assert await is_asked(attempt(pod(**spec)), FIN) is asked


async def test_the_gpu_condition_skips_a_binding(is_asked, attempt):
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "team-a"}}
    assert not await is_asked(attempt(binding, subresource="binding", resource=RESOURCES["Pod"]), FIN)


async def test_the_gpu_condition_skips_a_delete(is_asked, attempt, pod):
    assert not await is_asked(attempt(None, "DELETE", old=pod(gpus=1)), FIN)


async def test_a_condition_can_look_at_what_is_deleted(is_asked, attempt, pod):
    assert await is_asked(attempt(None, "DELETE", old=pod(gpus=1)), OLD_OR_NEW)


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        pytest.param(None, {"gpu-admission.io/pool": "gold"}, True, id="created with it"),
        pytest.param(None, None, False, id="created without"),
        pytest.param({}, {"gpu-admission.io/pool": "gold"}, True, id="set"),
        pytest.param({"gpu-admission.io/pool": "gold"}, {"other": "x"}, True, id="removed"),
        pytest.param({"gpu-admission.io/pool": "gold"}, {"gpu-admission.io/pool": "gold", "o": "x"}, False, id="kept"),
    ],
)
async def test_a_change_of_one_label_of_a_namespace_is_seen(is_asked, attempt, old, new, asked):
    before = None if old is None else labelled("Namespace", old)
    write = attempt(labelled("Namespace", new), "CREATE" if old is None else "UPDATE", old=before)
    assert await is_asked(write, POOL) is asked


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        pytest.param({}, {"nvidia.com/mig.config": "all-1g.10gb"}, True, id="set"),
        pytest.param({"nvidia.com/mig.config": "a"}, {"nvidia.com/mig.config": "b"}, True, id="changed"),
        pytest.param({"nvidia.com/mig.config": "a"}, {}, True, id="removed"),
        pytest.param({"nvidia.com/mig.config": "a"}, {"nvidia.com/mig.config": "a", "x": "y"}, False, id="other"),
    ],
)
async def test_a_change_of_labels_of_a_node_is_seen(is_asked, attempt, old, new, asked):
    write = attempt(labelled("Node", new), "UPDATE", old=labelled("Node", old))
    assert await is_asked(write, MIG) is asked


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        pytest.param({"a": "1"}, {"a": "2"}, True, id="changed"),
        pytest.param({"a": "1"}, {"a": "1"}, False, id="kept"),
        pytest.param({"a": "1"}, None, True, id="deleted"),
        pytest.param(None, {"a": "1"}, True, id="created"),
    ],
)
async def test_a_change_of_data_is_seen(is_asked, attempt, old, new, asked):
    before, after = (
        data and {**labelled("ConfigMap", {}, name="device-plugin-config", data=data)} for data in (old, new)
    )
    operation = "CREATE" if old is None else "UPDATE" if new else "DELETE"
    write = attempt(after, operation, old=before, namespace="team-a")
    assert await is_asked(write, DATA) is asked


async def test_a_converted_pod_that_is_applied_again_is_seen(is_asked, attempt, pod):
    old = pod()
    old["metadata"]["annotations"] = {ORIGINAL: "{}"}
    assert await is_asked(attempt(pod(gpus=1), "UPDATE", old=old), REAPPLY)


async def test_the_request_can_be_looked_at(is_asked, attempt, pod):
    asks = 'request.userInfo.username == "alice" && request.operation == "CREATE" && !request.dryRun'
    assert await is_asked(attempt(pod()), asks, 'request.resource.resource == "pods"')


async def test_one_condition_that_is_false_is_enough(is_asked, attempt, pod):
    assert not await is_asked(attempt(pod()), "object.nothing == 1", "false")


async def test_an_error_refuses_without_a_call(validating, validate, attempt, pod, server, refusal):
    validating("a", matchConditions=condition("object.nothing == 1", "true"))
    status = await refusal(validate(attempt(pod())))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        "pods \"p\" is forbidden: expression 'object.nothing == 1' resulted in error: no such key: nothing"
    )
    assert server.calls == []


async def test_errors_are_reported_together(mutating, mutate, attempt, pod, refusal):
    mutating("a", matchConditions=condition("object.a == 1", "object.b == 1"))
    assert (await refusal(mutate(attempt(pod()))))["message"] == (
        "pods \"p\" is forbidden: [expression 'object.a == 1' resulted in error: no such key: a, "
        "expression 'object.b == 1' resulted in error: no such key: b]"
    )


async def test_an_error_skips_a_webhook_whose_failures_are_ignored(is_asked, attempt, pod):
    assert not await is_asked(attempt(pod()), "object.nothing == 1", failurePolicy="Ignore")


async def test_the_name_is_missing_where_a_collection_is_deleted(validating, validate, attempt, pod, refusal):
    validating("a", rules=EVERYTHING, matchConditions=condition('request.name == "p"'))
    status = await refusal(validate(attempt(None, "DELETE", old=pod(), name="")))
    assert status["message"] == (
        "pods is forbidden: expression 'request.name == \"p\"' resulted in error: no such key: name"
    )


async def test_the_namespace_of_the_object_is_null(is_asked, attempt, pod):
    assert await is_asked(attempt(pod()), "namespaceObject == null")


async def test_an_expression_that_works_too_long_is_an_error(validating, validate, attempt, pod, refusal):
    validating("a", matchConditions=condition("object.metadata.labels.a.contains(object.metadata.labels.a)"))
    message = (await refusal(validate(attempt(pod(labels={"a": "x" * 12_000})))))["message"]
    assert message.endswith("resulted in error: operation cancelled: actual cost limit exceeded")


async def test_the_conditions_of_a_webhook_share_a_budget(validating, validate, attempt, pod, refusal):
    """Each of them costs 0.9 of what one may cost, and all together 2.5 times that at most."""
    long = "object.metadata.labels.a.contains(object.metadata.labels.a)"
    validating("a", matchConditions=condition(long, f"{long} && 1 == 1", f"{long} && 2 == 2"))
    message = (await refusal(validate(attempt(pod(labels={"a": "x" * 9_500})))))["message"]
    assert message == (
        'pods "p" is forbidden: '
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )


async def test_our_variables_do_not_get_in_the_way_of_those_of_macros(is_asked, attempt, pod):
    assert await is_asked(attempt(pod()), 'object.spec.containers.map(object, object.name) == ["main"]')
