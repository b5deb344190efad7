"""Rounds of calls: both checkouts serve the same cluster, and get the same calls in the same order."""

from __future__ import annotations

import json
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from testbed import libyaml
from testbed.differential.differences import Answers
from testbed.differential.material import write_manifests
from testbed.differential.running_service import RunningService
from testbed.differential.seeded_opt_in import NAMESPACES, namespaces, quotas, settings
from testbed.differential.seeded_reviews import Entries, SeededReviews
from testbed.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from testbed.differential.differences import Report
    from testbed.differential.material import Material
    from testbed.differential.seeded_objects import SeededObjects
    from testbed.differential.seeded_reviews import Call

    Both: TypeAlias = Callable[[Callable[[RunningService], Any]], list[Any]]


_REVIEWS_OF_A_ROUND = 600
_EXPLANATIONS_OF_A_ROUND = 100
_ROUND_SECONDS = 70
"""The time for the reviews of a round; those that are left are asked in one more round."""
_CHARGE_SECONDS = 115
"""A charge expires two minutes after it was made, unless its object is seen; so all of a round is over before."""
_TRANSIENT = re.compile(r'"(code|status)": (429|503|504)\b|GA504|was not reviewed')
"""In an answer that may become another one when the same is asked again."""
_ATTEMPTS = 6
_PAUSE = 1.0
_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b")
"""The end of a generated name."""
_RANDOM_METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_CUSTOM = (
    ("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies"),
    ("nvidia.com", "v1alpha1", "NVIDIADriver", "nvidiadrivers"),
    ("nvidia.com", "v1alpha1", "GPUCluster", "gpuclusters"),
)
_CREATED = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}
_STORED = (
    "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/api/v1/pods",
    "/apis/apps/v1/deployments",
)


class ServiceRounds:
    """Makes up clusters and calls, and compares the answers and what is stored in the end."""

    def __init__(
        self,
        checkouts: tuple[Path, Path],
        folder: Path,
        report: Report,
        seeded: Callable[[str], tuple[Random, SeededObjects]],
        material: Material,
    ) -> None:
        self._checkouts = checkouts
        self._folder = folder
        self._report = report
        self._seeded = seeded
        self._random, self._objects = seeded("http")
        self._material = material
        install = libyaml.load_all((checkouts[0] / "deploy" / "install.yaml").read_text())
        configurations = [each for each in install if str(each["kind"]).endswith("WebhookConfiguration")]
        labelled = [each for each in material.objects if each["kind"] == "Namespace" and "name" in each["metadata"]]
        self._reviews = SeededReviews(self._random, self._objects, Entries(configurations, [*labelled, *namespaces()]))

    def run(self, reviews: int, explanations: int) -> None:
        """Compare so many reviews, creates and explanations, in as many rounds as they need."""
        number = 0
        while reviews or explanations:
            asked = min(explanations, _EXPLANATIONS_OF_A_ROUND)
            reviews -= self._round(number, min(reviews, _REVIEWS_OF_A_ROUND), asked)
            explanations -= asked
            number += 1

    def _round(self, number: int, reviews: int, explanations: int) -> int:
        """Compare, and return how many reviews there was time for."""
        folder = self._folder / f"round-{number}"
        cluster = self._cluster(folder / "cluster", number)
        services = [
            RunningService(checkout, cluster, folder / name)
            for checkout, name in zip(self._checkouts, ("before", "after"), strict=True)
        ]
        with ThreadPoolExecutor(len(services)) as pool:

            def both(ask: Callable[[RunningService], Any]) -> list[Any]:
                return list(pool.map(ask, services))

            try:
                both(RunningService.wait)
                for _ in range(explanations):
                    self._explain(both, cluster)
                start = time.monotonic()
                done = 0
                while done < reviews and time.monotonic() < start + _ROUND_SECONDS:
                    ask = self._create if done % 5 == 4 else self._review
                    ask(both, cluster)
                    done += 1
                if reviews:
                    self._compare_stored(both, cluster, start + _CHARGE_SECONDS - time.monotonic())
                return done
            finally:
                both(RunningService.stop)

    def _cluster(self, folder: Path, number: int) -> Path:
        """The folder of one of the clusters, with our namespaces, quotas and settings."""
        names = sorted(self._material.clusters)
        shutil.copytree(self._material.clusters[names[number % len(names)]], folder)
        write_manifests(folder / "namespaces-of-reviews.yaml", namespaces())
        random, _ = self._seeded(f"cluster {number}")
        write_manifests(folder / "quotas-of-reviews.yaml", quotas(random))
        write_manifests(folder / "definitions.yaml", [_definition(*each) for each in _CUSTOM])
        if number:
            write_manifests(folder / "settings.yaml", [settings(random, self._material.rules)])
        return folder

    def _explain(self, both: Both, cluster: Path) -> None:
        objects = self._objects
        makers = (objects.pod, objects.pod, objects.workload, objects.claim, objects.template, objects.any_object)
        given = self._random.choice(makers)()
        question = {"object": given, "namespace": objects.namespace()}
        self._compare(
            "explain over HTTP", "POST /v1/explain", both, lambda service: service.explain(question), cluster, question
        )

    def _review(self, both: Both, cluster: Path) -> None:
        call = self._reviews.call()
        again = call if self._random.random() < 0.3 else call.with_uid(self._reviews.uid())
        for kind, each in (("webhook first", call), ("webhook again", again)):
            name = f"POST {each.path}"
            self._compare(kind, name, both, partial(_review, call=each), cluster, each.review)

    def _create(self, both: Both, cluster: Path) -> None:
        objects = self._objects
        given = self._random.choice((objects.pod, objects.pod, objects.workload, objects.claim, objects.template))()
        if given["kind"] not in _CREATED:
            return
        namespace = given["metadata"]["namespace"] = self._random.choice(NAMESPACES)
        path = _CREATED[given["kind"]].format(namespace)
        user = self._random.choice(["alice", "alice", "bob,gpu-admins", "system:admin,system:masters"])
        self._compare(
            "create", f"POST {path}", both, lambda service: _plain(service.create(path, given, user)), cluster, given
        )

    def _compare(
        self,
        kind: str,
        name: str,
        both: Both,
        ask: Callable[[RunningService], Any],
        cluster: Path,
        body: Any,
    ) -> None:
        """Ask both; again if they differ because one of them says that asking again helps."""
        for _ in range(_ATTEMPTS):
            before, after = both(ask)
            is_transient = _TRANSIENT.search(json.dumps([before, after]))
            if not is_transient or not self._report.lines(before, after):
                break
            time.sleep(_PAUSE)
        replay = {"body.json": json.dumps(body, indent=1), "cluster.txt": f"{cluster}\n"}
        self._report.compare(Answers(kind, name, before, after, replay))

    def _compare_stored(self, both: Both, cluster: Path, seconds: float) -> None:
        """Compare what the clusters hold once both have written it, within some seconds."""
        last: list[Any] = []

        def is_same() -> bool:
            last[:] = both(_state)
            return not self._report.lines(*last)

        with suppress(AssertionError):  # the difference is reported below
            until(is_same, "both clusters are the same", seconds, pause=_PAUSE)
        (before, after), replay = last, {"cluster.txt": f"{cluster}\n"}
        for kind in before:
            count = len(before[kind]) if isinstance(before[kind], dict) else 1
            self._report.compare(Answers(f"stored {kind}", str(cluster), before[kind], after[kind], replay), count)


