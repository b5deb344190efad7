"""Pods that the real scheduler binds or not, on nodes that only a test keeps alive."""

import asyncio

from testbed.real_cluster import node_lease
from testbed.waiting import until
from webhook.cluster.resources import RESOURCES


class Scheduled:
    """Namespaces of a cluster whose pods the scheduler looks at."""

    def __init__(self, cluster, teams):
        self.cluster, self.teams = cluster, teams

    def starts(self, *pods):
        """Create pods together: those that the scheduler binds, and not those for which it finds no node or that are refused."""
        created = [pod for pod in pods if self.cluster.create(pod).accepted]
        return [pod for pod in created if self._is_bound(pod)]

    def _is_bound(self, pod):
        metadata = pod["metadata"]

        def look():
            found = self.cluster.get("Pod", metadata["name"], metadata["namespace"]).object
            if found["spec"].get("nodeName"):
                return "bound"
            reasons = {each.get("reason") for each in found.get("status", {}).get("conditions", [])}
            return "waits" if reasons & {"Unschedulable", "SchedulerError"} else ""

        return until(look, f"the scheduler has looked at {metadata['name']}", 60) == "bound"

    def end(self, *pods):
        """End pods, and wait until nothing holds what they held."""
        for pod in pods:
            metadata = pod["metadata"]
            self.cluster.delete("Pod", metadata["name"], metadata["namespace"], gracePeriodSeconds=0)
        until(lambda: not self._left(pods), "the pods and their claims are gone", 60)

    def _left(self, pods):
        """The names of pods and claims that are still there."""
        names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
        found = []
        for team in self.teams:
            found += [each for each in self.cluster.list("Pod", team) if (team, each["metadata"]["name"]) in names]
            for claim in self.cluster.list("ResourceClaim", team):
                owners = claim["metadata"].get("ownerReferences", [])
                found += [each for each in owners if (team, each["name"]) in names]
        return found


def beating(cluster, background, names):
    """Start to renew the Leases of nodes, as kubelets do; ends when the result is cancelled."""
    return background.begin(_beat(cluster, names))


async def _beat(cluster, names):
    """Renew the Leases of the nodes, as kubelets do."""
    lease = RESOURCES["Lease"]
    parameters = {"fieldManager": "gpu-admission-tests", "force": "true"}
    while True:
        for name in names:
            path = lease.path("kube-node-lease", name)
            await cluster.api.send("PATCH", path, parameters, node_lease(name), "application/apply-patch+yaml")
        await asyncio.sleep(10)
