"""`gpu-admission sandbox`: a Kubernetes API of manifests, for tests and for trying out."""

from __future__ import annotations

from pathlib import Path

import click

from webhook.cli.options import complete_paths


@click.command("sandbox")
@click.argument("manifests", nargs=-1, shell_complete=complete_paths)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="The port to listen on; 0 for any free port.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the kubeconfig of the sandbox. A file with any other content is not overwritten.",
)
def command(manifests: tuple[str, ...], port: int, kubeconfig_out: Path | None) -> None:
    """Serve a Kubernetes API of manifests, for tests and for trying out, until SIGTERM or Ctrl-C.

    MANIFESTS are files and folders with the objects at the start, which are stored without admission. After that,
    webhooks are called as a real API server calls them, and ResourceClaims of pods are created from their templates.

    It is not a cluster: it has no scheduler and no kubelet, so no pod runs and no claim is allocated. Every client may do
    everything, so it listens on 127.0.0.1 only, with plain HTTP. All objects are lost when it ends.

    \b
    Try the webhook out:
      gpu-admission sandbox examples/cluster deploy/install.yaml --kubeconfig-out sandbox.yaml
    and then, in two other terminals:
      KUBECONFIG=sandbox.yaml gpu-admission serve --url https://localhost:8443
      KUBECONFIG=sandbox.yaml kubectl apply -f examples/single-gpu/pod.yaml
    Try commands for a running cluster, on a cluster as kubectl printed it:
      gpu-admission sandbox cluster/ --kubeconfig-out sandbox.yaml
    An empty API on any free port, for a test:
      gpu-admission sandbox --port 0 --kubeconfig-out sandbox.yaml
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.serve.sandbox_start import run_sandbox

    run_sandbox(manifests, port, kubeconfig_out)
