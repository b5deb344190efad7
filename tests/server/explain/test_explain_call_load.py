"""Explanations take turns, end with their call, and are counted and logged."""

import asyncio
import contextlib
import itertools
import json
import threading

import pytest

from policies.kubernetes.view import PassingView
from policies.outcome import Audience
from policies.rules.settings import DEFAULTS
from tests.server.explain.calls import CLAIM, answered, ask, plain
from webhook.cluster.lookups import NotFoundError, find_resource
from webhook.server.questions import MOST_WAITING, Explainer, NamedObject, PostedObject, UnavailableError


def as_bytes(explanations):
    return str(explanations).encode()


class Gated(PassingView):
    """A cluster that is slow to answer explanations: they wait until a test opens the gate."""

    def __init__(self, view):
        super().__init__(view)
        self.gate = threading.Event()
        self.reached = threading.Event()

    def get(self, kind, name, namespace=""):
        if threading.current_thread() is not threading.main_thread():
            self.reached.set()
            self.gate.wait()
        return super().get(kind, name, namespace)


@pytest.fixture
def gated(cluster):
    view = Gated(cluster)
    yield view
    view.gate.set()


@pytest.fixture
async def slow(start_webhook, client_of, client_context, gated):
    """A webhook that is slow to explain, and a caller of it."""
    webhook = await start_webhook(view=gated, allowed=["dashboard"])
    return webhook, await client_of(webhook.explain_port, client_context("dashboard"))


@pytest.fixture
def until_reached(gated):
    """Wait until an explanation is under way."""

    async def wait():
        assert await asyncio.to_thread(gated.reached.wait, 60)
        gated.reached.clear()

    return wait


NAMED = {"kind": "pod", "name": "train"}


async def test_reviews_go_on_while_something_is_explained(slow, gated, until_reached, pod, review_of):
    webhook, client = slow
    explaining = asyncio.create_task(ask(client, NAMED))
    await until_reached()
    assert (await webhook.client.ask("place-pods", review_of(pod())))["allowed"] is True
    assert not explaining.done()
    gated.gate.set()
    assert plain(await explaining, 404) == "Pods are unknown; post the object itself."


async def test_explanation_that_takes_too_long_is_not_waited_for(slow, gated):
    _, client = slow
    answer = await ask(client, NAMED, "?timeout=50ms")
    assert plain(answer, 503) == (
        "The explanation took longer than the call's timeout; ask with ?timeout=30s, the longest."
    )
    assert answer.headers["Retry-After"] == "1"


async def test_next_question_is_answered_when_one_that_took_too_long_is_done(slow, gated):
    _, client = slow
    assert (await ask(client, NAMED, "?timeout=50ms")).status == 503
    gated.gate.set()
    assert plain(await ask(client, NAMED), 404) == "Pods are unknown; post the object itself."


async def test_questions_wait_for_each_other_until_their_timeout(slow, until_reached):
    _, client = slow
    first = asyncio.create_task(ask(client, NAMED))
    await until_reached()
    assert plain(await ask(client, NAMED, "?timeout=50ms"), 503) == (
        "Other questions were being answered until the call's timeout; ask again in a moment."
    )
    first.cancel()


async def test_too_many_questions_are_turned_away_at_once(slow, gated, until_reached):
    _, client = slow
    asked = [asyncio.create_task(ask(client, NAMED))]
    await until_reached()
    asked += [asyncio.create_task(ask(client, NAMED)) for _ in range(MOST_WAITING + 1)]
    done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    assert [plain(task.result(), 503) for task in done] == [
        "Other questions are being answered, and enough are waiting; ask again in a moment."
    ]
    gated.gate.set()
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status for answer in answers) == [404] * (MOST_WAITING + 1) + [503]


async def test_question_whose_caller_has_gone_is_not_worked_on(slow, gated, until_reached, until, wire, client_context):
    webhook, client = slow
    first = asyncio.create_task(ask(client, NAMED))
    await until_reached()
    connection = await wire(webhook.explain_port, client_context("dashboard"))
    body = json.dumps(NAMED).encode()
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    traffic = webhook.calls.traffic
    await until(lambda: traffic.under_way == 2)
    connection.abort()
    await until(lambda: any(each.transport is None for each in webhook.explain_runner.server.connections))
    gated.gate.set()
    await first
    await until(lambda: not traffic.under_way)
    assert not gated.reached.is_set()


async def test_explanation_is_one_line_of_the_log(caller, lines):
    await ask(caller, {"object": CLAIM})
    (line,) = lines(level="info")
    assert line.pop("milliseconds") > 0
    del line["time"]
    assert line == {
        "level": "info",
        "logger": "gpu_admission.decisions",
        "message": "explained",
        "user": "dashboard",
        "kind": "ResourceClaim",
        "namespace": "team-a",
        "name": "gpu",
        "verdicts": ["fits"],
    }


