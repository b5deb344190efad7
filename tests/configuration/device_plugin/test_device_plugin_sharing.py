"""Sharing in a device-plugin ConfigMap: time-slicing, MPS and MIG on the GPUs of the cluster."""

import json

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


def test_both_strategies_are_warned_about(findings_of):
    both = {"sharing": {"timeSlicing": {"resources": [GPU]}, "mps": {"resources": [GPU]}}}
    assert findings_of(config_map(any=both), policy()) == [
        (
            "GA137",
            Severity.WARN,
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


def test_mps_of_a_mig_device_is_ignored_with_a_warning(findings_of):
    mig = sliced({"name": "nvidia.com/mig-1g.5gb", "replicas": 2}, "mps")
    assert findings_of(config_map(any=mig), policy()) == [
        (
            "GA138",
            Severity.WARN,
            (
                "data.any.sharing.mps.resources[0].name: is nvidia.com/mig-1g.5gb, and MPS shares no MIG device; the device "
                "plugin finds no device of that name and silently shares nothing; share it by timeSlicing"
            ),
        )
    ]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.6gb"])
def test_mps_under_the_single_strategy_is_refused_for_a_node_cut_by_mig(findings_of, resource):
    labels = {"gpu.product": "NVIDIA-A30-MIG-1g.6gb", "gpu.count": "8", "gpu.compute.major": "8"}
    found = findings_of(
        config_map(any=sliced({"name": resource, "replicas": 2}, "mps")),
        policy(mig={"strategy": "single"}),
        node(**labels),
    )
    assert found[-1] == (
        "GA138",
        Severity.DENY,
        (
            f'data.any.sharing.mps: is for the node "gpu-1" too, with GPUs cut by MIG, where {EXITS}: sharing using MPS is '
            "not supported for MIG devices; share by timeSlicing, or give these nodes a configuration of their own"
        ),
    )


def test_resource_that_is_listed_twice_is_labelled_otherwise_than_it_is_shared(findings_of):
    resources = [{"name": "nvidia.com/gpu", "replicas": 2}, {"name": "gpu", "replicas": 4}]
    twice = {"version": "v1", "sharing": {"timeSlicing": {"resources": resources}}}
    assert findings_of(config_map(any=twice)) == [
        (
            "GA136",
            Severity.WARN,
            (
                "data.any.sharing.timeSlicing.resources[1].name: is nvidia.com/gpu again; the device plugin makes the larger "
                "number of shares, and the label of GPU Feature Discovery says 2; keep one entry of the resource"
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
                'data.any.sharing.mps: is for the node "gpu-1" too, with GPUs cut by MIG, where GPU Feature Discovery would '
                "exit with: MPS sharing is not supported for mig devices; share by timeSlicing, or give these nodes a configuration of their own"
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


@pytest.mark.parametrize(("capability", "warned"), [(("7", "0"), ["GA139"]), (("7", "5"), [])])
def test_before_a_node_selects_the_configuration_all_gpus_count(findings_of, capability, warned):
    document = {**mps(48), "metadata": {"name": "time-slicing", "namespace": "gpu-operator", "labels": FOR_ITSELF}}
    nodes = with_capability("9", "0"), with_capability(*capability, "gpu-2")
    assert [rule for rule, *_ in findings_of(document, *nodes)] == warned


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
    ("name", "expected"),
    [
        ("nvidia.com/gpus", f'is nvidia.com/gpus; {NO_DEVICE}; write "nvidia.com/gpu"'),
        (
            "nvidia.com/pgpu-a100-slices",
            (
                f"is nvidia.com/pgpu-a100-slices; {NO_DEVICE}; write nvidia.com/gpu, or nvidia.com/mig-<profile> with "
                "migStrategy mixed"
            ),
        ),
        (
            "gpu.shared",
            (
                f"is nvidia.com/gpu.shared, the name that a resource has after it is shared; {NO_DEVICE}; write "
                '"nvidia.com/gpu", with renameByDefault: true'
            ),
        ),
        (
            "nvidia.com/mig-1g5gb",
            (
                f"is nvidia.com/mig-1g5gb, which names no MIG profile; {NO_DEVICE}; write a profile as resources spell it, "
                "such as nvidia.com/mig-1g.10gb"
            ),
        ),
    ],
)
def test_resources_that_the_plugin_does_not_have_are_warned_about(findings_of, name, expected):
    document = config_map(any=sliced({"name": name, "replicas": 2}))
    path = "data.any.sharing.timeSlicing.resources[0].name"
    assert findings_of(document, policy()) == [("GA140", Severity.WARN, f"{path}: {expected}")]


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


def test_a_strategy_that_contradicts_the_policy_is_warned_about(findings_of):
    assert findings_of(config_map(any=sliced(flags={"migStrategy": "mixed"})), policy(mig={"strategy": "single"})) == [
        (
            "GA141",
            Severity.WARN,
            (
                "data.any.flags.migStrategy: is mixed, and spec.mig.strategy of the ClusterPolicy is single, which wins; "
                "remove it, or write single"
            ),
        )
    ]


def test_strategy_that_the_policy_cannot_have_is_not_proposed(findings_of):
    document = config_map(any=sliced(flags={"migStrategy": "mixed"}))
    assert findings_of(document, policy(mig={"strategy": "Mixed"})) == []


def test_no_strategy_where_nodes_can_do_mig_is_warned_about(findings_of):
    document, facts = config_map(any=sliced(flags={"migStrategy": "none"})), policy(mig={"strategy": "single"})
    assert findings_of(document, facts, node(**{"mig.capable": "true"})) == [
        (
            "GA141",
            Severity.WARN,
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
