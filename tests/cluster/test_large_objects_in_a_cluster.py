"""Large objects are refused while others hold the memory for them; an API server, a client of Go, reads that answer."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from http import HTTPStatus
from urllib.parse import urlsplit

import pytest

from testbed import manifests
from testbed.waiting import until
from webhook.server.app import LARGEST_BODY

SOURCES = ("127.0.0.1", "127.0.0.2")
"""Two addresses may hold all of the memory, one of them half."""


@pytest.fixture
def held_memory(real):
    """Connections that hold the memory for large bodies, and send no more of theirs."""
    where = urlsplit(real.service.url)
    context = ssl._create_unverified_context()
    head = f"POST /guard-pods?timeout=30s HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    with contextlib.ExitStack() as stack:
        for source in SOURCES:
            plain = socket.create_connection((where.hostname, where.port), source_address=(source, 0))
            sent = stack.enter_context(context.wrap_socket(stack.enter_context(plain)))
            sent.sendall(f"{head}Content-Length: {LARGEST_BODY}\r\n\r\n{{".encode())
        until(lambda: in_flight(real) >= len(SOURCES), "the memory is held")
        yield


def in_flight(real):
    (count,) = re.findall(r"^gpu_admission_requests_in_flight (\S+)$", real.service.metrics(), re.MULTILINE)
    return float(count)


def test_large_pod_is_refused_where_the_webhook_fails_open(real, held_memory):
    pod = manifests.pod(real.namespace())
    pod["spec"]["containers"][0]["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NOTES", "value": "x" * 500_000},
    ]
    answer = real.create(pod)
    assert answer.code == HTTPStatus.TOO_MANY_REQUESTS
    assert "denied the request: too many requests: this one was not reviewed in time" in answer.message
