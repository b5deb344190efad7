"""The commands that read a whole cluster: `audit`, `report`, `usage` and `snapshot`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    cluster_options,
    complete_paths,
    connection_options,
    files_option,
    namespace_option,
    output_option,
    settings_option,
    static_option,
    takes_cluster,
)
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
def audit_command(
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


@click.command("report")
@files_option(
    "all objects of a cluster, as `gpu-admission snapshot` writes them or `kubectl get -A -o yaml` prints them, "
    "instead of a running cluster."
)
@connection_options
@namespace_option("Show only this namespace; what others hold is shown without names.")
@settings_option("the one of the cluster")
@click.option(
    "--since",
    multiple=True,
    metavar="PATH",
    shell_complete=complete_paths,
    help="Files or folders with the same cluster earlier; shows how the use of quotas changed. Can be repeated.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="gpu-report.html",
    show_default=True,
    shell_complete=complete_paths,
    help="Where to write the page; - is standard output.",
)
@takes_cluster
def report_command(
    *,
    source: ClusterOptions,
    since: tuple[str, ...],
    output: str,
) -> None:
    """Write a page that shows the GPUs of a cluster, who holds them, their quotas and their problems.

    The page is one HTML file for a browser or a printer. It needs no network and sends nothing. It shows the GPUs of each
    node with the pods and claims that hold them, MIG devices to scale, shares, GPUs that no pod can get, and GPUs that
    were given out twice. Then it shows the quotas of all namespaces, how ready each is to convert, and the findings of the
    audit, with what to do. Filters narrow it to a node, a product, a namespace or a rule. The cluster is not changed.

    \b
    The cluster that kubectl talks to:
      gpu-admission report -o report.html
    One namespace, for its members:
      gpu-admission report -n team-a -o team-a.html
    A snapshot, and how quotas changed since another one:
      gpu-admission snapshot monday/
      gpu-admission snapshot friday/
      gpu-admission report --cluster friday/ --since monday/ -o report.html

    Exit code: 0 if the page was written; 2 if not, because the cluster or the input cannot be read, or the file cannot be
    written; 3 if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.reports.cluster_pages import page_of_cluster, page_of_files, write_page
    from webhook.pages.text_report import print_lines

    source.check()
    with Progress():
        page = page_of_files(source, since) if source.cluster else page_of_cluster(source, since)
    write_page(output, page)
    if output != "-":
        print_lines([f"wrote {output}; open it in a browser"])


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
def usage_command(
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


@click.command("snapshot")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@connection_options
@namespace_option("Read only this namespace, and what is in no namespace.")
@click.option(
    "--redact",
    is_flag=True,
    help="Keep only the words of Kubernetes, NVIDIA and gpu-admission, and replace all others, for bug reports.",
)
@takes_cluster
def snapshot_command(*, folder: Path, source: ClusterOptions, redact: bool) -> None:
    """Write what the offline commands need from a running cluster into the folder DIR.

    The folder is for the option --cluster of review, explain, audit, quota and usage. It has one file for each kind: nodes, pods,
    claims, workloads, GPU configuration and the others that rules read. Kinds without objects are there as empty lists.
    Kinds that you may not read are not there, so the commands treat them as unknown; snapshot.yaml names them, with the
    version of the API server. Nothing in the cluster is changed.

    Secrets are never read. Of pods and workloads only the fields that rules read are kept; the values of environment
    variables are replaced, and commands, annotations of others and managed fields are left out. Of ConfigMaps only those in
    the namespaces of the GPU Operator are read, and only those that configure GPUs keep their content.

    A folder that exists is replaced only if it is empty or has a snapshot.

    \b
    The cluster that kubectl talks to:
      gpu-admission snapshot cluster/
      gpu-admission audit --cluster cluster/
    What a user may read, to ask why a pod does not start:
      gpu-admission snapshot -n team-a cluster/
      gpu-admission explain --cluster cluster/ -n team-a pod/train
    For a bug report, with other names:
      gpu-admission snapshot --redact report/

    Exit code: 0 if a snapshot was written; 2 if not, because the cluster cannot be read, or the folder has other files or
    cannot be written; 3 if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.snapshots.writer import take_snapshot
    from webhook.pages.text_report import print_lines

    source.check()
    with Progress():
        snapshot = take_snapshot(folder, source, renames=redact)
    print_lines((f"Warning: {line}" for line in (*snapshot.notes, *snapshot.unknown)), err=True)
    print_lines([snapshot.summary(folder)])
