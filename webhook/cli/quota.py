"""`gpu-admission quota`: what namespaces may have of GPUs, what is taken, and by whom."""

from __future__ import annotations

import click

from webhook.cli.connection import connection_options
from webhook.cli.namespaces import check_name

__all__ = ["command"]


@click.command("quota")
@click.option(
    "--cluster",
    multiple=True,
    metavar="PATH",
    help="Files or folders with a cluster's GPUQuotas, namespaces, nodes, pods and ResourceClaims, instead of a running "
    "one; as for review. Can be repeated.",
)
@connection_options
@click.option("-n", "--namespace", default="", metavar="NAME", help="Tell of this namespace only.")
@click.option("--settings", metavar="FILE", help="A GPUAdmissionPolicy; the cluster's own where absent.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: bars and tables. json: the same with exact amounts, for programs.",
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
    """Show the GPU limits of namespaces, what is used, and which pods and claims use it.

    Shows for each limit what is used, what is reserved for pods that were admitted and have not been seen yet, and what
    is left; the pods and claims that hold GPUs, the largest first; what reservations wait for; the conditions; and
    problems. Nothing is changed.

    The usage is that of the status. If a GPUQuota has no status, as in a manifest, the command counts the usage itself, so
    you can try a quota before you apply it.

    \b
    The namespaces that you may look into, and one of them:
      gpu-admission quota
      gpu-admission quota -n team-a
    A quota that is not applied yet:
      kubectl get nodes,namespaces,deviceclasses,resourceslices -o yaml > cluster/cluster-wide.yaml
      kubectl get pods,resourceclaims -A -o yaml > cluster/namespaced.yaml
      gpu-admission quota --cluster cluster/ --cluster quota.yaml

    With -n, the right to list gpuquotas in that namespace is enough; the output says what is missing without the right to
    list pods, resourceclaims or nodes.

    Exit code: 0 when every quota is counted and within its limits, or there is none; 1 when a quota is over a limit, not
    counted, or cannot be read; 2 when there is no cluster or the input cannot be read. 3 when gpu-admission
    itself fails, which is worth a report; GPU_ADMISSION_TRACE=1 in the environment shows where.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if cluster and (kubeconfig or context):
        raise click.UsageError("--cluster is for files, and --kubeconfig and --context are for a running cluster")
    check_name(namespace)
    # Here, so that help and wrong usage are printed without importing them.
    from webhook.cli.quota_text import text  # noqa: PLC0415
    from webhook.cli.quotas import as_json, is_good, quotas_of_files, quotas_running  # noqa: PLC0415

    if cluster:
        told = quotas_of_files(cluster, namespace, settings)
    else:
        told = quotas_running(kubeconfig, context, namespace, settings)
    if output == "json":
        click.echo(as_json(told), nl=False)
    else:
        click.echo(text(told))
    ctx.exit(0 if is_good(told) else 1)
