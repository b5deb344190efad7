"""`gpu-admission quota`: the GPU limits of namespaces, what is used, and by which pods."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from webhook.cli.options import cluster_options, complete_from, files_option, output_option, takes_cluster
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from webhook.cli.cluster_options import ClusterOptions


def _days(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """The number of days in a text such as `30d`."""
    if value is None:
        return None
    from policies.quota.ledger.gpu_hours import MOST_DAYS

    found = re.fullmatch("([0-9]{1,2})d", value)
    if found is None or not 1 <= int(found[1]) <= MOST_DAYS:
        raise click.BadParameter(
            f"write a number of days such as 30d, at most {MOST_DAYS}d: quotas keep no more. Found: {value[:80]}"
        )
    return int(found[1])


@click.command("quota")
@files_option("a cluster's GPUQuotas, namespaces, nodes, pods and ResourceClaims, instead of a running cluster.")
@cluster_options
@click.option(
    "--fit",
    multiple=True,
    metavar="FILE|KIND/NAME",
    shell_complete=complete_from("objects", or_paths=True),
    help="Show how many more of this pod, claim or workload fit. Can be repeated.",
)
@click.option(
    "--since",
    callback=_days,
    metavar="DAYS",
    help="Show the GPU hours of the last days in UTC, today included: 1d to 32d.",
)
@output_option("bars and tables", "the same with exact amounts")
@click.option(
    "--compile",
    "compiles",
    is_flag=True,
    help="Print ResourceQuotas for the limits that Kubernetes' own quota expresses exactly, and why others are lost.",
)
@takes_cluster
@click.pass_context
def command(
    ctx: click.Context,
    *,
    source: ClusterOptions,
    fit: tuple[str, ...],
    since: int | None,
    output: str,
    compiles: bool,
) -> None:
    """Show the GPU limits of namespaces, what is used, and which pods and claims use it.

    Shows for each limit what is used, what is reserved for admitted pods that the cluster does not show yet, and what
    is left; the pods and claims that hold GPUs, the largest first; what reservations wait for; the conditions; and
    problems. Nothing is changed.

    The usage comes from the status. If a GPUQuota has no status, as in a manifest, the command counts the usage itself,
    so you can try a quota before you apply it.

    \b
    The namespaces that you may look into, and one of them:
      gpu-admission quota
      gpu-admission quota -n team-a
    A quota that is not applied yet:
      gpu-admission snapshot cluster/
      gpu-admission quota --cluster cluster/ --cluster quota.yaml
    The limits for which a ResourceQuota is enough:
      gpu-admission quota -n team-a --compile > resourcequotas.yaml

    With --fit, shows how many more of a pod, claim or workload each limit admits, and how many the devices hold now and
    if nothing were in use; the first line has the smallest number and names the limit. A workload counts with all of its
    pods. Users who may not read the whole cluster ask the Service of gpu-admission, as the command explain does.

    \b
    How many more of a pod that exists fit, and of one in a file?
      gpu-admission quota --fit pod/train -n team-a
      gpu-admission quota --fit train.yaml -n team-a

    With --since, shows the GPU hours by product and MIG profile that quotas counted, as their statuses have them: 4 pods with a
    quarter of a GPU for an hour are one GPU hour. Time in which no replica counted is named, and has none.

    \b
    The GPU hours of 30 days:
      gpu-admission quota --since 30d -n team-a

    With -n, the right to list gpuquotas in that namespace is enough; the output says what is missing without the right to
    list pods, resourceclaims or nodes.

    Exit code: 0 if every quota is counted and within its limits, or no quota exists; 1 if a quota is over a limit, not
    counted, or cannot be read; with --fit 0 if at least one more of everything fits, else 1; with --compile 0 if every
    limit has a form, else 1; with --since 0; 2 if the cluster or the input cannot be read; 3 if gpu-admission has an internal error; please
    report it with the output of GPU_ADMISSION_TRACE=1.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.reports.quota_reports import as_json, headroom_text, report_quotas_of_files, text

    source.check()
    chosen = [name for name, given in {"--fit": fit, "--since": since, "--compile": compiles}.items() if given]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} print different things; give one of them")
    if since:
        with Progress():
            if source.cluster:
                from webhook.cli.reports.gpu_hours import hours_of_files

                hours = hours_of_files(since, source)
            else:
                from webhook.cli.reports.live_quotas import report_hours

                hours = report_hours(since, source)
        click.echo(hours.json if output == "json" else hours.text())
        return
    if fit:
        from webhook.cli.explain.explanations import headroom_json, headrooms_of

        if source.cluster:
            with Progress():
                found = headrooms_of(fit, source)
        else:
            from webhook.cli.explain.live_explanations import HEADROOMS, LiveQuestion, answer_running_cluster

            found = answer_running_cluster(LiveQuestion((), fit, source), HEADROOMS)
        click.echo(headroom_json(found) if output == "json" else headroom_text(found))
        ctx.exit(0 if all(each.fits for each in found) else 1)
    if compiles:
        if output == "json":
            raise click.UsageError("remove -o json: --compile prints YAML")
        from webhook.cli.reports.quota_reports import compile_quotas_of_files

        with Progress():
            if source.cluster:
                compiled = compile_quotas_of_files(source)
            else:
                from webhook.cli.reports.live_quotas import compile_quotas

                compiled = compile_quotas(source)
        click.echo(compiled.text)
        ctx.exit(0 if compiled.is_whole else 1)
    with Progress():
        if source.cluster:
            quotas = report_quotas_of_files(source)
        else:
            from webhook.cli.reports.live_quotas import report_quotas

            quotas = report_quotas(source)
    click.echo(as_json(quotas) if output == "json" else text(quotas))
    ctx.exit(0 if quotas.all_within_limits else 1)
