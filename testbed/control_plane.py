"""A control plane of our own: etcd, API servers and other programs in KUBEBUILDER_ASSETS."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certs import issue_serving, make_authority
from testbed import deploy
from testbed.ports import free_ports
from testbed.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from certs import KeyPair


_HOST = "127.0.0.1"
_API_SERVER = "kube-apiserver"
_START_SECONDS = 120
_TOKENS = {
    "admin": ("system:admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
}
"""The user and the group of each token."""
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{deploy.NAMESPACE}"]},
        {"level": "None"},
    ],
}
"""Only the requests of gpu-admission."""


def kubeconfig(url: str, authority: bytes | None, token: str) -> str:
    """The text of a kubeconfig for the bearer of a token."""
    cluster = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "current-context": "tests",
        }
    )


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    running: subprocess.Popen[bytes]
    log: Path


class ControlPlane:
    """Programs, started in the order of their dependencies and stopped in reverse order."""

    def __init__(
        self,
        assets: Path,
        *,
        feature_gates: Iterable[str] = (),
        apis: Iterable[str] = (),
        webhook_client: KeyPair | None = None,
        admission_configuration: Path | None = None,
        api_servers: int = 1,
        audits: bool = False,
        emulated_version: str = "",
    ) -> None:
        """Starts no program yet.

        Args:
            assets: The folder with the programs.
            feature_gates: Gates to enable.
            apis: Versions of APIs to enable.
            webhook_client: The certificate that the API server presents to webhooks, if any.
            admission_configuration: The AdmissionConfiguration of the API servers; not together with `webhook_client`.
            api_servers: The number of API servers, which share etcd. The controllers talk to the first.
            audits: True if API servers log the requests of gpu-admission.
            emulated_version: The minor version to emulate, `1.34`; empty for their own.
        """
        self._assets = assets
        self._gates = _enabling_option("feature-gates", feature_gates)
        self._apis = _enabling_option("runtime-config", apis)
        self._emulation = {"emulated-version": f"kube={emulated_version}"} if emulated_version else {}
        self._webhook_client = webhook_client
        self._audits = audits
        self._folder = tempfile.TemporaryDirectory(prefix="gpu-admission-control-plane-")
        own = self._file("admission.yaml") if webhook_client else admission_configuration
        self._admission = {} if own is None else {"admission-control-config-file": own}
        self._processes: list[_Process] = []
        etcd, peers, *ports = free_ports(2 + api_servers)
        self._ports = {"etcd": etcd, "peers": peers}
        self._authority = make_authority("control plane of tests", now=datetime.now(UTC))
        self.urls = tuple(f"https://{_HOST}:{port}" for port in ports)
        """Those of the API servers."""

    def start(self) -> str:
        """Start everything; returns the administrator's kubeconfig.

        Controllers start last: without roles, kube-controller-manager ends after 10 s, and kube-scheduler tries to list
        objects less and less often.

        Raises:
            AssertionError: A program ended, with the end of its log; or an API server did not become ready.
        """
        self._write_files()
        self._run("etcd", self._etcd())
        for number in range(len(self.urls)):
            self.start_api_server(number)
        until(self._is_ready, "the API servers are ready", _START_SECONDS)
        for name, options in self._controllers().items():
            if self.has(name):
                self._run(name, options)
        return self.kubeconfig("admin")

    def kubeconfig(self, token: str, api_server: int = 0) -> str:
        """The kubeconfig for a token, for example a ServiceAccount's, and one of the API servers."""
        return kubeconfig(self.urls[api_server], self._authority.certificate_pem, token)

    @property
    def etcd_url(self) -> str:
        """The URL of etcd, which has no TLS."""
        return f"http://{_HOST}:{self._ports['etcd']}"

    def start_api_server(self, number: int) -> None:
        """Start an API server, on the data of etcd."""
        self._run(_API_SERVER, self._api_server(number), number)

    def kill_api_server(self, number: int) -> None:
        """Kill an API server, and wait for its end."""
        found = self._process(_name(_API_SERVER, number))
        self._processes.remove(found)
        found.running.kill()
        found.running.wait()

    def restart_api_server(self, feature_gates: Iterable[str] = (), apis: Iterable[str] = ()) -> None:
        """Restart the first API server with other feature gates and versions of APIs; controllers keep theirs."""
        self._gates = _enabling_option("feature-gates", feature_gates)
        self._apis = _enabling_option("runtime-config", apis)
        self.kill_api_server(0)
        self.start_api_server(0)
        until(self._is_ready, "the API servers are ready", _START_SECONDS)

    def process_ids(self, name: str) -> list[int]:
        """The ids of the processes of a program."""
        return [each.running.pid for each in self._processes if each.name.startswith(name)]

    def audit_events(self) -> list[dict[str, Any]]:
        """The requests of gpu-admission so far, as audit events of all API servers, if these are logged."""
        logs = (self._file(f"{_name(_API_SERVER, number)}.audit") for number in range(len(self.urls)))
        # The last line may be half written.
        lines = (line for log in logs if log.exists() for line in log.read_text().splitlines(keepends=True))
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def has(self, name: str) -> bool:
        """True if a program of this name exists."""
        return (self._assets / name).exists()

    @contextmanager
    def suspend(self, name: str) -> Iterator[None]:
        """Suspend a program meanwhile."""
        running = self._process(name).running
        running.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            running.send_signal(signal.SIGCONT)

    def _is_ready(self) -> bool:
        """True once every API server is ready, and so has created the roles of the controllers."""
        self.check()
        trust = ssl.create_default_context(cadata=self._authority.certificate_pem.decode())
        for url in self.urls:
            connection = HTTPSConnection(urlsplit(url).netloc, context=trust, timeout=10)
            try:
                connection.request("GET", "/readyz", headers={"Authorization": "Bearer admin"})
                if connection.getresponse().status != HTTPStatus.OK:
                    return False
            except (OSError, HTTPException):
                return False
            finally:
                connection.close()
        return True

    def check(self) -> None:
        """Check that all programs still run.

        Raises:
            AssertionError: A program ended; with the end of its log.
        """
        for process in self._processes:
            if process.running.poll() is not None:
                raise AssertionError(f"{process.name} has ended:\n{process.log.read_text()[-3000:]}")

    def stop(self) -> None:
        """Stop everything, and delete its data."""
        for process in reversed(self._processes):
            process.running.terminate()
            try:
                process.running.wait(10)
            except subprocess.TimeoutExpired:
                process.running.kill()
                process.running.wait()
        self._folder.cleanup()

    def _process(self, name: str) -> _Process:
        (found,) = (process for process in self._processes if process.name == name)
        return found

    def _file(self, name: str) -> Path:
        return Path(self._folder.name) / name

    def _write_files(self) -> None:
        serving = issue_serving(self._authority, [_HOST, "localhost"], now=datetime.now(UTC))
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._file("ca.crt").write_bytes(self._authority.certificate_pem)
        self._file("tls.crt").write_bytes(serving.certificate_pem)
        self._file("tls.key").write_bytes(serving.key_pem)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self._file("accounts.key").write_bytes(pem)
        rows = [f'{token},{user},{user},"{group}"\n' for token, (user, group) in _TOKENS.items()]
        self._file("tokens.csv").write_text("".join(rows))
        self._file("audit.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        for token in _TOKENS:
            self._file(f"{token}.kubeconfig").write_text(self.kubeconfig(token))
        if self._webhook_client is not None:
            self._write_admission_configuration(self._webhook_client)

    def _write_admission_configuration(self, client: KeyPair) -> None:
        """As in docs/client-certificates.md, but for any server, because ports are chosen later."""
        self._file("webhooks.crt").write_bytes(client.certificate_pem)
        self._file("webhooks.key").write_bytes(client.key_pem)
        keys = {"client-certificate": str(self._file("webhooks.crt")), "client-key": str(self._file("webhooks.key"))}
        users = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": keys}]}
        self._file("webhooks.yaml").write_text(yaml.safe_dump(users))
        group = "apiserver.config.k8s.io/v1"
        configuration = {
            "apiVersion": group,
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(self._file("webhooks.yaml")),
        }
        plugins = [
            {"name": name, "configuration": configuration}
            for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
        ]
        document = {"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}
        self._file("admission.yaml").write_text(yaml.safe_dump(document))

    def _run(self, program: str, options: Mapping[str, object], number: int = 0) -> None:
        name = _name(program, number)
        log = self._file(f"{name}.log")
        arguments = [f"--{option}={value}" for option, value in options.items()]
        with log.open("ab") as output:
            running = subprocess.Popen([self._assets / program, *arguments], stdout=output, stderr=output)
        self._processes.append(_Process(name, running, log))

    def _etcd(self) -> dict[str, object]:
        clients = self.etcd_url
        peers = f"http://{_HOST}:{self._ports['peers']}"
        return {
            "data-dir": self._file("etcd"),
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "unsafe-no-fsync": "true",
        }

    def _api_server(self, number: int) -> dict[str, object]:
        return {
            "etcd-servers": self.etcd_url,
            "bind-address": _HOST,
            "advertise-address": _HOST,
            "secure-port": urlsplit(self.urls[number]).port,
            "cert-dir": self._file(f"certificates-{number}"),
            "tls-cert-file": self._file("tls.crt"),
            "tls-private-key-file": self._file("tls.key"),
            "token-auth-file": self._file("tokens.csv"),
            "authorization-mode": "RBAC",
            "service-account-issuer": self.urls[0],
            "service-account-key-file": self._file("accounts.key"),
            "service-account-signing-key-file": self._file("accounts.key"),
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            **self._gates,
            **self._apis,
            **self._emulation,
            **self._admission,
            **(self._audit_options(number) if self._audits else {}),
        }

    def _audit_options(self, number: int) -> dict[str, object]:
        log = self._file(f"{_name(_API_SERVER, number)}.audit")
        return {"audit-policy-file": self._file("audit.yaml"), "audit-log-path": log}

    def _controllers(self) -> dict[str, dict[str, object]]:
        return {
            "kube-controller-manager": {
                "kubeconfig": self._file("kube-controller-manager.kubeconfig"),
                "use-service-account-credentials": "true",
                "service-account-private-key-file": self._file("accounts.key"),
                "root-ca-file": self._file("ca.crt"),
                "secure-port": 0,
                # It is alone, and a leader ends if the API server is away for 10 s.
                "leader-elect": "false",
                **self._gates,
                **self._emulation,
            },
            "kube-scheduler": {
                "kubeconfig": self._file("kube-scheduler.kubeconfig"),
                "secure-port": 0,
                # It is alone, and a leader ends if the API server is away for 10 s.
                "leader-elect": "false",
                **self._gates,
                **self._emulation,
            },
        }


def _name(program: str, number: int) -> str:
    """The name of a process: the second one of a program is `program-2`."""
    return f"{program}-{number + 1}" if number else program


def _enabling_option(option: str, names: Iterable[str]) -> dict[str, object]:
    """The option that enables names; empty without names."""
    value = ",".join(f"{name}=true" for name in names)
    return {option: value} if value else {}
