"""`gpu-admission audit`: what is wrong with what a cluster holds, and which namespaces are ready to convert."""

from __future__ import annotations

import click

from webhook.cli.connection import connection_options
from webhook.cli.namespaces import check_name

__all__ = ["command"]


@click.command("audit")
@click.option(
    "--cluster",
    multiple=True,
    metavar="PATH",
    help="Files or folders with all objects of a cluster, as `kubectl get -A -o yaml` prints them, instead of a running "
    "one; as for review. Can be repeated.",
)
@connection_options
@click.option("-n", "--namespace", default="", metavar="NAME", help="Look into this namespace only.")
@click.option("--settings", metavar="FILE", help="A GPUAdmissionPolicy; the cluster's own where absent.")
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

    Exit code: 0 when no object would be refused today, 1 when one would be, 2 when there is no cluster or the input
    cannot be read. 3 when gpu-admission itself fails, which is worth a report; GPU_ADMISSION_TRACE=1 in the environment
    shows where.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if cluster and (kubeconfig or context):
        raise click.UsageError("--cluster is for files, and --kubeconfig and --context are for a running cluster")
    check_name(namespace)
    # Here, so that help and wrong usage are printed without importing them.
    from webhook.cli.audits import audit_files, audit_running  # noqa: PLC0415

    if cluster:
        audited = audit_files(cluster, namespace, settings)
    else:
        audited = audit_running(kubeconfig, context, namespace, settings)
    if output == "json":
        from webhook.cli.audits import as_json  # noqa: PLC0415

        click.echo(as_json(audited), nl=False)
    else:
        from webhook.cli.audit_text import text  # noqa: PLC0415

        click.echo(text(audited))
    ctx.exit(1 if audited.report.denied else 0)
