"""`gpu-admission sandbox`: a Kubernetes API of manifests, for tests and for trying out."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.cli.documents import Reader

if TYPE_CHECKING:
    from webhook.sandbox.server import Sandbox

__all__ = ["command"]

_HOST = "127.0.0.1"
_WITH_KUBECONFIG = """\
  export KUBECONFIG={file}
  kubectl get nodes
  gpu-admission serve --url https://localhost:8443"""
_WITHOUT_KUBECONFIG = """\
  curl {url}/api/v1/nodes

With --kubeconfig-out FILE, it writes what kubectl and gpu-admission serve need."""


@click.command("sandbox")
@click.argument("manifests", nargs=-1)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="The port to listen on; 0 for any that is free.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the kubeconfig of the sandbox. A file that holds anything else is not touched.",
)
def command(manifests: tuple[str, ...], port: int, kubeconfig_out: Path | None) -> None:
    """Serve a Kubernetes API of manifests, for tests and for trying out, until SIGTERM or Ctrl-C.

    MANIFESTS are files and folders: what the cluster holds at the start, put there past admission. After that, webhooks
    are called as a real API server calls them, and a pod's ResourceClaims are made from its templates.

    It is no cluster. There is no scheduler and no kubelet, so no pod ever runs and no claim is allocated; everybody may
    do everything, so it listens on 127.0.0.1 only, with plain HTTP; and it forgets everything when it ends.

    \b
    Try the webhook out:
      gpu-admission sandbox examples/cluster deploy/install.yaml --kubeconfig-out sandbox.yaml
    and then, in two other terminals:
      KUBECONFIG=sandbox.yaml gpu-admission serve --url https://localhost:8443
      KUBECONFIG=sandbox.yaml kubectl apply -f examples/single-gpu/pod.yaml
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if kubeconfig_out is not None:
        _check_kubeconfig(kubeconfig_out)
    # Here, so that help and mistakes do not wait for a server's libraries.
    import asyncio  # noqa: PLC0415

    from webhook.cli.load import sandbox_of  # noqa: PLC0415

    reader = Reader()
    sandbox, count = sandbox_of(manifests, reader)
    if reader.problems:
        reader.fail()
    objects = f"{count} object{'s' * (count != 1)}"
    asyncio.run(_serve(sandbox, objects, port, kubeconfig_out))


def _check_kubeconfig(file: Path) -> None:
    """Refuse to write over what is not ours: the file may hold the only credentials of somebody's clusters."""
    if file == Path():
        raise click.UsageError("--kubeconfig-out is empty; name a file")
    if file.exists() and not (file.is_file() and _is_ours(file)):
        raise click.UsageError(f"{file} exists and is no kubeconfig of a sandbox; name another file for it")


def _is_ours(file: Path) -> bool:
    from webhook.sandbox.users import is_of_a_sandbox  # noqa: PLC0415

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return not text or is_of_a_sandbox(text)


async def _serve(sandbox: Sandbox, objects: str, port: int, kubeconfig_out: Path | None) -> None:
    import asyncio  # noqa: PLC0415
    import signal  # noqa: PLC0415

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await _start(sandbox, port)
        if kubeconfig_out is not None:
            _write(kubeconfig_out, sandbox.kubeconfig())
        usage = _usage(sandbox.url, kubeconfig_out)
        click.echo(f"The sandbox serves {objects} at {sandbox.url}, until Ctrl-C.\n\n{usage}")
        await stop.wait()
    finally:
        await sandbox.stop()


async def _start(sandbox: Sandbox, port: int) -> None:
    try:
        await sandbox.start(_HOST, port)
    except OSError as error:
        # asyncio wraps the reason into words that change with its version.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        sentence = f"The sandbox cannot listen on port {port} of {_HOST}: {reason}; choose another one with --port."
        raise click.ClickException(sentence) from error


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        sentence = f"The kubeconfig cannot be written to {file}: {error.strerror}."
        raise click.ClickException(sentence) from error


def _usage(url: str, kubeconfig: Path | None) -> str:
    if kubeconfig is None:
        return _WITHOUT_KUBECONFIG.format(url=url)
    return _WITH_KUBECONFIG.format(file=shlex.quote(str(kubeconfig.absolute())))
