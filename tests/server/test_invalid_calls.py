"""Requests that are not webhook calls, and their answers."""

import json

import pytest

from policies.admission.webhooks import ENTRIES

NO_PATH = (
    "No webhook has this path; POST an AdmissionReview to one of /convert-pods, /place-pods, "
    "/place-unconverted-pods, /reapply, /workloads, /claims, /enforce-converted-pods, /enforce-quota, /check-pods, "
    "/check-unconverted-pods, /guard-pods, /guard-changes, /configuration, /nodes, /opt-in.\n"
)


def plain(answer, status):
    assert answer.status == status
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    return answer.text


@pytest.mark.parametrize(
    "path",
    ["/", "/convert", "/convert-pods/", "/convert-pods/x", "/metrics", "/%0a", "//convert-pods", "/v1%2Fexplain"],
)
async def test_answer_to_an_unknown_path_lists_the_paths(webhook, path):
    assert plain(await webhook.client.post(path, b"{}"), 404) == NO_PATH


def test_sentence_names_every_entry():
    assert all(f"/{entry}" in NO_PATH for entry in ENTRIES)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_answer_to_other_methods_names_the_method(webhook, method):
    answer = await webhook.client.request(method, "/convert-pods")
    assert plain(answer, 405) == "This path answers POST only; send an AdmissionReview.\n"
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("content_type", ["text/plain", "application/yaml", "application/x-www-form-urlencoded"])
async def test_other_content_types_are_reported_theirs(webhook, content_type):
    answer = await webhook.client.post("/convert-pods", b"{}", content_type)
    assert plain(answer, 415) == f'The content type is "{content_type}"; send an AdmissionReview as application/json.\n'


async def test_missing_content_type_is_no_json(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(b"POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
    assert (await connection.head()).startswith("HTTP/1.1 415 ")
    assert connection.body.startswith('The content type is "application/octet-stream"; ')


async def test_compressed_body_is_not_unpacked(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(
        b"POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert (await connection.head()).startswith("HTTP/1.1 415 ")
    assert connection.body == "The body has a Content-Encoding; send it without compression.\n"


TOO_LARGE = "The body is larger than 8 MiB; send a smaller object.\n"


async def test_large_body_is_refused_by_its_announcement(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(
        b"POST /convert-pods?timeout=100ms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 67108865\r\n\r\n"
    )
    assert (await connection.head()).startswith("HTTP/1.1 413 ")
    assert connection.body == TOO_LARGE


async def test_large_body_is_refused_without_announcement(webhook):
    async def pieces():
        for _ in range(9):
            yield b" " * 1024 * 1024

    assert plain(await webhook.client.post("/convert-pods", pieces()), 413) == TOO_LARGE


async def test_body_of_eight_mebibytes_is_read(webhook):
    answer = await webhook.client.post("/convert-pods", b" " * 8 * 1024 * 1024)
    assert plain(answer, 400).startswith("The body is not valid JSON: ")


@pytest.mark.parametrize("given", ["", "5", "-5s", "5 s", "5s ", "abc", "1e3s", "s", "5sm"])
async def test_bad_timeout_is_refused(webhook, given):
    answer = await webhook.client.request(
        "POST", "/convert-pods", params={"timeout": given}, data=b"{}", headers={"Content-Type": "application/json"}
    )
    assert plain(answer, 400) == "The timeout in the query is not a duration; write it as in ?timeout=10s.\n"


async def test_body_that_does_not_arrive_is_not_waited_for(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(
        b"POST /convert-pods?timeout=50ms HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 10\r\n\r\n{"
    )
    assert (await connection.head()).startswith("HTTP/1.1 408 ")
    assert connection.body == "The body did not arrive before the call's timeout.\n"


async def test_wrongly_framed_body_is_refused_without_a_traceback(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(
        b"POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"
    )
    assert "400 Bad Request" in await connection.head()
    assert "Traceback" not in connection.body


async def test_answer_to_a_bad_review_says_what_is_wrong(webhook, review_of, pod):
    review = review_of(pod())
    del review["request"]["uid"]
    answer = await webhook.client.post("/convert-pods", json.dumps(review).encode())
    assert plain(answer, 400) == "The AdmissionReview cannot be read: request.uid is missing.\n"


async def test_what_is_turned_down_is_logged_and_counted(webhook, lines):
    await webhook.client.post("/convert-pods", b"{")
    (line,) = lines(level="warning")
    assert line["message"].startswith("turned down: The body is not valid JSON: ")
    assert (line["path"], line["status"]) == ("/convert-pods", 400)
    counted = 'gpu_admission_requests_total{verdict="turned_down",webhook="convert-pods"} 1.0'
    assert counted in webhook.metrics.exposition().text().decode()


async def test_mistake_of_ours_shows_no_traceback(webhook, review_of, pod, monkeypatch, lines):
    def broken(body, entry, **caller):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("webhook.server.admission.decode", broken)
    answer = await webhook.client.post("/convert-pods", json.dumps(review_of(pod())).encode())
    (line,) = lines(level="error")
    identifier = line["failure"]
    assert plain(answer, 503) == f"The server failed; its log has the details under the id {identifier}.\n"
    assert "RuntimeError: secret detail" in line["trace"]


async def test_client_that_leaves_early_is_no_error(webhook, wire, until, lines, caplog):
    connection = await wire(webhook.port)
    await connection.send(
        b"POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{"
    )
    traffic = webhook.calls.traffic
    await until(lambda: traffic.under_way)
    connection.abort()
    await until(lambda: not traffic.under_way)
    assert lines(message="turned down: The body is incomplete.")
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


EXPECTING = (
    b"POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: "
)


async def test_client_that_waits_is_told_to_continue(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(EXPECTING + b"100-continue\r\n\r\n")
    await connection.told_to_continue()
    await connection.send(b"{}")
    assert (await connection.head()).startswith("HTTP/1.1 400 ")


async def test_other_expectations_are_not_met(webhook, wire):
    connection = await wire(webhook.port)
    await connection.send(EXPECTING + b"200-ok\r\n\r\n{}")
    assert (await connection.head()).startswith("HTTP/1.1 417 ")
    assert connection.body == "The header Expect must be 100-continue."
