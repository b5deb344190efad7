"""Labels of nodes: configurations that exist, cuts that are possible, pods in the way, workloads, reserved labels."""

import json

import pytest

from policies.request import UserInfo

MIG, PLUGIN = "nvidia.com/mig.config", "nvidia.com/device-plugin.config"
WORKLOAD, OWNER = "nvidia.com/gpu.workload.config", "nvidia.com/gpu-operator.driver.owner"
A100 = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/gpu.count": "2",
}
FILE = """version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]
  ninth: [{devices: [0, 9], mig-enabled: true, mig-devices: {3g.20gb: 2}}]
  too-much: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}]
  of-h100: [{device-filter: "0x233010DE", devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]
"""
STATE = "; nvidia.com/mig.config.state would become failed"


def node(name="gpu-1", **labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def policy(**spec):
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }


def config_map(name, **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "gpu-operator"},
        "data": data,
    }


def pod(name, place, resource="nvidia.com/gpu"):
    container = {"name": "main", "resources": {"limits": {resource: "1"}}}
    spec = {"nodeName": place, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


def mig(strategy="mixed", **spec):
    return policy(mig={"strategy": strategy}, **spec)


OWN = (mig(migManager={"config": {"name": "cuts"}}), config_map("cuts", **{"config.yaml": FILE}))
SHARING = (
    policy(devicePlugin={"config": {"name": "slices", "default": "any"}}),
    config_map("slices", any="version: v1", a100="version: v1"),
)


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA154", {label: value}, *cluster)`: severity, message and remedy of a rule's findings."""

    def tell(rule, labels, *cluster, before=None, user=""):
        parts = [json.dumps(part) for part in (node(**labels), *cluster)]
        if before is not None:
            parts.insert(1, f"# before\n{json.dumps(node(**before))}")
        text = "\n---".join([parts[0], *(f" {part}" if part.startswith("#") else f"\n{part}" for part in parts[1:])])
        found = examined(text, user=UserInfo(user))
        return [(str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell


# Names of configurations.


@pytest.mark.parametrize(
    ("labels", "cluster", "severity", "said", "remedy"),
    [
        (
            {MIG: "cuts"},
            OWN,
            "deny",
            f'"cuts" is the name of the ConfigMap itself, which has "halves", "ninth", "of-h100" and 2 more{STATE}',
            "write one of these",
        ),
        (
            {MIG: "halfs"},
            OWN,
            "deny",
            f'"halfs" is not a configuration of the ConfigMap "cuts", which has "halves", "ninth", "of-h100" and 2 more{STATE}',
            'write "halves"',
        ),
        (
            {MIG: "all-1g.5gb"},
            OWN,
            "deny",
            f'"all-1g.5gb" is not a configuration of the ConfigMap "cuts", which has "halves", "ninth", "of-h100" and 2 more{STATE}',
            "write one of these",
        ),
        (
            {MIG: "custom"},
            (mig(),),
            "deny",
            (
                '"custom" is not a configuration that the operator brings, and the ClusterPolicy names no ConfigMap in '
                f"migManager.config.name{STATE}"
            ),
            "define it in a mig-parted ConfigMap that migManager.config.name names",
        ),
        (
            {MIG: "all-9g.99gb"},
            (mig(),),
            "warn",
            (
                '"all-9g.99gb" is not a configuration that the operator brings, and what the MIG '
                "manager makes for this node is not known here"
            ),
            'write "all-7g.96gb"',
        ),
        (
            {MIG: "custom"},
            (),
            "warn",
            '"custom" is not a configuration that the operator brings, and the ClusterPolicy is not known here',
            "define it in a mig-parted ConfigMap that migManager.config.name names",
        ),
        (
            {MIG: "custom"},
            ({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicyList", "items": []},),
            "warn",
            '"custom" is not a configuration that the operator brings, and no ClusterPolicy is known here',
            "define it in a mig-parted ConfigMap that migManager.config.name names",
        ),
        (
            {MIG: "custom"},
            OWN[:1],
            "warn",
            f'"custom" is not a configuration that the operator brings, and the ConfigMap "cuts" is not known here{STATE}',
            "write the name of a configuration that exists",
        ),
        (
            {MIG: "custom"},
            (OWN[0], config_map("other")),
            "warn",
            f'"custom" is not a configuration that the operator brings, and the ConfigMap "cuts" does not exist{STATE}',
            "write the name of a configuration that exists",
        ),
        (
            {MIG: "custom"},
            (OWN[0], config_map("cuts", **{"config.yaml": "\t"})),
            "warn",
            f'"custom" is not a configuration that the operator brings, and the ConfigMap "cuts" cannot be read{STATE}',
            "write the name of a configuration that exists",
        ),
        (
            {MIG: "all-1g.5gb"},
            (mig(), config_map("gpu-1-mig-config", **{"config.yaml": FILE})),
            "deny",
            (
                '"all-1g.5gb" is not a configuration that the MIG manager made for this node, which has "halves", "ninth", '
                f'"of-h100" and 2 more{STATE}'
            ),
            "write one of these",
        ),
        (
            {MIG: "1g.10gb-2,3g.40gb-1"},
            (),
            "deny",
            '"1g.10gb-2,3g.40gb-1" cannot be the value of a label, and is to be the name of a configuration',
            "define a configuration in a mig-parted ConfigMap and write its name",
        ),
        (
            {PLUGIN: "slices"},
            SHARING,
            "deny",
            (
                '"slices" is the name of the ConfigMap itself, which has "a100", "any"; the device plugin would exit with: '
                "specified config slices does not exist"
            ),
            "write one of these",
        ),
        (
            {PLUGIN: "a10"},
            SHARING,
            "deny",
            (
                '"a10" is not a key of the ConfigMap "slices", which has "a100", "any"; the device '
                "plugin would exit with: specified config a10 does not exist"
            ),
            'write "a100"',
        ),
        (
            {PLUGIN: "slices"},
            SHARING[:1],
            "warn",
            '"slices" must be a key of the ConfigMap "slices", which is not known here',
            "write one of its keys",
        ),
        (
            {PLUGIN: "a100"},
            (SHARING[0], config_map("other")),
            "warn",
            '"a100" must be a key of the ConfigMap "slices", which does not exist',
            "write one of its keys",
        ),
        (
            {PLUGIN: "a100"},
            (policy(),),
            "warn",
            '"a100" is never read, because the ClusterPolicy names no ConfigMap in devicePlugin.config.name',
            "name a ConfigMap in the ClusterPolicy first",
        ),
    ],
)
def test_configuration_that_does_not_exist_is_reported(findings_of, labels, cluster, severity, said, remedy):
    assert findings_of("GA154", labels, *cluster) == [(severity, said, remedy)]


@pytest.mark.parametrize(
    ("labels", "cluster"),
    [
        ({MIG: "halves"}, OWN),
        ({MIG: "all-1g.5gb"}, (mig(),)),
        ({MIG: "all-1g.10gb.me"}, ()),
        ({MIG: "all-1g.5gb"}, OWN[:1]),
        ({MIG: "halves"}, (mig(), config_map("default-mig-parted-config", **{"config.yaml": FILE}))),
        ({MIG: ""}, OWN),
        ({PLUGIN: "a100"}, SHARING),
        ({PLUGIN: "a100"}, SHARING[:1]),
        ({PLUGIN: "a100"}, ()),
        ({PLUGIN: ""}, SHARING),
    ],
)
def test_configuration_that_exists_or_is_not_known_is_left_alone(findings_of, labels, cluster):
    assert findings_of("GA154", labels, *cluster) == []


# Only what changes is judged.


def test_label_that_stays_is_not_judged(examined, findings_of):
    labels = {MIG: "custom", PLUGIN: "a10", WORKLOAD: "vm"}
    for rule in ("GA154", "GA155", "GA156", "GA157"):
        assert findings_of(rule, {**labels, "other": "new"}, mig(), *SHARING[1:], before=labels) == []


def test_label_that_changes_is_judged(findings_of):
    assert findings_of("GA154", {PLUGIN: "a10"}, *SHARING, before={PLUGIN: "any"})[0][0] == "deny"


def test_label_that_goes_is_not_judged(findings_of):
    assert findings_of("GA154", {}, *SHARING, before={PLUGIN: "any"}) == []


def test_node_that_goes_is_not_judged(examined):
    parts = [json.dumps(part) for part in (node(**{PLUGIN: "a10"}), *SHARING)]
    text = "# operation: DELETE\n" + "\n---\n".join(parts)
    assert not [one for one in examined(text) if one.rule.id == "GA154"]


@pytest.mark.parametrize(
    "user",
    [
        "system:node:gpu-1",
        "system:serviceaccount:gpu-operator:gpu-operator",
        "system:serviceaccount:gpu-operator:nvidia-mig-manager",
        "system:serviceaccount:nvidia-gpu-operator:gpu-operator",
        "system:serviceaccount:node-feature-discovery:nfd-master",
        "system:serviceaccount:openshift-nfd:nfd-master",
    ],
)
def test_kubelets_and_operators_are_only_warned(findings_of, user):
    assert findings_of("GA154", {PLUGIN: "a10"}, *SHARING, user=user)[0][0] == "warn"


# What the GPUs allow.


@pytest.mark.parametrize(
    ("labels", "cluster", "severity", "said", "remedy"),
    [
        (
            {**A100, MIG: "all-3g.40gb"},
            (mig(),),
            "deny",
            (
                '"all-3g.40gb" requests 3g.40gb, which is not a profile of A100 40GB (1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, '
                f"7g.40gb){STATE}"
            ),
            'write "all-3g.20gb"',
        ),
        (
            {**A100, MIG: "all-7g.41gb"},
            (
                mig(),
                config_map(
                    "default-mig-parted-config",
                    **{
                        "config.yaml": FILE.replace("halves", "all-7g.41gb").replace(
                            "3g.20gb: 2}}]\n  ninth", "7g.41gb: 1}}]\n  ninth"
                        )
                    },
                ),
            ),
            "warn",
            (
                '"all-7g.41gb" requests 7g.41gb, which is called "7g.40gb" on A100 40GB; names '
                "differ by a little between drivers"
            ),
            'compare with what "nvidia-smi mig -lgip" lists on the node',
        ),
        (
            {**A100, MIG: "too-much"},
            OWN,
            "deny",
            f'"too-much" needs 9 of 8 memory slices of A100 40GB{STATE}',
            "write a configuration that suits the node",
        ),
        (
            {**A100, MIG: "ninth"},
            OWN,
            "deny",
            '"ninth" is for GPU 9, and the last of this node is 1; mig.config.state would become failed',
            "write a configuration that suits the node",
        ),
        (
            {"nvidia.com/gpu.product": "Tesla-T4", MIG: "all-1g.5gb"},
            (mig(),),
            "warn",
            '"all-1g.5gb" does nothing, because MIG cannot divide the GPUs of this node, Tesla-T4, and no MIG manager runs here',
            "remove the label",
        ),
        (
            {**A100, MIG: "all-1g.5gb"},
            (mig(migManager={"enabled": False}),),
            "warn",
            '"all-1g.5gb" does nothing, because the ClusterPolicy has migManager.enabled: false',
            "enable the MIG manager, or cut the GPUs yourself",
        ),
        (
            {**A100, MIG: "all-balanced"},
            (mig("single"),),
            "deny",
            (
                '"all-balanced" does not go with mig.strategy "single": it makes 1g.5gb, 2g.10gb, 3g.20gb; the device plugin would '
                "exit with: more than one MIG device type present on node"
            ),
            "write a configuration with one profile for all GPUs, or set mig.strategy: mixed in the ClusterPolicy",
        ),
        (
            {**A100, MIG: "all-1g.5gb"},
            (policy(),),
            "warn",
            '"all-1g.5gb" cuts GPUs, and mig.strategy of the ClusterPolicy is not set, so they are handed out as nothing',
            "set mig.strategy to single or mixed first",
        ),
        (
            {**A100, MIG: "all-1g.5gb", WORKLOAD: "vm-passthrough"},
            (mig(sandboxWorkloads={"enabled": True}),),
            "warn",
            (
                '"vm-passthrough" does not go with nvidia.com/mig.config: all-1g.5gb; machines get the whole GPUs of a node with '
                "vm-passthrough"
            ),
            "label the node nvidia.com/mig.config: all-disabled, or nvidia.com/gpu.workload.config: container",
        ),
        (
            {**A100, MIG: "all-1g.5gb"},
            (mig(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}),),
            "warn",
            '"all-1g.5gb" is to cut GPUs; machines get the whole GPUs of a node with vm-passthrough',
            "label the node nvidia.com/mig.config: all-disabled, or nvidia.com/gpu.workload.config: container",
        ),
    ],
)
def test_configuration_that_the_node_cannot_use_is_reported(findings_of, labels, cluster, severity, said, remedy):
    assert findings_of("GA155", labels, *cluster) == [(severity, said, remedy)]


def test_strategy_is_read_from_the_node_where_the_policy_is_not_known(findings_of):
    found = findings_of("GA155", {**A100, MIG: "all-balanced", "nvidia.com/mig.strategy": "single"})
    assert [one[0] for one in found] == ["deny"]


@pytest.mark.parametrize(
    ("labels", "cluster"),
    [
        ({**A100, MIG: "halves"}, OWN),
        ({**A100, MIG: "of-h100"}, OWN),
        ({**A100, MIG: "all-balanced"}, (mig(),)),
        ({**A100, MIG: "all-1g.5gb"}, (mig("single"),)),
        ({**A100, MIG: "all-disabled", WORKLOAD: "vm-passthrough"}, (policy(sandboxWorkloads={"enabled": True}),)),
        ({**A100, MIG: "all-1g.5gb", WORKLOAD: "vm-passthrough"}, (mig(sandboxWorkloads={"enabled": False}),)),
        ({"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-5000-Blackwell", MIG: "all-1g.24gb"}, (mig(),)),
        ({MIG: "all-3g.40gb"}, (mig(),)),
        ({**A100, MIG: "all-3g.20gb"}, ()),
        ({**A100, MIG: "ninth", "nvidia.com/gpu.count": "10"}, OWN),
        ({**A100, MIG: "ninth", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"}, OWN),
    ],
)
def test_configuration_that_the_node_can_use_is_left_alone(findings_of, labels, cluster):
    assert findings_of("GA155", labels, *cluster) == []


# Pods in the way.


@pytest.mark.parametrize(
    ("labels", "effect"),
    [
        ({MIG: "all-1g.5gb"}, '"all-1g.5gb" cuts GPUs anew, which fails while they are in use'),
        (
            {WORKLOAD: "vm-passthrough"},
            '"vm-passthrough" takes driver and device plugin of the present workload from the node',
        ),
    ],
)
def test_change_under_running_pods_is_warned_about(findings_of, labels, effect):
    pods = pod("a", "gpu-1"), pod("b", "gpu-1", "nvidia.com/mig-1g.5gb"), pod("c", "gpu-2"), pod("d", "gpu-1", "cpu")
    said = f'{effect}; GPUs of this node are held by 2 pods ("team/a", "team/b")'
    assert findings_of("GA156", labels, *pods, before={}) == [("warn", said, "drain the node first")]


@pytest.mark.parametrize("before", [None, {MIG: "all-1g.5gb"}])
def test_new_node_and_unchanged_label_are_not(findings_of, before):
    assert findings_of("GA156", {MIG: "all-1g.5gb"}, pod("a", "gpu-1"), before=before) == []


def test_change_of_an_empty_node_is_not(findings_of):
    assert findings_of("GA156", {MIG: "all-1g.5gb"}, pod("a", "gpu-2"), before={}) == []


# Workloads and reserved labels.


@pytest.mark.parametrize(
    ("value", "cluster", "applied", "remedy"),
    [
        ("passthrough", (), "the default", 'write "vm-passthrough"'),
        ("containers", (policy(sandboxWorkloads={"defaultWorkload": "vm-vgpu"}),), "vm-vgpu", 'write "container"'),
        ("kata", (), "the default", "write one of container, vm-passthrough, vm-vgpu"),
    ],
)
def test_unknown_workload_is_refused(findings_of, value, cluster, applied, remedy):
    said = f'"{value}" is not a workload that the operator knows; {applied} would apply, and only its log tells'
    assert findings_of("GA157", {WORKLOAD: value}, *cluster) == [("deny", said, remedy)]


@pytest.mark.parametrize("value", ["container", "vm-passthrough", "vm-vgpu", ""])
def test_known_workload_is_left_alone(findings_of, value):
    assert findings_of("GA157", {WORKLOAD: value}) == []


SANDBOX = {"sandboxWorkloads": {"enabled": True}, "vfioManager": {"enabled": True}}


def test_node_for_vgpus_without_their_manager_is_warned_of(findings_of):
    said = '"vm-vgpu" needs the vGPU Manager, which the ClusterPolicy does not enable; the node would get no driver'
    remedy = "enable vgpuManager in the ClusterPolicy with repository, image and version first"
    assert findings_of("GA157", {WORKLOAD: "vm-vgpu"}, policy(**SANDBOX)) == [("warn", said, remedy)]


@pytest.mark.parametrize(
    "spec", [{**SANDBOX, "vgpuManager": {"enabled": True}}, {**SANDBOX, "driver": {"useNvidiaDriverCRD": True}}, {}]
)
def test_node_for_vgpus_that_something_serves_is_left_alone(findings_of, spec):
    assert findings_of("GA157", {WORKLOAD: "vm-vgpu"}, policy(**spec)) == []


def test_reserved_label_is_left_to_the_operator(findings_of):
    said = (
        "says which NVIDIADriver a node belongs to and is the operator's to set; it would be overwritten, or believed"
    )
    assert findings_of("GA157", {OWNER: "mine"}, before={}, user="admin") == [("warn", said, "leave it as it is")]


def test_reserved_label_is_not_every_service_accounts_to_set(findings_of):
    assert (
        findings_of("GA157", {OWNER: "mine"}, before={}, user="system:serviceaccount:team-a:gpu-operator")[0][0]
        == "warn"
    )


@pytest.mark.parametrize("user", ["system:serviceaccount:gpu-operator:gpu-operator", "system:node:gpu-1"])
def test_reserved_label_is_the_operators_to_set(findings_of, user):
    assert findings_of("GA157", {OWNER: "mine"}, before={}, user=user) == []


def test_reserved_label_of_a_node_that_is_read_from_a_file_is_left_alone(findings_of):
    assert findings_of("GA157", {OWNER: "mine"}, user="admin") == []


def test_key_with_binary_data_is_a_configuration_of_the_device_plugin(findings_of):
    stored = {**config_map("slices"), "binaryData": {"packed": "dmVyc2lvbjogdjE="}}
    assert findings_of("GA154", {PLUGIN: "packed"}, SHARING[0], stored) == []
