"""`gpu-admission plan`: what a change of GPU configuration would break, before it is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    complete_paths,
    connection_options,
    filename_option,
    files_option,
    namespace_option,
    open_cluster,
    output_option,
    settings_option,
    takes_cluster,
)
from webhook.cli.review import TextOptions

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


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
def command(
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
