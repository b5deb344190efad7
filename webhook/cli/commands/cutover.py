"""`gpu-admission cutover`: plans from a ClusterPolicy to a GPUCluster, and checks of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    complete_paths,
    connection_options,
    files_option,
    open_cluster,
    output_option,
    settings_option,
    takes_cluster,
)

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


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
def command(
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
