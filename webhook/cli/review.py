"""`gpu-admission review`: what would become of manifests, without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from policies.request import Operation

__all__ = ["command"]


@click.command("review")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option(
    "--cluster",
    multiple=True,
    metavar="PATH",
    help="Files or folders that tell of the cluster: nodes, ResourceSlices, DeviceClasses, namespaces, quotas, as "
    "`kubectl get -o yaml` prints them, and `kubectl version -o yaml`. Of a kind that occurs there, what is not there "
    "does not exist; of other kinds nothing is known. Can be repeated.",
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of objects that name none.")
@click.option(
    "--operation",
    type=click.Choice(["CREATE", "UPDATE", "DELETE"]),
    default="CREATE",
    show_default=True,
    help="What is done to the objects.",
)
@click.option("--old", metavar="FILE", help="The objects as they are in the cluster, for --operation UPDATE.")
@click.option("--user", default="", metavar="NAME", help="Who does it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml", "patch"]),
    default="text",
    show_default=True,
    help="text: what kubectl would print, and a diff. json: everything, for programs. yaml: the admitted objects and "
    "their ResourceClaimTemplates. patch: the JSON Patch of a single object with its defaults.",
)
@click.option("--settings", metavar="FILE", help="A GPUAdmissionPolicy; its defaults where absent.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    paths: tuple[str, ...],
    cluster: tuple[str, ...],
    namespace: str,
    operation: Operation,
    old: str | None,
    user: str,
    output: str,
    settings: str | None,
) -> None:
    """Tell what would become of manifests, without a cluster.

    Reads YAML and JSON: one or more objects, lists, whole AdmissionReviews; folders with all *.yaml, *.yml and *.json
    in them; and - for standard input. Reviews configuration of GPUs (ClusterPolicy, NVIDIADriver, GPUCluster, their
    ConfigMaps, Nodes) and of gpu-admission (GPUAdmissionPolicy, GPUQuotas), claims and what belongs to them
    (ResourceClaims, their templates, DeviceClasses, ComputeDomains), pods, and the pods that workloads would make: those of Deployments,
    StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs, CronJobs, PodTemplates, JobSets,
    LeaderWorkerSets, RayClusters, RayJobs, RayServices, PyTorchJobs and MPIJobs. A Namespace among the files decides
    like one of the cluster.

    Shown is what a webhook sees and makes of it: limits are copied to missing requests first, as the API server does.
    Of a workload, the pod templates are shown as their pods would be admitted; in the cluster the workload itself stays
    as it is.

    \b
    A pod, in a cluster as kubectl printed it:
      kubectl get nodes,namespaces,deviceclasses,resourceslices -o yaml > cluster.yaml
      gpu-admission review --cluster cluster.yaml pod.yaml
    What a Helm chart would come to, in CI:
      helm template ./chart | gpu-admission review --cluster cluster/ -n team-a -
    The converted objects, to keep instead of the originals:
      gpu-admission review --cluster cluster/ -o yaml manifests/ > converted.yaml

    Exit code: 0 when everything is admitted, 1 when something is refused, 2 when the input cannot be read; then all
    problems are shown with file, line and column, and nothing is reviewed. 3 when gpu-admission itself fails, which is
    worth a report; GPU_ADMISSION_TRACE=1 in the environment shows where.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not paths:
        raise click.UsageError("nothing to review: name files, folders, or - for standard input")
    if (operation == "UPDATE") != (old is not None):
        raise click.UsageError("--operation UPDATE and --old FILE go together: an update is judged by what it changes")
    # Here, so that help and wrong usage are told without them.
    from policies.request import UserInfo  # noqa: PLC0415
    from webhook.cli.results import print_results, results_of  # noqa: PLC0415
    from webhook.cli.subjects import Circumstances  # noqa: PLC0415

    results = results_of(paths, cluster, old, settings, Circumstances(operation, namespace, UserInfo(user)))
    print_results(results, output)
    ctx.exit(0 if all(result.allowed for result in results) else 1)
