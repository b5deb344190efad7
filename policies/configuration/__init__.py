"""Validates the configuration of GPU clusters before it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.configuration import (
    components,
    dra_driver,
    driver_objects,
    drivers,
    images,
    node_labels,
    schema_checks,
    v1alpha1,
)
from policies.configuration.change import Change, is_lenient
from policies.configuration.cluster_facts import Facts
from policies.configuration.cluster_policy import (
    dcgm_exporter,
    host_access,
    operand_daemonsets,
    plugin_settings,
    policy_driver,
    runtime,
    sandbox_workloads,
    upgrades,
)
from policies.configuration.config_maps import (
    dcgm_metrics,
    mig_documents,
    mig_profiles,
    plugin_documents,
    plugin_replicas,
    plugin_sharing,
)
from policies.configuration.config_maps.roles import Role, in_use, references, roles_of, users
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.objects import name_of, namespace_of
from policies.nvidia.identifiers import PLUGIN_CONFIG_LABEL
from policies.rules.checks import Checks
from policies.rules.decision import Severity
from policies.rules.messages import named_remedy, reason
from policies.rules.settings import SettingsError, parse_settings

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.view import ClusterView
    from policies.rules.checks import Check, RuleBook
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["checks", "is_configuration", "is_lenient", "uses", "validate", "validate_settings"]


_ANY_KIND: Checks[Change] = Checks(schema_checks.existing_kind, schema_checks.kept_indentation)
_SCHEMA: Checks[Change] = Checks(
    schema_checks.allowed_values,
    schema_checks.known_fields,
    schema_checks.current_fields,
)
_COMPONENTS: Checks[Change] = Checks(
    dcgm_exporter.metrics_list_exists,
    dcgm_exporter.one_host_engine,
    dcgm_exporter.labels_of_metrics,
    dcgm_exporter.scrapable,
    host_access.settings_take_effect,
    host_access.gds_on_open_modules,
    host_access.sidecars_name_images,
    host_access.rdma_stack_on_nodes,
    upgrades.unavailable_nodes,
    upgrades.parallel_upgrades,
    upgrades.pod_selectors,
    upgrades.pods_in_the_way,
    upgrades.upgrades_run,
    operand_daemonsets.rolling_update,
    operand_daemonsets.pods_may_run,
    operand_daemonsets.pod_metadata,
    operand_daemonsets.taints_tolerated,
    operand_daemonsets.toleration_syntax,
    components.environment,
    components.resources,
    drivers.version_form,
    drivers.precompiled_kernels,
    drivers.recent_driver,
    drivers.supported_gpus,
    drivers.kernel_module_type,
    images.complete_image,
    images.valid_reference,
    images.pull_settings,
    images.operating_system_added,
    images.existing_tag,
)
_CLUSTER_POLICY: Checks[Change] = Checks(
    host_access.host_paths,
    host_access.privileged_namespace,
    host_access.host_network,
    plugin_settings.mountable_config_map,
    plugin_settings.selected_keys,
    plugin_settings.agreeing_settings,
    plugin_settings.one_way_to_a_gpu,
    plugin_settings.mounted_files,
    plugin_settings.manager_settings,
    plugin_settings.strategy_suits_nodes,
    policy_driver.precompiled_limits,
    policy_driver.disabled_driver,
    policy_driver.replaced_driver,
    policy_driver.probes,
    policy_driver.driver_manager,
    policy_driver.one_cluster_policy,
    policy_driver.driver_kept,
    runtime.default_runtime_left_alone,
    runtime.toolkit_somewhere,
    runtime.rancher_containerd,
    runtime.nri_has_what_it_needs,
    runtime.nri_suits,
    sandbox_workloads.sandbox_enabled,
    sandbox_workloads.components_fit_mode,
    sandbox_workloads.default_workload_served,
    sandbox_workloads.nodes_fit_workloads,
    sandbox_workloads.vgpu_images,
    sandbox_workloads.defaults_exist,
    driver_objects.cluster_policy_objects,
    driver_objects.complete_licence,
    schema_checks.unpruned_fields,
)
_NVIDIA_DRIVER: Checks[Change] = Checks(
    driver_objects.nvidia_driver_objects,
    v1alpha1.named_image,
    v1alpha1.fitting_kind,
    v1alpha1.whole_probe,
    v1alpha1.one_driver_per_node,
    v1alpha1.nodes_to_run_on,
)
_GPU_CLUSTER: Checks[Change] = Checks(
    v1alpha1.surroundings,
    dra_driver.startable,
)
_DEVICE_PLUGIN: Checks[Change] = Checks(
    plugin_documents.readable_documents,
    plugin_documents.read_again,
)
_DEVICE_PLUGIN_DOCUMENT: Checks[plugin_documents.Configuration] = Checks(
    plugin_documents.readable_values,
    plugin_documents.existing_fields,
    plugin_replicas.not_too_many_replicas,
    plugin_replicas.fitting_pods,
    plugin_replicas.effective_settings,
    plugin_sharing.at_least_two_replicas,
    plugin_sharing.listed_resources,
    plugin_sharing.one_strategy,
    plugin_sharing.no_mps_with_mig,
    plugin_sharing.known_resources,
)
_MIG_FILE: Checks[mig_documents.MIGFile] = Checks(
    mig_documents.readable_configs,
    mig_profiles.possible_profiles,
    mig_profiles.selectable_names,
    mig_profiles.separate_entries,
)
_DCGM_METRICS: Checks[Change] = Checks(
    dcgm_metrics.list_key,
    dcgm_metrics.readable_list,
    dcgm_metrics.fitting_types,
)
_NODE: Checks[Change] = Checks(
    node_labels.known_values,
    node_labels.existing_configs,
    node_labels.possible_mig,
    node_labels.unused_gpus,
)
_NVIDIA = {"ClusterPolicy": _CLUSTER_POLICY, "NVIDIADriver": _NVIDIA_DRIVER, "GPUCluster": _GPU_CLUSTER}


def checks() -> tuple[Check[...], ...]:
    """All checks of configuration."""
    return (
        *(
            check
            for each in (_ANY_KIND, _SCHEMA, _COMPONENTS, *_NVIDIA.values(), _DCGM_METRICS, _NODE)
            for check in each.all
        ),
        *_DEVICE_PLUGIN.all,
        *_DEVICE_PLUGIN_DOCUMENT.all,
        *_MIG_FILE.all,
        mig_documents.readable_file,
        policy_driver.deleted_without_pods,
        in_use,
        schema_checks.readable_settings,
        schema_checks.effective_rules,
        schema_checks.effective_settings,
    )


def is_configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> bool:
    """True if a ConfigMap is recognised as GPU configuration."""
    change = Change.of(request, Facts(view, settings))
    return change is not None and bool(roles_of(change))


def uses(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[str, ...]:
    """The fields that put a ConfigMap into effect, a sentence for each; empty for other kinds."""
    change = Change.of(request, Facts(view, settings)) if (request.group, request.kind) == ("", "ConfigMap") else None
    if change is None or change.is_deleted:
        return ()
    return tuple(f'ConfigMap "{change.name}" is in effect: {user} names it' for user in users(change))


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """The findings for a change, by the rules of its kind; none for kinds that have no rules."""
    change = Change.of(request, Facts(view, settings))
    if change is None:
        return
    if not change.is_deleted:
        yield from _ANY_KIND.run(change)
    match request.group, request.kind:
        case "nvidia.com", "ClusterPolicy" if change.is_deleted:
            yield from policy_driver.deleted_without_pods(change)
        case "nvidia.com", kind if kind in _NVIDIA and not change.is_deleted:
            reason, judged = _ignored_reason(change), [*_COMPONENTS.run(change), *_NVIDIA[kind].run(change)]
            lowered = [each if each.rule in _BY_API_SERVER else _lower_unread(each, reason) for each in judged]
            found = [*_SCHEMA.run(change), *lowered]
            yield from found
            if not reason:
                yield from named_config_maps(change, {each.path for each in found if each.severity is Severity.DENY})
        case "", "ConfigMap":
            yield from in_use(change)
            for role in () if change.is_deleted else sorted(roles_of(change)):
                yield from _findings_in(role, change)
        case "", "Node":
            # Only labels that a change sets are judged, so that a heartbeat costs nothing.
            found = [*_NODE.run(change), *selected_key(change)] if node_labels.sets_labels(change) else []
            # A kubelet that may not register its node leaves the cluster.
            lowers = node_labels.is_kubelet(change.user)
            for finding in found:
                is_lowered = lowers and finding.severity is Severity.DENY
                yield replace(finding, severity=Severity.WARN) if is_lowered else finding


def validate_settings(
    request: Request, view: ClusterView, settings: GPUAdmissionPolicy, rules: RuleBook
) -> Iterator[Finding]:
    """The findings for the settings of gpu-admission that are created or changed."""
    change = Change.of(request, Facts(view, settings))
    if change is None or change.is_deleted:
        return
    yield from _ANY_KIND.run(change)
    yield from schema_checks.readable_settings(change)
    try:
        written = parse_settings(change.object)
    except SettingsError:
        return
    yield from schema_checks.effective_rules(written, rules)
    yield from schema_checks.effective_settings(written, rules)


def _findings_in(role: Role, change: Change) -> Iterator[Finding]:
    """The findings for a ConfigMap in one of its roles."""
    match role:
        case Role.DEVICE_PLUGIN:
            for finding in _plugin_findings(change):
                yield _lower_unread(finding, plugin_documents.unread_reason(change, finding.path))
        case Role.MIG_PARTED:
            # mig-parted reads the whole file, so that mistakes in its shape break every configuration.
            for finding in mig_documents.readable_file(change):
                yield _lower_unread(finding, mig_documents.unread_reason(change))
            if (document := mig_documents.mig_file(change)) is not None:
                for finding in _MIG_FILE.run(document):
                    is_of_file = finding.rule is mig_documents.readable_configs.rule
                    config = finding.path[3:4] if not is_of_file else ()
                    yield _lower_unread(finding, mig_documents.unread_reason(change, *config))
        case Role.DCGM_METRICS:
            for finding in _DCGM_METRICS.run(change):
                yield _lower_unread(finding, dcgm_metrics.unread_reason(change, finding))


def _plugin_findings(change: Change) -> Iterator[Finding]:
    """The findings for a ConfigMap of the device plugin, as if its plugins read every key."""
    yield from _DEVICE_PLUGIN.run(change)
    for configuration in plugin_documents.configurations(change):
        yield from _DEVICE_PLUGIN_DOCUMENT.run(configuration)


_BY_API_SERVER = (schema_checks.unpruned_fields.rule, v1alpha1.fitting_kind.rule)
"""Rules, beside those of the schema, on what the API server drops or refuses itself."""


def _ignored_reason(change: Change) -> str:
    """The reason, as a clause, why the operator ignores an object of its kinds; empty if it does not.

    Source: github.com/NVIDIA/gpu-operator controllers/clusterpolicy_controller.go Reconcile,
    controllers/nvidiadriver_controller.go Reconcile.
    """
    policy = change.facts.cluster_policy()
    if not isinstance(policy, dict):
        return ""
    followed = f'the ClusterPolicy "{name_of(policy)}"'
    if change.kind == "ClusterPolicy" and name_of(policy) != change.name:
        return f"the operator follows {followed} and ignores this one"
    if change.is_disabled_driver:
        return f"{followed} does not say driver.useNvidiaDriverCRD: true, so the operator ignores NVIDIADrivers"
    return ""


def _lower_unread(finding: Finding, reason: str) -> Finding:
    """A finding; a warning instead of a denial if there is a reason why nothing reads what it is about."""
    if not reason or finding.severity is not Severity.DENY:
        return finding
    return replace(finding, severity=Severity.WARN, message=f"{finding.message}; {reason}")


def selected_key(change: Change) -> Iterator[Finding]:
    """The denials of the configuration of the device plugin that a changed label of a node selects.

    Until a node selects a key of the ConfigMap, a mistake in it is only a warning.
    """
    key = node_labels.newly_set(change, PLUGIN_CONFIG_LABEL)
    facts = change.facts.after(change.object)
    name = facts.policy_value("devicePlugin", "config", "name") if key else None
    config_map = facts.operator_object("ConfigMap", name) if isinstance(name, str) and name else None
    if not isinstance(config_map, dict) or facts.is_reviewed(config_map):
        return
    if not runs_device_plugin(change.object, facts.view):
        return
    content = Change(config_map, None, "CREATE", change.user, namespace_of(config_map), facts, "ConfigMap")
    for finding in _plugin_findings(content):
        if finding.severity is Severity.DENY and finding.path[:2] == ("data", key):
            where = node_labels.label_path(PLUGIN_CONFIG_LABEL)
            yield _finding_elsewhere(finding, where, f'the key "{key}" of the ConfigMap "{name}"')


def named_config_maps(change: Change, refused: Container[FieldPath]) -> Iterator[Finding]:
    """The denials of the ConfigMaps that an object names, at the fields that name them.

    NVIDIA's guides create the ConfigMap first and name it afterwards: that is when the operator reads it. So a mistake in
    it refuses a change that newly names it, and is a warning if the object named it before. A ConfigMap that is itself
    under review is skipped, because it has these findings of its own.

    Args:
        change: The change of a ClusterPolicy or a GPUCluster.
        refused: The fields of this object that have a denial already.
    """
    before = {*references(change.old)}
    facts = change.facts.after(change.object)
    for reference, name in references(change.object):
        config_map = facts.operator_object("ConfigMap", name)
        if reference.role is None or reference.path in refused or not isinstance(config_map, dict):
            continue
        if facts.is_reviewed(config_map):
            continue
        namespace = namespace_of(config_map)
        content = Change(config_map, None, "CREATE", change.user, namespace, facts, "ConfigMap")
        severity = Severity.WARN if (reference, name) in before else Severity.DENY
        for finding in _findings_in(reference.role, content):
            if finding.severity is Severity.DENY:
                invalid = f'the ConfigMap "{name_of(config_map)}" in {namespace}'
                yield replace(_finding_elsewhere(finding, reference.path, invalid), severity=severity)


def _finding_elsewhere(finding: Finding, path: FieldPath, invalid: str) -> Finding:
    """A finding in a ConfigMap, at the field of another object that names the ConfigMap.

    Args:
        finding: The finding.
        path: The field of the other object.
        invalid: The ConfigMap, or the part of it that is invalid, for the message.
    """
    message = f"{invalid} is invalid at {finding.path}: {reason(finding.path, finding.message)}"
    remedy = named_remedy(finding.path, finding.remedy)
    return replace(finding, path=path, message=message, remedy=remedy, place=None)
