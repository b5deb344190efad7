"""Who gets explanations, of what, and what everybody else is told."""

import asyncio
import itertools
import json
import threading

import pytest

from policies.explanation import explain, questions
from policies.settings import DEFAULTS, AddedKind, GPUAdmissionPolicy, Workloads
from webhook.server.explain import LARGEST_QUESTION
from webhook.server.explain_question import MOST_TEMPLATES, PostedObject
from webhook.server.explainer import MOST_WAITING, Explainer, UnavailableError

PATH = "/v1/explain"
NO_PLACE = (
    "The object finds no place on nodes; ask about a Pod, a workload with pod templates, a ResourceClaim or a "
    "ResourceClaimTemplate."
)
HOW = 'post {"object": a manifest, "namespace": a name} or {"kind": "pod", "namespace": a name, "name": a name}.'


class Gated:
    """A cluster that is slow to answer explanations: they wait until a test opens the gate."""

    def __init__(self, view):
        self._view = view
        self.gate = threading.Event()
        self.reached = threading.Event()

    def get(self, kind, name, namespace=""):
        if threading.current_thread() is not threading.main_thread():
            self.reached.set()
            self.gate.wait()
        return self._view.get(kind, name, namespace)

    def list(self, kind, namespace=""):
        return self._view.list(kind, namespace)

    def server_version(self):
        return self._view.server_version()

    def derive(self, function):
        return self._view.derive(function)

    def derive_each(self, kind, function):
        return self._view.derive_each(kind, function)

    def count_each(self, kind, function):
        return self._view.count_each(kind, function)

    def others_on(self, node):
        return self._view.others_on(node)


@pytest.fixture
def gated(cluster):
    view = Gated(cluster)
    yield view
    view.gate.set()


@pytest.fixture
async def guarded(start_webhook):
    return await start_webhook(allowed=["kube-apiserver", "dashboard"])


@pytest.fixture
async def caller(guarded, client_of, client_context):
    """A caller that gets explanations."""
    return await client_of(guarded.port, client_context("dashboard"))


@pytest.fixture
async def slow(start_webhook, client_of, client_context, gated):
    """A webhook that is slow to explain, and a caller of it."""
    webhook = await start_webhook(view=gated, allowed=["dashboard"])
    return webhook, await client_of(webhook.port, client_context("dashboard"))


@pytest.fixture
def until_reached(gated):
    """Wait until an explanation is under way."""

    async def wait():
        assert await asyncio.to_thread(gated.reached.wait, 10)
        gated.reached.clear()

    return wait


async def ask(client, question, query=""):
    return await client.post(PATH + query, json.dumps(question).encode())


def plain(answer, status):
    assert answer.status == status
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.text.endswith("\n")
    return answer.text[:-1]


def answered(answer):
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    return json.loads(answer.text)


def of_core(document, view, namespace="default"):
    return [explain(question, view, DEFAULTS).as_json() for question in questions(document, namespace, view, DEFAULTS)]


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}


async def test_posted_claim_is_explained(caller, cluster):
    (explanation,) = answered(await ask(caller, {"object": CLAIM}))
    assert [explanation] == of_core(CLAIM, cluster)
    assert (explanation["verdict"], explanation["fitNow"]) == ("fits", 3)


async def test_posted_pod_is_explained_as_it_would_be_converted(caller, pod):
    (explanation,) = answered(await ask(caller, {"object": pod()}))
    assert (explanation["label"], explanation["verdict"]) == ("pod team-a/train", "fits")
    assert explanation["convertedTo"].startswith("gpu-")


async def test_namespace_is_that_of_objects_that_name_none(caller, pod):
    document = pod()
    del document["metadata"]["namespace"]
    labels = [
        answered(await ask(caller, {"object": document, **namespace}))[0]["label"]
        for namespace in ({"namespace": "team-legacy"}, {"namespace": None}, {})
    ]
    assert labels == ["pod team-legacy/train", "pod default/train", "pod default/train"]


