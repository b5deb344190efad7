"""The doctor: reads a running installation, checks it, and shows the diagnosis."""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from policies.admission import CONFIGURATIONS, is_static_configuration
from policies.analyses.installation.cluster_checks import Check  # noqa: TC001 - pydantic reads the annotation
from policies.analyses.installation.diagnosis import MEDIAN, SLOWEST, bound_text, diagnose
from policies.analyses.installation.installation_facts import InstallationFacts, Unread
from policies.analyses.installation.installed_objects import wanted_objects
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import filled_record, has_ended, items_at, lookup, mapping_at, mappings_at, name_of
from webhook.cli.installation.check_reports import check_sections, printable_checks
from webhook.cli.installation.doctor_reads import (
    bundles_of,
    count_nodes,
    list_objects,
    read_calls,
    read_manifest_object,
    read_named,
    read_replica,
    stored_certificates,
)
from webhook.cli.installation.preflight_reads import read_manifests
from webhook.cli.progress import current_progress
from webhook.cli.running_clusters import Discovery, in_parallel, read_clock, run_connected
from webhook.cli.settings import read_static, settings_in
from webhook.cli.shipped_files import shipped_path
from webhook.cli.text_layout import output_text
from webhook.cluster.answers import APIError
from webhook.cluster.leases import REPLICA_QUERY
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched
from webhook.controllers.replica_config import DEPLOYMENT, LEASE, NAMESPACE, SECRET
from webhook.pages.report_model import Column, Paragraph, Section, Table, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.installation.diagnosis import Diagnosis
    from policies.kubernetes.objects import Object
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.client import APIClient


_LABELS = {"app.kubernetes.io/name": "gpu-admission"}
"""Of the pods, if the Deployment cannot be read."""
_MANAGED = f"{MANAGED}=true"
_API_SERVERS = "apiserver.kubernetes.io/identity=kube-apiserver"
"""Leases that API servers keep. Source: k8s.io/kubernetes pkg/controlplane/apiserver."""
_MOST_REPLICAS = 20
"""Replicas that are asked."""


def run_doctor(source: ClusterOptions, static: Sequence[str] = ()) -> Diagnosis:
    """Check the installation in a running cluster.

    Args:
        source: The cluster.
        static: Files and folders of the API servers.

    Raises:
        UnreadableInputError: Files have problems.
        NoClusterError: The cluster cannot be reached.
    """
    in_files = {str(each["kind"]): each for each in read_static(static) if is_static_configuration(each)}
    manifests = read_manifests([str(shipped_path("deploy") / "install.yaml")])
    return diagnose(run_connected(source, lambda client: _facts(client, manifests, in_files)))


async def _facts(client: APIClient, manifests: Sequence[Object], static: Mapping[str, Object]) -> InstallationFacts:
    current_progress().show("reading the installation")
    now = await _server_time(client)
    named = partial(read_named, client)
    deployment = await named(RESOURCES["Deployment"], DEPLOYMENT, NAMESPACE)
    labels = {} if isinstance(deployment, Unread) else mapping_at(deployment, ("spec", "selector", "matchLabels"))
    selector = ",".join(f"{key}={value}" for key, value in (labels or _LABELS).items())
    pods = await list_objects(client, Watched(RESOURCES["Pod"], NAMESPACE, labels=selector))
    present = [] if isinstance(pods, Unread) else pods
    running = [pod for pod in present if lookup(pod, ("status", "podIP")) and not has_ended(pod)][:_MOST_REPLICAS]
    current_progress().show(f"asking {len(running)} replicas")
    replicas = await in_parallel(partial(read_replica, client), running)
    configurations = {kind: await named(RESOURCES[kind], name) for kind, name in CONFIGURATIONS}
    containers = (
        [] if isinstance(deployment, Unread) else mappings_at(deployment, ("spec", "template", "spec", "containers"))
    )
    issues = not any(
        str(argument).startswith("--tls-cert") for each in containers for argument in items_at(each, ("args",))
    )
    secret = await named(RESOURCES["Secret"], SECRET, NAMESPACE) if issues else None
    current_progress().show("reading metrics of the API server")
    calls = await read_calls(client)
    current_progress().show("comparing the installation with its manifests")
    discovery = Discovery(client)
    wanted = wanted_objects(manifests, issues_certificates=issues)
    stored = await in_parallel(partial(read_manifest_object, client, discovery), wanted)
    current_progress().show("reading pods and templates")
    policies = await list_objects(client, Watched(RESOURCES["GPUAdmissionPolicy"]))
    pending = Watched(RESOURCES["Pod"], fields=("spec.nodeName=",), labels=_MANAGED)
    api_servers = await list_objects(client, Watched(RESOURCES["Lease"], "kube-system", labels=_API_SERVERS))
    return InstallationFacts(
        now=now,
        version=version("gpu-admission"),
        deployment=deployment,
        pods=pods,
        nodes=await count_nodes(client, RESOURCES["Node"], most=2),
        replicas={name_of(pod): replica for pod, replica in zip(running, replicas, strict=True)},
        configurations=configurations,
        bundles=[*bundles_of(configurations, secret, now)],
        certificates=stored_certificates(secret),
        issues_certificates=issues,
        calls=calls,
        api_servers=0 if isinstance(api_servers, Unread) else len(api_servers),
        lease=await named(RESOURCES["Lease"], LEASE, NAMESPACE),
        replica_leases=await list_objects(
            client, Watched(RESOURCES["Lease"], NAMESPACE, labels=REPLICA_QUERY["labelSelector"])
        ),
        quotas=await list_objects(client, Watched(RESOURCES["GPUQuota"])),
        waiting_pods=await list_objects(client, pending),
        templates=await list_objects(client, Watched(RESOURCES["ResourceClaimTemplate"], labels=_MANAGED)),
        policies=policies,
        cluster_policies=await list_objects(client, Watched(RESOURCES["ClusterPolicy"])),
        # The defaults, if the settings are invalid or unread.
        settings=settings_in(ManifestsView([] if isinstance(policies, Unread) else policies))[0],
        installed=[*zip(wanted, stored, strict=True)],
        static=static,
    )


