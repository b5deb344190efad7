"""`gpu-admission delete-webhooks`: the first step of removing gpu-admission."""

from __future__ import annotations

import click

from webhook.cli.options import connection_options

__all__ = ["command"]


@click.command("delete-webhooks")
@connection_options
def command(*, kubeconfig: str | None, context: str | None) -> None:
    """Delete both webhook configurations of gpu-admission, so that API servers no longer call it.

    Nothing is converted or reviewed after that. Do this before you remove the service: without replicas, pods with GPUs
    are refused in namespaces that convert or enforce their quota. `kubectl delete` does the same; the Helm chart runs this command.

    \b
    The cluster that kubectl talks to:
      gpu-admission delete-webhooks
    Another one:
      gpu-admission delete-webhooks --context staging
    With a kubeconfig:
      gpu-admission delete-webhooks --kubeconfig admin.conf

    Exit code: 0 if neither exists any more; 2 if the cluster cannot be read, or the API server refuses; 3 if gpu-admission has
    an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.webhook_changes.changes import delete_webhooks

    click.echo("\n".join(delete_webhooks(kubeconfig, context)))
