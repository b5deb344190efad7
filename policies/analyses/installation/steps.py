"""The step from the installed version of gpu-admission to the manifests, and whether it is supported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import CONFIGURATIONS
from policies.analyses.installation.cluster_checks import Check, Topic
from policies.analyses.installation.dry_runs import PlannedObject, label_of
from policies.kubernetes.names import format_list
from policies.kubernetes.objects import helm_release, items_at, lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object


_IMAGE = ("spec", "template", "spec", "containers", 0, "image")
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+].*)?")
_UPGRADE = "docs/upgrade.md"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_GITOPS = {
    "argocd.argoproj.io/instance": "Argo CD",
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}


class Step(NamedTuple):
    """The way from what is installed to the manifests."""

    verb: str
    """`install`, `upgrade`, `rollback` or `apply again`; `apply` if it is unknown what is installed."""
    before: str
    """The version that is installed; empty if none is, or its image has no version."""
    after: str
    """The version of the manifests; empty if their image has none."""

    @property
    def text(self) -> str:
        """`upgrading from 0.1.0 to 0.2.0`."""
        before, after = self.before or "an unknown version", self.after or "an unknown version"
        return {
            "apply": f"applying {self.after or 'the manifests'}",
            "install": f"installing {self.after or 'gpu-admission'}",
            "apply again": f"applying {self.after or 'the manifests'} again",
            "upgrade": f"upgrading from {before} to {after}",
            "rollback": f"going back from {before} to {after}",
        }[self.verb]


def step_of(planned: Sequence[PlannedObject]) -> Step:
    """The step that applying the manifests takes."""
    found = [each for each in planned if each.document.get("kind") == "Deployment"]
    deployment = next(
        (each for each in found if name_of(each.document) == "gpu-admission"), found[0] if found else None
    )
    exists = any(each.exists for each in planned if _is_core(each))
    after = _version(deployment.document) if deployment else ""
    stored = deployment.stored if deployment else None
    before = _version(stored) if isinstance(stored, dict) else ""
    if not exists:
        is_known = all(each.stored is not UNKNOWN for each in planned if _is_core(each))
        return Step("install" if is_known or (deployment and deployment.stored is None) else "apply", "", after)
    if before == after:
        return Step("apply again", before, after)
    is_back = bool(before and after) and _numbers(after) < _numbers(before)
    return Step("rollback" if is_back else "upgrade", before, after)


def _is_core(each: PlannedObject) -> bool:
    kind = str(each.document.get("kind"))
    return kind in ("Deployment", "CustomResourceDefinition") or (kind, name_of(each.document)) in CONFIGURATIONS


def _version(deployment: Object | None) -> str:
    """The version in the tag of the image; empty if the tag is none."""
    image = lookup(deployment, _IMAGE)
    tag = str(image).partition("@")[0].rpartition("/")[2].partition(":")[2] if isinstance(image, str) else ""
    return tag.removeprefix("v") if _VERSION.fullmatch(tag) else ""


def _numbers(version: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(version)
    return tuple(map(int, match.groups())) if match else ()


def step_checks(planned: Sequence[PlannedObject], step: Step, known: frozenset[str]) -> Iterator[Check]:
    """Checks that the step is one release, and that the tool that installed it applies it now.

    Args:
        planned: The objects.
        step: The step.
        known: The names of the webhooks of the version of this command.
    """
    mine = {name for each in planned for name in _webhook_names(each.document)}
    if mine and mine != known:
        yield Topic.VERSION.unknown(
            "the manifests are of another version than this command",
            why=f"their webhooks differ: {format_list(sorted(mine ^ known))}",
            remedy="use the gpu-admission of the newer version",
        )
    yield _step_check(planned, step, mine)
    yield from _owner_checks(planned)


def _step_check(planned: Sequence[PlannedObject], step: Step, mine: set[str]) -> Check:
    installed = {name for each in planned for name in _webhook_names(each.stored)}
    strange = sorted(installed - mine)
    before, after = _numbers(step.before), _numbers(step.after)
    if step.verb == "apply":
        right = "get the Deployment gpu-admission in namespace gpu-admission"
        return Topic.VERSION.forbidden("it is unknown which version is installed", right)
    if step.verb == "install":
        return Topic.VERSION.ok(
            f"gpu-admission is not installed; the manifests have {step.after or 'a version that their image does not name'}"
        )
    if mine and strange and step.verb != "rollback":
        return Topic.VERSION.failure(
            f"{step.text} is not supported",
            why=f"the installed webhooks {format_list(strange)} are unknown to this version, so their calls would fail",
            remedy=f"upgrade by one release at a time, and go back as in {_UPGRADE}",
        )
    if before and after and not _is_one_release(before, after):
        return Topic.VERSION.failure(
            f"{step.text} is not supported",
            why="a version answers the webhooks of the one before it, and no older ones",
            remedy=f"upgrade by one release at a time; {_UPGRADE}",
        )
    if step.verb == "rollback":
        return Topic.VERSION.warning(
            f"{step.text}: the order of the steps is reversed",
            why="an older replica does not know the webhooks of the newer version",
            remedy=f"apply the webhook configurations first, with `gpu-admission apply-webhooks --rollback FILE`; {_UPGRADE}",
        )
    if not (before and after):
        return Topic.VERSION.unknown(
            "it is unknown which step this is",
            why=f"the tag of the image {'of the installed Deployment' if after else 'in the manifests'} is no version",
            remedy=f"compare the versions yourself: upgrade by one release at a time; {_UPGRADE}",
        )
    return Topic.VERSION.ok(f"{step.text} is supported")


def _is_one_release(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """True for the same minor version, its neighbours, and the first of the next major version."""
    if before[0] == after[0]:
        return abs(before[1] - after[1]) <= 1
    lower, higher = sorted((before, after))
    return higher[0] - lower[0] == 1 and higher[1] == 0


def _webhook_names(document: object) -> Iterator[str]:
    """The names of webhooks of ours, known to this version or not."""
    kind, name = lookup(document, ("kind",)), lookup(document, ("metadata", "name"))
    if (kind, name) in CONFIGURATIONS:
        for webhook in mappings_at(document, ("webhooks",)):
            yield str(webhook.get("name"))


def _owner_checks(planned: Sequence[PlannedObject]) -> Iterator[Check]:
    """Objects that another tool manages than the one whose manifests these are."""
    releases: set[str] = set()
    tools: set[str] = set()
    strangers: list[str] = []
    by_helm = any(_is_of_chart(each.document) for each in planned)
    for each in planned:
        if not isinstance(each.stored, dict):
            continue
        annotations = mapping_at(each.stored, ("metadata", "annotations"))
        labels = mapping_at(each.stored, ("metadata", "labels"))
        tools.update(tool for key, tool in _GITOPS.items() if key in labels or key in annotations)
        if release := helm_release(each.stored):
            releases.add(release.name)
        elif by_helm and not _is_hook(each.document):
            strangers.append(each.label)
    if releases and not by_helm:
        yield Topic.OWNER.warning(
            f"the installed objects belong to the Helm release {format_list(sorted(releases))}",
            why="the manifests are not of Helm, and the next `helm upgrade` would undo what they change",
            remedy="upgrade with `helm upgrade`",
        )
    if strangers:
        yield Topic.OWNER.failure(
            f"Helm would not take over {format_list(strangers, 3)}",
            why="Helm refuses objects that exist and have no annotation meta.helm.sh/release-name (invalid ownership metadata)",
            remedy="upgrade the way that it was installed, or use `helm upgrade --install --take-ownership`",
        )
    if tools:
        yield Topic.OWNER.warning(
            f"{format_list(sorted(tools))} manages installed objects",
            why="it reverts what others apply",
            remedy="change the manifests where it reads them",
        )


def _is_of_chart(document: Object) -> bool:
    """True if `helm template` rendered an object."""
    annotations = mapping_at(document, ("metadata", "annotations"))
    labels = mapping_at(document, ("metadata", "labels"))
    return labels.get(_MANAGED_BY) == "Helm" or any(key.startswith("helm.sh/") for key in annotations)


def _is_hook(document: Object) -> bool:
    """True if Helm does not own an object: it is a hook, or a hook applies it."""
    is_configuration = (document.get("kind"), name_of(document)) in CONFIGURATIONS
    return is_configuration or "helm.sh/hook" in mapping_at(document, ("metadata", "annotations"))


def storage_checks(planned: Iterable[PlannedObject]) -> Iterator[Check]:
    """CRDs that would lose a version in which objects may be stored, or that a webhook converts."""
    definitions = [each for each in planned if each.document.get("kind") == "CustomResourceDefinition"]
    is_good = True
    if any(each.stored is UNKNOWN for each in definitions):
        right = "get customresourcedefinitions.apiextensions.k8s.io"
        yield Topic.STORAGE.forbidden("it is unknown in which versions objects are stored", right)
        return
    for each in definitions:
        served = {lookup(version, ("name",)) for version in items_at(each.document, ("spec", "versions"))}
        lost = sorted({str(name) for name in items_at(each.stored, ("status", "storedVersions"))} - served)
        if lost:
            is_good = False
            yield Topic.STORAGE.failure(
                f"{each.label} would lose the version {format_list(lost)}",
                where="status.storedVersions",
                why="objects may be stored in it, as a newer gpu-admission writes them; the API server refuses to drop it",
                remedy="use the manifests of the newer version, or migrate the stored objects first",
            )
        if lookup(each.stored, ("spec", "conversion", "strategy")) == "Webhook":
            is_good = False
            yield Topic.STORAGE.warning(
                f"{label_of(each.document)} is converted by a webhook",
                where="spec.conversion",
                why="gpu-admission installs none; reads of its objects fail while that webhook is away",
                remedy="find out who changed the CRD",
            )
    if definitions and is_good:
        yield Topic.STORAGE.ok("no object is stored in a version that the manifests lack")