async def test_each_template_of_a_workload_is_explained(caller, pod):
    template = {"spec": pod()["spec"]}
    document = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "big", "namespace": "team-a"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"template": template}}},
    }
    explanations = answered(await ask(caller, {"object": document}))
    assert [explanation["label"] for explanation in explanations] == [
        "PyTorchJob team-a/big, spec.pytorchReplicaSpecs.Master.template",
        "PyTorchJob team-a/big, spec.pytorchReplicaSpecs.Worker.template",
    ]


@pytest.mark.parametrize("kind", ["claim", "ResourceClaim", "resourceclaims.resource.k8s.io"])
async def test_object_of_the_cluster_is_explained_by_its_name(start_webhook, client_of, client_context, cluster, kind):
    from webhook.cluster.manifests import ManifestsView

    facts = [item for each in ("DeviceClass", "Namespace", "Node", "ResourceSlice") for item in cluster.list(each)]
    view = ManifestsView([*facts, CLAIM])
    webhook = await start_webhook(view=view, allowed=["dashboard"])
    client = await client_of(webhook.port, client_context("dashboard"))
    question = {"kind": kind, "namespace": "team-a", "name": "gpu"}
    assert answered(await ask(client, question)) == of_core(CLAIM, view)


async def test_object_of_a_kind_that_the_settings_add_is_explained_by_its_name(
    start_webhook, client_of, client_context, pod
):
    from webhook.cluster.manifests import ManifestsView

    run = {"apiVersion": "example.com/v1", "kind": "TrainingRun", "metadata": {"name": "run", "namespace": "default"}}
    settings = GPUAdmissionPolicy(workloads=Workloads((AddedKind("example.com", "TrainingRun", ("spec.template",)),)))
    view = ManifestsView([{**run, "spec": {"template": {"spec": pod()["spec"]}}}])
    webhook = await start_webhook(view=view, settings=settings, allowed=["dashboard"])
    client = await client_of(webhook.port, client_context("dashboard"))
    (explanation,) = answered(await ask(client, {"kind": "trainingrun", "name": "run"}))
    assert explanation["label"] == "TrainingRun default/run"


async def test_nobody_gets_explanations_where_nobody_can_prove_who_they_are(webhook):
    assert plain(await ask(webhook.client, {"object": CLAIM}), 403) == (
        "/v1/explain tells who holds which devices and answers only to known clients, and no client CA is configured; "
        "start the server with --client-ca and --client-name, and call with a client certificate."
    )


async def test_caller_without_certificate_gets_none(guarded):
    assert plain(await ask(guarded.client, {"object": CLAIM}), 403) == (
        "/v1/explain tells who holds which devices and answers only to known clients, and this one showed no "
        "certificate with a common name; call with a client certificate, as in curl --cert client.pem --key client.key."
    )


async def test_caller_of_another_name_gets_none(guarded, client_of, client_context):
    client = await client_of(guarded.port, client_context("mallory"))
    assert plain(await ask(client, {"object": CLAIM}), 403) == (
        '/v1/explain tells who holds which devices and answers only to known clients, and none of them is called "mallory"; '
        "start the server with --client-name for it if it may know."
    )


