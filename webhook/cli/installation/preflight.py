"""The preflight: reads, dry runs, the checks of what they say, and the page about them."""

from __future__ import annotations

from collections.abc import (
    Mapping,  # noqa: TC003 - pydantic reads the annotation
    Sequence,  # noqa: TC003 - pydantic reads the annotation
)
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.admission import CONFIGURATIONS
from policies.analyses.installation.cluster_checks import Check  # noqa: TC001 - pydantic reads the annotation
from policies.analyses.installation.other_webhooks import Coverage, webhooks_in
from policies.analyses.installation.preflight import Facts, preflight
from policies.kubernetes.names import DRA_LABEL, QUOTA_LABEL, with_capital
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.view import Unknown
from webhook.cli.installation import preflight_reads as reads
from webhook.cli.installation.check_reports import check_sections, printable_checks
from webhook.cli.installation.preflight_reads import (
    conditions_hold,
    count_pods,
    plan_objects,
    plan_runtime,
    read_manifests,
    read_own_rules,
    read_user,
    review_rights,
    try_objects,
)
from webhook.cli.progress import current_progress
from webhook.cli.running_clusters import Discovery, read_clock, read_features, run_connected
from webhook.cli.shipped_files import shipped_path
from webhook.cli.text_layout import output_text
from webhook.cluster.kind_reads import parse_version, read_object, read_version
from webhook.cluster.resources import RESOURCES
from webhook.pages.report_model import Paragraph, Section
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from policies.analyses.installation.preflight import Preflight
    from policies.kubernetes.objects import Object
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.client import APIClient


_NODE_LEASES = "kube-node-lease"


def run_preflight(files: Sequence[str], source: ClusterOptions) -> Preflight:
    """Check what applying manifests to a running cluster would do.

    Args:
        files: The manifests, of which `-` is standard input; if empty, those of this version.
        source: The cluster.

    Raises:
        UnreadableInputError: The manifests cannot be read.
        NoClusterError: The cluster cannot be reached, or fails.
    """
    documents = read_manifests(files or [str(shipped_path("deploy") / "install.yaml")])
    return preflight(run_connected(source, lambda client: _facts(client, documents)))


async def _facts(client: APIClient, documents: Sequence[Object]) -> Facts:
    current_progress().show("reading the cluster")
    discovery = Discovery(client)
    clock = await read_clock(client)
    planned = await plan_objects(client, discovery, documents)
    namespaces = await reads.list_objects(client, RESOURCES["Namespace"], reads.namespace_fields)
    ours = [each for each in documents if (each.get("kind"), name_of(each)) in CONFIGURATIONS]
    coverage = None if isinstance(namespaces, Unknown) else Coverage(webhooks_in(ours), namespaces, conditions_hold)
    claim_versions = await discovery.versions("resource.k8s.io")
    converting = coverage.namespaces_with(DRA_LABEL, "enabled") if coverage else []
    runtime = [*plan_runtime(planned, converting, serves_claims="v1" in claim_versions)]
    current_progress().show(f"trying {len(planned) + len(runtime)} objects")
    everything = [*planned, *runtime]
    exist = {
        namespace: await read_object(client, RESOURCES["Namespace"], namespace) is not None
        for namespace in dict.fromkeys(namespace_of(each.document) for each in everything)
        if namespace
    }
    tried = await try_objects(client, discovery, everything, exist)
    policies, unread_policies = await reads.read_policies(client, discovery)
    images = await count_pods(client, coverage)
    current_progress().show("reading the cluster")
    return Facts(
        planned=tried,
        user=await read_user(client),
        granted=await review_rights(client, planned),
        own_rules=await read_own_rules(client, planned),
        server_version=parse_version(await read_version(client)),
        claim_versions=claim_versions,
        nodes=await reads.list_objects(client, RESOURCES["Node"], reads.node_fields),
        leases=await reads.list_objects(client, RESOURCES["Lease"], namespace=_NODE_LEASES),
        slices=await reads.list_objects(client, RESOURCES["ResourceSlice"], reads.slice_fields),
        daemon_sets=await reads.list_objects(client, RESOURCES["DaemonSet"], reads.name_only),
        endpoint_slices=await reads.endpoint_slices(client),
        api_services=await reads.api_services(client),
        mutating=await reads.list_objects(client, RESOURCES["MutatingWebhookConfiguration"]),
        validating=await reads.list_objects(client, RESOURCES["ValidatingWebhookConfiguration"]),
        policies=policies,
        unread_policies=unread_policies,
        coverage=coverage,
        images=images,
        broken_conversions=await reads.broken_conversions(client),
        features=await read_features(client),
        clock=clock,
    )


def text(preflight: Preflight) -> str:
    """The checks in sections, the worst first, and the conclusion."""
    conclusion = Section([Paragraph(f"{with_capital(preflight.conclusion)}.")])
    return render_text([*check_sections(preflight.checks), conclusion])


@dataclass(frozen=True, slots=True)
class _StepJSON:
    """The step between two versions; null if one is unknown or there is none."""

    verb: str
    from_: str | None
    to: str | None


@dataclass(frozen=True, slots=True)
class _EntryCountJSON:
    """The pods that an entry would review, and their namespaces."""

    namespaces: int
    pods: int


@dataclass(frozen=True, slots=True)
class CoverageJSON:
    """The namespaces and pods that would be reviewed."""

    covered: Sequence[str]
    exempt: Sequence[str]
    converting: Sequence[str]
    preview: Sequence[str]
    quota_enforced: Sequence[str]
    pods: int
    entries: Mapping[str, _EntryCountJSON]


@dataclass(frozen=True, slots=True)
class PreflightJSON:
    """The output of `gpu-admission preflight -o json`."""

    step: _StepJSON
    checks: tuple[Check, ...]
    namespaces: CoverageJSON | None
    conclusion: str


def as_json(preflight: Preflight) -> str:
    """Everything, with the counts of namespaces and pods."""
    step, coverage = preflight.step, preflight.coverage
    document = PreflightJSON(
        step=_StepJSON(step.verb, step.before or None, step.after or None),
        checks=printable_checks(preflight.checks),
        namespaces=None if coverage is None else coverage_json(coverage),
        conclusion=preflight.conclusion,
    )
    return output_text(document, PreflightJSON)


def coverage_json(coverage: Coverage) -> CoverageJSON:
    """The counts as JSON has them."""
    return CoverageJSON(
        covered=[namespace.name for namespace in coverage.covered],
        exempt=coverage.exempt,
        converting=coverage.namespaces_with(DRA_LABEL, "enabled"),
        preview=coverage.namespaces_with(DRA_LABEL, "preview"),
        quota_enforced=coverage.namespaces_with(QUOTA_LABEL, "enforced"),
        pods=coverage.pods,
        entries={entry: _EntryCountJSON(len(count.namespaces), count.pods) for entry, count in coverage.counts.items()},
    )
