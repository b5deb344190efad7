"""The webhook configurations and the Deployment, as a rollout of docs/upgrade.md finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testbed import deploy

if TYPE_CHECKING:
    from testbed.clusters import Cluster


IMAGE = "gpu-admission:tested"
"""The image of the Deployment."""


def current_configurations() -> list[dict[str, Any]]:
    """The webhook configurations of deploy/install.yaml."""
    return [document for document in deploy.all_objects() if "webhooks" in document]


def called_at(url: str, configuration: dict[str, Any], **client: Any) -> dict[str, Any]:
    """A configuration called at a URL, not a Service; `client` is added to each clientConfig."""
    called = [
        {**webhook, "clientConfig": {"url": f"{url}{webhook['clientConfig']['service']['path']}", **client}}
        for webhook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": called}


def deployment(image: str = IMAGE) -> dict[str, Any]:
    """The Deployment without replicas: they run outside of the cluster."""
    labels = {"app.kubernetes.io/name": "replicas-of-a-test"}
    pod = {"containers": [{"name": "gpu-admission", "image": image}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu-admission", "namespace": deploy.NAMESPACE},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def roll_out(cluster: Cluster) -> None:
    """Store the Deployment until the scenario ends, with the status of a complete rollout."""
    cluster.belongings.add(deployment())
    stored = cluster.get("Deployment", "gpu-admission", deploy.NAMESPACE).object
    if not cluster.makes_pods:
        stored["status"] = {"observedGeneration": stored["metadata"]["generation"]}
        assert cluster.api.replace(stored, "status").accepted
