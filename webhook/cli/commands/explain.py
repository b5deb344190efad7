"""`gpu-admission explain`: where a pod or claim fits, why not elsewhere, and what to change."""

from __future__ import annotations

import click

from webhook.cli.completions import complete_from
from webhook.cli.lazy_modules import lazy_module
from webhook.cli.options import filename_option, files_option, namespace_option, output_option, settings_option

__all__ = ["command"]


@click.command("explain")
@click.argument(
    "names", nargs=-1, metavar="[FILE|DIR|-|KIND/NAME]...", shell_complete=complete_from("objects", or_paths=True)
)
@filename_option
@files_option(
    "objects of the cluster, as for review, and the pods and ResourceClaims of all namespaces, which show what is in use."
)
@namespace_option("Namespace of KIND/NAME and of objects without one.")
@settings_option("the one in --cluster, else the built-in defaults")
@output_option("tables and sentences", "a list with one mapping for each explanation")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    names: tuple[str, ...],
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

    Pods of namespaces that opt in are explained as converted pods. Nodes are checked as Kubernetes' scheduler
    does: cordons, taints, selectors, resources, then devices.

    \b
    Why does my pod not start?
      gpu-admission snapshot cluster/
      gpu-admission explain --cluster cluster/ -n team-a pod/train
    Does this claim fit, and on how many nodes?
      gpu-admission explain --cluster cluster/ claim.yaml
    Where would the pods of a chart fit, for a program?
      helm template ./chart | gpu-admission explain --cluster cluster/ -n team-a -o json -

    Exit code: 0 if at least one replica of everything fits now, or is scheduled already; 1 if something does not fit, or
    it is unknown; 2 if the input cannot be read, and nothing is explained; 3 if gpu-admission has an internal error;
    please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not files and not names:
        raise click.UsageError("nothing to explain: name files, folders, - for standard input, or KIND/NAME")
    reports = lazy_module("explanations")
    explanations = reports.explanations_of(files, names, cluster, namespace, settings)
    click.echo(reports.as_json(explanations) if output == "json" else reports.text(explanations))
    ctx.exit(0 if all(explanation.is_placed for explanation in explanations) else 1)
