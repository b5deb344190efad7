"""Calls with the uid of an admitted pod, by a caller that is not an API server, do not change its charge."""

import asyncio

import pytest

from policies.quota.ledger.status import charge_items

STATUS = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu/status"
GIVES_UP_DURING_THE_WRITE = "?timeout=400ms"


def renamed(document, name="forged"):
    return {**document, "metadata": {**document["metadata"], "name": name}}


def forgeries(train):
    return {
        "repeated": train(8, "a"),
        "renamed": renamed(train(8, "a")),
        "smaller": train(1, "a"),
        "larger": train(9, "a"),
        "renamed-smaller": renamed(train(1, "a")),
        "without-gpus": train(0, "a"),
        "long-name": renamed(train(8, "a"), "n" * 1_000_000),
        "odd-name": renamed(train(8, "a"), "train\n\x1b[31m"),
    }


FORGERIES = sorted(forgeries(lambda *_: {"metadata": {}}))


@pytest.fixture
def held(sandbox):
    """Writes of the ledger are stored at once and answered late, so that a caller gives up in between."""
    is_over = asyncio.Event()

    async def hold(request, handler):
        answer = await handler(request)
        await is_over.wait()
        return answer

    def begin():
        sandbox.faults.add(hold, verb="PUT", path=STATUS, count=1)
        return is_over

    return begin


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_cancelled_call_with_the_uid_of_an_admitted_pod_leaves_its_charge(
    serve, namespace, ask, train, held, forgery
):
    namespace.limit()
    webhook = await serve()
    assert (await ask(webhook, train(8, "a")))["allowed"]
    is_over = held()
    await ask(webhook, forgeries(train)[forgery], query=GIVES_UP_DURING_THE_WRITE)
    is_over.set()
    assert not (await ask(webhook, train(8, "b", name="second")))["allowed"]
    assert (namespace.charged, namespace.taken) == (["a"], 8)
    assert charge_items(namespace.stored["status"])[0]["name"] == "train"


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_answered_call_with_the_uid_of_an_admitted_pod_leaves_its_charge(serve, namespace, ask, train, forgery):
    namespace.limit({"name": "h100", "gpus": 20})
    webhook = await serve()
    assert (await ask(webhook, train(8, "a")))["allowed"]
    await ask(webhook, forgeries(train)[forgery])
    assert (namespace.charged, namespace.taken) == (["a"], 8)
    assert charge_items(namespace.stored["status"])[0]["name"] == "train"


@pytest.mark.parametrize("first_gives_up", [True, False])
async def test_two_calls_for_one_pod_leave_its_charge_when_one_gives_up(
    serve, namespace, ask, train, held, first_gives_up
):
    namespace.limit()
    webhook = await serve()
    is_over = held()
    queries = [GIVES_UP_DURING_THE_WRITE, "?timeout=10s"]
    calls = [
        asyncio.create_task(ask(webhook, train(8, "a"), query=query))
        for query in (queries if first_gives_up else reversed(queries))
    ]
    done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    assert [call.result()["allowed"] for call in done] == [False]
    is_over.set()
    assert [(await call)["allowed"] for call in calls if call not in done] == [True]
    assert not (await ask(webhook, train(8, "b", name="second")))["allowed"]
    assert namespace.charged == ["a"]


@pytest.mark.parametrize(
    ("uid", "name"),
    [("u" * 1_000_000, "train"), ("a\x00b", "train"), ("a", "n" * 1_000_000), ("a", "train\r\n"), ("é", "train")],
    ids=["long-uid", "uid-with-nul", "long-name", "name-with-newline", "uid-not-ascii"],
)
async def test_unstorable_object_is_refused_and_harms_no_other_charge(serve, namespace, ask, train, uid, name):
    namespace.limit()
    webhook = await serve()
    calls = (train(1, "b"), renamed(train(1, uid), name), train(1, "c"))
    answers = await asyncio.gather(*(ask(webhook, each) for each in calls))
    assert [answer["allowed"] for answer in answers] == [True, False, True]
    assert answers[1]["status"]["code"] == 403
    assert "must be at most" in answers[1]["status"]["message"]
    assert len(answers[1]["status"]["message"]) < 1000
    assert sorted(namespace.charged) == ["b", "c"]


async def test_request_uid_stands_in_for_a_missing_one_and_is_checked_as_well(serve, namespace, ask, pod):
    namespace.limit()
    webhook = await serve()
    response = await ask(webhook, pod(1), uid="r" * 1_000_000)
    assert not response["allowed"]
    assert namespace.charged == []
