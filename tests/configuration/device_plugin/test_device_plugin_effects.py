"""Effects of a device-plugin ConfigMap: ignored settings, renamed resources, plugins that must restart."""

import pytest

from policies.rules.decision import Severity
from tests.configuration.device_plugin.config_maps import (
    FOR_ITSELF,
    GPU,
    config_map,
    labelled,
    node,
    pod,
    policy,
    quota,
    sliced,
)

USUAL = {
    "failOnInitError": True,
    "mpsRoot": "/run/nvidia/mps",
    "nvidiaDriverRoot": "/",
    "plugin": {"passDeviceSpecs": False, "deviceListStrategy": ["envvar"], "deviceIDStrategy": "uuid"},
}


def test_flags_that_the_operator_sets_may_say_what_is_usual(findings_of):
    assert findings_of(config_map(any=sliced(flags=USUAL)), policy()) == []


@pytest.mark.parametrize(
    ("flags", "path", "shown", "variable"),
    [
        ({"failOnInitError": False}, "failOnInitError", "false", "FAIL_ON_INIT_ERROR"),
        ({"mpsRoot": "/mps"}, "mpsRoot", '"/mps"', "MPS_ROOT"),
        ({"plugin": {"deviceIDStrategy": "index"}}, "plugin.deviceIDStrategy", '"index"', "DEVICE_ID_STRATEGY"),
        (
            {"plugin": {"deviceListStrategy": ["envvar", "cdi-cri"]}},
            "plugin.deviceListStrategy",
            '["envvar", "cdi-cri"]',
            "DEVICE_LIST_STRATEGY",
        ),
        # The plugin would exit at these, but never validates them.
        ({"plugin": {"deviceIDStrategy": "name"}}, "plugin.deviceIDStrategy", '"name"', "DEVICE_ID_STRATEGY"),
        ({"plugin": {"deviceListStrategy": "cdi"}}, "plugin.deviceListStrategy", '"cdi"', "DEVICE_LIST_STRATEGY"),
    ],
)
def test_flags_that_the_operator_sets_warn(findings_of, flags, path, shown, variable):
    document = config_map(labels=FOR_ITSELF, any=sliced(flags=flags))
    expected = (
        f"data.any.flags.{path}: is {shown}, but the operator sets {variable} for the device plugin, which wins over the "
        f"file; remove it, or set {variable} in spec.devicePlugin.env of the ClusterPolicy"
    )
    assert findings_of(document, policy()) == [("GA141", Severity.WARN, expected)]
    assert not any(rule == "GA141" for rule, *_ in findings_of(document))


def test_unknown_mig_strategies_only_warn_where_the_cluster_policy_has_one(findings_of):
    document = config_map(labels=FOR_ITSELF, any=sliced(flags={"migStrategy": "both"}))
    governed = findings_of(document, policy(mig={"strategy": "single"}))
    assert [found[:2] for found in governed] == [("GA141", Severity.WARN)]
    assert [found[:2] for found in findings_of(document)] == [("GA134", Severity.DENY)]


def test_fields_that_the_plugin_ignores_warn(findings_of):
    shared = {**GPU, "devices": [0], "rename": "nvidia.com/slice"}
    document = {**sliced(shared), "resources": {"gpus": [{"pattern": "*", "name": "a100"}], "mig": []}}
    assert [found[2] for found in findings_of(config_map(any=document), policy())] == [
        (
            "data.any.resources.gpus: is read and then ignored; the device plugin would log: Customizing the 'resources' "
            "field is not yet supported in the config. Ignoring...; remove it"
        ),
        (
            "data.any.sharing.timeSlicing.resources[0].devices: is read and then ignored; the device plugin would log: "
            "Customizing the 'devices' field in sharing.timeSlicing.resources is not yet supported in the config. "
            "Ignoring...; remove it; all devices are shared"
        ),
        (
            "data.any.sharing.timeSlicing.resources[0].rename: is read and then ignored; the device plugin would log: "
            "Setting the 'rename' field in sharing.timeSlicing.resources is not yet supported in the config. Ignoring...; "
            "remove it; renameByDefault: true names it nvidia.com/gpu.shared"
        ),
    ]


