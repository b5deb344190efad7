"""GPUClusters: required components, feature gates and ports of the DRA driver."""

import pytest

HEAD = "apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}\nspec:\n  draDriver: {%s}"
POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}"


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA199", "featureGates: {...}")`: path, severity, message and remedy of a rule's findings on a draDriver."""

    def tell(rule, spec, *cluster):
        found = examined("\n---\n".join([HEAD % spec, *cluster]))
        return [(str(one.path), str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell


def driver(name, version):
    return (
        f"apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {{name: {name}}}\nspec: {{version: {version}}}"
    )


def test_gpu_cluster_beside_a_cluster_policy_is_refused(findings_of):
    assert findings_of("GA198", "", POLICY) == [
        (
            "metadata.name",
            "deny",
            (
                '"gpu-cluster" and the ClusterPolicy "cluster-policy" exclude each other; the operator would report: A '
                'ClusterPolicy CR "cluster-policy" exists; a ClusterPolicy CR and GPUCluster CR may not exist at the same time'
            ),
            "stay with the ClusterPolicy, or delete it first",
        )
    ]


def test_update_beside_a_cluster_policy_passes(examined):
    text = HEAD % "" + "\n--- # before\n" + HEAD % "" + "\n---\n" + POLICY
    assert [finding for finding in examined(text) if finding.rule.id == "GA198"] == []


def test_gpu_cluster_after_a_cluster_policy_that_is_being_deleted_passes(findings_of):
    going = POLICY.replace("{name: cluster-policy", '{deletionTimestamp: "2026-01-05T09:00:00Z", name: cluster-policy')
    assert "deletionTimestamp" in going
    assert findings_of("GA198", "", going) == []


def test_kubernetes_without_an_api_for_the_dra_driver_is_refused(findings_of):
    assert [one[1:3] for one in findings_of("GA198", "", "serverVersion: {gitVersion: v1.31.9}")] == [
        (
            "deny",
            (
                "needs Kubernetes 1.34.2 or later, and this is 1.31; the operator would report: the resource.k8s.io DeviceClass "
                "API is not served"
            ),
        )
    ]


@pytest.mark.parametrize("version", ["v1.32.0", "v1.33.4"])
def test_kubernetes_with_a_beta_of_the_api_is_warned_about(findings_of, version):
    found = findings_of("GA198", "", f"serverVersion: {{gitVersion: {version}}}")
    assert [one[1] for one in found] == ["warn"]
    assert found[0][2].endswith("resource.k8s.io is a beta there, which is not served by default")


@pytest.mark.parametrize("version", ["v1.34.2", "v1.35.0"])
def test_kubernetes_with_the_api_is_fine(findings_of, version):
    assert findings_of("GA198", "", f"serverVersion: {{gitVersion: {version}}}") == []


def test_gates_of_a_stage_that_is_off_need_nothing(findings_of):
    assert findings_of("GA199", "featureGates: {AllBeta: false, IMEXDaemonsWithDNSNames: false}") == []
    found = findings_of("GA199", "featureGates: {AllBeta: false, ComputeDomainCliques: true}")
    assert [one[:2] for one in found] == [("spec.draDriver.featureGates.ComputeDomainCliques", "deny")]


def test_old_drivers_are_warned_about(findings_of):
    assert findings_of("GA198", "", driver("a", "570.172.08"), driver("b", '"535"'))[0][1:3] == (
        "warn",
        'needs driver 580 or later, and there is 2 NVIDIADrivers ("a 570.172.08", "b 535")',
    )


@pytest.mark.parametrize(
    "drivers", [[], [driver("a", "570.172.08"), driver("b", "595.91.07")], [driver("a", "sha256:12")]]
)
def test_driver_that_may_do_is_fine(findings_of, drivers):
    assert findings_of("GA198", "", *drivers) == []


@pytest.mark.parametrize(
    ("gate", "other"),
    [
        ("DynamicMIG", "PassthroughSupport"),
        ("DynamicMIG", "NVMLDeviceHealthCheck"),
        ("DynamicMIG", "MPSSupport"),
        ("PassthroughSupport", "NVMLDeviceHealthCheck"),
    ],
)
def test_gates_that_exclude_each_other_are_refused(findings_of, gate, other):
    assert findings_of("GA199", f"featureGates: {{{gate}: true, {other}: true}}") == [
        (
            f"spec.draDriver.featureGates.{gate}",
            "deny",
            (
                f"excludes {other}; the DRA driver would exit with: feature gate validation failed: feature gate {gate} is "
                f"currently mutually exclusive with {other}"
            ),
            "write false for one of the two",
        )
    ]
    assert findings_of("GA199", f"featureGates: {{{gate}: true, {other}: false}}") == []


def test_gate_that_needs_another_is_refused(findings_of):
    assert findings_of("GA199", "featureGates: {DeviceMetadata: true}")[0] == (
        "spec.draDriver.featureGates.DeviceMetadata",
        "deny",
        (
            "DeviceMetadata needs PassthroughSupport; the DRA driver would exit with: feature gate validation failed: feature "
            "gate DeviceMetadata requires PassthroughSupport to also be enabled"
        ),
        "write PassthroughSupport: true, or DeviceMetadata: false",
    )
    assert findings_of("GA199", "featureGates: {DeviceMetadata: true, PassthroughSupport: true}") == []


def test_gate_that_is_on_by_default_counts(findings_of):
    found = findings_of("GA199", "featureGates: {IMEXDaemonsWithDNSNames: false}")
    assert [one[0] for one in found] == ["spec.draDriver.featureGates.IMEXDaemonsWithDNSNames"]
    assert findings_of("GA199", "featureGates: {IMEXDaemonsWithDNSNames: false, ComputeDomainCliques: false}") == []


def test_all_alpha_gates_exclude_each_other(findings_of):
    assert len([one for one in findings_of("GA199", "featureGates: {AllAlpha: true}") if one[1] == "deny"]) == 4


def test_unknown_gate_is_warned_about(findings_of):
    assert findings_of("GA199", "featureGates: {DynamicMig: true}") == [
        (
            "spec.draDriver.featureGates.DynamicMig",
            "warn",
            ("is not a feature gate of DRA driver 0.5, which would exit with: unrecognized feature gate: DynamicMig"),
            "write DynamicMIG",
        )
    ]


def test_shares_take_a_gate_and_a_variable(findings_of):
    variable = "gpus: {kubeletPlugin: {env: [{name: CONSUMABLE_SHARES, value: %s}]}}"
    gate = "featureGates: {ConsumableShares: true}"
    assert findings_of("GA199", f"{gate}, {variable % 'unlimited'}") == []
    assert findings_of("GA199", variable % "disabled") == []
    assert [one[1] for one in findings_of("GA199", gate)] == ["warn"]
    assert findings_of("GA199", variable % "memory")[0][:3] == (
        "spec.draDriver.gpus.kubeletPlugin.env[0].value",
        "deny",
        (
            "needs a feature gate; the DRA driver would exit with: invalid CLI flags: --consumable-shares requires feature gate "
            "ConsumableShares to be enabled"
        ),
    )


@pytest.mark.parametrize("value", ["mem", '"0"', '"-1"', '"1.5"', '""', '"10%"'])
def test_number_of_shares_that_the_driver_cannot_read_is_refused(findings_of, value):
    variable = f"gpus: {{kubeletPlugin: {{env: [{{name: CONSUMABLE_SHARES, value: {value}}}]}}}}"
    (found,) = findings_of("GA199", f"featureGates: {{ConsumableShares: true}}, {variable}")
    assert found[:2] == ("spec.draDriver.gpus.kubeletPlugin.env[0].value", "deny")
    assert f'invalid value for --consumable-shares: "{value.strip(chr(34))}" (must be ' in found[2]


def test_number_of_shares_passes(findings_of):
    variable = 'gpus: {kubeletPlugin: {env: [{name: CONSUMABLE_SHARES, value: "10"}]}}'
    assert findings_of("GA199", f"featureGates: {{ConsumableShares: true}}, {variable}") == []


def test_variable_without_a_value_makes_the_driver_exit(findings_of):
    (found,) = findings_of("GA199", "gpus: {kubeletPlugin: {env: [{name: CONSUMABLE_SHARES}]}}")
    assert found[1] == "deny"


def imex(plugin="hostManaged", controller="hostManaged", gate="true", name="IMEX_MODE", more=""):
    """A draDriver whose parts for ComputeDomains have a variable, and a gate; `None` leaves a variable out."""
    parts = [
        f"{part}: {{env: [{{name: {name}, value: {value}}}]}}"
        for part, value in (("kubeletPlugin", plugin), ("controller", controller))
        if value is not None
    ]
    return f"featureGates: {{HostManagedIMEXDaemon: {gate}}}, computeDomains: {{{', '.join(parts)}}}{more}"


PLUGIN_ENV = "spec.draDriver.computeDomains.kubeletPlugin.env[0].value"
IMEX_EXIT = "the DRA driver would exit with: imex configuration validation failed: "


@pytest.mark.parametrize("spec", [imex(), imex("driverManaged", "driverManaged", "false"), imex(None, None, "false")])
def test_imex_daemons_of_hosts_or_of_the_driver_pass(findings_of, spec):
    assert findings_of("GA199", spec) == []


def test_imex_daemons_of_hosts_need_a_gate(findings_of):
    found = findings_of("GA199", imex(gate="false"))
    assert [one[1] for one in found] == ["deny", "deny"]
    assert (
        PLUGIN_ENV,
        "deny",
        IMEX_EXIT + 'imex.mode="hostManaged" requires the HostManagedIMEXDaemon feature gate to be enabled',
        "write featureGates: {HostManagedIMEXDaemon: true}",
    ) in found


def test_unknown_imex_mode_is_refused(findings_of):
    found = findings_of("GA199", imex("hostmanaged"))
    assert found[0] == (PLUGIN_ENV, "deny", IMEX_EXIT + 'unknown imex.mode "hostmanaged"', 'write "hostManaged"')


def test_imex_channels_of_their_own_are_refused(findings_of):
    found = findings_of("GA199", imex("channel", None, "false", "IMEX_ISOLATION"))
    assert [one[:2] for one in found] == [(PLUGIN_ENV, "deny")]
    assert found[0][2].startswith(IMEX_EXIT + 'imex.isolation="channel" is not supported yet')


def test_variables_of_newer_drivers_only_warn_for_an_older_one(findings_of):
    found = findings_of("GA199", imex(gate="false", more=", version: v0.4.1"))
    assert {one[1] for one in found} == {"warn"}


def test_gate_for_imex_daemons_of_hosts_without_the_mode_is_warned_about(findings_of):
    (found,) = findings_of("GA199", imex(None, None))
    assert found[:2] == ("spec.draDriver.featureGates.HostManagedIMEXDaemon", "warn")


def test_imex_daemons_of_hosts_in_one_part_only_are_warned_about(findings_of):
    (found,) = findings_of("GA199", imex(controller=None))
    assert found[:2] == (PLUGIN_ENV, "warn")
    assert found[3] == "add {name: IMEX_MODE, value: hostManaged} to draDriver.computeDomains.controller.env"


def test_shares_beside_mps_are_warned_about(findings_of):
    found = findings_of("GA199", "featureGates: {ConsumableShares: true, MPSSupport: true}")
    assert "excludes MPSSupport: a GPU whose shares are handed out cannot be shared by MPS" in [one[2] for one in found]


def ports(gpus, domains, more=""):
    plugins = [f"{name}: {{kubeletPlugin: {{healthcheck: {{{check}}}}}}}" for name, check in (("gpus", gpus),)]
    return ", ".join([*plugins, f"computeDomains: {{{more}kubeletPlugin: {{healthcheck: {{{domains}}}}}}}"])


def test_equal_ports_are_refused(findings_of):
    assert findings_of("GA199", ports("port: 51600", "port: 51600")) == [
        (
            "spec.draDriver.computeDomains.kubeletPlugin.healthcheck.port",
            "deny",
            "is 51600, and so is that of gpus in the same pod; the second could not listen on it",
            "write 51515, or leave it out",
        )
    ]


def test_port_that_is_the_others_default_is_refused(findings_of):
    assert findings_of("GA199", ports("port: 51515", ""))[0][0] == "spec.draDriver.gpus.kubeletPlugin.healthcheck.port"


@pytest.mark.parametrize(
    "spec",
    [
        ports("", ""),
        ports("port: 51600", "port: 51601"),
        ports("port: 51600", "port: 51600, enabled: false"),
        ports("port: 51600", "port: 51600", "enabled: false, "),
    ],
)
def test_ports_that_do_not_collide_are_fine(findings_of, spec):
    assert findings_of("GA199", spec) == []


def test_deletion_is_not_examined(examined):
    assert examined("# operation: DELETE\n" + HEAD % "featureGates: {Nonsense: true}" + "\n---\n" + POLICY) == ()