async def test_explanations_are_counted_by_how_they_ended(guarded, caller, slow):
    await ask(caller, {"object": CLAIM})
    await ask(caller, {})
    await ask(guarded.explain_client, {"object": CLAIM})
    text = guarded.metrics.exposition().text().decode()
    assert 'gpu_admission_explanations_total{outcome="answered"} 1.0' in text
    assert 'gpu_admission_explanations_total{outcome="turned_down"} 2.0' in text
    assert "gpu_admission_explanation_duration_seconds_count 1.0" in text
    webhook, client = slow
    await ask(client, NAMED, "?timeout=50ms")
    assert 'gpu_admission_explanations_total{outcome="unavailable"} 1.0' in webhook.metrics.exposition().text().decode()


class Broken(Gated):
    """A cluster whose objects cannot be read."""

    def get(self, kind, name, namespace=""):
        raise RuntimeError("secret detail")


async def test_mistake_of_ours_shows_no_traceback(start_webhook, client_of, client_context, cluster, lines):
    webhook = await start_webhook(view=Broken(cluster), allowed=["dashboard"])
    answer = await ask(await client_of(webhook.explain_port, client_context("dashboard")), NAMED)
    (line,) = lines(level="error")
    assert plain(answer, 503) == f"The server failed; its log has the details under the id {line['failure']}."
    assert "RuntimeError: secret detail" in line["trace"]
    assert 'gpu_admission_explanations_total{outcome="failed"} 1.0' in webhook.metrics.exposition().text().decode()


async def test_work_ends_with_the_time_of_its_call(cluster):
    clock = itertools.count()
    explainer = Explainer(cluster, lambda: DEFAULTS, clock=lambda: next(clock))
    with pytest.raises(UnavailableError, match=r"^The explanation took longer than the call's timeout; ask"):
        await explainer.answer(PostedObject(CLAIM, ""), explainer.deadline("9s"), lambda: True, as_bytes)
    assert next(clock) == 10


async def test_work_ends_when_its_caller_has_gone(cluster):
    explainer = Explainer(cluster, lambda: DEFAULTS)
    there = iter([True] * 5 + [False])
    with pytest.raises(UnavailableError, match=r"^The caller has gone\.$"):
        await explainer.answer(PostedObject(CLAIM, ""), explainer.deadline(None), lambda: next(there), as_bytes)
    assert not list(there)


async def test_failure_without_a_waiting_call_is_not_logged(slow, gated, caplog):
    _, client = slow
    assert (await ask(client, NAMED, "?timeout=50ms")).status == 503
    gated.gate.set()
    assert (await ask(client, NAMED)).status == 404
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_costly_selectors_are_given_up_and_the_next_question_is_answered(caller):
    counts = f"[{', '.join(map(str, range(60)))}]"
    expression = f'{counts}.all(a, {counts}.all(b, a + b < 999)) && device.attributes["gpu.nvidia.com"].uuid != "x%d"'
    requests = [
        {
            "name": f"gpu-{number}",
            "exactly": {
                "deviceClassName": "gpu.nvidia.com",
                "selectors": [{"cel": {"expression": expression % number}}],
            },
        }
        for number in range(32)
    ]
    document = {**CLAIM, "spec": {"devices": {"requests": requests}}}
    assert (await ask(caller, {"object": document}, "?timeout=500ms")).status == 503
    assert answered(await ask(caller, {"object": CLAIM}))[0]["verdict"] == "fits"


async def test_namespaces_take_turns(cluster, gated, until_reached):
    """Many users of one namespace do not keep out another one, or users who may see everything."""
    explainer, answered = Explainer(gated, lambda: DEFAULTS), []

    async def ask_of(namespace):
        claim = NamedObject(find_resource("claim"), "none", namespace)
        with contextlib.suppress(NotFoundError):
            await explainer.answer(claim, explainer.deadline("30s"), lambda: True, as_bytes, Audience(namespace))
        answered.append(namespace)

    asked = [asyncio.create_task(ask_of("team-a"))]
    await until_reached()
    for namespace in ("team-a", "team-a", "team-a", "team-b", ""):
        asked.append(asyncio.create_task(ask_of(namespace)))
        await asyncio.sleep(0)
    gated.gate.set()
    await asyncio.gather(*asked)
    assert answered[0] == "team-a"
    assert sorted(answered[1:4]) == ["", "team-a", "team-b"]


async def test_users_of_namespaces_leave_room_for_others_to_wait(cluster, gated, until_reached):
    explainer = Explainer(gated, lambda: DEFAULTS)

    async def ask_of(namespace):
        claim = NamedObject(find_resource("claim"), "none", namespace)
        await explainer.answer(claim, explainer.deadline("30s"), lambda: True, as_bytes, Audience(namespace))

    asked = [asyncio.create_task(ask_of("team-a"))]
    await until_reached()
    asked += [asyncio.create_task(ask_of(f"team-{number}")) for number in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError):
        await ask_of("team-a")
    asked.append(asyncio.create_task(ask_of("")))
    gated.gate.set()
    assert {type(each) for each in await asyncio.gather(*asked, return_exceptions=True)} == {NotFoundError}
