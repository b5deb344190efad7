"""`gpu-admission review`: reviews manifests as the webhook would, before they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.options import (
    complete_from,
    complete_paths,
    filename_option,
    files_option,
    live_options,
    namespace_option,
    open_cluster,
    settings_option,
    takes_cluster,
)
from webhook.cli.review import FORMATS, TextOptions

if TYPE_CHECKING:
    from policies.rules.request import Operation
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.review import Format


@click.command("review")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...", shell_complete=complete_paths)
@filename_option
@files_option(
    "objects of the cluster: nodes, ResourceSlices, DeviceClasses, namespaces, quotas, as `gpu-admission snapshot` writes "
    "them or `kubectl get -o yaml` prints them, and `kubectl version -o yaml`. A kind that they contain is treated as complete; "
    "other kinds are unknown."
)
@live_options
@namespace_option(
    "Namespace of objects without one; default: with a running cluster that of the context, else `default`."
)
@click.option(
    "--operation",
    type=click.Choice(["CREATE", "UPDATE", "DELETE"]),
    default="CREATE",
    show_default=True,
    help="The operation on the objects.",
)
@click.option(
    "--old",
    metavar="FILE",
    shell_complete=complete_paths,
    help="The objects as they are in the cluster, for --operation UPDATE.",
)
@click.option("--user", default="", metavar="NAME", help="The user of the request.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="text: what kubectl would print, and a diff. json: everything, for programs. yaml: the admitted objects and "
    "their ResourceClaimTemplates. patch: the JSON Patch of a single object with its defaults. junit: for Jenkins and "
    "GitLab. sarif: for code scanning. github: annotations of GitHub Actions. gitlab: Code Quality of GitLab.",
)
@settings_option("that of the cluster, else the built-in defaults")
@click.option(
    "--exclude",
    multiple=True,
    metavar="GLOB",
    help="Files and folders to skip, as a line of a .gitignore: *.json, /ci/, charts/**/crds. Relative to the "
    "folder under review; files named on the command line are always read. Can be repeated.",
)
@click.option(
    "--ignore-file", metavar="FILE", shell_complete=complete_paths, help="A file of such patterns, like a .gitignore."
)
@click.option(
    "--fail-on",
    default="deny",
    metavar="WORDS",
    show_default=True,
    shell_complete=complete_from("failures"),
    help="deny: exit with 1 if something is refused. warn: also if something has a warning. GA307,GA410: only for a refusal or "
    "warning of these rules. deny,GA410: for both.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    shell_complete=complete_paths,
    help="Known findings, which do not fail the review; text and github leave them out. Unreadable input always fails it.",
)
@click.option(
    "--update-baseline", "updates_baseline", is_flag=True, help="Write the findings to the file of --baseline first."
)
@click.option("-q", "--quiet", is_flag=True, help="Leave out objects that are without a problem; for -o text.")
@click.option("--no-diff", is_flag=True, help="Do not show how objects are changed; for -o text.")
@click.option(
    "--strict",
    is_flag=True,
    help="Files in folders that are not manifests are errors; otherwise they are skipped and counted.",
)
@takes_cluster
@click.pass_context
def command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    operation: Operation,
    old: str | None,
    user: str,
    output: Format,
    exclude: tuple[str, ...],
    ignore_file: str | None,
    fail_on: str,
    baseline: str | None,
    updates_baseline: bool,
    quiet: bool,
    no_diff: bool,
    strict: bool,
) -> None:
    """Review manifests as the webhook would, before they are applied.

    Reads YAML and JSON: one or more objects, lists, whole AdmissionReviews; folders with all *.yaml, *.yml and *.json
    in them; and - for standard input. Reviews GPU configuration (ClusterPolicy, NVIDIADriver, GPUCluster, their
    ConfigMaps, Nodes) and that of gpu-admission (GPUAdmissionPolicy, GPUQuotas, labels of Namespaces), PriorityClasses,
    ResourceQuotas and LimitRanges with devices, queues (ResourceFlavors, ClusterQueues and the Configuration of Kueue,
    Queues of Volcano), claims (ResourceClaims, their templates, DeviceClasses, ComputeDomains), pods, and the pods that
    workloads would create: Deployments, StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs, CronJobs, PodTemplates,
    JobSets, LeaderWorkerSets, RayClusters, RayJobs, RayServices, the jobs of Kubeflow, Notebooks,
    Rollouts, PodCliqueSets, TrainJobs, InferenceServices, LLMInferenceServices, SparkApplications, Volcano Jobs, and
    kinds that the settings add. A Namespace among the files counts like one of the cluster.

    Objects are completed first as the API server completes them: limits are copied to missing requests, and the
    defaults of LimitRanges and of the default PriorityClass among --cluster are filled in. For a workload, the output
    shows its pod templates as its pods would be admitted; in the cluster the workload itself does not change.

    \b
    A pod, in the cluster that kubectl talks to:
      gpu-admission review --live pod.yaml
    The same where the cluster cannot be reached, in the files of a snapshot:
      gpu-admission review --cluster cluster/ pod.yaml
    A Helm chart, in CI:
      helm template ./chart | gpu-admission review --cluster cluster/ -n team-a -
    The converted objects, to keep instead of the originals:
      gpu-admission review --cluster cluster/ -o yaml manifests/ > converted.yaml

    Files in folders that are not manifests are skipped and counted: Helm values and templates, kustomizations, CI
    workflows, package.json.

    Each object has one of three verdicts: admitted, refused, or not reviewed, with the reason: a kind that
    gpu-admission has no rules for, a namespace without webhook calls, a ConfigMap that is not recognised as GPU
    configuration, or an operation without rules. An object that was not reviewed can have any mistake.

    Exit code: 0 if nothing is refused and everything that mentions GPUs was reviewed. 1 if something is refused, or has
    a finding that --fail-on names. 2 if some of the input cannot be read; the problems are shown with file, line and column,
    and everything else is reviewed. 3 if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1. 4 if
    nothing is refused, but an object that mentions GPUs was not reviewed; a warning (GA705) says where and what to do.
    130 if Ctrl-C ended the review; what was reviewed until then is printed. What the file of --baseline has counts as if it were not there.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    paths = (*files, *paths)
    if not paths:
        raise click.UsageError("nothing to review: name files, folders, or - for standard input")
    if (operation == "UPDATE") != (old is not None):
        raise click.UsageError("--operation UPDATE and --old FILE go together: an update is judged by what it changes")
    if updates_baseline and baseline is None:
        raise click.UsageError("--update-baseline writes the file of --baseline: name one")
    from webhook.cli.review.file_reviews import (
        Circumstances,
        ReviewInput,
        UserInfo,
        exclusion_of,
        fail_on_of,
        print_review,
        review_files,
    )

    source._replace(namespace="").check()
    source = source.with_namespace()
    circumstances = Circumstances(operation, source.namespace, UserInfo(user))
    failing = fail_on_of(fail_on)
    exclusion = exclusion_of(exclude, ignore_file)
    given = ReviewInput(paths, source, old, baseline, exclusion, strict)
    with open_cluster(source, is_running=source.is_running) as running:
        review = review_files(given, circumstances, running, failing)
    if baseline is not None and not (updates_baseline and review.unreviewed):
        from webhook.cli.review.baselines import Scope, apply_baseline, update_baseline

        scope = Scope(paths, exclusion)
        if updates_baseline:
            update_baseline(review, baseline, scope)
        review = apply_baseline(review, baseline, scope)
    print_review(review, output, TextOptions(is_quiet=quiet, with_diffs=not no_diff))
    ctx.exit(review.exit_code)