def test_fields_that_say_what_is_the_default_are_fine(findings_of):
    shared = {**GPU, "devices": "all", "rename": "nvidia.com/gpu.shared"}
    assert findings_of(config_map(any=sliced(shared, renameByDefault=True)), policy()) == []


@pytest.mark.parametrize(
    ("version", "count"), [("v0.17.1", 1), ("v0.19.4", 1), ("v0.20.0", 0), ("v1.0.0", 0), ("latest", 0)]
)
def test_larger_requests_with_mps_need_a_plugin_that_allows_them(findings_of, version, count):
    document = config_map(any=sliced(strategy="mps", failRequestsGreaterThanOne=False))
    expected = (
        "data.any.sharing.mps.failRequestsGreaterThanOne: is false, which the device plugin follows since v0.20; "
        f"spec.devicePlugin.version is {version}; remove it; with MPS a request for more than one share fails"
    )
    facts = policy(devicePlugin={"repository": "nvcr.io/nvidia", "image": "k8s-device-plugin", "version": version})
    assert findings_of(document, facts) == [("GA141", Severity.WARN, expected)] * count


@pytest.mark.parametrize(("version", "count"), [("v0.19.3", 1), ("v0.20.0", 0), ("latest", 0)])
def test_allocation_policy_needs_a_plugin_that_knows_it(findings_of, version, count):
    document = config_map(any={"flags": {"plugin": {"sharedDevicesAllocationPolicy": "packed"}}})
    facts = policy(devicePlugin={"repository": "nvcr.io/nvidia", "image": "k8s-device-plugin", "version": version})
    expected = (
        "data.any.flags.plugin.sharedDevicesAllocationPolicy: is ignored before v0.20 of the device plugin; "
        f"spec.devicePlugin.version is {version}; remove it"
    )
    assert findings_of(document, facts) == [("GA141", Severity.WARN, expected)] * count


RENAMED = config_map(any=sliced(renameByDefault=True))


def test_renaming_warns_of_pods_that_request_the_old_name(findings_of):
    expected = (
        "data.any.sharing.timeSlicing.renameByDefault: makes nvidia.com/gpu.shared of "
        'nvidia.com/gpu, which the pod "team-a/train" requests and could then not start again; '
        "request nvidia.com/gpu.shared in these pods, or write "
        "renameByDefault: false"
    )
    assert findings_of(RENAMED, policy(), node(), pod()) == [("GA142", Severity.WARN, expected)]
    assert findings_of(RENAMED, policy(), pod()) == [("GA142", Severity.WARN, expected)]


def test_renaming_warns_of_quotas_on_the_old_name(findings_of):
    expected = (
        "data.any.sharing.timeSlicing.renameByDefault: makes nvidia.com/gpu.shared of nvidia.com/gpu, which the "
        'ResourceQuota "team-a/gpus" does not limit; add requests.nvidia.com/gpu.shared to the quota'
    )
    old, new = {"requests.nvidia.com/gpu": 4}, {"requests.nvidia.com/gpu.shared": 4}
    assert findings_of(RENAMED, policy(), node(), quota(**old)) == [("GA142", Severity.WARN, expected)]
    assert findings_of(RENAMED, policy(), node(), quota(**old, **new)) == []


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [policy(), node()],
        [policy(), node(), pod(0)],
        [policy(), node(), pod(resource="nvidia.com/gpu.shared")],
        [policy(), node(), pod(phase="Succeeded")],
        [policy(), node(), pod(where="gpu-2")],
        [policy("other"), pod()],
        [policy("other"), labelled("other"), pod()],
    ],
    ids=["nothing", "no-pods", "none", "new-name", "ended", "other-node", "unused-key", "other-key"],
)
def test_renaming_does_not_warn_without_pods_of_the_old_name(findings_of, facts):
    document = {**RENAMED, "metadata": {**RENAMED["metadata"], "labels": FOR_ITSELF}}
    assert [found for found in findings_of(document, *facts) if found[0] == "GA142"] == []