async def test_caller_is_refused_before_its_body_is_read(guarded, wire):
    connection = await wire(guarded.port)
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 99999999\r\n\r\n"
    )
    assert (await connection.head()).startswith("HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("{", "The body is not valid JSON: unexpected end of data at line 1 column 2."),
        ("", "The body is not valid JSON: Input is a zero-length, empty document at line 1 column 1."),
        ("[" * 300 + "]" * 300, "The body is nested too deeply; no Kubernetes object has 254 levels."),
        ("[]", f"The body is not a JSON object; {HOW}"),
        ("{}", f"The body has neither an object, nor a kind and a name; {HOW}"),
        ('{"kind": "pod"}', f"The body has neither an object, nor a kind and a name; {HOW}"),
        ('{"kind": "", "name": ""}', f"The body has neither an object, nor a kind and a name; {HOW}"),
        ('{"name": "train"}', f"The body has neither an object, nor a kind and a name; {HOW}"),
        ('{"kind": "pod", "name": 1}', f"The field name must be a string; {HOW}"),
        ('{"object": {}, "namespace": []}', f"The field namespace must be a string; {HOW}"),
        ('{"objekt": {}}', f'The field "objekt" is unknown; {HOW}'),
        (
            '{"object": {}, "name": "train"}',
            f"The body has an object beside kind or name, and it can be asked about one only; {HOW}",
        ),
        ('{"object": null}', "The object must be a manifest with apiVersion and kind."),
        ('{"object": {"kind": "Pod"}}', "The object has no apiVersion; every object of Kubernetes names one."),
        (
            '{"object": {"apiVersion": "v1", "kind": ["Pod"]}}',
            "The object has no kind; every object of Kubernetes names one.",
        ),
        (
            '{"object": {"apiVersion": "v1", "kind": "Service"}}',
            NO_PLACE,
        ),
        (
            '{"kind": "deploymnet", "name": "web"}',
            "The kind cannot be explained: unknown kind deploymnet; did you mean deployment?",
        ),
    ],
)
async def test_answer_to_an_invalid_question_says_what_is_wrong(caller, body, sentence):
    assert plain(await caller.post(PATH, body.encode()), 400) == sentence


async def test_workload_of_very_many_templates_is_not_explained(caller):
    group = {"template": {"spec": {"containers": []}}}
    document = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {"workerGroupSpecs": [group] * (MOST_TEMPLATES + 1)},
    }
    assert plain(await ask(caller, {"object": document}), 400) == (
        "The object has 65 pod templates; at most 64 are explained in one call."
    )


async def test_bad_timeout_is_refused(caller):
    assert plain(await ask(caller, {"object": CLAIM}, "?timeout=soon"), 400) == (
        "The timeout in the query is no duration; write it as in ?timeout=10s."
    )


async def test_message_about_a_missing_object_names_similar_ones(start_webhook, client_of, client_context):
    from webhook.cluster.manifests import ManifestsView

    webhook = await start_webhook(view=ManifestsView([CLAIM]), allowed=["dashboard"])
    client = await client_of(webhook.port, client_context("dashboard"))
    question = {"kind": "claim", "namespace": "team-a", "name": "gpus"}
    assert plain(await ask(client, question), 404) == (
        "ResourceClaim gpus in namespace team-a not found; did you mean gpu?"
    )


async def test_object_of_a_kind_that_the_server_does_not_know_is_not_said_to_be_missing(caller):
    assert (
        plain(await ask(caller, {"kind": "pod", "name": "train"}), 404) == "Pods are unknown; post the object itself."
    )


@pytest.mark.parametrize(
    ("name", "hint"), [("web", "."), ("trian", "; did you mean train?")], ids=["without GPUs", "misspelt"]
)
async def test_pod_that_a_running_cluster_may_have_is_to_be_posted(
    start_webhook, client_of, client_context, name, hint
):
    from webhook.cluster.live import LiveView
    from webhook.cluster.store import Listing, Store
    from webhook.cluster.watched_kinds import watched_kinds

    (pods,) = [each for each in watched_kinds(()) if each.kind == "Pod"]
    store = Store(pods.resource)
    listing = Listing(store)
    listing.add([{"metadata": {"name": "train", "namespace": "default"}}])
    listing.finish("1")
    webhook = await start_webhook(view=LiveView([(pods, store)]), allowed=["dashboard"])
    client = await client_of(webhook.port, client_context("dashboard"))
    assert plain(await ask(client, {"kind": "pod", "name": name}), 404) == (
        f"Pod {name} in namespace default is unknown: only pods that may get GPUs, and have not ended, are known by name; "
        f"post the object itself{hint}"
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_answer_to_other_methods_names_the_method(caller, method):
    answer = await caller.request(method, PATH)
    assert plain(answer, 405) == "This path answers POST only; what is posted is a question about an object."
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("path", ["/v1/", "/v1/explain/", "/v2/explain"])
async def test_answer_to_paths_beside_it_names_the_path(caller, path):
    assert plain(await caller.post(path, b"{}"), 404).endswith(", or a question to /v1/explain.")


async def test_other_content_types_are_reported_theirs(caller):
    answer = await caller.post(PATH, b"{}", "application/yaml")
    assert plain(answer, 415) == 'The content type is "application/yaml"; send the question as application/json.'


TOO_LARGE = "The body is larger than 2 MiB, and no object that a cluster stores is."


async def test_large_body_is_refused_by_its_announcement(guarded, client_context, wire):
    connection = await wire(guarded.port, client_context("dashboard"))
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2097153\r\n\r\n"
    )
    assert (await connection.head()).startswith("HTTP/1.1 413 ")
    assert connection.body == f"{TOO_LARGE}\n"


