"""`gpu-admission report`: the GPUs of a cluster, their quotas and their problems as one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    complete_paths,
    connection_options,
    files_option,
    namespace_option,
    settings_option,
    takes_cluster,
)
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("report")
@files_option(
    "all objects of a cluster, as `gpu-admission snapshot` writes them or `kubectl get -A -o yaml` prints them, "
    "instead of a running cluster."
)
@connection_options
@namespace_option("Show only this namespace; what others hold is shown without names.")
@settings_option("the one of the cluster")
@click.option(
    "--since",
    multiple=True,
    metavar="PATH",
    shell_complete=complete_paths,
    help="Files or folders with the same cluster earlier; shows how the use of quotas changed. Can be repeated.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="gpu-report.html",
    show_default=True,
    shell_complete=complete_paths,
    help="Where to write the page; - is standard output.",
)
@takes_cluster
def command(
    *,
    source: ClusterOptions,
    since: tuple[str, ...],
    output: str,
) -> None:
    """Write a page that shows the GPUs of a cluster, who holds them, their quotas and their problems.

    The page is one HTML file for a browser or a printer. It needs no network and sends nothing. It shows the GPUs of each
    node with the pods and claims that hold them, MIG devices to scale, shares, GPUs that no pod can get, and GPUs that
    were given out twice. Then it shows the quotas of all namespaces, how ready each is to convert, and the findings of the
    audit, with what to do. Filters narrow it to a node, a product, a namespace or a rule. The cluster is not changed.

    \b
    The cluster that kubectl talks to:
      gpu-admission report -o report.html
    One namespace, for its members:
      gpu-admission report -n team-a -o team-a.html
    A snapshot, and how quotas changed since another one:
      gpu-admission snapshot monday/
      gpu-admission snapshot friday/
      gpu-admission report --cluster friday/ --since monday/ -o report.html

    Exit code: 0 if the page was written; 2 if not, because the cluster or the input cannot be read, or the file cannot be
    written; 3 if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.reports.cluster_pages import page_of_cluster, page_of_files, write_page
    from webhook.pages.text_report import print_lines

    source.check()
    with Progress():
        page = page_of_files(source, since) if source.cluster else page_of_cluster(source, since)
    write_page(output, page)
    if output != "-":
        print_lines([f"wrote {output}; open it in a browser"])