async def _server_time(client: APIClient) -> datetime:
    """The time of the API server; the local one if it sends none, or hides its version.

    Raises:
        Unreachable: The API server does not answer.
    """
    try:
        clock = await read_clock(client)
    except APIError as error:
        if not error.is_forbidden:
            raise
        clock = None
    return clock.server if clock else datetime.now(UTC)


_FORMAT = 1
"""Of the JSON; raised if a field changes its meaning or goes away."""
_OURS = ".gpu-admission.io"


def text(diagnosis: Diagnosis) -> str:
    """The checks in sections, the worst first, the calls of each webhook, and the conclusion."""
    sections = [*check_sections(diagnosis.checks)]
    if (calls := diagnosis.calls) is not None:
        since = f", since {calls.since:%Y-%m-%d %H:%M} UTC" if calls.since else ""
        rows = [
            (
                name.removesuffix(_OURS),
                *(f"{number:,}" for number in (each.calls, each.refused, each.failed, each.excluded)),
                bound_text(each.bound(MEDIAN)),
                bound_text(each.bound(SLOWEST)),
            )
            for name, each in sorted(calls.webhooks.items())
        ]
        columns: list[str | Column] = [
            "webhook",
            *numbers("calls", "refused", "failed", "excluded"),
            "1 of 2 takes",
            "99 of 100 take",
        ]
        title = f"CALLS as the API server that answered counts them{since}"
        sections.append(Section([Table(columns, rows, indent=2)], title))
    sections.append(Section([Paragraph(f"{diagnosis.conclusion}.")]))
    return render_text(sections)


@dataclass(frozen=True, slots=True)
class _WebhookCallsJSON:
    """The calls of a webhook.

    A time is null without calls, or if it is longer than the API server measures.
    """

    calls: int
    refused: int
    failed_closed: int
    failed_open: int
    excluded: int
    condition_errors: int
    seconds_of_half: float | None
    seconds_of_99_percent: float | None


@dataclass(frozen=True, slots=True)
class _CallsJSON:
    """The calls of our webhooks as the API server counts them, by webhook."""

    since: str | None
    webhooks: Mapping[str, _WebhookCallsJSON]


@dataclass(frozen=True, slots=True)
class DiagnosisJSON:
    """The output of `gpu-admission doctor -o json`."""

    format: int
    checks: tuple[Check, ...]
    calls: _CallsJSON | None
    conclusion: str


def as_json(diagnosis: Diagnosis) -> str:
    """Everything, for programs."""
    calls = diagnosis.calls
    document = DiagnosisJSON(
        format=_FORMAT,
        checks=printable_checks(diagnosis.checks),
        calls=None
        if calls is None
        else _CallsJSON(
            since=None if calls.since is None else calls.since.isoformat(),
            webhooks={
                name: filled_record(
                    _WebhookCallsJSON,
                    each,
                    seconds_of_half=_finite_seconds(each.bound(MEDIAN)),
                    seconds_of_99_percent=_finite_seconds(each.bound(SLOWEST)),
                )
                for name, each in sorted(calls.webhooks.items())
            },
        ),
        conclusion=diagnosis.conclusion,
    )
    return output_text(document, DiagnosisJSON)


def _finite_seconds(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds
