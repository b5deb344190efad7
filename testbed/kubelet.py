"""A kubelet for the pods of the chart: it runs their commands as processes of this machine."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from testbed.deploy import NAMESPACE
from testbed.ports import free_ports
from testbed.real_cluster import node_lease
from testbed.service import ROOT, environment
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from testbed.api import API


NODE = "kubelet-of-tests"
_PODS = RESOURCES["Pod"]
_LEASES = "kube-node-lease"
_HOST = "127.0.0.1"
_PAUSE = 0.2
_LEASE_ROUNDS = 25
_STATUS = {
    "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "made up"}]}
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a hook or test that ended."""

    arguments: tuple[str, ...]
    code: int
    output: str
    seen: dict[str, Any]
    """What `look` returned when it ended."""


@dataclass(eq=False, slots=True)
class _Process:
    running: subprocess.Popen[bytes]
    log: Path
    probe_port: int = 0
    """0 for a command."""
    arguments: tuple[str, ...] = ()
    state: str = ""
    terminated: bool = False


@dataclass(eq=False)
class Kubelet:
    """Runs pods of the namespace gpu-admission that are bound to its node."""

    api: API
    kubeconfig_of: Callable[[str], str]
    """The kubeconfig for a token."""
    folder: Path
    images: Collection[str]
    """Those of gpu-admission; pods of other images are never ready."""
    look: Callable[[], dict[str, Any]]
    """Called when a command ends."""
    commands: list[Command] = field(default_factory=list)
    may_end: threading.Event = field(default_factory=threading.Event)
    """Replicas that drain end once it is set."""
    _processes: dict[str, _Process] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _failure: BaseException | None = None

    def start(self) -> None:
        """Register the node, and run pods from now on."""
        self.may_end.set()
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": NODE, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": NODE}},
            "status": {
                "allocatable": (capacity := {"cpu": "16", "memory": "64Gi", "pods": "110"}),
                "capacity": capacity,
                **_STATUS["status"],
            },
        }
        self.api.create(node).object  # noqa: B018 - raises if it is refused
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End all processes.

        Raises:
            BaseException: What ended the thread, if it has ended by itself.
        """
        self._stopping.set()
        self._thread.join()
        for process in self._processes.values():
            process.running.kill()
            process.running.wait()
        if self._failure is not None:
            raise self._failure

    def logs(self) -> str:
        """The output of all replicas and commands."""
        return "\n".join(f"== {file.name}\n{file.read_text()}" for file in sorted(self.folder.glob("*.log")))

    def _run(self) -> None:
        rounds = 0
        try:
            while not self._stopping.wait(_PAUSE):
                if rounds % _LEASE_ROUNDS == 0:
                    self._renew()
                rounds += 1
                self._look()
        except BaseException as error:  # noqa: BLE001 - stop() raises it
            self._failure = error

    def _renew(self) -> None:
        path = RESOURCES["Lease"].path(_LEASES, NODE)
        query = {"fieldManager": NODE, "force": "true"}
        self.api.request("PATCH", path, query, node_lease(NODE), "application/apply-patch+yaml").object  # noqa: B018

    def _look(self) -> None:
        for pod in self.api.list("Pod", NAMESPACE):
            if pod["spec"].get("nodeName") != NODE:
                continue
            process = self._processes.get(pod["metadata"]["uid"])
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod, process)
            elif process is None:
                self._begin(pod)
            elif process.probe_port:
                self._report(pod, process, "Running", is_ready=_is_ready(process.probe_port))
            elif (code := process.running.poll()) is not None and process.state in {"", "Running"}:
                text = process.log.read_text()
                self.commands.append(Command(process.arguments, code, text, self.look()))
                self._report(pod, process, "Failed" if code else "Succeeded", is_ready=False)

    def _begin(self, pod: dict[str, Any]) -> None:
        container = pod["spec"]["containers"][0]
        if container["image"] not in self.images:
            return
        name = pod["metadata"]["name"]
        kubeconfig = self.folder / f"{name}.kubeconfig"
        kubeconfig.write_text(self.kubeconfig_of(self._token(pod["spec"]["serviceAccountName"])))
        is_service = container["args"][0] == "serve"
        ports = free_ports(3)
        arguments = self._mount(pod, container["args"])
        if is_service:
            options = zip(("port", "probe-port", "explain-port"), ports, strict=True)
            replaced = re.compile(r"--(host|port|probe-port|drain-delay|log-level)=")
            arguments = [each for each in arguments if not replaced.match(each)]
            arguments += [f"--host={_HOST}", "--peer-port=0", "--drain-delay=0"]
            arguments += [f"--{option}={port}" for option, port in options]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            running = subprocess.Popen(
                [sys.executable, "-m", "webhook", *arguments],
                cwd=self.folder,
                env={**environment(), "PYTHONPATH": str(ROOT), "KUBECONFIG": str(kubeconfig)},
                stdout=output,
                stderr=output,
            )
        self._processes[pod["metadata"]["uid"]] = _Process(
            running, log, ports[1] if is_service else 0, tuple(container["args"])
        )

    def _token(self, account: str) -> str:
        path = RESOURCES["ServiceAccount"].path(NAMESPACE, account, "token")
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        token: str = self.api.request("POST", path, {}, request).object["status"]["token"]
        return token

    def _mount(self, pod: dict[str, Any], arguments: list[str]) -> list[str]:
        """Arguments with paths on this machine; the files of ConfigMaps are written there."""
        names = {
            each["name"]: each["configMap"]["name"] for each in pod["spec"].get("volumes", ()) if "configMap" in each
        }
        for mount in pod["spec"]["containers"][0].get("volumeMounts", ()):
            if mount["name"] in names:
                folder = self.folder / pod["metadata"]["uid"] / mount["name"]
                folder.mkdir(parents=True)
                data = self.api.get("ConfigMap", names[mount["name"]], NAMESPACE).object["data"]
                for name, text in data.items():
                    (folder / name).write_text(text)
                arguments = [each.replace(mount["mountPath"], str(folder)) for each in arguments]
        return arguments

    def _end(self, pod: dict[str, Any], process: _Process | None) -> None:
        """Stop the process of a pod, if it has one; delete the pod once it has ended."""
        if process is not None:
            if not process.terminated:
                process.running.send_signal(signal.SIGTERM)
                process.terminated = True
            if process.running.poll() is None or (process.probe_port and not self.may_end.is_set()):
                return
        self.api.delete("Pod", pod["metadata"]["name"], NAMESPACE, gracePeriodSeconds=0)

    def _report(self, pod: dict[str, Any], process: _Process, phase: str, *, is_ready: bool) -> None:
        state = f"{phase} and ready" if is_ready else phase
        if state == process.state:
            return
        status = {
            "type": "Ready",
            "status": str(is_ready),
            "lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        }
        body = {"status": {"phase": phase, "conditions": [status, {**status, "type": "ContainersReady"}]}}
        path = _PODS.path(NAMESPACE, pod["metadata"]["name"], "status")
        if self.api.request("PATCH", path, {}, body, "application/merge-patch+json").code < 300:
            process.state = state


def _is_ready(port: int) -> bool:
    with suppress(OSError):
        connection = http.client.HTTPConnection(_HOST, port, timeout=10)
        try:
            connection.request("GET", "/readyz")
            return bool(json.loads(connection.getresponse().read())["ready"])
        finally:
            connection.close()
    return False