def _review(service: RunningService, call: Call) -> dict[str, Any]:
    return service.review(call.path, call.review)


def _state(service: RunningService) -> dict[str, Any]:
    """The stored objects by path and name, and what is used and reserved of each quota by namespace."""
    state: dict[str, Any] = {}
    for path in _STORED:
        items = [_plain(each) for each in service.get_stored(path)["items"]]
        state[path.rpartition("/")[2]] = {
            f"{each['metadata'].get('namespace')}/{each['metadata']['name']}": each for each in items
        }
    quotas = json.loads(_GENERATED.sub("-*", json.dumps(service.quotas())))
    state["quotas"] = {quota["namespace"]: _steady(quota) for quota in quotas["output"]["quotas"]}
    return state


def _steady(quota: dict[str, Any]) -> dict[str, Any]:
    """A quota in a fixed order, without uids.

    It has not the GPUs that a replica holds ready either, which depend on time.
    """
    kept = [
        {name: each[name] for name in each if name != "uid"}
        for each in quota["reservations"]
        if each["kind"] != "Allowance"
    ]
    limits = [{name: each[name] for name in each if name not in ("reserved", "left")} for each in quota["limits"]]
    holders = quota["holders"] and sorted(quota["holders"], key=json.dumps)
    return {**quota, "reservations": sorted(kept, key=json.dumps), "limits": limits, "holders": holders}


def _plain(value: Any) -> Any:
    """An answer without what an API server makes up."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _plain(part) for key, part in value.items() if key != "resourceClaimStatuses"}
    for owner in plain.get("metadata", {}).get("ownerReferences", []):
        del owner["uid"]
    if isinstance(metadata := plain.get("metadata"), dict):
        plain["metadata"] = {key: part for key, part in metadata.items() if key not in _RANDOM_METADATA}
        if "generateName" in metadata:
            plain["metadata"]["name"] = f"{metadata['generateName']}*"
    return plain


def _definition(group: str, version: str, kind: str, plural: str) -> dict[str, Any]:
    """A CRD without a schema, so that refusals come from webhooks."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [served]},
    }
