"""The service under test: `gpu-admission serve --url`, a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.ports import free_ports
from testbed.waiting import until

if TYPE_CHECKING:
    from typing import BinaryIO

    from testbed.commands import RunningCommand

ROOT = Path(__file__).parents[1]
_START_SECONDS = 100
_STOP_SECONDS = 60
_LOG_SHOWN = 4000


class Service:
    """One replica; it can be stopped and started again."""

    def __init__(self, kubeconfig: Path, host: str, log: Path, **options: object) -> None:
        """Starts no process yet.

        Args:
            kubeconfig: The kubeconfig of the service's account.
            host: The address of this machine that the API server calls.
            log: The file for its output.
            options: More options of the command, such as `client_ca`.
        """
        self._kubeconfig = kubeconfig
        self._host = host
        self._log = log
        self._options = {name.replace("_", "-"): value for name, value in options.items()}
        self._port, self._probe_port, self._explain_port = free_ports(3)
        self._process: subprocess.Popen[bytes] | RunningCommand | None = None

    @property
    def url(self) -> str:
        """Where the API server calls it."""
        return f"https://{self._host}:{self._port}"

    @property
    def probe_address(self) -> str:
        """The host and port of its probes and metrics."""
        return f"{self._host}:{self._probe_port}"

    @property
    def explain_url(self) -> str:
        """Where it answers questions."""
        return f"https://{self._host}:{self._explain_port}"

    def start(self) -> None:
        """Start it unless it runs, and wait until it is ready.

        Raises:
            AssertionError: It ended or did not become ready; with the end of its log.
        """
        if self._process is not None and self._process.poll() is None:
            return
        options = {
            "kubeconfig": self._kubeconfig,
            "url": self.url,
            "host": self._host,
            "port": self._port,
            "probe-port": self._probe_port,
            "peer-port": 0,
            "explain-port": self._explain_port,
            "drain-delay": 0,
            **self._options,
        }
        arguments = [f"--{option}={value}" for option, value in options.items()]
        with self._log.open("ab") as output:
            self._process = self.launch(["serve", *arguments], self._kubeconfig.parent, output)
        try:
            until(self._is_ready, "the service is ready", _START_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-_LOG_SHOWN:]}") from None

    def launch(self, arguments: list[str], folder: Path, output: BinaryIO) -> subprocess.Popen[bytes] | RunningCommand:
        """Start the process of a command in a folder, with a file for its output."""
        variables = {**environment(), "PYTHONPATH": str(ROOT)}
        command = [*self.command(), *arguments]
        return subprocess.Popen(command, cwd=folder, env=variables, stdout=output, stderr=output)

    def command(self) -> list[str]:
        """The beginning of the command line."""
        return [sys.executable, "-m", "webhook"]

    def stop(self) -> None:
        """Stop it as the kubelet does, and wait for its end."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the service did not stop on SIGTERM:\n{self.log()[-_LOG_SHOWN:]}") from None
        finally:
            self._process = None
        assert code == 0, f"the service ended with {code}:\n{self.log()[-_LOG_SHOWN:]}"

    @property
    def process_id(self) -> int:
        """The id of the process that serves."""
        assert self._process is not None, "the service does not run"
        return self._process.pid

    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text() if self._log.exists() else ""

    def probe(self) -> dict[str, Any]:
        """The answer of /readyz."""
        answer: dict[str, Any] = json.loads(self._probe("/readyz"))
        return answer

    def metrics(self) -> str:
        """The answer of /metrics."""
        return self._probe("/metrics")

    def _is_ready(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the service has ended:\n{self.log()[-_LOG_SHOWN:]}")
        with suppress(OSError):
            probe = self.probe()
            assert probe["ready"], f"not ready: {probe['reasons']}"
            return True
        return False

    def _probe(self, path: str) -> str:
        connection = http.client.HTTPConnection(self._host, self._probe_port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()


def environment() -> dict[str, str]:
    """Our environment without variables that name another cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "POD_"))}
