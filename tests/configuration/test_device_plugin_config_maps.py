"""What a device-plugin ConfigMap means in its cluster: policies, nodes, pods and quotas that it meets."""

import json

import pytest

from policies.decision import Severity

GPU = {"name": "nvidia.com/gpu", "replicas": 4}


def sliced(resource=GPU, strategy="timeSlicing", flags=None, **fields):
    sharing = {strategy: {**fields, "resources": [resource]}}
    return {"version": "v1", **({"flags": flags} if flags else {}), "sharing": sharing}


def config_map(namespace="gpu-operator", name="time-slicing", labels=None, **configurations):
    data = {key.replace("_", "-"): json.dumps(value) for key, value in (configurations or {"any": sliced()}).items()}
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def policy(default="any", **spec):
    plugin = {"config": {"name": "time-slicing", "default": default}, **spec.pop("devicePlugin", {})}
    metadata = {"name": "cluster-policy"}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": metadata,
        "spec": {"devicePlugin": plugin, **spec},
    }


def node(name="gpu-1", **labels):
    found = {"nvidia.com/gpu.present": "true", **{f"nvidia.com/{key}": value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": found}}


def labelled(key, name="gpu-1", **labels):
    return node(name, **{"device-plugin.config": key, **labels})


def pod(amount=1, resource="nvidia.com/gpu", where="gpu-1", **status):
    container = {"name": "main", "resources": {"limits": {resource: amount}}}
    spec = {"containers": [container], **({"nodeName": where} if where else {})}
    metadata = {"name": "train", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def quota(**hard):
    metadata = {"name": "gpus", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def text(*documents, before=None):
    parts = [json.dumps(documents[0])]
    if before:
        parts.append(f"# before\n{json.dumps(before)}")
    return "\n--- ".join([parts[0], *parts[1:]]) + "".join(
        f"\n---\n{json.dumps(document)}" for document in documents[1:]
    )


@pytest.fixture
def findings_of(examined):
    def tell(*documents, before=None):
        return [(found.rule.id, found.severity, found.text) for found in examined(text(*documents, before=before))]

    return tell


FOR_ITSELF = {"gpu-admission.io/config": "device-plugin"}


def test_an_ordinary_config_map_gives_no_finding(findings_of):
    assert findings_of(config_map(), policy(), node(), pod(), quota(**{"requests.nvidia.com/gpu": 4})) == []


def test_the_example_of_the_documentation_gives_no_finding(findings_of):
    resources = [
        {"name": "nvidia.com/gpu", "replicas": 8},
        {"name": "nvidia.com/mig-1g.5gb", "replicas": 2},
        {"name": "nvidia.com/mig-2g.10gb", "replicas": 2},
    ]
    a100 = {"version": "v1", "flags": {"migStrategy": "mixed"}, "sharing": {"timeSlicing": {"resources": resources}}}
    t4 = sliced(flags={"migStrategy": "none"})
    facts = [
        labelled("a100-40gb", **{"mig.capable": "true"}),
        labelled("tesla-t4", "gpu-2", **{"mig.capable": "false"}),
    ]
    assert findings_of(config_map(a100_40gb=a100, tesla_t4=t4), policy("", mig={"strategy": "mixed"}), *facts) == []
    assert findings_of(config_map(a100_40gb=a100, tesla_t4=t4), policy("a100-40gb", mig={"strategy": "mixed"})) == []


def test_a_config_map_that_goes_away_is_not_judged_for_what_is_in_it(examined):
    broken = config_map(labels=FOR_ITSELF, any=sliced({"name": "nvidia.com/gpu", "replicas": 1}))
    assert examined(f"# operation: DELETE\n{json.dumps(broken)}") == ()


EXITS = "the device plugin would exit with"


def test_both_strategies_are_refused(findings_of):
    both = {"sharing": {"timeSlicing": {"resources": [GPU]}, "mps": {"resources": [GPU]}}}
    assert findings_of(config_map(any=both), policy()) == [
        (
            "GA137",
            Severity.DENY,
            (
                "data.any.sharing.timeSlicing: stands beside mps, and the device plugin silently takes mps; "
                "time-slicing has no effect; remove timeSlicing or mps; where different nodes are to have each, give each a "
                "key of its own"
            ),
        )
    ]


def test_mps_with_mixed_mig_in_the_file_is_refused(findings_of):
    assert findings_of(config_map(any=sliced(strategy="mps", flags={"migStrategy": "mixed"})), policy()) == [
        (
            "GA138",
            Severity.DENY,
            (
                f"data.any.flags.migStrategy: is mixed, and mps shares GPUs below; {EXITS}: using --mig-strategy=mixed is "
                "not supported with MPS; write none, or share by timeSlicing"
            ),
        )
    ]


def test_mps_with_mixed_mig_in_the_policy_is_refused(findings_of):
    assert findings_of(config_map(any=sliced(strategy="mps")), policy(mig={"strategy": "mixed"})) == [
        (
            "GA138",
            Severity.DENY,
            (
                "data.any.sharing.mps: cannot be while spec.mig.strategy of the ClusterPolicy is mixed; "
                f"{EXITS}: using --mig-strategy=mixed is not supported with MPS; share by timeSlicing, or write "
                "spec.mig.strategy: none"
            ),
        )
    ]


def test_the_policy_of_another_config_map_does_not_count(findings_of):
    mixed = policy(mig={"strategy": "mixed"}, devicePlugin={"config": {"name": "another"}})
    assert findings_of(config_map(labels=FOR_ITSELF, any=sliced(strategy="mps")), mixed) == []


def test_mps_of_a_mig_device_is_refused(findings_of):
    mig = sliced({"name": "nvidia.com/mig-1g.5gb", "replicas": 2}, "mps")
    assert findings_of(config_map(any=mig), policy()) == [
        (
            "GA138",
            Severity.DENY,
            (
                f"data.any.sharing.mps.resources[0].name: is nvidia.com/mig-1g.5gb; {EXITS}: sharing using MPS is not "
                "supported for MIG devices; share it by timeSlicing"
            ),
        )
    ]


@pytest.mark.parametrize("labels", [{"gpu.product": "NVIDIA-A30-MIG-1g.6gb"}, {"mig-1g.5gb.count": "7"}])
def test_mps_for_a_node_cut_by_mig_warns(findings_of, labels):
    assert findings_of(
        config_map(any=sliced(strategy="mps")), policy(), node(**labels, **{"gpu.compute.major": "8"})
    ) == [
        (
            "GA138",
            Severity.WARN,
            (
                'data.any.sharing.mps: is for the node "gpu-1" too, with GPUs cut by MIG; the device plugin fails there; '
                "share by timeSlicing, or give these nodes a configuration of their own"
            ),
        )
    ]


def with_capability(major, minor, name="gpu-1"):
    return node(name, **{"gpu.compute.major": major, "gpu.compute.minor": minor})


def mps(replicas):
    return config_map(any=sliced({"name": "nvidia.com/gpu", "replicas": replicas}, "mps"))


def test_more_mps_clients_than_any_gpu_serves_are_refused(findings_of):
    assert findings_of(mps(49), policy(), with_capability("9", "0")) == [
        (
            "GA139",
            Severity.DENY,
            (
                "data.any.sharing.mps.resources[0].replicas: is 49, and no GPU serves more than 48 MPS clients; the MPS "
                "control daemon would report: invalid device maximum allowed replicas exceeded: 49 > 48; write 48 or fewer"
            ),
        )
    ]


def test_a_v100_serves_as_few_mps_clients_as_the_code_says(findings_of):
    assert findings_of(mps(17), policy(), with_capability("7", "0"), with_capability("7", "5", "gpu-2")) == [
        (
            "GA139",
            Severity.DENY,
            (
                'data.any.sharing.mps.resources[0].replicas: is 17, and the node "gpu-1" with GPUs before Turing serves 16 '
                "MPS clients; the MPS control daemon would report: invalid device maximum allowed replicas exceeded: "
                "17 > 16; write 16 or fewer"
            ),
        )
    ]


@pytest.mark.parametrize(
    "facts", [[], [policy()], [policy(), node()]], ids=["nothing", "policy", "node-without-labels"]
)
def test_many_mps_clients_on_unknown_gpus_warn(findings_of, facts):
    document = {**mps(48), "metadata": {"name": "time-slicing", "namespace": "gpu-operator", "labels": FOR_ITSELF}}
    assert findings_of(document, *facts) == [
        (
            "GA139",
            Severity.WARN,
            (
                "data.any.sharing.mps.resources[0].replicas: is 48, which only GPUs since Turing (compute capability 7.5) "
                "serve; which GPUs this is for is not known here; write 16 or fewer where the GPU is older, a V100 for "
                "example"
            ),
        )
    ]


@pytest.mark.parametrize(("replicas", "capability"), [(16, ("7", "0")), (48, ("7", "5")), (48, ("10", "0"))])
def test_as_many_mps_clients_as_the_gpus_serve_are_fine(findings_of, replicas, capability):
    assert findings_of(mps(replicas), policy(), with_capability(*capability)) == []


def test_very_many_slices_warn(findings_of):
    many = config_map(any=sliced({"name": "nvidia.com/gpu", "replicas": 21}))
    assert findings_of(many, policy()) == [
        (
            "GA139",
            Severity.WARN,
            (
                "data.any.sharing.timeSlicing.resources[0].replicas: is 21; time-slicing isolates no memory, and that many "
                "pods on one GPU rarely fit into it; write 20 or fewer, unless every pod is known to need very little"
            ),
        )
    ]


NO_DEVICE = "the device plugin finds no device of that name and silently shares nothing"


@pytest.mark.parametrize(
    ("name", "severity", "expected"),
    [
        ("nvidia.com/gpus", Severity.DENY, f'is nvidia.com/gpus; {NO_DEVICE}; write "nvidia.com/gpu"'),
        (
            "nvidia.com/pgpu-a100-slices",
            Severity.WARN,
            (
                f"is nvidia.com/pgpu-a100-slices; {NO_DEVICE}; write nvidia.com/gpu, or nvidia.com/mig-<profile> with "
                "migStrategy mixed"
            ),
        ),
        (
            "gpu.shared",
            Severity.DENY,
            (
                f"is nvidia.com/gpu.shared, the name that a resource has after it is shared; {NO_DEVICE}; write "
                '"nvidia.com/gpu", with renameByDefault: true'
            ),
        ),
        (
            "nvidia.com/mig-1g5gb",
            Severity.DENY,
            (
                f"is nvidia.com/mig-1g5gb, which names no MIG profile; {NO_DEVICE}; write a profile as resources spell it, "
                "such as nvidia.com/mig-1g.10gb"
            ),
        ),
    ],
)
def test_resources_that_the_plugin_does_not_have_are_reported(findings_of, name, severity, expected):
    document = config_map(any=sliced({"name": name, "replicas": 2}))
    path = "data.any.sharing.timeSlicing.resources[0].name"
    assert findings_of(document, policy()) == [("GA140", severity, f"{path}: {expected}")]


def test_the_plus_of_a_profile_is_a_dot_in_names_of_resources(findings_of):
    document = config_map(any=sliced({"name": "nvidia.com/mig-1g.10gb+me", "replicas": 2}))
    assert findings_of(document, policy()) == [
        (
            "GA136",
            Severity.DENY,
            (
                'data.any.sharing.timeSlicing.resources[0].name: is "nvidia.com/mig-1g.10gb+me"; '
                f"{EXITS}: incorrect format for resource name 'nvidia.com/mig-1g.10gb+me'; write "
                '"nvidia.com/mig-1g.10gb.me"'
            ),
        )
    ]


@pytest.mark.parametrize(
    ("strategy", "remedy"),
    [
        ("none", "write the strategy mixed"),
        ("single", "write the strategy mixed, or nvidia.com/gpu, which a MIG device is under single"),
    ],
)
def test_mig_resources_without_the_mixed_strategy_warn(findings_of, strategy, remedy):
    document = config_map(any=sliced({"name": "nvidia.com/mig-1g.5gb", "replicas": 2}))
    assert findings_of(document, policy(mig={"strategy": strategy})) == [
        (
            "GA140",
            Severity.WARN,
            (
                "data.any.sharing.timeSlicing.resources[0].name: is nvidia.com/mig-1g.5gb, which there is only under the "
                f"MIG strategy mixed, and it is {strategy}; {NO_DEVICE}; {remedy}"
            ),
        )
    ]


def test_mig_resources_under_an_unknown_strategy_are_not_judged(findings_of):
    document = config_map(labels=FOR_ITSELF, any=sliced({"name": "nvidia.com/mig-1g.5gb", "replicas": 2}))
    assert findings_of(document) == []


def test_slices_of_mig_devices_under_single_are_noted(findings_of):
    cut = node(**{"gpu.product": "NVIDIA-A30-MIG-1g.6gb"})
    assert findings_of(config_map(), policy(mig={"strategy": "single"}), cut) == [
        (
            "GA140",
            Severity.AUDIT,
            (
                'data.any.sharing.timeSlicing.resources[0].name: slices every MIG device of the node "gpu-1", because '
                "under single these are nvidia.com/gpu; leave it so if MIG devices are to be shared"
            ),
        )
    ]


def test_a_strategy_that_contradicts_the_policy_is_refused(findings_of):
    assert findings_of(config_map(any=sliced(flags={"migStrategy": "mixed"})), policy(mig={"strategy": "single"})) == [
        (
            "GA141",
            Severity.DENY,
            (
                "data.any.flags.migStrategy: is mixed, and spec.mig.strategy of the ClusterPolicy is single, which wins; "
                "remove it, or write single"
            ),
        )
    ]


def test_no_strategy_where_nodes_can_do_mig_is_refused(findings_of):
    document, facts = config_map(any=sliced(flags={"migStrategy": "none"})), policy(mig={"strategy": "single"})
    assert findings_of(document, facts, node(**{"mig.capable": "true"})) == [
        (
            "GA141",
            Severity.DENY,
            (
                "data.any.flags.migStrategy: is none, and spec.mig.strategy of the ClusterPolicy is single, which wins; "
                'the node "gpu-1" can do MIG; remove it, or write single'
            ),
        )
    ]
    assert findings_of(document, facts, node(**{"mig.capable": "false"})) == []


def test_no_strategy_where_nodes_are_unknown_warns_of_the_default_only(findings_of):
    document, mig = config_map(any=sliced(flags={"migStrategy": "none"})), {"strategy": "single"}
    assert findings_of(document, policy(mig=mig)) == [
        (
            "GA141",
            Severity.WARN,
            (
                "data.any.flags.migStrategy: is none, and spec.mig.strategy of the ClusterPolicy is single, which wins; "
                "which nodes can do MIG is not known here; remove it, or write single"
            ),
        )
    ]
    assert findings_of(document, policy("", mig=mig)) == []


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_the_strategy_of_the_policy_may_be_repeated(findings_of, strategy):
    facts = policy(mig={"strategy": strategy})
    assert (
        findings_of(config_map(any=sliced(flags={"migStrategy": strategy})), facts, node(**{"mig.capable": "true"}))
        == []
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
    ],
)
def test_flags_that_the_operator_sets_warn(findings_of, flags, path, shown, variable):
    document = config_map(labels=FOR_ITSELF, any=sliced(flags=flags))
    expected = (
        f"data.any.flags.{path}: is {shown}, but the operator sets {variable} for the device plugin, which wins over the "
        f"file; remove it, or set {variable} in spec.devicePlugin.env of the ClusterPolicy"
    )
    assert findings_of(document, policy()) == [("GA141", Severity.WARN, expected)]
    assert findings_of(document) == []


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


RENAMED = config_map(any=sliced(renameByDefault=True))


def test_renaming_warns_of_pods_that_request_the_old_name(findings_of):
    expected = (
        "data.any.sharing.timeSlicing.renameByDefault: makes nvidia.com/gpu.shared of "
        'nvidia.com/gpu, and the pod "team-a/train" requests nvidia.com/gpu and could not '
        "start again where it is gone; let them request nvidia.com/gpu.shared, or write "
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
def test_renaming_hurts_nobody_else(findings_of, facts):
    document = {**RENAMED, "metadata": {**RENAMED["metadata"], "labels": FOR_ITSELF}}
    assert [found for found in findings_of(document, *facts) if found[0] == "GA142"] == []


def test_pods_that_request_several_shares_get_a_warning_of_what_they_get(findings_of):
    assert findings_of(config_map(), policy(), node(), pod(2)) == [
        (
            "GA142",
            Severity.WARN,
            (
                "data.any.sharing.timeSlicing.resources[0].name: is shared, and the pod "
                '"team-a/train" requests more than one; two shares can be of the same GPU and give '
                "no more than one; let them request one, and write failRequestsGreaterThanOne: true"
            ),
        )
    ]


@pytest.mark.parametrize(
    "shared", [sliced(failRequestsGreaterThanOne=True), sliced(strategy="mps")], ids=["slices", "mps"]
)
def test_pods_that_request_several_shares_get_a_warning_that_they_would_fail(findings_of, shared):
    strategy = next(iter(shared["sharing"]))
    assert findings_of(config_map(any=shared), policy(), node(**{"gpu.compute.major": "8"}), pod("2", where="")) == [
        (
            "GA142",
            Severity.WARN,
            (
                f'data.any.sharing.{strategy}.resources[0].name: is shared, and the pod "team-a/train" requests more than '
                "one; the kubelet would refuse them with: maximum request size for shared resources is 1; let them request "
                "one"
            ),
        )
    ]


EIGHT = config_map(any=sliced({"name": "nvidia.com/gpu", "replicas": 8}))


def test_a_changed_configuration_in_use_needs_a_restart(findings_of):
    expected = (
        "data.any: is changed, and the device plugin reads it again only when it restarts; run kubectl rollout restart "
        "-n gpu-operator daemonset/nvidia-device-plugin-daemonset afterwards"
    )
    assert findings_of(EIGHT, policy(), before=config_map()) == [("GA144", Severity.WARN, expected)]
    assert findings_of(EIGHT, policy(""), labelled("any"), before=config_map()) == [("GA144", Severity.WARN, expected)]


@pytest.mark.parametrize("facts", [[policy("other")], [policy("other"), labelled("other")]], ids=["unknown", "unused"])
def test_a_changed_configuration_that_nobody_uses_needs_nothing(findings_of, facts):
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
