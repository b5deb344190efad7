"""`gpu-admission apply-webhooks`: the webhook configurations of a version, without a call that fails."""

from __future__ import annotations

import click

from webhook.cli.options import complete_paths, connection_options
from webhook.cli.progress import Progress

__all__ = ["command"]


@click.command("apply-webhooks")
@click.argument("file", shell_complete=complete_paths)
@connection_options
@click.option("--rollback", is_flag=True, help="Go back to an earlier version: apply now, before its service.")
@click.option(
    "--check", is_flag=True, help="Change nothing; fail unless the webhooks and the service are those of FILE."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
def command(
    *, file: str, kubeconfig: str | None, context: str | None, rollback: bool, check: bool, timeout: float
) -> None:
    """Apply the webhook configurations in FILE, the manifests of a version; ignore its other objects.

    An API server calls a webhook as soon as its configuration exists, and a replica of another version may not know its
    path. So the command waits until all replicas are of the newest template of the Deployment, and earlier ones have ended.
    Then it writes each configuration in one request, with the caBundle that is installed: no call fails in between.

    With --rollback, FILE is of an earlier version: its webhooks are applied at once, because a later service still answers
    them. Apply its service after that.

    With --check, nothing changes: the command fails unless the service and the webhooks are those of FILE.

    FILE may be - for standard input. The image of a Deployment in it must be the one that is running.

    \b
    After the service of a new version was applied:
      gpu-admission apply-webhooks install.yaml
    The same with an overlay of your own:
      kubectl kustomize my-overlay | gpu-admission apply-webhooks -
    Back to the version before, before its service:
      gpu-admission apply-webhooks --rollback old/install.yaml
    Whether they are still installed, for example after break-glass:
      gpu-admission apply-webhooks --check install.yaml

    Exit code: 0 if the configurations are applied; 1 if the service is of another version, waiting took too long, or a check
    fails; 2 if FILE or the cluster cannot be read, or the API server refuses; 3 if gpu-admission has an internal error; please
    report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if check and rollback:
        raise click.UsageError("--check and --rollback exclude each other.")
    from webhook.cli.webhook_changes.changes import apply_webhooks, check_webhooks

    with Progress() as progress:
        if check:
            lines = check_webhooks(file, kubeconfig, context, timeout, progress)
        else:
            lines = apply_webhooks(file, kubeconfig, context, timeout, progress, rolls_back=rollback)
    click.echo("\n".join(lines))
