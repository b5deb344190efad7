"""Mutated reviews in process: every entry answers, and its patches apply and are complete.

make fuzz                              a million reviews
make fuzz FUZZ_REVIEWS=50000           fewer
make fuzz FUZZ_SEED=7                  the same reviews again
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter
from random import Random

import jsonpatch
import orjson
import pytest

from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy
from testbed.memory import resident_mebibytes
from tests.robustness.fuzzing.mutated_reviews import MutatedReviews, problem_of, repeated, sentence_problem
from webhook.server.admission import Admission
from webhook.server.admission_review import BadReview
from webhook.server.metrics import Metrics

REVIEWS = int(os.environ.get("FUZZ_REVIEWS") or 400)
OF_ONE_CLUSTER = 500
"""Reviews of one mutated cluster, before the next one."""
WARM_UP = 0.3
"""After what part of the reviews caches are full, so that memory is flat from there on."""
MOST_GROWTH = 1.15
LARGE = 100_000
"""Reviews from which on memory is compared; before, caches still fill."""
SETTINGS = (DEFAULTS, GPUAdmissionPolicy(access=Access(mode="deny")))


class Traces(logging.Handler):
    """Keeps the last trace that was logged."""

    last = ""

    def emit(self, record):
        if record.exc_info:
            self.last = logging.Formatter().formatException(record.exc_info)


@pytest.fixture
def traces(monkeypatch):
    """The log; it is not kept as pytest would, because memory must stay flat."""
    log, traces = logging.getLogger("gpu_admission.decisions"), Traces(logging.WARNING)
    monkeypatch.setattr(log, "handlers", [traces])
    monkeypatch.setattr(log, "propagate", False)
    return traces


class Tally:
    """What came of the reviews."""

    def __init__(self, traces):
        self.traces = traces
        self.verdicts = Counter()
        self.failures = {}
        self.warm = 0.0

    def fail(self, review, problem):
        trace, self.traces.last = self.traces.last, ""
        where = "".join(trace.splitlines(keepends=True)[-5:])
        self.failures.setdefault(f"{problem}\n{where}", json.dumps(review.document)[:4000])


def judge(run, admission, review, tally):
    """Answer a review; where the answer changes the object, review the changed one again."""
    try:
        answer = orjson.loads(run(admission.answer(review.entry, review.body, admission.deadline(None))))
    except BadReview as error:
        problem = sentence_problem(str(error)) if not review.is_readable else f"turned down: {error}"
        tally.verdicts["turned down"] += 1
        if problem:
            tally.fail(review, problem)
        return
    if problem := problem_of(review, answer):
        tally.fail(review, f"{review.entry.name}: {problem}")
        return
    response = answer["response"]
    tally.verdicts["denied" if not response["allowed"] else "changed" if "patch" in response else "allowed"] += 1
    try:
        again = repeated(review, answer)
    except jsonpatch.JsonPatchException as error:
        tally.fail(review, f"{review.entry.name}: the patch does not apply: {error}")
        return
    if again is None:
        return
    second = orjson.loads(run(admission.answer(again.entry, again.body, admission.deadline(None))))
    if not second["response"]["allowed"] or "patch" in second["response"]:
        tally.fail(review, f"{review.entry.name}: not idempotent: {json.dumps(second['response'])[:300]}")


def test_mutated_reviews_are_answered(fuzz_seed, traces):
    reviews, tally = MutatedReviews(Random(fuzz_seed)), Tally(traces)
    started = time.perf_counter()
    with asyncio.Runner() as runner:
        for number in range(REVIEWS):
            if number % OF_ONE_CLUSTER == 0:
                view, settings = reviews.view(), SETTINGS[number // OF_ONE_CLUSTER % len(SETTINGS)]
                admission = Admission(view, lambda settings=settings: settings, Metrics(), clock=lambda: 0.0)
            if number == int(REVIEWS * WARM_UP):
                tally.warm = resident_mebibytes()
            judge(runner.run, admission, reviews.review(), tally)
    now = resident_mebibytes()
    print(  # noqa: T201 - the result of `make fuzz`
        f"{REVIEWS:,} mutated reviews in {time.perf_counter() - started:,.0f} s: {dict(tally.verdicts)}, "
        f"{len(tally.failures)} failures; {tally.warm:.0f} MiB after {WARM_UP:.0%} of them, {now:.0f} MiB in the end"
    )
    assert not tally.failures, "\n\n".join(f"{problem}\n{text}" for problem, text in tally.failures.items())
    assert REVIEWS < LARGE or now < tally.warm * MOST_GROWTH
