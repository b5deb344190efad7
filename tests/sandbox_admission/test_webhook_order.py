"""The order of webhook calls, and the changes that each sees."""

import asyncio

import pytest

LABEL = "/metadata/labels/by-{}"


@pytest.fixture
def labelling(server, patching):
    """Let a webhook add a label, once."""

    def add(name):
        def answer(request):
            labels = request["object"]["metadata"].get("labels", {})
            return {} if name in labels else patching({"op": "add", "path": f"/metadata/labels/{name}", "value": "x"})

        server.on(f"/{name}", answer)

    return add


async def test_mutating_configurations_are_called_in_order_of_names(mutating, mutate, attempt, pod, server):
    for name in ("b", "a", "c"):
        mutating(name)
    await mutate(attempt(pod()))
    assert server.paths() == ["/a", "/b", "/c"]


async def test_a_later_webhook_sees_what_an_earlier_one_made(mutating, mutate, attempt, pod, server, labelling):
    for name in ("a", "b"):
        mutating(name)
        labelling(name)
    mutated = await mutate(attempt(pod(labels={"own": "x"})))
    assert server.calls[1].request["object"]["metadata"]["labels"] == {"own": "x", "a": "x"}
    assert mutated["metadata"]["labels"] == {"own": "x", "a": "x", "b": "x"}


async def test_the_object_of_the_attempt_is_not_changed(mutating, mutate, attempt, pod, labelling):
    mutating("a")
    labelling("a")
    asked = pod(labels={"own": "x"})
    await mutate(attempt(asked))
    assert asked == pod(labels={"own": "x"})


async def test_defaults_follow_a_patch(mutating, mutate, attempt, pod, server, patching):
    mutating("a")
    mutating(
        "b",
        matchConditions=[
            {"name": "gpu", "expression": '"nvidia.com/gpu" in object.spec.containers[0].resources.requests'}
        ],
    )
    limits = {"limits": {"nvidia.com/gpu": 2}}
    server.on("/a", patching({"op": "replace", "path": "/spec/containers/0/resources", "value": limits}))
    mutated = await mutate(attempt(pod()))
    assert server.paths() == ["/a", "/b"]
    assert mutated["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "2"}


async def test_a_webhook_that_wants_to_be_asked_again_is_after_a_later_change(
    mutating, mutate, attempt, pod, server, labelling
):
    mutating("a", reinvocationPolicy="IfNeeded")
    mutating("b")
    labelling("b")
    await mutate(attempt(pod(labels={"own": "x"})))
    assert server.paths() == ["/a", "/b", "/a"]
    assert "b" in server.calls[2].request["object"]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        pytest.param("IfNeeded", "Never", ["/a", "/b"], id="nobody changed anything later"),
        pytest.param("Never", "IfNeeded", ["/a", "/b"], id="only earlier changes"),
    ],
)
async def test_webhook_is_not_called_again_without_a_change(
    mutating, mutate, attempt, pod, server, labelling, first, second, asked
):
    mutating("a", reinvocationPolicy=first)
    mutating("b", reinvocationPolicy=second)
    labelling("a")
    await mutate(attempt(pod(labels={"own": "x"})))
    assert server.paths() == asked


async def test_there_is_one_more_round_and_not_two(mutating, mutate, attempt, pod, server, patching):
    for name in ("a", "b"):
        mutating(name, reinvocationPolicy="IfNeeded")
        server.on(
            f"/{name}", lambda request: patching({"op": "add", "path": "/metadata/labels/n", "value": request["uid"]})
        )
    await mutate(attempt(pod(labels={"own": "x"})))
    assert server.paths() == ["/a", "/b", "/a", "/b"]


async def test_a_webhook_skipped_in_the_first_round_is_not_asked_in_the_second(
    mutating, mutate, attempt, pod, server, labelling
):
    mutating("a", reinvocationPolicy="IfNeeded", objectSelector={"matchLabels": {"b": "x"}})
    mutating("b")
    labelling("b")
    await mutate(attempt(pod(labels={"own": "x"})))
    assert server.paths() == ["/b"]


async def test_a_limit_that_comes_back_by_a_limit_range_is_shown_to_a_webhook_once_more(
    mutating, mutate, attempt, pod, server, objects, patching
):
    default = {"type": "Container", "default": {"nvidia.com/gpu": "1"}}
    objects.add(
        {"kind": "LimitRange", "metadata": {"name": "r", "namespace": "team-a"}, "spec": {"limits": [default]}},
    )
    mutating("a", reinvocationPolicy="IfNeeded")
    taken = patching({"op": "replace", "path": "/spec/containers/0/resources", "value": {}})
    server.on("/a", taken)
    mutated = await mutate(attempt(pod(gpus=1)))
    assert server.paths() == ["/a", "/a"]
    assert server.calls[1].request["object"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert mutated["spec"]["containers"][0]["resources"] == {}


async def test_validating_webhooks_are_called_in_parallel(validating, validate, attempt, pod, server):
    """Each answers only when the other was asked too."""
    both = asyncio.Barrier(2)

    async def answer():
        await both.wait()
        return {}

    for name in ("a", "b"):
        validating(name)
        server.on(f"/{name}", lambda _: answer())
    await validate(attempt(pod()))
    assert sorted(server.paths()) == ["/a", "/b"]


async def test_of_several_validating_refusals_the_first_in_list_order_is_reported(
    validating, validate, attempt, pod, server, refusal
):
    for name in ("b", "a"):
        validating(name)
        server.on(f"/{name}", {"allowed": False, "status": {"message": name}})
    status = await refusal(validate(attempt(pod())))
    assert status["message"] == 'admission webhook "a" denied the request: a'


async def test_configurations_of_admission_are_never_asked_about(
    mutating, mutate, validating, validate, attempt, server
):
    everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]
    mutating("a", rules=everything)
    validating("b", rules=everything)
    document = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": []}
    await mutate(attempt(document))
    await validate(attempt(document))
    assert server.paths() == []