ELSEWHERE = "keep these pods on nodes that do not share it: let label nvidia.com/device-plugin.config of their nodes select another key"
ONE = "request one in these pods"
SHARES_ALREADY = {"gpu.product": "Tesla-T4-SHARED", "gpu.compute.major": "7", "gpu.compute.minor": "5"}


@pytest.mark.parametrize(
    ("labels", "effect", "remedy"),
    [
        ({}, "when they start again, they get shares, several of which may be of one GPU", ELSEWHERE),
        (SHARES_ALREADY, "two shares of the same GPU compute no faster than one", ONE),
    ],
)
def test_pods_with_several_whole_gpus_should_stay_where_they_are_whole(findings_of, labels, effect, remedy):
    place = "data.any.sharing.timeSlicing.resources[0].name"
    expected = f'{place}: is shared, and the pod "team-a/train" requests more than one; {effect}; {remedy}'
    assert findings_of(config_map(), policy(), node(**labels), pod(2)) == [("GA142", Severity.WARN, expected)]


@pytest.mark.parametrize(("labels", "remedy"), [({"gpu.compute.major": "8"}, ELSEWHERE), (SHARES_ALREADY, ONE)])
@pytest.mark.parametrize(
    "shared", [sliced(failRequestsGreaterThanOne=True), sliced(strategy="mps")], ids=["slices", "mps"]
)
def test_pods_that_request_several_shares_get_a_warning_that_they_would_fail(findings_of, shared, labels, remedy):
    strategy = next(iter(shared["sharing"]))
    expected = (
        f'data.any.sharing.{strategy}.resources[0].name: is shared, and the pod "team-a/train" requests more than one; the '
        f"kubelet would refuse them with: maximum request size for shared resources is 1; {remedy}"
    )
    found = findings_of(config_map(any=shared), policy(), node(**labels), pod("2", where=""))
    assert found == [("GA142", Severity.WARN, expected)]


EIGHT = config_map(any=sliced({"name": "nvidia.com/gpu", "replicas": 8}))


def test_a_changed_configuration_in_use_needs_a_restart(findings_of):
    expected = (
        "data.any: is changed, and the device plugin reads it again only when it restarts; run kubectl rollout restart "
        "-n gpu-operator daemonset/nvidia-device-plugin-daemonset afterwards"
    )
    assert findings_of(EIGHT, policy(), before=config_map()) == [("GA144", Severity.WARN, expected)]
    assert findings_of(EIGHT, policy(""), labelled("any"), before=config_map()) == [("GA144", Severity.WARN, expected)]


@pytest.mark.parametrize("facts", [[policy("other")], [policy("other"), labelled("other")]], ids=["unknown", "unused"])
def test_changed_configuration_without_users_needs_no_restart(findings_of, facts):
    assert findings_of(EIGHT, *facts, before=config_map()) == []


def test_an_unchanged_configuration_needs_nothing(findings_of):
    assert findings_of(config_map(labels={"team": "ml"}), policy(), before=config_map()) == []


def test_a_new_config_map_without_what_is_selected_warns(findings_of):
    assert findings_of(config_map(four=sliced()), policy(), labelled("a100")) == [
        (
            "GA144",
            Severity.WARN,
            (
                'data: has no "any", which spec.devicePlugin.config.default of the ClusterPolicy names; the config manager '
                'would exit with: specified config  does not exist; add "any", or name one of "four" there'
            ),
        ),
        (
            "GA144",
            Severity.WARN,
            (
                'data: has no "a100", which the label nvidia.com/device-plugin.config of the node "gpu-1" names; the config '
                'manager would exit with: specified config a100 does not exist; add "a100", or label with one of "four"'
            ),
        ),
    ]
