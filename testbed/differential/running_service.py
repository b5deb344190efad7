"""`gpu-admission serve` of a checkout, beside its own `gpu-admission sandbox`, as two processes."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import ssl
import subprocess
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from testbed import libyaml
from testbed.differential.command_runs import command_environment, command_of
from testbed.ports import free_ports
from testbed.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


_HOST = "127.0.0.1"
_START_SECONDS = 180
_STOP_SECONDS = 30
_CALL_SECONDS = 60
_JSON = {"Content-Type": "application/json"}
_ADMIN = {"Authorization": "Bearer admin,system:masters"}
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gpu-admission"
_QUOTAS = "/apis/gpu-admission.io/v1alpha1/gpuquotas"


class RunningService:
    """A service that serves an own copy of a cluster."""

    def __init__(self, checkout: Path, cluster: Path, folder: Path) -> None:
        """Starts both processes; `wait` returns when they are ready.

        Args:
            checkout: With `.venv`, and the manifests of an installation.
            cluster: The folder with the objects of the cluster.
            folder: A new folder for logs.
        """
        folder.mkdir(parents=True)
        self._checkout = checkout
        self._folder = folder
        self._kubeconfig = folder / "kubeconfig.yaml"
        self._webhook, self._probe, self._explain = free_ports(3)
        self._processes: list[subprocess.Popen[bytes]] = []
        install = checkout / "deploy" / "install.yaml"
        sandbox = ["sandbox", str(cluster), str(install), "--port=0", f"--kubeconfig-out={self._kubeconfig}"]
        self._start("sandbox", *sandbox)
        self._connections: dict[int, http.client.HTTPConnection] = {}

    def wait(self) -> None:
        """Start the service, and wait until it is ready, leads, and has counted every quota."""
        until(self._kubeconfig.exists, "the sandbox listens", _START_SECONDS)
        server = until(self._server, "the kubeconfig is written", _START_SECONDS)
        self._connections[0] = http.client.HTTPConnection(server, timeout=_CALL_SECONDS)
        ports = [f"--port={self._webhook}", f"--probe-port={self._probe}", f"--explain-port={self._explain}"]
        url = f"--url=https://{_HOST}:{self._webhook}"
        options = [f"--kubeconfig={self._kubeconfig}", "--peer-port=0", "--drain-delay=0"]
        self._start("serve", "serve", url, *ports, *options)
        self._connections[self._probe] = http.client.HTTPConnection(_HOST, self._probe, timeout=_CALL_SECONDS)
        until(self._is_ready, "the service is ready and leads", _START_SECONDS)
        until(self._are_quotas_counted, "every GPUQuota is counted", _START_SECONDS)
        bundle = self.get_stored(_CONFIGURATIONS)["webhooks"][0]["clientConfig"]["caBundle"]
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        for port in (self._webhook, self._explain):
            connection = http.client.HTTPSConnection(_HOST, port, timeout=_CALL_SECONDS, context=context)
            self._connections[port] = connection

    def review(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        """The status and the answer to an AdmissionReview; its patch is decoded."""
        answer = self._request(self._webhook, "POST", f"{path}?timeout=30s", review)
        body = answer["body"]
        if isinstance(body, dict) and "patch" in body.get("response", {}):
            body["response"]["patch"] = json.loads(base64.b64decode(body["response"]["patch"]))
        return answer

    def explain(self, question: dict[str, Any]) -> dict[str, Any]:
        """The status and the explanations of a question."""
        return self._request(self._explain, "POST", "/v1/explain?timeout=50s", question)

    def create(self, path: str, document: dict[str, Any], user: str) -> dict[str, Any]:
        """The status, the stored object and the warnings after a create through the API, with all webhooks."""
        return self._request(0, "POST", path, document, {"Authorization": f"Bearer {user}"})

    def get_stored(self, path: str) -> Any:
        """The answer of the API at a path."""
        answer = self._request(0, "GET", path)
        assert answer["status"] == 200, f"{path}: {answer}"
        return answer["body"]

    def quotas(self) -> Any:
        """The output of `gpu-admission quota` for this cluster."""
        command = [command_of(self._checkout), "quota", "--kubeconfig", str(self._kubeconfig), "-o", "json"]
        done = subprocess.run(
            command, env=command_environment(), capture_output=True, text=True, timeout=_CALL_SECONDS, check=False
        )
        return {"output": json.loads(done.stdout or "null"), "errors": done.stderr, "exit code": done.returncode}

    def stop(self) -> None:
        """Stop both processes, the service first."""
        for connection in self._connections.values():
            connection.close()
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [command_of(self._checkout), *arguments],
                cwd=self._folder,
                env=command_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)

    def _check_processes(self) -> None:
        for process, name in zip(self._processes, ("sandbox", "serve"), strict=False):
            if process.poll() is not None:
                log = (self._folder / f"{name}.log").read_text()[-4000:]
                raise RuntimeError(f"{name} of {self._checkout} has ended with {process.returncode}:\n{log}")

    def _server(self) -> str:
        self._check_processes()
        read = libyaml.load(self._kubeconfig.read_text()) or {}
        return urlsplit(read["clusters"][0]["cluster"]["server"]).netloc if read else ""

    def _is_ready(self) -> bool:
        self._check_processes()
        try:
            body = self._request(self._probe, "GET", "/readyz")["body"]
        except OSError:
            return False
        assert body["ready"], body
        assert "no replica leads" not in body["notes"], body
        return True

    def _are_quotas_counted(self) -> bool:
        self._check_processes()
        for quota in self.get_stored(_QUOTAS)["items"]:
            generation = quota["metadata"]["generation"]
            conditions = {each["type"]: each for each in quota.get("status", {}).get("conditions", [])}
            for name in ("Ready", "Enforced"):
                seen = conditions.get(name, {"status": "Unknown"})
                assert seen["status"] != "Unknown", (quota["metadata"]["namespace"], name, seen)
                assert seen["observedGeneration"] == generation, (quota["metadata"]["namespace"], name, seen)
        return True

    def _request(
        self, port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Any request; port 0 is the API. A connection that was closed meanwhile is opened again, once."""
        connection = self._connections[port]
        data = None if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            try:
                connection.request(method, path, data, {**_JSON, **_ADMIN, **(headers or {})})
                response = connection.getresponse()
                text = response.read().decode()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                connection.close()
                if attempt == 2:
                    raise
            except OSError:
                connection.close()
                raise
        is_json = response.headers.get_content_type() == "application/json"
        warnings = response.headers.get_all("Warning") or []
        return {"status": response.status, "body": json.loads(text) if is_json else text, "warnings": warnings}
