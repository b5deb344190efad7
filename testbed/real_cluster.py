"""A real control plane as a cluster for scenarios: that of KUBECONFIG, or one of our own."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import deploy, manifests
from testbed.api import APPLY_PATCH
from testbed.clusters import NODES, Cluster
from testbed.connection import connect
from testbed.control_plane import ControlPlane, kubeconfig
from testbed.ports import address_towards
from testbed.waiting import until
from webhook.cluster.answers import Unreachable
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from testbed.api import API, Headers
    from testbed.background import Background


_START_SECONDS = 60
_ACCOUNT_SECONDS = 30
_TOKEN_SECONDS = 3 * 3600
_BEAT_SECONDS = 10
_OLDEST = 34
_TRIAL = "gpu-admission-test-trial"
_LEASE = RESOURCES["Lease"]
_LEASES = "kube-node-lease"
_APPLY = {"fieldManager": "gpu-admission-tests", "force": "true"}


class RealCluster(Cluster):
    """The cluster of a kubeconfig."""

    def __init__(
        self,
        background: Background,
        file: Path,
        folder: Path,
        control_plane: ControlPlane | None,
        **options: object,
    ) -> None:
        super().__init__(connect(background, file), file, is_real=True)
        self._options = options
        self._background = background
        self._folder = folder
        self._control_plane = control_plane
        if control_plane is not None:
            self.apis = (self.api, *(self._connect(number) for number in range(1, len(control_plane.urls))))

    def _connect(self, api_server: int) -> API:
        assert self._control_plane is not None
        file = self._folder / f"admin-{api_server}"
        file.write_text(self._control_plane.kubeconfig("admin", api_server))
        return connect(self._background, file)

    @classmethod
    def of(
        cls,
        background: Background,
        environ: Mapping[str, str],
        folder: Path,
        **options: Any,
    ) -> RealCluster:
        """The cluster of KUBECONFIG, or else our own from KUBEBUILDER_ASSETS with options of `ControlPlane`.

        Our own emulates the minor version EMULATED_VERSION, if it is set.
        """
        if files := environ.get("KUBECONFIG"):
            return cls(background, Path(files.split(os.pathsep)[0]), folder, None)
        control_plane = ControlPlane(
            Path(environ["KUBEBUILDER_ASSETS"]), emulated_version=environ.get("EMULATED_VERSION", ""), **options
        )
        return cls.of_control_plane(background, control_plane, folder)

    @classmethod
    def of_control_plane(
        cls, background: Background, control_plane: ControlPlane, folder: Path, **options: object
    ) -> RealCluster:
        """The cluster of a control plane, which is started; `options` are of the service."""
        try:
            admin = folder / "admin"
            admin.write_text(control_plane.start())
            return cls(background, admin, folder, control_plane, **options)
        except BaseException:
            control_plane.stop()
            raise

    def begin(self) -> None:
        """Install everything and start the service with the ServiceAccount of deploy/.

        Raises:
            AssertionError: The cluster is too old, has gpu-admission already, or something did not become ready.
        """
        until(self._answers, "the API server answers", _START_SECONDS)
        assert self.minor >= _OLDEST, f"this cluster is Kubernetes 1.{self.minor}; the tests need 1.{_OLDEST}"
        self._clear()
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            found = self.get(kind, "gpu-admission")
            assert found.code == 404, f"there is a {kind} gpu-admission already: this cluster has gpu-admission"
        self._find_controllers()
        self.install()
        until(self._has_rights, "the API servers know the rights of the service", _START_SECONDS)
        self._background.begin(self._beat())
        host = address_towards(self.api.access.url)
        self.serve(self._kubeconfig_of_the_service(), host, self._folder / "log", **self._options)

    @property
    def control_plane(self) -> ControlPlane | None:
        """The programs of the cluster; None for the cluster of KUBECONFIG."""
        return self._control_plane

    def close(self) -> None:
        """Stop the service, and remove everything."""
        try:
            super().close()
            if self._control_plane is None:
                self._clear()
        finally:
            for api in self.apis:
                api.close()
            if self._control_plane is not None:
                self._control_plane.stop()

    def _clear(self) -> None:
        self.belongings.clear()
        for name in NODES:
            self.delete("Lease", name, _LEASES)

    def _answers(self) -> bool:
        if self._control_plane is not None:
            self._control_plane.check()
        try:
            return all(api.request("GET", "/readyz").code == 200 for api in self.apis)
        except Unreachable:
            return False

    def _has_rights(self) -> bool:
        """True once every API server has seen the roles, which it reads from a watch."""
        resource = RESOURCES["MutatingWebhookConfiguration"]
        asked = {"verb": "watch", "group": resource.group, "resource": resource.plural, "name": "gpu-admission"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": deploy.USER, "resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return all(api.request("POST", path, {}, review).object["status"]["allowed"] for api in self.apis)

    def _find_controllers(self) -> None:
        """Detect controllers: they create ServiceAccounts, and a scheduler renews its Lease."""
        if self._control_plane is not None:
            self.makes_pods = self.makes_claims = self._control_plane.has("kube-controller-manager")
            self.schedules = self.makes_claims and self._control_plane.has("kube-scheduler")
            return
        self.belongings.add(manifests.namespace(_TRIAL, {}))
        self.makes_pods = self.makes_claims = _comes(lambda: self._has_account(_TRIAL), _ACCOUNT_SECONDS)
        self.schedules = self.makes_claims and self._has_scheduler()
        self.delete("Namespace", _TRIAL)

    def _has_account(self, namespace: str) -> bool:
        return self.get("ServiceAccount", "default", namespace).accepted

    def _has_scheduler(self) -> bool:
        lease = self.get("Lease", "kube-scheduler", "kube-system")
        if not lease.accepted:
            return False
        renewed = datetime.fromisoformat(lease.object["spec"].get("renewTime") or "1970-01-01T00:00:00Z")
        return datetime.now(UTC) - renewed < timedelta(minutes=1)

    def _await_account(self, namespace: str) -> None:
        if not self.makes_pods:
            metadata = {"name": "default", "namespace": namespace}
            self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        until(lambda: self._has_account(namespace), "the namespace gets its account", _ACCOUNT_SECONDS)

    def _kubeconfig_of_the_service(self) -> Path:
        """The kubeconfig of deploy/'s ServiceAccount, with the permissions of deploy/."""
        path = RESOURCES["ServiceAccount"].path(deploy.NAMESPACE, deploy.ACCOUNT, "token")
        spec = {"expirationSeconds": _TOKEN_SECONDS}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token = self.api.request("POST", path, {}, asked).object["status"]["token"]
        access = self.api.access
        file = self._folder / "service"
        file.write_text(kubeconfig(access.url, access.ca, token))
        return file

    def _headers_of(self, user: str, groups: tuple[str, ...]) -> Headers:
        groups = ("system:authenticated", *groups)
        return [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]

    async def _beat(self) -> None:
        """Renew the Leases of the nodes, as kubelets do."""
        while True:
            for name in NODES:
                await self.api.send("PATCH", _LEASE.path(_LEASES, name), _APPLY, node_lease(name), APPLY_PATCH)
            await asyncio.sleep(_BEAT_SECONDS)


def _comes(look: Callable[[], bool], seconds: float) -> bool:
    try:
        return until(look, "it comes", seconds)
    except AssertionError:
        return False


def node_lease(node: str) -> dict[str, Any]:
    """The Lease with which the kubelet of a node reports that it runs."""
    spec = {
        "holderIdentity": node,
        "leaseDurationSeconds": 40,
        "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    metadata = {"name": node, "namespace": _LEASES}
    return {"apiVersion": _LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
