"""`gpu-admission apply-webhooks` and `delete-webhooks`: the installed webhook configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import complete_paths, connection_options, takes_cluster
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


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
@takes_cluster
def apply_command(*, file: str, source: ClusterOptions, rollback: bool, check: bool, timeout: float) -> None:
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
    from webhook.cli.installation.webhook_changes import apply_webhooks, check_webhooks
    from webhook.pages.text_report import print_lines

    with Progress():
        if check:
            lines = check_webhooks(file, source, timeout)
        else:
            lines = apply_webhooks(file, source, timeout, rolls_back=rollback)
    print_lines(lines)


@click.command("delete-webhooks")
@connection_options
@takes_cluster
def delete_command(*, source: ClusterOptions) -> None:
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
    from webhook.cli.installation.webhook_changes import delete_webhooks
    from webhook.pages.text_report import print_lines

    print_lines(delete_webhooks(source))
