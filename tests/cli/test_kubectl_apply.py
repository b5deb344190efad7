"""What `kubectl apply` does and prints, against the sandbox."""

from __future__ import annotations

import aiohttp
import click
import pytest

from webhook.cli.kubectl import apply
from webhook.cluster.resources import RESOURCES
from webhook.sandbox.server import Sandbox

POD = RESOURCES["Pod"]


@pytest.fixture
async def sandbox():
    server = Sandbox()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def applied(sandbox):
    """Apply an object in namespace default; what is printed."""

    async def applied(document, resource=POD):
        async with aiohttp.ClientSession(sandbox.url) as session:
            done = await apply(session, resource, "default" if resource.namespaced else "", document)
        return [click.unstyle(line) for line in done.lines("file.yaml", document["metadata"]["name"])]

    return applied


class Warns:
    """Admission that warns and lets everything through."""

    def __init__(self, *texts):
        self.texts = texts

    async def mutate(self, attempt, warn):
        for text in self.texts:
            warn(text)
        return attempt.object

    async def validate(self, attempt, warn):
        pass


async def test_new_object_is_created(applied, pod, sandbox):
    assert await applied(pod(namespace="")) == ["pod/train created"]
    assert sandbox.get("Pod", "train", "default") is not None


async def test_known_object_is_configured(applied, pod, sandbox):
    await applied(pod(namespace=""))
    changed = pod(namespace="")
    changed["spec"]["containers"][0]["image"] = "pytorch:2.8"
    assert await applied(changed) == ["pod/train configured"]
    assert sandbox.get("Pod", "train", "default")["spec"]["containers"][0]["image"] == "pytorch:2.8"


async def test_warnings_come_first_as_they_were_written(applied, pod, sandbox):
    sandbox._cluster.admission = Warns('write "nvidia.com/gpu"', r"a \ back", "two")
    assert await applied(pod(namespace="")) == [
        'Warning: write "nvidia.com/gpu"',
        r"Warning: a \ back",
        "Warning: two",
        "pod/train created",
    ]


async def test_object_that_is_not_valid_is_reported_with_its_causes(applied, pod):
    (line,) = await applied(pod(namespace="") | {"metadata": {"name": "train", "labels": {"a": "/", "b": "?"}}})
    first, *causes = line.split("\n")
    assert first == 'The Pod "train" is invalid: '
    assert [cause.partition(": a valid")[0] for cause in causes] == [
        '* metadata.labels: Invalid value: "/"',
        '* metadata.labels: Invalid value: "?"',
    ]


async def test_refusal_is_reported_with_its_reason_and_file(applied, pod):
    (line,) = await applied(pod(namespace="elsewhere"))
    assert line == (
        'Error from server (BadRequest): error when creating "file.yaml": the namespace of the provided object does not'
        " match the namespace sent on the request"
    )
