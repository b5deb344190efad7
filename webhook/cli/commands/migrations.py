"""The commands for the way to DRA: `migrate` and `cutover`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from webhook.cli.options import (
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

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("migrate")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...", shell_complete=complete_paths)
@filename_option
@files_option("the objects of the cluster: nodes, ResourceSlices, DeviceClasses, namespaces, LimitRanges.")
@live_options
@namespace_option("The namespace of objects without one; with --live the one of the context, otherwise default.")
@settings_option("the one of the cluster")
@click.option(
    "--to",
    type=click.Choice(["dra", "device-plugin"]),
    default="dra",
    show_default=True,
    help="dra: to claims. device-plugin: back to what the files were before their migration.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["diff", "yaml", "json"]),
    default="diff",
    show_default=True,
    help="diff: what changes in each file. yaml: the whole new texts of the files. json: for --prove, instead of a table.",
)
@click.option("--in-place", is_flag=True, help="Write the files instead of printing anything to standard output.")
@click.option(
    "--prove",
    is_flag=True,
    help="Rewrite nothing. Show what each workload of --cluster would keep and lose; -n selects a namespace.",
)
@takes_cluster
@click.pass_context
def migrate_command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    to: Literal["dra", "device-plugin"],
    output: str,
    in_place: bool,
    prove: bool,
) -> None:
    """Rewrite manifests from the device plugin to claims, and back.

    Pods and the pod templates of workloads get the claims that conversion would give them, as text in the same files: a
    ResourceClaimTemplate before each object, `claims` in the containers, `resourceClaims` and a toleration in the pod.
    Everything else stays as it is, byte for byte: comments, order, quotes, anchors. The former lines stay as comments, from
    which --to device-plugin restores them. Nothing is written without --in-place.

    Files that are rendered first (Helm charts, patches of kustomize) are not rewritten; the report says which lines of
    them to change, and how.

    \b
    What would change in a folder, with the facts of the running cluster:
      gpu-admission migrate --live manifests/
    Write it:
      gpu-admission migrate --live --in-place manifests/
    What a Helm chart would have to render:
      helm template ./chart | gpu-admission migrate --cluster cluster/ -n team-a -o yaml -
    What the workloads of a cluster would keep and lose:
      gpu-admission migrate --prove --cluster cluster/
    Back again:
      gpu-admission migrate --to device-plugin --in-place manifests/

    The report on standard error has a line for each object that is migrated or left, with the reason.

    Exit code: 0 if everything that requests GPUs is migrated, or was already; 1 if something was left, or with --prove if a
    workload loses something; 2 if some of the input cannot be read or a file cannot be written; 3 if gpu-admission has an
    internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    paths = (*files, *paths)
    if prove:
        if paths or in_place or to != "dra" or not source.cluster or output == "yaml":
            raise click.UsageError(
                "--prove needs --cluster, such as a snapshot, and takes no other options than -n, --settings and -o json"
            )
        source.check()
        from webhook.cli.migrations.proofs import as_json, prove_cluster, text

        with Progress():
            proof = prove_cluster(source)
        click.echo(as_json(proof) if output == "json" else text(proof))
        ctx.exit(1 if proof.loses else 0)
    if output == "json":
        raise click.UsageError("-o json is for --prove")
    if not paths:
        raise click.UsageError("nothing to migrate: name files, folders, or - for standard input")
    if in_place and "-" in paths:
        raise click.UsageError("--in-place writes files, and - is standard input")
    source = source._replace(live=source.is_running)
    source.check()
    from webhook.cli.migrations.runs import migrate_files, print_diffs, print_report, print_texts, write_files

    source = source.with_namespace()
    with open_cluster(source, is_running=source.live) as running:
        outcome = migrate_files(paths, source, running, to)
    if in_place:
        write_files(outcome, paths)
    elif output == "diff":
        print_diffs(outcome)
    else:
        print_texts(outcome)
    print_report(outcome)
    ctx.exit(outcome.exit_code)


@click.command("cutover")
@files_option("the whole cluster, as `gpu-admission snapshot` writes it, instead of a running cluster.")
@connection_options
@settings_option("that of the cluster, else the built-in defaults")
@click.option("--check", "step", metavar="STEP", help="Only say whether a step is done; the plan has its name.")
@click.option(
    "--write",
    "folder",
    metavar="DIR",
    shell_complete=complete_paths,
    help="Also write the files that the commands name, and the page cutover.html.",
)
@output_option("sections, and the steps with their commands", "everything", html="a page to tick off")
@takes_cluster
@click.pass_context
def cutover_command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    step: str | None,
    folder: str | None,
    output: str,
) -> None:
    """Plan the way from a ClusterPolicy and its device plugin to a GPUCluster and the DRA driver.

    Shows what the cluster has, what goes and what takes its place, the waves in which its nodes change, and each step with its
    commands, a check and a way back. For each wave, the simulator names the workloads that would not be kept. Nothing in the
    cluster is changed: you run the commands, and the checks only read.

    \b
    The cluster that kubectl talks to, with the files that the commands name:
      gpu-admission cutover --write cutover/
    A snapshot:
      gpu-admission snapshot cluster/
      gpu-admission cutover --cluster cluster/
    Is a step done?
      gpu-admission cutover --check wave-1-switch

    Exit code: 0 if every workload is kept and nothing is left to do by hand, or, with --check, if the step is done; 1 if not; 2
    if the input or the cluster cannot be read, or a file cannot be written; 3 if gpu-admission has an internal error; please
    report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if step is not None and (folder is not None or output != "text"):
        raise click.UsageError("--check prints one answer, and takes neither --write nor -o")
    source.check()
    from webhook.cli.migrations import cutovers
    from webhook.pages.text_report import print_lines

    with open_cluster(source, is_running=not source.cluster) as running:
        view, settings = cutovers.read_cluster(source, running)
        if step is not None:
            points = cutovers.check_step(view, settings, step)
        else:
            plan = cutovers.make_plan(view, settings, folder.rstrip("/") if folder else cutovers.FOLDER)
            page = cutovers.page(plan, source, running)
    if step is not None:
        click.echo(cutovers.checked_text(step, points))
        ctx.exit(1 if points else 0)
    if folder is not None:
        names = cutovers.write_files(view, settings, folder, page)
        print_lines([f"wrote {', '.join(names)} to {folder}"], err=True)
    shown = {"json": cutovers.as_json, "text": cutovers.text}
    click.echo(page if output == "html" else shown[output](plan))
    ctx.exit(0 if plan.is_smooth else 1)
