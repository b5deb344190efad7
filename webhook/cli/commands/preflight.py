"""`gpu-admission preflight`: what an install or upgrade would do, before it is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import connection_options, filename_option, output_option, takes_cluster
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("preflight")
@filename_option
@connection_options
@output_option("what would fail first, then what is unknown", "the same, with counts by entry")
@takes_cluster
@click.pass_context
def command(ctx: click.Context, *, files: tuple[str, ...], source: ClusterOptions, output: str) -> None:
    """Show what applying the manifests of gpu-admission to a cluster would do.

    FILE has all manifests of one version, as `kubectl kustomize` or `helm template` prints them; - is standard input. Without
    -f, the install.yaml of this version is checked.

    Each object is sent to the API server as a dry run, so the answer is that of its policies, webhooks, quotas and RBAC. The
    command also checks versions and the step from the installed one, rights, the order of webhooks, namespaces and pods that
    would be reviewed, policies of other engines, aggregated APIs, clocks and the network.

    Nothing is changed: only reads, reviews of your own rights, and dry runs are sent. The API server calls the webhooks of
    others for a dry run, unless they have side effects; what such a webhook would say is unknown.

    \b
    Before the first installation:
      gpu-admission preflight -f install.yaml
    An overlay of your own, before an upgrade:
      kubectl kustomize my-overlay | gpu-admission preflight -f -
    A chart, for a program:
      helm template gpu-admission deploy/chart -n gpu-admission | gpu-admission preflight -f - -o json

    Exit code: 0 if applying would work; 1 if something would fail; 4 if nothing would, but a check has no answer; 2 if the
    cluster or a file cannot be read; 3 if gpu-admission has an internal error; please report it with the output of
    GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.installation.check_reports import exit_code
    from webhook.cli.installation.preflight import as_json, run_preflight, text

    with Progress():
        found = run_preflight(files, source)
    click.echo(as_json(found) if output == "json" else text(found))
    ctx.exit(exit_code(found.checks))
