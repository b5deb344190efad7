"""Changes of the API server's admission plug-ins to a pod before webhooks are called."""

import pytest


def limit_range(*limits, namespace="team-a"):
    return {"kind": "LimitRange", "metadata": {"name": "r", "namespace": namespace}, "spec": {"limits": list(limits)}}


@pytest.fixture
def seen(mutating, mutate, attempt, pod, server):
    """The pod as a webhook sees it."""

    async def ask(**spec):
        mutating("a")
        await mutate(attempt(pod(**spec)))
        return server.calls[0].request["object"]

    return ask


async def test_a_pod_gets_an_account_a_priority_and_tolerations(seen):
    spec = (await seen())["spec"]
    names = ("serviceAccountName", "serviceAccount", "priority", "preemptionPolicy")
    assert [spec[name] for name in names] == ["default", "default", 0, "PreemptLowerPriority"]
    assert [toleration["key"] for toleration in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


async def test_a_toleration_of_everything_needs_no_others(seen):
    assert (await seen(tolerations=[{"operator": "Exists"}]))["spec"]["tolerations"] == [{"operator": "Exists"}]


async def test_a_limit_range_fills_limits_and_requests(seen, objects):
    objects.add(limit_range({"type": "Container", "default": {"nvidia.com/gpu": "1"}, "min": {"cpu": "1"}}))
    pod = await seen()
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "1"},
        "requests": {"nvidia.com/gpu": "1", "cpu": "1"},
    }
    assert pod["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, nvidia.com/gpu request for container main; "
        "nvidia.com/gpu limit for container main"
    }


async def test_a_limit_range_does_not_touch_what_is_written(seen, objects):
    objects.add(limit_range({"type": "Container", "default": {"nvidia.com/gpu": "1"}}))
    assert (await seen(gpus=3))["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "3"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(limit_range({"type": "Pod", "max": {"cpu": "1"}}), id="of pods"),
        pytest.param(limit_range({"type": "Container", "default": {"cpu": "1"}}, namespace="team-b"), id="elsewhere"),
    ],
)
async def test_other_limit_ranges_do_not_count(seen, objects, other):
    objects.add(other)
    assert (await seen())["spec"]["containers"][0]["resources"] == {}


async def test_an_update_changes_only_tolerations(mutate, attempt, pod):
    # DefaultTolerationSeconds looks at updates too: Kubernetes 1.36.2 puts the two back where a list came without them.
    changed = await mutate(attempt(pod(), "UPDATE", old=pod()))
    assert [toleration["key"] for toleration in changed["spec"].pop("tolerations")] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert changed == pod()


async def test_the_priority_is_that_of_the_class(seen, objects):
    objects.add({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5})
    assert (await seen(priorityClassName="high"))["spec"]["priority"] == 5


async def test_a_priority_class_that_is_not_there_is_refused(mutate, attempt, pod, refusal):
    status = await refusal(mutate(attempt(pod(priorityClassName="nope"))))
    # Kubernetes 1.36.2.
    assert (status["code"], status["message"]) == (
        403,
        'pods "p" is forbidden: no PriorityClass with name nope was found',
    )
