"""`gpu-admission cel`: which devices a selector matches, why, and what an edit changes."""

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
def command(
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
