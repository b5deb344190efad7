"""Controllers that read `nvidia.com/gpu` in a manifest, and what must stay or be added for them.

docs/neighbours.md and `policies.kubernetes.neighbours` name their sources.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.kubernetes.neighbours import GROVE, KSERVE, KUBERAY, KUEUE, QUEUE
from policies.kubernetes.objects import FieldPath, items_at, lookup, mapping_at
from policies.kubernetes.quantities import parse_quantity
from policies.kubernetes.workloads import group_of
from policies.nvidia.identifiers import GPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate
    from policies.rules.patch import Editor

__all__ = ["keep_ray_gpus", "kueue_notice", "reason_to_stay"]

_RAY_GPU = re.compile(r".*gpu|.*nvidia\.com/mig-[0-9]+g\.[0-9]+gb")
"""Resources that KubeRay counts as GPUs. Source: IsGPUResourceKey."""
_MNNVL_GROUP = "grove.io/mnnvl-group"
_NO_GROUP = "none"
"""The value by which a lower layer opts out of the group of the layers above it."""
_WORKERS = FieldPath(["spec", "predictor", "workerSpec"])


def reason_to_stay(workload: Object, templates: Iterable[PodTemplate]) -> str:
    """The reason to keep the GPUs of a workload in its manifest; empty if claims may replace them.

    Args:
        workload: The object as it is written.
        templates: Its pod templates whose GPUs would be replaced.
    """
    group = group_of(workload)
    if group == "serving.kserve.io" and lookup(workload, _WORKERS) is not None:
        return (
            f"{_WORKERS}: keep {GPU_RESOURCE}: {KSERVE.name} counts the GPUs of head and workers by it, and writes it into "
            "their containers"
        )
    for template in templates if group == "grove.io" else ():
        if _is_in_mnnvl_group(workload, template):
            return (
                f"{template.path}: keep {GPU_RESOURCE}: {GROVE.name} gives a ComputeDomain to the cliques of a {_MNNVL_GROUP} "
                "only if their containers name it"
            )
    return ""


def _is_in_mnnvl_group(workload: Object, template: PodTemplate) -> bool:
    """True if the annotation of the clique names a group, or else of its scaling group or of the set."""
    clique = lookup(workload, template.path[:-2])
    scaling = (
        each
        for each in items_at(workload, ("spec", "template", "podCliqueScalingGroups"))
        if lookup(clique, ("name",)) in items_at(each, ("cliqueNames",))
    )
    layers = (clique, *scaling, mapping_at(workload, ("metadata",)))
    named = (lookup(each, ("annotations", _MNNVL_GROUP)) for each in layers)
    return next((name for name in named if name is not None), _NO_GROUP) != _NO_GROUP


def keep_ray_gpus(workload: Object, template: PodTemplate, migrated: Object, edits: Editor) -> Iterator[str]:
    """Write the GPUs of a Ray group where KubeRay still finds them; yields a notice about the change.

    KubeRay reads the limits of the first container, unless the parameters or the resources of the group have the number.
    It refuses groups that have both.

    Args:
        workload: The object as it is written.
        template: The pod template of the group.
        migrated: Its pod with the claim.
        edits: The object that is written.
    """
    if group_of(workload) != "ray.io" or template.path[-1] != "template":
        return
    limits = ("spec", "containers", 0, "resources", "limits")
    kept, before = mapping_at(migrated, limits), mapping_at(template.template, limits)
    removed = [
        name
        for name in sorted(before)
        if name not in kept and _RAY_GPU.fullmatch(name) and parse_quantity(before[name])
    ]
    if not removed:
        return
    group = FieldPath(template.path[:-1])
    parameters, resources = mapping_at(workload, group / "rayStartParams"), mapping_at(workload, group / "resources")
    if "num-gpus" in parameters or any(_RAY_GPU.fullmatch(str(name).lower()) for name in resources):
        return
    field, key = ("resources", "GPU") if resources else ("rayStartParams", "num-gpus")
    if not isinstance(lookup(workload, group / field), dict | None):
        return
    count = str(int(parse_quantity(before[removed[0]])))
    edits.add(group / field / key, count)
    yield f'{group / field}: {key}: "{count}" is added, because {KUBERAY.name} read it from the limit of {removed[0]}'


def kueue_notice(workload: Object, classes: Iterable[str]) -> Iterator[str]:
    """A notice about the mapping that Kueue needs for DeviceClasses; none for a workload without a queue."""
    places = (FieldPath(["metadata", "labels"]), FieldPath(["spec", "jobTemplate", "metadata", "labels"]))
    queued = next((place for place in places if lookup(workload, place / QUEUE)), None)
    names = " and ".join(f'"{name}"' for name in sorted(set(classes)))
    if queued is not None and names:
        yield (
            f"{queued / QUEUE}: map DeviceClass {names} in {KUEUE.name}'s deviceClassMappings: {KUEUE.name} counts claims of "
            "mapped classes only, and fails the Workload of a queued object with others"
        )
