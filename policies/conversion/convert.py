"""Converts one pod: from `nvidia.com/gpu` in limits to a claim made from a template."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.conversion.amounts import asks, gpu_resources, limit_path, read_amounts
from policies.conversion.asked import Asked
from policies.conversion.coexistence import twice
from policies.conversion.constraints import ConstraintError, NodeConstraints
from policies.conversion.exemptions import exemptions, ignored_opt_out
from policies.conversion.limit_ranges import defaulted_by_limit_range
from policies.conversion.line import ContainerAsk, TooManyDevicesError, requests_by_container
from policies.conversion.meaning import GPU, Meaning, meaning_of_gpu
from policies.conversion.native_quota import quota_problems
from policies.conversion.opt_in import strategy_problems
from policies.conversion.record import converted_by, remove_readded, remove_resources
from policies.conversion.references import class_problems, template_problems
from policies.conversion.rules import LABEL, SHARED, TERMS, TOO_LONG, TOO_MANY
from policies.conversion.satisfaction import unsatisfied
from policies.conversion.shares import shares_asked
from policies.conversion.size import size_problems
from policies.decision import MANAGED, RECORD
from policies.dra.selector_limits import LONGEST_TEXT
from policies.dra.templates import selectors
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.pods import SPEC
from policies.patch import Editor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.amounts import Amounts
    from policies.decision import Finding, Template
    from policies.kubernetes.pods import Pod
    from policies.nvidia.wishes import Wish
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["Conversion", "convert"]


@dataclass(frozen=True, slots=True)
class Conversion:
    """What converting a pod comes to."""

    obstacles: tuple[Finding, ...] = ()
    """Why it cannot or must not be converted; the pod stays as it is unless one of them refuses it."""
    notices: tuple[Finding, ...] = ()
    """What else there is to say about the converted pod."""
    edits: Editor | None = None
    """The converted pod; None where there is nothing to convert."""
    template: Template | None = None
    """The template that the converted pod refers to."""
    repeated: bool = False
    """Whether the pod was converted before; `edits` then only take out what was added since."""


def convert(pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, wish: Wish) -> Conversion:
    """Convert a pod that is being created in a namespace that opted in; `wish` says what GPUs it would like.

    Converting a converted pod changes nothing, but for taking out what was added again; its wish is that of its record.
    """
    if pod.past_scheduling:
        return Conversion()
    earlier = converted_by(pod, namespace)
    if earlier is not None:
        return _convert_again(pod, earlier, namespace, view)
    if not asks(pod):
        return Conversion()
    if exempt := (*exemptions(pod, settings), *strategy_problems(namespace, view)):
        return Conversion(obstacles=exempt)
    if too_large := tuple(size_problems(pod)):
        return Conversion(obstacles=too_large)
    amounts = read_amounts(pod)
    if amounts.findings:
        return Conversion(obstacles=amounts.findings)
    places = _places(pod, amounts)
    asked, obstacles = _ask(pod, amounts, places, view, wish)
    if obstacles:
        return Conversion(obstacles=obstacles)
    edits = Editor(pod.document)
    if not places:
        if not defaulted_by_limit_range(pod, namespace, view):
            _remove_resources(pod, edits)
        return Conversion(edits=edits)
    template = asked.template(namespace)
    obstacles = (*class_problems(asked, view, places), *template_problems(template, view))
    if obstacles:
        return Conversion(obstacles=obstacles)
    _rewrite(pod, asked, template.name, edits, keep_labels=settings.conversion.keep_translated_labels)
    notices = (
        *quota_problems(asked, view, namespace, places, settings),
        *unsatisfied(asked, view, places, settings),
        *twice(view, next(iter(places.values()))),
        *ignored_opt_out(pod, settings),
    )
    return Conversion(notices=notices, edits=edits, template=template)


def _convert_again(pod: Pod, asked: Asked, namespace: str, view: ClusterView) -> Conversion:
    """Keep a converted pod converted, and see that what it refers to still holds."""
    template = asked.template(namespace)
    claims = dict.fromkeys(asked.predicates, SPEC / "resourceClaims")
    edits, findings = remove_readded(pod, asked)
    obstacles = (*findings, *class_problems(asked, view, claims), *template_problems(template, view))
    return Conversion(obstacles, edits=edits, template=template, repeated=True)


def _places(pod: Pod, amounts: Amounts) -> dict[str, FieldPath]:
    """Where each resource is first asked for, leaving out what is asked for zero times."""
    places: dict[str, FieldPath] = {}
    for container in pod.all_containers:
        for resource, count in amounts.of.get(container.name, {}).items():
            if count:
                places.setdefault(resource, limit_path(container, resource))
    return dict(sorted(places.items()))


def _ask(
    pod: Pod, amounts: Amounts, places: dict[str, FieldPath], view: ClusterView, wish: Wish
) -> tuple[Asked, tuple[Finding, ...]]:
    """What the pod asks for in full, and why that cannot be told to a claim."""
    constraints = NodeConstraints.of(pod.spec) if places else NodeConstraints()
    meaning = meaning_of_gpu(pod.spec, constraints, wish, view, places[GPU]) if GPU in places else Meaning()
    containers = tuple(
        ContainerAsk(container.name, container.kind, amounts.of[container.name])
        for container in pod.all_containers
        if container.name in amounts.of
    )
    asked = Asked(containers, constraints, meaning.kind, meaning.profile, wish=wish)
    if meaning.finding is not None:
        return asked, (meaning.finding,)
    shares, problems = shares_asked(asked, places, view, shared_gpu=meaning.shared)
    return replace(asked, shares=shares), (*problems, *_template_problems(asked, places))


def _template_problems(asked: Asked, places: dict[str, FieldPath]) -> Iterator[Finding]:
    try:
        predicates = asked.predicates
    except ConstraintError as error:
        broken = SHARED if error.shared else TERMS if error.mixed else LABEL
        yield broken.finding(error.path, str(error))
        return
    except TooManyDevicesError as error:
        yield TOO_MANY.finding(next(iter(places.values())), str(error))
        return
    for resource, predicate in predicates.items():
        for expression in selectors(predicate):
            size = len(expression.encode())
            if size > LONGEST_TEXT:
                text = f"its node labels and wishes become a CEL expression of {size} bytes, and {LONGEST_TEXT} are allowed"
                yield TOO_LONG.finding(places[resource], text)


def _rewrite(pod: Pod, asked: Asked, template_name: str, edits: Editor, *, keep_labels: bool) -> None:
    claim = _free_claim_name(pod)
    requests = requests_by_container(asked.pieces)
    for container in pod.all_containers:
        uses = [{"name": claim, "request": request} for request in requests.get(container.name, ())]
        edits.extend(container.path / "resources" / "claims", uses)
    _remove_resources(pod, edits)
    edits.extend(SPEC / "resourceClaims", [{"name": claim, "resourceClaimTemplateName": template_name}])
    if not keep_labels:
        asked.constraints.remove(edits)
    _mark(pod, edits, ("metadata", "annotations", RECORD), asked.record())
    _mark(pod, edits, ("metadata", "labels", MANAGED), "true")


def _free_claim_name(pod: Pod) -> str:
    taken = {claim.get("name") for claim in pod.resource_claims}
    names = ("gpu", *(f"gpu-{number}" for number in range(1, len(taken) + 1)))
    return next(name for name in names if name not in taken)


def _remove_resources(pod: Pod, edits: Editor) -> None:
    for container in pod.all_containers:
        remove_resources(container, gpu_resources(container), edits)


def _mark(pod: Pod, edits: Editor, path: tuple[str, str, str], value: str) -> None:
    marks = pod.annotations if path[1] == "annotations" else pod.labels
    if path[2] not in marks:
        edits.add(FieldPath(path), value)
    elif marks[path[2]] != value:
        edits.replace(FieldPath(path), value)
