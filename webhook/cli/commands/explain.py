"""`gpu-admission explain`: where a pod or claim fits, why not elsewhere, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.completions import complete_from
from webhook.cli.lazy_modules import lazy_module
from webhook.cli.options import (
    check_cluster_options,
    filename_option,
    files_option,
    live_options,
    namespace_option,
    output_option,
    settings_option,
)

if TYPE_CHECKING:
    from policies.explanation import Explanation

__all__ = ["command"]


@click.command("explain")
@click.argument(
    "names", nargs=-1, metavar="[FILE|DIR|-|KIND/NAME]...", shell_complete=complete_from("objects", or_paths=True)
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
@click.pass_context
def command(
    ctx: click.Context,
    *,
    names: tuple[str, ...],
    files: tuple[str, ...],
    cluster: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    live: bool,
    namespace: str,
    settings: str | None,
    output: str,
) -> None:
    """Show where a pod or claim fits, why not elsewhere, and what to change.

    Explains pods, the pods that workloads would create, ResourceClaims and ResourceClaimTemplates: as KIND/NAME, such as
    pod/NAME, claim/NAME, template/NAME, deployment/NAME, or from files, folders and standard input (-). A name that
    exists as a file is read as a file.

    KIND/NAME is an object of the running cluster, as kubectl finds it. Users who may list nodes, pods, claims and devices
    of the whole cluster read it themselves. All others ask the Service of gpu-admission, which names nothing outside of
    their namespace; they need the right to get gpuexplanations.gpu-admission.io there. Nothing is written.

    Pods of namespaces that opt in are explained as converted pods. Nodes are checked as Kubernetes' scheduler
    does: cordons, taints, selectors, resources, then devices.

    \b
    Why does my pod not start?
      gpu-admission explain pod/train -n team-a
    Where would the pods of a chart fit in the running cluster, for a program?
      helm template ./chart | gpu-admission explain --live -n team-a -o json -
    The same from files, without a cluster:
      gpu-admission snapshot cluster/
      gpu-admission explain --cluster cluster/ -n team-a pod/train
    Which device of which node was passed over, and why, as a page:
      gpu-admission explain -o html -n team-a pod/train > train.html

    Exit code: 0 if at least one replica of everything fits now, or is scheduled already; 1 if something does not fit, or
    it is unknown; 2 if the input cannot be read, and nothing is explained; 3 if gpu-admission has an internal error;
    please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not files and not names:
        raise click.UsageError("nothing to explain: name files, folders, - for standard input, or KIND/NAME")
    check_cluster_options(cluster, kubeconfig, context, namespace, live=live)
    reports = lazy_module("explanations")
    if live or kubeconfig or context or (not cluster and reports.has_names(names)):
        running = lazy_module("live explanations")
        question = running.LiveQuestion(files, names, kubeconfig, context, namespace, settings)
        explanations = running.explain_running_cluster(question)
    else:
        explanations = reports.explanations_of(files, names, cluster, namespace, settings)
    click.echo(_format_explanations(explanations, output))
    ctx.exit(0 if all(explanation.is_placed for explanation in explanations) else 1)


def _format_explanations(explanations: list[Explanation], output: str) -> str:
    """The explanations in one of the formats."""
    if output == "html":
        page: str = lazy_module("pages of explanations").render_explanations(explanations)
        return page
    if output == "svg":
        picture: str = lazy_module("pictures of explanations").draw_explanations(explanations)
        return picture
    reports = lazy_module("explanations")
    text: str = reports.as_json(explanations) if output == "json" else reports.text(explanations)
    return text
