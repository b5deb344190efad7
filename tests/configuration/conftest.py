"""Reviews of configuration in the form of rule examples."""

import re

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cluster.manifests import ManifestsView

REQUIRED = (
    "operator",
    "daemonsets",
    "driver",
    "toolkit",
    "devicePlugin",
    "dcgmExporter",
    "dcgm",
    "nodeStatusExporter",
    "gfd",
)


INSTALLED = {
    "apiVersion": "operators.coreos.com/v1alpha1",
    "kind": "Subscription",
    "metadata": {"name": "gpu-operator", "namespace": "gpu-operator"},
    "spec": {"name": "gpu-operator-certified"},
}
"""The cluster shows where the GPU Operator looks for ConfigMaps and Secrets."""


def documents(text):
    """The reviewed object, the object before an update, and what the cluster has.

    `---` begins something that the cluster has, `--- # before` the object as it was. A first line
    `# operation: DELETE` says what is done to the object; UPDATE is understood where there is one before.
    """
    operation = re.match(r"# operation: (\w+)", text)
    parts = re.split(r"(?m)^---(.*)$", text)
    before, cluster = None, []
    for mark, part in zip(parts[1::2], parts[2::2], strict=True):
        if "before" in mark:
            before = libyaml.load(part)
        else:
            cluster.append(libyaml.load(part))
    done = operation.group(1) if operation else "UPDATE" if before is not None else "CREATE"
    return libyaml.load(parts[0]), before, cluster, done


def completed(document):
    """A ClusterPolicy with the components that the CRD demands, so that examples need not name all nine."""
    if (
        isinstance(document, dict)
        and document.get("kind") == "ClusterPolicy"
        and isinstance(document.get("spec") or {}, dict)
    ):
        document = {**document, "spec": {**{name: {} for name in REQUIRED}, **(document.get("spec") or {})}}
    return document


@pytest.fixture
def examined():
    """`examined(text)`: the findings on an example."""

    def examine(text, *, complete=True, settings=DEFAULTS, user=None):
        document, before, cluster, operation = documents(text)
        if complete:
            document = completed(document)
        gone = operation == "DELETE"
        group, _, _ = (document.get("apiVersion") or "").rpartition("/")
        metadata = document.get("metadata") or {}
        request = Request(
            None if gone else document,
            old_object=document if gone else completed(before) if before else None,
            operation=operation,
            group=group,
            kind=document.get("kind") or "",
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
            **({"user": user} if user else {}),
        )
        view = ManifestsView([*cluster, INSTALLED], [document])
        return review(request, view, settings).findings

    return examine
