"""`gpu-admission audit`: problems of a cluster, and which namespaces are ready to convert."""

from __future__ import annotations

import click

from webhook.cli.lazy_modules import lazy_module
from webhook.cli.options import check_cluster_options, cluster_options

__all__ = ["command"]


@click.command("audit")
@click.option(
    "--cluster",
    multiple=True,
    metavar="PATH",
    help="Files or folders with all objects of a cluster, as `kubectl get -A -o yaml` prints them, instead of a running "
    "cluster. Can be repeated.",
)
@cluster_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: what is broken first, then how ready namespaces are. json: the same, for programs.",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    cluster: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    settings: str | None,
    output: str,
) -> None:
    """Review all objects of a cluster, and show which namespaces are ready to convert.

    The webhook sees only changes. The audit looks at existing objects: GPU configuration, claims and their templates;
    pods that escaped conversion, wait for a missing template, or use GPUs without a request; ResourceQuotas that
    conversion switches off; and Karpenter's node pools. For each namespace, whether it has opted in or not, it shows how
    many of the workloads that request GPUs would convert, which would not, and why.

    Objects are reviewed as if they were created today. Kinds that cannot be read are listed as not reviewed, and never
    counted as none. Nothing is changed.

    \b
    The cluster that kubectl talks to:
      gpu-admission audit
    One namespace, before it opts in:
      gpu-admission audit -n team-a
    A cluster as kubectl printed it:
      kubectl get nodes,namespaces,deviceclasses,resourceslices -o yaml > cluster/cluster-wide.yaml
      kubectl get pods,resourceclaims,resourceclaimtemplates,resourcequotas,limitranges -A -o yaml > cluster/namespaced.yaml
      kubectl get deployments,statefulsets,daemonsets,jobs,cronjobs -A -o yaml > cluster/workloads.yaml
      gpu-admission audit --cluster cluster/

    Exit code: 0 if no object would be refused today, 1 if one would be, 2 if the cluster or the input cannot be read, 3
    if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    check_cluster_options(cluster, kubeconfig, context, namespace)
    if cluster:
        audited = lazy_module("audits").audit_files(cluster, namespace, settings)
    else:
        audited = lazy_module("running clusters").audit_cluster(kubeconfig, context, namespace, settings)
    if output == "json":
        click.echo(lazy_module("audits").as_json(audited), nl=False)
    else:
        click.echo(lazy_module("audits as text").text(audited))
    ctx.exit(1 if audited.report.denied else 0)
