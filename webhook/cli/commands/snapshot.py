"""`gpu-admission snapshot`: a running cluster in files, for the offline commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from webhook.cli.options import connection_options, namespace_option, takes_cluster
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


@click.command("snapshot")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@connection_options
@namespace_option("Read only this namespace, and what is in no namespace.")
@click.option(
    "--redact",
    is_flag=True,
    help="Keep only the words of Kubernetes, NVIDIA and gpu-admission, and replace all others, for bug reports.",
)
@takes_cluster
def command(*, folder: Path, source: ClusterOptions, redact: bool) -> None:
    """Write what the offline commands need from a running cluster into the folder DIR.

    The folder is for the option --cluster of review, explain, audit, quota and usage. It has one file for each kind: nodes, pods,
    claims, workloads, GPU configuration and the others that rules read. Kinds without objects are there as empty lists.
    Kinds that you may not read are not there, so the commands treat them as unknown; snapshot.yaml names them, with the
    version of the API server. Nothing in the cluster is changed.

    Secrets are never read. Of pods and workloads only the fields that rules read are kept; the values of environment
    variables are replaced, and commands, annotations of others and managed fields are left out. Of ConfigMaps only those in
    the namespaces of the GPU Operator are read, and only those that configure GPUs keep their content.

    A folder that exists is replaced only if it is empty or has a snapshot.

    \b
    The cluster that kubectl talks to:
      gpu-admission snapshot cluster/
      gpu-admission audit --cluster cluster/
    What a user may read, to ask why a pod does not start:
      gpu-admission snapshot -n team-a cluster/
      gpu-admission explain --cluster cluster/ -n team-a pod/train
    For a bug report, with other names:
      gpu-admission snapshot --redact report/

    Exit code: 0 if a snapshot was written; 2 if not, because the cluster cannot be read, or the folder has other files or
    cannot be written; 3 if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.snapshots.writer import take_snapshot
    from webhook.pages.text_report import print_lines

    source.check()
    with Progress():
        snapshot = take_snapshot(folder, source, renames=redact)
    print_lines((f"Warning: {line}" for line in (*snapshot.notes, *snapshot.unknown)), err=True)
    print_lines([snapshot.summary(folder)])
