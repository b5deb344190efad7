"""AdmissionReviews with mutated objects, and the invariants of their answers."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jsonpatch

from policies.admission import entries_called
from policies.admission.webhooks import ENTRIES
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed.mutations import Mutator
from tests.robustness.fuzzing.review_seeds import cluster_seeds, seeds
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from random import Random

    from policies.admission.webhooks import Entry

__all__ = ["MutatedReviews", "Review", "problem_of", "repeated", "sentence_problem"]

_NAMESPACES = ("team-a", "team-preview", "team-legacy", "default", "kube-system", "gpu-operator", "nowhere", "")
_BAD_NAMESPACES = ("Team_A", "..", "a/b", "-", "x" * 300, "é", "team-a\n")
_USERS = (
    {"username": "alice", "groups": ["system:authenticated"]},
    {"username": "system:serviceaccount:kube-system:resource-claim-controller"},
    {"username": "system:kube-scheduler"},
    {"username": "", "groups": None},
)
_MOST_MUTATIONS = 6
_LONGEST_SENTENCE = 500


@dataclass(frozen=True)
class Review:
    """A call: the entry and what is posted to it."""

    entry: Entry
    document: dict[str, Any]
    is_readable: bool
    """False if the call may be turned down, because of its namespace or because the envelope is mutated too."""

    @property
    def body(self) -> bytes:
        """The body of the call."""
        return json.dumps(self.document).encode()


class MutatedReviews:
    """Makes reviews, all of them from one source of chance."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._seeds = seeds()
        self._mutator = Mutator(random, self._seeds)
        self._view = ManifestsView(cluster_seeds())
        self._made = 0

    def view(self) -> ManifestsView:
        """A cluster: that of the examples, with some other objects and mutants of some."""
        random = self._random
        others = [self._mutator.mutant(random.choice(self._seeds), random.randint(0, 3)) for _ in range(30)]
        known = [each for each in others if isinstance(each, dict) and isinstance(each.get("kind"), str)]
        return ManifestsView([*cluster_seeds(), *known])

    def review(self) -> Review:
        """One more review."""
        random = self._random
        self._made += 1
        seed = random.choice(self._seeds)
        mutant = self._mutator.mutant(seed, random.randint(0, _MOST_MUTATIONS))
        operation = random.choice(["CREATE", "CREATE", "CREATE", "UPDATE", "DELETE", "CONNECT"])
        namespace = random.choice(_NAMESPACES if random.random() < 0.95 else _BAD_NAMESPACES)
        group, _, _ = str(seed.get("apiVersion")).rpartition("/")
        kind = seed["kind"] if random.random() < 0.97 else random.choice(self._seeds)["kind"]
        request: dict[str, Any] = {
            "uid": f"uid-{self._made}",
            "kind": {"group": group, "version": "v1", "kind": kind},
            "name": "thing" if random.random() < 0.9 else "",
            "namespace": namespace,
            "operation": operation,
            "userInfo": random.choice(_USERS),
            "object": mutant if isinstance(mutant, dict) and operation != "DELETE" else None,
            "oldObject": self._before(seed, mutant) if operation in ("UPDATE", "DELETE") else None,
            "dryRun": random.random() < 0.5,
        }
        if random.random() < 0.08:
            request["subResource"] = random.choice(["status", "ephemeralcontainers", "scale", "x"])
        document: Any = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        entry = self._entry(request)
        if random.random() < 0.03:
            return Review(entry, self._mutator.mutant(document, 1), is_readable=False)
        is_bad = namespace in _BAD_NAMESPACES or (not namespace and "quota" in entry.concerns)
        return Review(entry, document, is_readable=not is_bad)

    def _before(self, seed: Any, mutant: Any) -> Any:
        chosen = self._random.choice([seed, mutant, self._mutator.mutant(seed, 2), self._mutator.mutant(mutant, 2)])
        return chosen if isinstance(chosen, dict) else None

    def _entry(self, request: dict[str, Any]) -> Entry:
        """Mostly one that the API server would call, sometimes another one."""
        kind = request["kind"]
        called = entries_called(
            Request(
                request["object"],
                request["oldObject"],
                operation=request["operation"],
                group=kind["group"],
                kind=kind["kind"],
                subresource=request.get("subResource", ""),
                namespace=request["namespace"],
            ),
            self._view,
            DEFAULTS,
        )
        if called and self._random.random() < 0.85:
            return self._random.choice(called)
        return self._random.choice(list(ENTRIES.values()))


def problem_of(review: Review, answer: dict[str, Any]) -> str:
    """What is wrong with the answer to a review; empty if nothing is."""
    response = answer.get("response", {})
    if "failure" in response.get("auditAnnotations", {}):
        return "it failed"
    if not response.get("allowed"):
        code = response.get("status", {}).get("code", 0)
        if code >= 500 or not response["status"].get("message"):
            return f"refused with {response.get('status')}"
    if "patch" in response and not review.entry.mutating:
        return "a patch from an entry that validates"
    long = [line for line in response.get("warnings", ()) if len(line) > 120 or not line.isprintable()]
    return f"warnings that no terminal shows: {long}" if long else ""


def repeated(review: Review, answer: dict[str, Any]) -> Review | None:
    """The review of the object as the answer patches it; None if it does not.

    Raises:
        jsonpatch.JsonPatchException: The patch does not apply.
    """
    patch = answer["response"].get("patch")
    if patch is None:
        return None
    request = review.document["request"]
    patched = jsonpatch.apply_patch(request["object"], json.loads(base64.b64decode(patch)))
    return Review(review.entry, {**review.document, "request": {**request, "object": patched}}, is_readable=True)


def sentence_problem(text: str) -> str:
    """What is wrong with the words by which a call is turned down."""
    is_sentence = text.startswith("The ") and len(text) < _LONGEST_SENTENCE and "Traceback" not in text
    return "" if is_sentence else f"turned down with {text[:_LONGEST_SENTENCE]!r}"
