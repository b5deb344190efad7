"""Mutated reviews over HTTPS, to `gpu-admission serve` beside a sandbox: charges, templates and all.

make fuzz                              100,000 calls
make fuzz FUZZ_CALLS=5000              fewer
make fuzz FUZZ_SEED=7                  the same calls again, as far as chance goes
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import time
from collections import Counter
from http import HTTPStatus
from random import Random

import aiohttp
import jsonpatch
import pytest

from testbed.background import Background
from testbed.memory import resident_mebibytes
from testbed.sandbox_cluster import SandboxCluster
from tests.robustness.fuzzing.mutated_reviews import MutatedReviews, problem_of, repeated, sentence_problem

CALLS = int(os.environ.get("FUZZ_CALLS") or 200)
CLIENTS = 8
WARM_UP = 0.3
"""After what part of the calls caches are full, so that memory is flat from there on."""
MOST_GROWTH = 1.2
LARGE = 20_000
"""Calls from which on memory is compared; before, caches still fill."""
QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "gpu"},
    "spec": {"limits": [{"name": "all", "gpus": 8}]},
}
TEAMS = {
    "team-a": {"gpu-admission.io/dra": "enabled", "gpu-admission.io/quota": "enforced"},
    "team-preview": {"gpu-admission.io/dra": "preview"},
    "team-legacy": {},
}


@pytest.fixture
def background():
    background = Background()
    yield background
    background.close()


@pytest.fixture
def cluster(background, tmp_path):
    """A sandbox with teams that have quotas, and the service beside it."""
    cluster = SandboxCluster(background, tmp_path)
    try:
        cluster.begin()
        for name, labels in TEAMS.items():
            cluster.add_namespace(name, labels)
            cluster.create({**QUOTA, "metadata": {"name": "gpu", "namespace": name}})
        yield cluster
        cluster.tidy()
    finally:
        cluster.close()


class Calls:
    """The calls, and what came of them."""

    def __init__(self, cluster, seed):
        self._cluster = cluster
        self._reviews = MutatedReviews(Random(seed))
        self._left = CALLS
        self.verdicts = Counter()
        self.failures = {}
        self.warm = 0.0

    async def make(self):
        """Make all of them, by some clients at once."""
        configuration = self._cluster.sandbox.get("ValidatingWebhookConfiguration", "gpu-admission")
        bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"]
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        connector = aiohttp.TCPConnector(ssl=context, limit=CLIENTS)
        async with aiohttp.ClientSession(self._cluster.service.url, connector=connector) as session:
            await asyncio.gather(*(self._client(session) for _ in range(CLIENTS)))

    async def _client(self, session):
        while self._left > 0:
            self._left -= 1
            if self._left == int(CALLS * (1 - WARM_UP)):
                self.warm = resident_mebibytes(self._cluster.service.process_id)
            review = self._reviews.review()
            answer = await self._post(session, review)
            if answer is not None and (again := self._again(review, answer)) is not None:
                second = await self._post(session, again)
                if second is not None and "patch" in second["response"]:
                    self._fail(review, "not idempotent")

    async def _post(self, session, review):
        """The answer; None if there is nothing more to find out from it."""
        headers = {"Content-Type": "application/json"}
        async with session.post(f"/{review.entry.name}?timeout=10s", data=review.body, headers=headers) as response:
            text = await response.text()
        if response.status != HTTPStatus.OK:
            problem = (
                sentence_problem(text) if response.status == HTTPStatus.BAD_REQUEST else f"status {response.status}"
            )
            if review.is_readable or problem:
                self._fail(review, problem or f"turned down: {text}")
            self.verdicts["turned down"] += 1
            return None
        answer = json.loads(text)
        if problem := problem_of(review, answer):
            self._fail(review, problem)
            return None
        said = answer["response"]
        self.verdicts["denied" if not said["allowed"] else "changed" if "patch" in said else "allowed"] += 1
        return answer

    def _again(self, review, answer):
        try:
            return repeated(review, answer)
        except jsonpatch.JsonPatchException as error:
            self._fail(review, f"the patch does not apply: {error}")
            return None

    def _fail(self, review, problem):
        self.failures.setdefault(f"{review.entry.name}: {problem}", json.dumps(review.document)[:4000])


def traces(log):
    """The traces in a log, each once by its last lines."""
    lines = (json.loads(line) for line in log.splitlines() if '"trace"' in line)
    return list(dict.fromkeys("\n".join(line["trace"].splitlines()[-4:]) for line in lines))


def test_mutated_calls_are_answered(cluster, background, fuzz_seed):
    calls = Calls(cluster, fuzz_seed)
    started = time.perf_counter()
    background.run(calls.make(), seconds=24 * 3600)
    now = resident_mebibytes(cluster.service.process_id)
    found = traces(cluster.service.log())
    print(  # noqa: T201 - the result of `make fuzz`
        f"{CALLS:,} mutated calls over HTTPS in {time.perf_counter() - started:,.0f} s: {dict(calls.verdicts)}, "
        f"{len(calls.failures)} failures, {len(found)} traces in the log; "
        f"{calls.warm:.0f} MiB after {WARM_UP:.0%} of them, {now:.0f} MiB in the end"
    )
    assert not calls.failures, "\n\n".join(f"{problem}\n{text}" for problem, text in calls.failures.items())
    assert not found, "\n\n".join(found)
    assert CALLS < LARGE or now < calls.warm * MOST_GROWTH
