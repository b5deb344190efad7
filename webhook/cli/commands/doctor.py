"""`gpu-admission doctor`: what is wrong with a running installation, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import connection_options, output_option, static_option, takes_cluster
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


_ONLY_WARNINGS = 5


@click.command("doctor")
@connection_options
@static_option
@output_option("what is failing first, then what is unknown, warnings, and what is ok", "the same, with a version")
@takes_cluster
@click.pass_context
def command(ctx: click.Context, *, source: ClusterOptions, static: tuple[str, ...], output: str) -> None:
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
