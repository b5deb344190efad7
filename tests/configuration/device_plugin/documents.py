"""Device-plugin configurations as the text in a ConfigMap, and the findings on them."""

import json

from policies.admission import review
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

OURS = {"gpu-admission.io/config": "device-plugin"}


def config_map(data, **metadata):
    described = {"name": "time-slicing", "namespace": "gpu-operator", "labels": OURS, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": described, "data": data}


def reviewed(document, old=None):
    operation = "UPDATE" if old else "CREATE"
    request = Request(
        document, old, operation=operation, kind="ConfigMap", namespace="gpu-operator", name="time-slicing"
    )
    return review(request, ManifestsView(), DEFAULTS).findings


def found_in(value):
    """The findings on a document, given as text or as what JSON would say of it."""
    return reviewed(config_map({"any": value if isinstance(value, str) else json.dumps(value)}))


def refused(value):
    return [finding for finding in found_in(value) if finding.severity is Severity.DENY]


def findings_of(value):
    return [(finding.rule.id, plain_text(finding)) for finding in found_in(value)]


def shares(*resources, strategy="timeSlicing", **fields):
    return {"version": "v1", "sharing": {strategy: {**fields, "resources": list(resources)}}}


GPU = {"name": "nvidia.com/gpu", "replicas": 2}
