"""Pods for replicas that run outside of the cluster, for the pod proxy of API servers.

The real Deployment controller and scheduler create and bind the pods. No kubelet runs, so the status of each pod is written
here: its address is this machine's, where a relay listens for it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from testbed import deploy
from testbed.ports import address_towards
from testbed.relay import Relay
from testbed.waiting import until

if TYPE_CHECKING:
    from testbed.background import Background
    from testbed.clusters import Cluster


_ELSEWHERE = "https://198.51.100.1"
"""An address of documentation (RFC 5737), to which nothing is sent."""
_OTHERS = ("NetworkPolicy", "PodDisruptionBudget", "ResourceQuota", "Service")
_SECONDS = 60


def address_of_pods() -> str:
    """An address of this machine that API servers accept for pods; a loopback address is none."""
    return address_towards(_ELSEWHERE)


class ReplicaPods:
    """The Deployment of deploy/ with its pods, and the other objects that a service inside needs."""

    def __init__(self, cluster: Cluster, background: Background) -> None:
        self._cluster = cluster
        self._background = background
        self.relays: dict[str, Relay] = {}
        """By the name of the pod."""

    def create(self) -> None:
        """Create everything, and wait until all replicas are available."""
        host, port = self._cluster.service.probe_address.rsplit(":", 1)
        listener = Relay(random.Random(0), (host, int(port)))
        _, probes = self._background.run(listener.listen(address_of_pods()))
        for document in deploy.all_objects():
            if document["kind"] in _OTHERS:
                self._cluster.belongings.add(document)
            elif document["kind"] == "Deployment":
                self._cluster.belongings.add(_with_probes_at(probes, document))
        pods = until(self._bound_pods, "all replicas have a pod with a node", _SECONDS)
        for pod in pods:
            self.relays[pod["metadata"]["name"]] = listener
            self.set_ready(pod["metadata"]["name"])
        until(self._is_available, "all replicas are available", _SECONDS)

    def set_ready(self, name: str, *, ready: bool = True) -> None:
        """Write the status of a pod, as its kubelet would."""
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": "2026-11-27T12:00:00Z",
        }
        scheduled = {**condition, "type": "PodScheduled", "status": "True"}
        status = {"phase": "Running", "podIP": address_of_pods(), "conditions": [condition, scheduled]}
        answer = self._cluster.patch("Pod", name, deploy.NAMESPACE, body={"status": status}, subresource="status")
        assert answer.accepted, answer.message

    def refuse(self, *, is_down: bool) -> None:
        """Refuse connections to the pods and cut open ones, or accept them again."""

        async def change() -> None:
            for relay in {*self.relays.values()}:
                relay.refuses = is_down
                relay.cut()

        self._background.run(change())

    def delete(self) -> None:
        """Delete everything, and stop to listen."""
        self._cluster.delete("Deployment", "gpu-admission", deploy.NAMESPACE, propagationPolicy="Background")
        for document in deploy.all_objects():
            if document["kind"] in _OTHERS:
                self._cluster.delete(document["kind"], document["metadata"]["name"], deploy.NAMESPACE)
        until(lambda: not self._cluster.belongings.empty(deploy.NAMESPACE), "the pods of replicas are gone", _SECONDS)
        for relay in {*self.relays.values()}:
            self._background.run(relay.close())

    def _bound_pods(self) -> list[Any]:
        pods = self._cluster.list("Pod", deploy.NAMESPACE)
        return pods if len(pods) > 1 and all(pod["spec"].get("nodeName") for pod in pods) else []

    def _is_available(self) -> bool:
        stored = self._cluster.get("Deployment", "gpu-admission", deploy.NAMESPACE).object
        return bool(stored["status"].get("availableReplicas") == stored["spec"]["replicas"])


def _with_probes_at(port: int, document: dict[str, Any]) -> dict[str, Any]:
    """The Deployment whose pods have their probes at a port, and run on the nodes of the tests."""
    spec = document["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    ports = [{**each, "containerPort": port} if each["name"] == "probes" else each for each in container["ports"]]
    pod = {**spec, "containers": [{**container, "ports": ports}], "tolerations": [{"operator": "Exists"}]}
    return {**document, "spec": {**document["spec"], "template": {**document["spec"]["template"], "spec": pod}}}