async def test_large_body_is_refused_without_announcement(caller):
    async def pieces():
        for _ in range(3):
            yield b" " * (LARGEST_QUESTION // 2)

    assert plain(await caller.post(PATH, pieces()), 413) == TOO_LARGE


async def test_body_of_two_mebibytes_is_read(caller):
    answer = await caller.post(PATH, b" " * LARGEST_QUESTION)
    assert plain(answer, 400).startswith("The body is not valid JSON: ")


NAMED = {"kind": "pod", "name": "train"}


async def test_reviews_go_on_while_something_is_explained(slow, gated, until_reached, pod, review_of):
    webhook, client = slow
    explaining = asyncio.create_task(ask(client, NAMED))
    await until_reached()
    assert (await webhook.client.ask("placement", review_of(pod())))["allowed"] is True
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
    from webhook.server.app import TRAFFIC

    webhook, client = slow
    first = asyncio.create_task(ask(client, NAMED))
    await until_reached()
    connection = await wire(webhook.port, client_context("dashboard"))
    body = json.dumps(NAMED).encode()
    await connection.send(
        b"POST /v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    traffic = webhook.app[TRAFFIC]
    await until(lambda: traffic.under_way == 2)
    connection.abort()
    await until(lambda: any(each.transport is None for each in webhook.runner.server.connections))
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
    await ask(guarded.client, {"object": CLAIM})
    text = guarded.metrics.text().decode()
    assert 'gpu_admission_explanations_total{outcome="answered"} 1.0' in text
    assert 'gpu_admission_explanations_total{outcome="turned_down"} 2.0' in text
    assert "gpu_admission_explanation_duration_seconds_count 1.0" in text
    webhook, client = slow
    await ask(client, NAMED, "?timeout=50ms")
    assert 'gpu_admission_explanations_total{outcome="unavailable"} 1.0' in webhook.metrics.text().decode()


class Broken(Gated):
    """A cluster that nobody can look at."""

    def get(self, kind, name, namespace=""):
        raise RuntimeError("secret detail")


async def test_mistake_of_ours_shows_no_traceback(start_webhook, client_of, client_context, cluster, lines):
    webhook = await start_webhook(view=Broken(cluster), allowed=["dashboard"])
    answer = await ask(await client_of(webhook.port, client_context("dashboard")), NAMED)
    (line,) = lines(level="error")
    assert plain(answer, 503) == f"The webhook failed; its log has the details under the id {line['failure']}."
    assert "RuntimeError: secret detail" in line["trace"]
    assert 'gpu_admission_explanations_total{outcome="failed"} 1.0' in webhook.metrics.text().decode()


async def test_work_ends_with_the_time_of_its_call(cluster):
    clock = itertools.count()
    explainer = Explainer(cluster, lambda: DEFAULTS, clock=lambda: next(clock))
    with pytest.raises(UnavailableError, match=r"^The explanation took longer than the call's timeout; ask"):
        await explainer.answer(PostedObject(CLAIM, ""), explainer.deadline("9s"), lambda: True)
    assert next(clock) == 10


async def test_work_ends_when_its_caller_has_gone(cluster):
    explainer = Explainer(cluster, lambda: DEFAULTS)
    there = iter([True] * 5 + [False])
    with pytest.raises(UnavailableError, match=r"^The caller has gone\.$"):
        await explainer.answer(PostedObject(CLAIM, ""), explainer.deadline(None), lambda: next(there))
    assert not list(there)


async def test_failure_of_work_that_nobody_waits_for_is_nobody_s(slow, gated, caplog):
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
