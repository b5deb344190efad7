"""`gpu-admission explain`: where something would fit, why not elsewhere, and what to change."""

from __future__ import annotations

import click

__all__ = ["command"]


@click.command("explain")
@click.argument("asked", nargs=-1, metavar="[FILE|DIR|-|KIND/NAME]...")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE", help="A file or folder. Can be repeated.")
@click.option(
    "--cluster",
    multiple=True,
    metavar="PATH",
    help="Files or folders that tell of the cluster, as for review; pods and ResourceClaims of all namespaces too, "
    "for they say what is in use. Can be repeated.",
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of what names none, and of KIND/NAME.")
@click.option(
    "--settings",
    metavar="FILE",
    help="A GPUAdmissionPolicy; if not given, the one among --cluster, or the built-in defaults.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: tables and sentences. json: a list with one mapping for each answer, for programs.",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    asked: tuple[str, ...],
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    namespace: str,
    settings: str | None,
    output: str,
) -> None:
    """Show where a pod or claim fits, why not elsewhere, and what to change.

    Explains pods, the pods that workloads would create, ResourceClaims and ResourceClaimTemplates: from files, folders
    and standard input (-), or from the cluster's manifests as KIND/NAME, such as pod/NAME, claim/NAME, template/NAME,
    deployment/NAME. A name that exists as a file is read as a file.

    Pods of namespaces that opt in are explained as they would be converted. Nodes are checked as Kubernetes' scheduler
    does: cordons, taints, selectors, resources, then devices.

    \b
    Why does my pod not start?
      kubectl get nodes,namespaces,deviceclasses,resourceslices -o yaml > cluster/cluster-wide.yaml
      kubectl get pods,resourceclaims,resourceclaimtemplates -A -o yaml > cluster/namespaced.yaml
      gpu-admission explain --cluster cluster/ -n team-a pod/train
    Would this claim find its devices, and on how many nodes?
      gpu-admission explain --cluster cluster/ claim.yaml
    Where would the pods of a chart fit, for a program?
      helm template ./chart | gpu-admission explain --cluster cluster/ -n team-a -o json -

    Exit code: 0 when at least one replica of everything fits now, or has its place already; 1 when something does not
    fit, or it is unknown; 2 when the input cannot be read, and then nothing is explained. 3 when gpu-admission itself
    fails, which is worth a report; GPU_ADMISSION_TRACE=1 in the environment shows where.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not files and not asked:
        raise click.UsageError("nothing to explain: name files, folders, - for standard input, or KIND/NAME")
    # Here, so that help and wrong usage are printed without importing them.
    from webhook.cli.explain_text import text  # noqa: PLC0415
    from webhook.cli.explanations import as_json, explanations_of, is_placed  # noqa: PLC0415

    explanations = explanations_of(files, asked, cluster, namespace, settings)
    if output == "json":
        click.echo(as_json(explanations), nl=False)
    else:
        click.echo(text(explanations))
    ctx.exit(0 if all(map(is_placed, explanations)) else 1)
