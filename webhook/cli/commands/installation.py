"""The commands for installations: `preflight`, `doctor`, `apply-webhooks` and `delete-webhooks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    complete_paths,
    connection_options,
    filename_option,
    output_option,
    static_option,
    takes_cluster,
)
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("preflight")
@filename_option
@connection_options
@output_option("what would fail first, then what is unknown", "the same, with counts by entry")
@takes_cluster
@click.pass_context
def preflight_command(ctx: click.Context, *, files: tuple[str, ...], source: ClusterOptions, output: str) -> None:
    """Show what applying the manifests of gpu-admission to a cluster would do.

    FILE has all manifests of one version, as `kubectl kustomize` or `helm template` prints them; - is standard input. Without
    -f, the install.yaml of this version is checked.

    Each object is sent to the API server as a dry run, so the answer is that of its policies, webhooks, quotas and RBAC. The
    command also checks versions and the step from the installed one, rights, the order of webhooks, namespaces and pods that
    would be reviewed, policies of other engines, aggregated APIs, clocks and the network.

    Nothing is changed: only reads, reviews of your own rights, and dry runs are sent. The API server calls the webhooks of
    others for a dry run, unless they have side effects; what such a webhook would say is unknown.

    \b
    Before the first installation:
      gpu-admission preflight -f install.yaml
    An overlay of your own, before an upgrade:
      kubectl kustomize my-overlay | gpu-admission preflight -f -
    A chart, for a program:
      helm template gpu-admission deploy/chart -n gpu-admission | gpu-admission preflight -f - -o json

    Exit code: 0 if applying would work; 1 if something would fail; 4 if nothing would, but a check has no answer; 2 if the
    cluster or a file cannot be read; 3 if gpu-admission has an internal error; please report it with the output of
    GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.installation.check_reports import exit_code
    from webhook.cli.installation.preflight import as_json, run_preflight, text

    with Progress():
        found = run_preflight(files, source)
    click.echo(as_json(found) if output == "json" else text(found))
    ctx.exit(exit_code(found.checks))


_ONLY_WARNINGS = 5


@click.command("doctor")
@connection_options
@static_option
@output_option("what is failing first, then what is unknown, warnings, and what is ok", "the same, with a version")
@takes_cluster
@click.pass_context
def doctor_command(ctx: click.Context, *, source: ClusterOptions, static: tuple[str, ...], output: str) -> None:
    """Show whether an installation of gpu-admission works, and what to do where it does not.

    One page about the replicas and what each says of itself, certificates and caBundles, the webhooks and their failurePolicy,
    the calls that the API server counted, the leader, quotas, templates, settings, CRDs, RBAC and the other objects.

    Only reads are sent: to the API server, and through it to the pods of the replicas. What you may not read is unknown, and
    the page names the missing right. docs/doctor.md has a table of the checks, and a ClusterRole with all rights.

    \b
    The cluster that kubectl talks to:
      gpu-admission doctor
    Another cluster:
      gpu-admission doctor --context staging
    With webhooks in files of the API servers:
      gpu-admission doctor --static /etc/kubernetes/gpu-admission
    For a program:
      gpu-admission doctor -o json

    Exit code: 0 if every check is ok; 1 if one is failing; 4 if none is failing, but one is unknown; 5 if there are only
    warnings; 2 if the cluster cannot be reached; 3 if gpu-admission has an internal error; please report it with the output of
    GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.installation.check_reports import exit_code
    from webhook.cli.installation.doctor import as_json, run_doctor, text

    with Progress():
        found = run_doctor(source, static)
    click.echo(as_json(found) if output == "json" else text(found))
    ctx.exit(exit_code(found.checks, of_warnings=_ONLY_WARNINGS))


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
