"""The commands that explain: `explain` of pods and claims, `cel` of selectors, `plan` of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    complete_from,
    complete_paths,
    connection_options,
    filename_option,
    files_option,
    live_options,
    namespace_option,
    open_cluster,
    output_option,
    settings_option,
    takes_cluster,
)
from webhook.cli.progress import Progress
from webhook.cli.review import TextOptions

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
def explain_command(
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


@click.command("cel")
@click.argument("selectors", metavar="FILE|EXPR", shell_complete=complete_paths)
@click.option(
    "--edit",
    metavar="FILE|EXPR",
    shell_complete=complete_paths,
    help="An expression in place of the selectors; shows the devices that it gains and loses.",
)
@click.option(
    "--class",
    "device_class",
    default="",
    metavar="NAME",
    help="The DeviceClass whose devices an expression is evaluated on, as in a request; default: all devices.",
)
@click.option("--request", default="", metavar="NAME", help="The only request of a claim to show.")
@files_option("a cluster's ResourceSlices and DeviceClasses, instead of a running cluster.")
@connection_options
@settings_option("the one of the cluster")
@output_option(
    "tables and sentences", "a list with one mapping for each request or class", html="one page, which needs no network"
)
@takes_cluster
@click.pass_context
def cel_command(
    ctx: click.Context,
    *,
    selectors: str,
    source: ClusterOptions,
    edit: str | None,
    device_class: str,
    request: str,
    output: str,
) -> None:
    """Show which devices a selector matches, why not the others, at what cost, and what an edit changes.

    FILE has ResourceClaims, ResourceClaimTemplates or DeviceClasses (- for standard input), or one expression; any other
    argument is an expression. The selectors are compiled and evaluated as in Kubernetes, those of the class first. Shows
    which condition excludes which devices, on which devices a selector fails, the estimated cost beside the limit of the
    API server, the actual cost, and the findings of review. Nothing is written.

    Only selectors are evaluated: `gpu-admission explain` shows whether a device is free and where a pod fits.

    \b
    Which devices does an expression match, among those of a class?
      gpu-admission cel --class gpu.nvidia.com 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'
    The requests of a claim, in the files of a snapshot:
      gpu-admission snapshot cluster/
      gpu-admission cel --cluster cluster/ claim.yaml
    What does another expression change for a request?
      gpu-admission cel --request gpu --edit 'device.driver == "gpu.nvidia.com"' claim.yaml

    Exit code: 0 if each request or class has a device that matches, and no selector fails on a device; 1 if not, or the
    devices are unknown; 2 if the API server would refuse a selector, or the input or the cluster cannot be read; 3 if
    gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1. With --edit, the edited
    selectors count.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.explain.selector_analyses import SelectorInput, analyses_of, as_json, exit_code, text

    source.check()
    given = SelectorInput(selectors, edit, device_class, request, source)
    with open_cluster(source, is_running=not source.cluster) as running:
        analyses = analyses_of(given, running)
    if output == "html":
        from webhook.cli.explain.selector_analyses import render_analyses

        click.echo(render_analyses(analyses))
    else:
        click.echo(as_json(analyses) if output == "json" else text(analyses))
    ctx.exit(exit_code(analyses))


@click.command("plan")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...", shell_complete=complete_paths)
@filename_option
@click.option(
    "--delete",
    "deletions",
    multiple=True,
    metavar="KIND/NAME",
    help="An object that is to be deleted, such as deviceclass/gpu.nvidia.com. Can be repeated.",
)
@files_option("the whole cluster, as `gpu-admission snapshot` writes it, instead of a running cluster.")
@connection_options
@namespace_option(
    "Compare only the pods, claims and quotas of this namespace; also the namespace of GPUQuotas without one."
)
@settings_option("that of the cluster, else the built-in defaults")
@output_option("sections and sentences", "everything, with the comparison of each workload that is not kept")
@takes_cluster
@click.pass_context
def plan_command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    deletions: tuple[str, ...],
    output: str,
) -> None:
    """Show which pods, workloads and quotas a change of GPU configuration would break.

    Takes what is to be applied: ClusterPolicies, GPUClusters, ConfigMaps of the device plugin and of mig-parted, Nodes with new
    labels or taints, DeviceClasses, DeviceTaintRules, GPUQuotas, ClusterGPUQuotas, Namespaces and GPUAdmissionPolicies. Nodes and Namespaces may
    have only what changes; a null removes a label. All others are whole. They are reviewed first, and planned only if nothing
    is refused.

    Predicts what the device plugin, GPU Feature Discovery, the MIG manager and the DRA driver make of the change on each
    node. Then names the pods that cannot go on, the workloads whose pods would not start again, and the quotas that would
    count or refuse something else. Each workload is judged alone, while everything else runs on. Nothing is written.

    \b
    Time-slicing for a kind of node, in the cluster that kubectl talks to:
      gpu-admission plan time-slicing.yaml
    The same in the files of a snapshot:
      gpu-admission snapshot cluster/
      gpu-admission plan --cluster cluster/ time-slicing.yaml
    NVIDIA's DRA driver in place of the device plugin:
      gpu-admission plan --delete clusterpolicy/cluster-policy gpu-cluster.yaml
    What uses a DeviceClass?
      gpu-admission plan --delete deviceclass/mig.nvidia.com
    Which pods would a DeviceTaintRule end, and where can they start again?
      gpu-admission plan rule.yaml

    Exit code: 0 if nothing breaks; 1 if something breaks or is unknown, or if review refuses the change; 2 if the input or
    the cluster cannot be read, and nothing is planned; 3 if gpu-admission has an internal error; please report it with the
    output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    paths = (*files, *paths)
    if not paths and not deletions:
        raise click.UsageError("nothing to plan: name files, folders, - for standard input, or --delete KIND/NAME")
    from webhook.cli.explain.plans import PlanInput, as_json, make_plan, text

    source.check()
    with open_cluster(source, is_running=not source.cluster) as running:
        report = make_plan(PlanInput(paths, deletions, source), running)
    if report.review is not None and report.review.exit_code and output == "text":
        from webhook.cli.review.file_reviews import print_review

        print_review(report.review, "text", TextOptions(is_quiet=True, with_diffs=False))
    if output == "json":
        click.echo(as_json(report))
    elif report.plan is not None or report.refused_deletions:
        click.echo(text(report))
    ctx.exit(0 if report.plan is not None and report.plan.is_harmless else 1)
