"""The pods of a Volcano Job: those of its tasks, with the scheduler and the priority class of the job.

Source: volcano pkg/controllers/job/job_controller_util.go, and pkg/webhooks/admission/jobs/mutate, which names the
scheduler of a job that names none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pod_templates import pod_count, pod_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate

__all__ = ["volcano_templates"]

_INHERITED = {"schedulerName": "volcano", "priorityClassName": None}
"""Fields that a pod takes from its job if its template does not have them, and the value if the job has none either."""


def volcano_templates(job: Object) -> Iterator[PodTemplate]:
    """The pod template of each task."""
    tasks = lookup(job, ("spec", "tasks"))
    for index in range(len(tasks) if isinstance(tasks, list) else 0):
        task = FieldPath(["spec", "tasks", index])
        template = lookup(job, task / "template")
        if isinstance(template, dict):
            yield _of_task(job, pod_template(job, task / "template", template, pod_count(job, task / "replicas")))


def _of_task(job: Object, found: PodTemplate) -> PodTemplate:
    spec = found.template.get("spec")
    if not isinstance(spec, dict):
        return found
    inherited = {
        field: value
        for field, default in _INHERITED.items()
        if not spec.get(field) and (value := lookup(job, ("spec", field)) or default)
    }
    homes = tuple((("spec", field), FieldPath(["spec", field])) for field in inherited)
    template = {**found.template, "spec": {**spec, **inherited}}
    return replace(found, template=template, homes=(*homes, *found.homes), is_composed=bool(inherited))
