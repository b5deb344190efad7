"""`gpu-admission audit`: problems of a cluster, and which namespaces are ready to convert."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import cluster_options, files_option, output_option, static_option, takes_cluster
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("audit")
@files_option(
    "all objects of a cluster, as `gpu-admission snapshot` writes them or `kubectl get -A -o yaml` prints them, "
    "instead of a running cluster."
)
@cluster_options
@static_option
@click.option(
    "--publish",
    is_flag=True,
    help="Write the findings into the cluster as reports for policy tools: one Report of OpenReports for each namespace, and a "
    "ClusterReport; where that API is not served, PolicyReports.",
)
@output_option("what is broken first, then how ready namespaces are", "the same")
@takes_cluster
@click.pass_context
def command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    static: tuple[str, ...],
    publish: bool,
    output: str,
) -> None:
    """Review all objects of a cluster, and show which namespaces are ready to convert.

    The webhook sees only changes. The audit looks at existing objects: GPU configuration, claims and their templates;
    pods that escaped conversion, wait for a missing template, or use GPUs without a request; ResourceQuotas that
    conversion switches off; and Karpenter's node pools. For each namespace, whether it has opted in or not, it shows how
    many of the workloads that request GPUs would convert, which would not, and why.

    Objects are reviewed as if they were created today. Kinds that cannot be read are listed as not reviewed, and never
    counted as none. Nothing is changed, except for the reports of --publish.

    \b
    The cluster that kubectl talks to:
      gpu-admission audit
    One namespace, before it opts in:
      gpu-admission audit -n team-a
    A cluster that cannot be reached from here, in the files of a snapshot:
      gpu-admission snapshot cluster/
      gpu-admission audit --cluster cluster/
    With the policies in files of the API servers, compared with the settings:
      gpu-admission audit --static /etc/kubernetes/gpu-admission
    Reports for policy tools, in the cluster:
      gpu-admission audit --publish

    Exit code: 0 if no object would be refused today, 1 if one would be, 2 if the cluster or the input cannot be read or a
    report cannot be written, 3 if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    source.check()
    if source.cluster and publish:
        raise click.UsageError("--cluster is for files, and --publish writes into the running cluster that it audits")
    from webhook.cli.reports.audit_reports import as_json, audit_files, text
    from webhook.pages.text_report import print_lines

    with Progress():
        if source.cluster:
            audited = audit_files(source, static)
        else:
            from webhook.cli.reports.live_audits import audit_cluster

            audited = audit_cluster(source, publishes=publish, static=static)
    click.echo(as_json(audited) if output == "json" else text(audited))
    if audited.published is not None:
        print_lines((*audited.published.problems, audited.published.summary), err=True)
        if audited.published.problems:
            ctx.exit(2)
    ctx.exit(1 if audited.report.has_denials else 0)
