"""A cluster for scenarios, with everything that all clusters have in common."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from testbed import deploy, manifests
from testbed.belongings import Belongings
from testbed.service import Service
from testbed.waiting import until
from webhook.cluster.kind_reads import parse_version
from webhook.cluster.leases import new_lease
from webhook.controllers.replica_config import LEASE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from testbed.answers import Answer
    from testbed.api import API, Headers


NODES = ("test-node-1", "test-node-2")
_SERVED = ("clusterpolicies.nvidia.com", "gpuadmissionpolicies.gpu-admission.io", "gpuquotas.gpu-admission.io")
_GPUS = 2
_FREE = 1
"""Seconds before a leader takes the lease, the same as after a stopped replica."""
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {
            "kind": "ClusterPolicy",
            "listKind": "ClusterPolicyList",
            "plural": "clusterpolicies",
            "singular": "clusterpolicy",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The GPU Operator's CRD without its schema, so that refusals come from webhooks."""


class Cluster:
    """One cluster with the service installed in it; `api` is its administrator's."""

    def __init__(self, api: API, kubeconfig: Path, *, is_real: bool) -> None:
        self.api = api
        self.apis: Sequence[API] = (api,)
        """The connections to all API servers."""
        self.kubeconfig = kubeconfig
        """The administrator's kubeconfig, for commands."""
        self.is_real = is_real
        self.schedules = False
        """True if pods are bound to nodes, and claims allocated."""
        self.makes_pods = False
        """True if the controllers of workloads run."""
        self.makes_claims = True
        """True if claims are created from templates."""
        self.nodes = NODES
        self.belongings = Belongings(api)
        self._namespaces: list[str] = []
        self._service: Service | None = None
        # What scenarios write most.
        self.create, self.apply, self.get, self.list = api.create, api.apply, api.get, api.list
        self.patch, self.delete = api.patch, api.delete

    @property
    def service(self) -> Service:
        """The running replica."""
        assert self._service is not None, "the service was not started"
        return self._service

    @property
    def minor(self) -> int:
        """The minor version of Kubernetes, or of the version that it emulates."""
        version = parse_version(self.api.request("GET", "/version").object)
        assert isinstance(version, tuple), f"{self.api.access.url} has no version"
        return version[1]

    def install(self) -> None:
        """Create nodes with GPUs, and the objects of deploy/, without starting the service."""
        add = self.belongings.add
        add(_DEFINITION, may_exist=True)
        add(manifests.namespace("gpu-operator", {}), may_exist=True)
        add(manifests.device_class(), may_exist=True)
        for name in NODES:
            add(manifests.node(name))
            add(manifests.resource_slice(name, _GPUS))
        for document in (*deploy.objects_outside(), deploy.operator_access()):
            add(document)
        add(new_lease(deploy.NAMESPACE, LEASE, _FREE, datetime.now(UTC)))
        for name in _SERVED:
            until(partial(self._is_served, name), f"{name} is served")

    def serve(self, kubeconfig: Path, host: str, log: Path, **options: object) -> None:
        """Start the service with these options, and wait until the API server calls it."""
        self.use(Service(kubeconfig, host, log, **options))

    def use(self, service: Service) -> None:
        """Start a service, and wait until the API server calls it."""
        self._service = service
        service.start()
        team = self.namespace(dra="enabled")
        pod = manifests.pod(team)
        until(
            lambda: "resourceClaims" in self.create(pod, dry_run=True).object["spec"], "the API server calls webhooks"
        )

    def namespace(self, **labels: str) -> str:
        """A new namespace until the scenario ends, with our labels: `dra="enabled"`."""
        name = f"gpu-admission-test-{secrets.token_hex(4)}"
        ours = {f"gpu-admission.io/{label.replace('_', '-')}": value for label, value in labels.items()}
        self.add_namespace(name, ours)
        return name

    def add_namespace(self, name: str, labels: dict[str, str]) -> None:
        """Create the namespace of this name, until the scenario ends."""
        self.belongings.add(manifests.namespace(name, labels))
        self._namespaces.append(name)
        self._await_account(name)

    def remove(self, namespace: str) -> None:
        """Start to remove a namespace of the scenario, and wait until its pods are gone."""
        self._namespaces.remove(namespace)
        # First, so that no controller replaces the removed pods.
        self.delete("Namespace", namespace)
        until(lambda: not self.belongings.empty(namespace), f"the pods of {namespace} are gone")

    def tidy(self) -> None:
        """Remove all namespaces of the scenario."""
        for name in list(self._namespaces):
            self.remove(name)

    def by(self, user: str, *groups: str) -> API:
        """The API server for another user."""
        return self.api.as_user(self._headers_of(user, groups))

    def configure(self, **spec: Any) -> Answer:
        """Apply a GPUAdmissionPolicy."""
        return self.apply(manifests.settings(**spec))

    def close(self) -> None:
        """Stop the service."""
        if self._service is not None:
            self._service.stop()

    def _headers_of(self, user: str, groups: tuple[str, ...]) -> Headers:
        raise NotImplementedError

    def _await_account(self, namespace: str) -> None:
        """Wait for the ServiceAccount of a namespace, if pods need it."""

    def _is_served(self, name: str) -> bool:
        conditions = self.get("CustomResourceDefinition", name).object.get("status", {}).get("conditions", [])
        return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)
