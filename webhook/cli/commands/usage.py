"""`gpu-admission usage`: who holds which GPUs of a cluster, and which are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import connection_options, files_option, namespace_option, output_option, takes_cluster
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("usage")
@files_option("a cluster's nodes, ResourceSlices, pods and ResourceClaims, instead of a running cluster.")
@connection_options
@namespace_option("Show only what the pods and claims of this namespace hold.")
@click.option(
    "--by",
    type=click.Choice(["node", "product", "namespace", "pod"]),
    help="The only table to show, with all its rows; default: products, nodes, and namespaces (with -n, pods).",
)
@output_option("bars and tables", "all tables with exact amounts")
@takes_cluster
@click.pass_context
def command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    by: str | None,
    output: str,
) -> None:
    """Show who holds which GPUs of a cluster, which are free, and which free ones no pod can use.

    Shows whole GPUs, MIG devices and shared GPUs, from device plugins and from DRA: by product and node, how many there
    are, how many pods and claims hold, and how many are free; and for each namespace what it holds. Free GPUs that no pod
    can use are counted apart, with the reason: the node is cordoned, tainted or full, a device is unhealthy or tainted, or
    the rest of a divided GPU is too small. Nothing is changed.

    A number that cannot be known is shown as ?, and the output says which objects it lacks.

    \b
    The cluster that kubectl talks to:
      gpu-admission usage
    The pods and claims of one namespace, and where their GPUs are:
      gpu-admission usage -n team-a --by pod
    A cluster in files:
      gpu-admission snapshot cluster/
      gpu-admission usage --cluster cluster/

    Exit code: 0 if every number is known and the cluster does not contradict itself; 1 if a number is unknown or the cluster
    contradicts itself: more GPUs are held than exist, a node offers its GPUs twice, or ResourceSlices cannot be read; 2 if
    the cluster or the input cannot be read; 3 if gpu-admission has an internal error; please report it with the output of
    GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.reports.usage_reports import as_json, report_usage_of_files

    source.check()
    with Progress():
        if source.cluster:
            usage = report_usage_of_files(source)
        else:
            from webhook.cli.reports.live_quotas import report_usage

            usage = report_usage(source)
    if output == "json":
        click.echo(as_json(usage))
    else:
        from webhook.cli.reports.usage_reports import View, text

        click.echo(text(usage, None if by is None else View(by)))
    ctx.exit(0 if usage.is_sound else 1)
