"""Workloads with the selector and the restart policy without which no API server stores them."""

from copy import deepcopy

from policies.kubernetes.objects import lookup


def accepted(document):
    """The workload with a selector of its pods, and for a Job pods that end; a malformed one as it is."""
    document = deepcopy(document)
    spec, kind = document.get("spec"), (document.get("apiVersion"), document.get("kind"))
    if kind[0] == "apps/v1" and isinstance(spec, dict) and "selector" not in spec:
        labels = lookup(spec, ("template", "metadata", "labels"))
        spec["selector"] = {"matchLabels": dict(labels) if isinstance(labels, dict) else {}}
    if kind in (("batch/v1", "Job"), ("batch/v1", "CronJob")):
        job = lookup(document, ("spec", "jobTemplate", "spec")) or spec
        if isinstance(pod := lookup(job, ("template", "spec")), dict):
            pod.setdefault("restartPolicy", "Never")
    return document
