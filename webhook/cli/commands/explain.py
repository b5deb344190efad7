"""`gpu-admission explain`: where a pod or claim fits, why not elsewhere, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    complete_from,
    filename_option,
    files_option,
    live_options,
    namespace_option,
    output_option,
    settings_option,
    takes_cluster,
)
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("explain")
@click.argument(
    "names",
    nargs=-1,
    metavar="[FILE|DIR|-|KIND/NAME|KIND NAME|NAME]...",
    shell_complete=complete_from("objects", or_paths=True),
)
@filename_option
@files_option(
    "objects of the cluster, as for review, and the pods and ResourceClaims of all namespaces, which show what is in use."
)
@live_options
@namespace_option("Namespace of KIND/NAME and of objects without one; default: that of the context, as in kubectl.")
@settings_option("the one of the cluster, else the built-in defaults")
@output_option(
    "tables and sentences",
    "a list with one mapping for each explanation",
    html="one page with the devices of the nodes, which needs no network",
    svg="one picture of them",
)
@takes_cluster
@click.pass_context
def command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    names: tuple[str, ...],
    files: tuple[str, ...],
    output: str,
) -> None:
    """Show where a pod or claim fits, why not elsewhere, and what to change.

    Explains pods, the pods that workloads would create, ResourceClaims and ResourceClaimTemplates: as KIND/NAME, such as
    pod/NAME, claim/NAME, template/NAME, deployment/NAME, as a kind and names (pod NAME...), as a name alone if one object has
    it, or from files, folders and standard input (-). A name that exists as a file is read as a file.

    The first lines of each answer are the verdict, the reason, and what would help.

    KIND/NAME is an object of the running cluster, as kubectl finds it. Users who may list nodes, pods, claims and devices
    of the whole cluster read it themselves. All others ask the Service of gpu-admission, which names nothing outside of
    their namespace; they need the right to get gpuexplanations.gpu-admission.io there. Nothing is written.

    Pods of namespaces that opt in are explained as converted pods. Nodes are checked as Kubernetes' scheduler
    does: cordons, taints, selectors, resources, then devices.

    Without arguments, lists the pods and workloads that wait for GPUs, each with the reason and what would help.

    \b
    What waits for GPUs, and why?
      gpu-admission explain
    Why does my pod not start?
      gpu-admission explain pod train -n team-a
    Where would the pods of a chart fit in the running cluster, for a program?
      helm template ./chart | gpu-admission explain --live -n team-a -o json -
    The same from files, without a cluster:
      gpu-admission snapshot cluster/
      gpu-admission explain --cluster cluster/ -n team-a pod/train
    Which device of which node was passed over, and why, as a page:
      gpu-admission explain -o html -n team-a pod/train > train.html

    Exit code: 0 if at least one replica of everything fits now, or is scheduled already, and without arguments if nothing
    waits; 1 if something does not fit or waits, or it is unknown; 2 if the input cannot be read, and nothing is explained; 3
    if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not (files or names) and output in ("html", "svg"):
        raise click.UsageError(
            f"-o {output} draws what is named; gpu-admission report writes a page with all that waits"
        )
    from webhook.cli.explain.explanations import as_json, explanations_of, has_names, text, what_waits

    source.check()
    if not (files or names):
        from webhook.cli.reports.usage_reports import wait_text

        with Progress():
            waiting = what_waits(source)
        click.echo(as_json(waiting.rows) if output == "json" else wait_text(waiting))
        ctx.exit(1 if waiting.rows else 0)
    if source.is_running or (not source.cluster and has_names(names)):
        from webhook.cli.explain.live_explanations import EXPLANATIONS, LiveQuestion, answer_running_cluster

        explanations = answer_running_cluster(LiveQuestion(files, names, source), EXPLANATIONS)
    else:
        with Progress():
            explanations = explanations_of(files, names, source)
    match output:
        case "html":
            from webhook.pages.explanation import render_explanations

            click.echo(render_explanations(explanations))
        case "svg":
            from webhook.pages.explanation_picture import draw_explanations

            click.echo(draw_explanations(explanations))
        case "json":
            click.echo(as_json(explanations))
        case _:
            click.echo(text(explanations))
    ctx.exit(0 if all(explanation.is_placed for explanation in explanations) else 1)
