"""Refused calls for explanations: unknown callers, invalid questions, bodies that are too large."""

import pytest

from policies.kubernetes.names import closest
from tests.server.explain.calls import CLAIM, PATH, ask, plain
from webhook.cluster.lookups import NotFoundError, find_resource, look_up
from webhook.cluster.manifests import ManifestsView
from webhook.server.questions import LARGEST_QUESTION, MOST_TEMPLATES

NO_PLACE = (
    "Objects of this kind are not scheduled; ask about a Pod, a workload with pod templates, a ResourceClaim or a "
    "ResourceClaimTemplate."
)


NO_PATH = "This port answers POST /v1/explain and POST /v1/fit, also below /v1/namespaces/NAMESPACE, and nothing else."


HOW = 'post {"object": a manifest, "namespace": a name} or {"kind": "pod", "namespace": a name, "name": a name}.'


async def test_explanations_require_a_client_ca_or_tokens(webhook):
    assert plain(await ask(webhook.explain_client, {"object": CLAIM}), 403) == (
        "/v1/explain shows the holders of devices and answers known clients only, and no client CA is configured; "
        "start the server with --client-ca and --client-name, and call with a client certificate."
    )


async def test_caller_without_certificate_gets_no_explanation(guarded):
    assert plain(await ask(guarded.explain_client, {"object": CLAIM}), 403) == (
        "/v1/explain shows the holders of devices and answers known clients only, and this one showed no "
        "certificate with a common name; call with a client certificate, as in curl --cert client.pem --key client.key."
    )


async def test_caller_with_another_name_gets_no_explanation(guarded, client_of, client_context):
    client = await client_of(guarded.explain_port, client_context("mallory"))
    assert plain(await ask(client, {"object": CLAIM}), 403) == (
        '/v1/explain shows the holders of devices and answers known clients only, and "mallory" is not one of them; '
        "to allow it, start the server with --client-name for it."
    )


async def test_caller_is_refused_before_its_body_is_read(guarded, wire):
    connection = await wire(guarded.explain_port)
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
            f"The body has both an object and kind or name; {HOW}",
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
        "The timeout in the query is not a duration; write it as in ?timeout=10s."
    )


async def test_message_about_a_missing_object_names_similar_ones(start_webhook, client_of, client_context):
    from webhook.cluster.manifests import ManifestsView

    webhook = await start_webhook(view=ManifestsView([CLAIM]), allowed=["dashboard"])
    client = await client_of(webhook.explain_port, client_context("dashboard"))
    question = {"kind": "claim", "namespace": "team-a", "name": "gpus"}
    assert plain(await ask(client, question), 404) == (
        "ResourceClaim gpus in namespace team-a not found; did you mean claim/gpu?"
    )


@pytest.fixture
def compared(monkeypatch):
    """The lengths of the texts that were compared with known names."""
    lengths = []

    def guess(word, names, **options):
        lengths.append(len(word))
        return closest(word, names, **options)

    monkeypatch.setattr("webhook.cluster.lookups.closest", guess)
    return lengths


def said_of(name):
    """The error about a claim with this name, which does not exist."""
    with pytest.raises(NotFoundError) as missing:
        look_up(ManifestsView([CLAIM]), find_resource("claim"), name, "team-a")
    return missing.value.sentence


async def test_nothing_is_guessed_from_a_kind_that_is_very_long(caller, compared):
    await ask(caller, {"kind": "k" * 100_000, "name": "a"})
    assert compared == [253]


def test_nothing_is_guessed_from_a_name_that_is_very_long(compared):
    said_of("n" * 100_000)
    assert {*compared} == {253}


def test_name_that_cannot_be_printed_is_shown_on_one_line():
    assert said_of("a\n\x1b[2Jb") == "ResourceClaim a  [2Jb in namespace team-a not found"


async def test_object_of_a_kind_that_the_server_does_not_know_is_not_said_to_be_missing(caller):
    assert (
        plain(await ask(caller, {"kind": "pod", "name": "train"}), 404) == "Pods are unknown; post the object itself."
    )


@pytest.mark.parametrize(
    ("name", "hint"), [("web", "."), ("trian", "; did you mean pod/train?")], ids=["without GPUs", "misspelt"]
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
    client = await client_of(webhook.explain_port, client_context("dashboard"))
    assert plain(await ask(client, {"kind": "pod", "name": name}), 404) == (
        f"Pod {name} in namespace default is unknown: only pods that may get GPUs, and have not ended, are known by name; "
        f"post the object itself{hint}"
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_answer_to_other_methods_names_the_method(caller, method):
    answer = await caller.request(method, PATH)
    assert plain(answer, 405) == "This path answers POST only; send a question about an object."
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("path", ["/v1/", "/v1/explain/", "/v2/explain"])
async def test_answer_to_paths_beside_it_names_the_path(caller, path):
    assert plain(await caller.post(path, b"{}"), 404) == NO_PATH


async def test_other_content_types_are_reported_theirs(caller):
    answer = await caller.post(PATH, b"{}", "application/yaml")
    assert plain(answer, 415) == 'The content type is "application/yaml"; send the question as application/json.'


TOO_LARGE = "The body is larger than 2 MiB, and no object that a cluster stores is."


async def test_large_body_is_refused_by_its_announcement(guarded, client_context, wire):
    connection = await wire(guarded.explain_port, client_context("dashboard"))
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
