"""Settings of placement: default wishes, and taints that GPU pods tolerate."""

import pytest

from policies.nvidia.wishes import Wish, WishError
from policies.rules.settings import TaintTolerated, WishDefault

NO_SETTING = "is unknown; write a setting that docs/settings.md lists"
EVERYWHERE = "is empty; remove it to mean every namespace"
NO_EXECUTE = (
    "is NoExecute, which no pod is made to tolerate: it would stay on a node that everything else has to leave; "
    "write the toleration into the pods that are meant to stay"
)
AUTOSCALED = (
    "with which an autoscaler marks nodes that it is about to start or to remove; pods that tolerate it would be sent "
    "where they cannot run; remove the entry"
)
STARTING = (
    "which is on nodes that are not set up yet, and tells the cluster autoscaler so; pods that tolerate it would be sent "
    "where they cannot run; remove the entry, and wait for the nodes"
)
EVERYBODYS = (
    'is "nvidia.com/gpu", which GPU pods of every converting namespace tolerate, whatever its value; '
    "taint nodes with another key to reserve them"
)


@pytest.mark.parametrize(
    ("placement", "problem"),
    [
        (None, ("", "is null; it must be a mapping; write its fields below it")),
        ({"unsatisfiable": "audit"}, (".unsatisfiable", 'is "audit"; write warn or deny')),
        ({"avoidSharedGPUs": "yes"}, (".avoidSharedGPUs", 'is "yes"; it must be true or false; write one of the two')),
        ({"avoidSharedGpus": True}, (".avoidSharedGpus", 'is unknown; write "avoidSharedGPUs"')),
        ({"wishes": {}}, (".wishes", "is a mapping; it must be a list; put a dash before each entry")),
        (
            {"wishes": ["H100"]},
            (".wishes[0]", 'is "H100"; it must be a mapping; write its fields below it'),
        ),
        (
            {"tolerations": [None]},
            (".tolerations[0]", "is null; it must be a mapping; write its fields below it"),
        ),
    ],
)
def test_setting_of_placement_is_checked(problems_of, placement, problem):
    path, sentence = problem
    assert problems_of({"placement": placement}) == [(f"spec.placement{path}", sentence)]


@pytest.mark.parametrize(
    ("word", "text"),
    [("product", "H100|A100"), ("product", ""), ("min-memory", "80GB"), ("family", "hoper"), ("memory", "8Gi")],
)
def test_wish_is_reported_as_for_annotations(problems_of, word, text):
    with pytest.raises(WishError) as refusal:
        Wish.check(word, text)
    step = f"[{word}]" if "-" in word else f".{word}"
    assert problems_of({"placement": {"wishes": [{"wish": {word: text}}]}}) == [
        (f"spec.placement.wishes[0].wish{step}", f"{refusal.value}; {refusal.value.remedy}")
    ]


def test_closest_word_is_reported(problems_of):
    ((_, sentence),) = problems_of({"placement": {"wishes": [{"wish": {"min-memroy": "8Gi"}}]}})
    assert sentence.endswith('; write "min-memory"')


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        ({}, ("", "is empty; write a wish such as product: H100*, or remove the entry")),
        ("H100*", ("", 'is "H100*"; it must be a mapping; write its fields below it')),
        ({"min-memory": 8}, ("[min-memory]", "is 8; it must be text; put it in quotes")),
        ({"min-compute-capability": 9.0}, ("[min-compute-capability]", "is 9.0; it must be text; put it in quotes")),
        ({"family": None}, (".family", "is null; it must be text; put it in quotes")),
        ({"family": ["hopper"]}, (".family", 'is a list; it must be text; write one value in quotes, such as "a"')),
    ],
)
def test_types_of_a_wish_are_checked(problems_of, wish, problem):
    path, sentence = problem
    assert problems_of({"placement": {"wishes": [{"wish": wish}]}}) == [
        (f"spec.placement.wishes[0].wish{path}", sentence)
    ]


@pytest.mark.parametrize("wish", [{"min-memory": "80Gi", "max-memory": "40Gi"}, {"product": "H100,!H100*"}])
def test_wish_that_contradicts_itself_is_refused(problems_of, wish):
    ((words, contradiction),) = Wish.of(wish).contradictions()
    assert problems_of({"placement": {"wishes": [{"wish": wish}]}}) == [
        (
            "spec.placement.wishes[0].wish",
            f"cannot be met: {contradiction}; change or remove {' or '.join(words)}",
        )
    ]


def test_every_word_of_a_wish_is_checked(problems_of):
    wish = {"min-driver": "yes", "min-memory": "80Gi", "max-memory": "8Gi", "sharing": "alone"}
    reported = [path for path, _ in problems_of({"placement": {"wishes": [{"wish": wish}]}})]
    assert reported == [f"spec.placement.wishes[0].wish{step}" for step in ("[min-driver]", ".sharing", "")]


LEAST, MOST = {"min-memory": "80Gi"}, {"max-memory": "40Gi"}
((_, LEAST_AND_MOST),) = Wish.of(LEAST | MOST).contradictions()


@pytest.mark.parametrize(
    ("defaults", "place", "others"),
    [
        pytest.param([(LEAST, ["*"]), (MOST, ["*"])], 0, "wishes[1]", id="everywhere"),
        pytest.param([(LEAST, ["*"]), (MOST, ["team-a"])], 1, "wishes[0]", id="in-one-of-all"),
        pytest.param([(LEAST, ["team-a", "team-b"]), (MOST, ["team-a"])], 1, "wishes[0]", id="in-one-of-two"),
        pytest.param(
            [({"family": "hopper"}, ["*"]), (MOST, ["*"]), (LEAST, ["team-*"])], 2, "wishes[1]", id="one-of-three"
        ),
        pytest.param(
            [(LEAST, ["*"]), (MOST, ["*"]), ({"sharing": "any"}, ["a"])], 0, "wishes[1]", id="where-a-third-holds"
        ),
    ],
)
def test_defaults_that_contradict_each_other_are_reported_once(problems_of, defaults, place, others):
    wishes = [{"wish": wish, "namespaces": namespaces} for wish, namespaces in defaults]
    assert problems_of({"placement": {"wishes": wishes}}) == [
        (
            f"spec.placement.wishes[{place}].wish",
            f"cannot be met together with {others}: {LEAST_AND_MOST}; change one of them",
        )
    ]


def test_every_two_defaults_that_contradict_each_other_are_reported(problems_of):
    pairs = [(LEAST, ["a"]), (MOST, ["a"]), (LEAST, ["b"]), (MOST, ["b"])]
    wishes = [{"wish": wish, "namespaces": namespaces} for wish, namespaces in pairs]
    reported = problems_of({"placement": {"wishes": wishes}})
    assert [path for path, _ in reported] == ["spec.placement.wishes[0].wish", "spec.placement.wishes[2].wish"]


@pytest.mark.parametrize(
    "defaults",
    [
        pytest.param([(LEAST, ["team-a"]), (MOST, ["team-b"])], id="elsewhere"),
        pytest.param([(LEAST, ["*"]), (MOST, ["a"]), ({"min-memory": "8Gi"}, ["a"])], id="overridden"),
        pytest.param([(LEAST, ["team-*"]), (MOST, ["*-a"])], id="patterns-that-may-meet"),
    ],
)
def test_defaults_that_need_not_meet_are_accepted(problems_of, defaults):
    wishes = [{"wish": wish, "namespaces": namespaces} for wish, namespaces in defaults]
    assert problems_of({"placement": {"wishes": wishes}}) == []


def test_default_needs_a_wish(problems_of):
    assert problems_of({"placement": {"wishes": [{"product": "H100"}]}}) == [
        ("spec.placement.wishes[0].wish", "is missing; write it"),
        ("spec.placement.wishes[0].product", NO_SETTING),
    ]


@pytest.mark.parametrize(
    ("section", "item"), [("wishes", {"wish": {"family": "hopper"}}), ("tolerations", {"key": "sku"})]
)
def test_namespaces_are_not_empty(problems_of, section, item):
    assert problems_of({"placement": {section: [item, {**item, "namespaces": []}]}}) == [
        (f"spec.placement.{section}[1].namespaces", EVERYWHERE)
    ]


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "sku"},
        {"key": "example.com/gpu-team", "value": "a", "effect": "PreferNoSchedule", "namespaces": ["team-a"]},
        {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot"},
        {"key": "nvidia.com/gpu"},
        {"key": "nvidia.com/gpu", "namespaces": ["*"], "value": ""},
        {"key": "nvidia.com/gpu", "value": "team-a", "effect": "PreferNoSchedule", "namespaces": ["team-a"]},
        {"key": "sku", "value": "A.b_c-1"},
    ],
)
def test_taint_is_accepted(problems_of, taint):
    assert problems_of({"placement": {"tolerations": [taint]}}) == []


@pytest.mark.parametrize(
    ("taint", "problem"),
    [
        ({"effect": "NoExecute"}, ("effect", NO_EXECUTE)),
        ({"effect": "noschedule"}, ("effect", 'is "noschedule"; write NoSchedule or PreferNoSchedule')),
        ({"effect": ""}, ("effect", 'is ""; write NoSchedule or PreferNoSchedule')),
        ({"effect": None}, ("effect", "is null; write NoSchedule or PreferNoSchedule")),
        ({"operator": "Exists"}, ("operator", NO_SETTING)),
        ({"key": ""}, ("key", "is empty, which would stand for every taint; write the key of one taint")),
        ({"key": 1}, ("key", "is 1; it must be text; put it in quotes")),
        (
            {"key": "my taint"},
            ("key", 'is "my taint"; write a name such as nvidia.com/gpu or dedicated'),
        ),
        ({"key": "a/b/c"}, ("key", 'is "a/b/c"; write a name such as nvidia.com/gpu or dedicated')),
        (
            {"key": "sku=gpu:NoSchedule"},
            (
                "key",
                'is "sku=gpu:NoSchedule", as kubectl spells a taint; write key: sku, value: gpu, effect: NoSchedule',
            ),
        ),
        (
            {"key": "example.com/gpu:NoSchedule"},
            (
                "key",
                (
                    'is "example.com/gpu:NoSchedule", as kubectl spells a taint; write key: example.com/gpu, '
                    "effect: NoSchedule"
                ),
            ),
        ),
        ({"key": "sku=gpu"}, ("key", 'is "sku=gpu", as kubectl spells a taint; write key: sku, value: gpu')),
        (
            {"value": "a b"},
            (
                "value",
                (
                    'is "a b"; write at most 63 letters, digits, dashes, dots and underscores, with a '
                    "letter or digit at both ends"
                ),
            ),
        ),
        ({"value": True}, ("value", "is true; it must be text; put it in quotes")),
    ],
)
def test_taint_is_checked(problems_of, taint, problem):
    field, sentence = problem
    assert problems_of({"placement": {"tolerations": [{"key": "sku", **taint}]}}) == [
        (f"spec.placement.tolerations[0].{field}", sentence)
    ]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (
            "node.kubernetes.io/not-ready",
            (
                "which Kubernetes sets on nodes that are not ready, cordoned, or short of memory, disk or processes; pods "
                "that tolerate it would be sent where they cannot run; remove the entry, and have the nodes repaired"
            ),
        ),
        (
            "node.cloudprovider.kubernetes.io/uninitialized",
            (
                "which is on nodes that their cloud has not set up yet or has shut down; pods that tolerate it would be "
                "sent where they cannot run; remove the entry, and wait for the nodes"
            ),
        ),
        (
            "node-role.kubernetes.io/control-plane",
            (
                "which sets nodes apart for a role, such as the control plane, and not for GPUs; remove the entry, and "
                "taint GPU nodes with nvidia.com/gpu or a key of your own"
            ),
        ),
        ("karpenter.sh/disrupted", AUTOSCALED),
        ("startup-taint.cluster-autoscaler.kubernetes.io/driver", STARTING),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/driver", STARTING),
        (
            "status-taint.cluster-autoscaler.kubernetes.io/repair",
            (
                "which is on nodes that take no pods for a while, and tells the cluster autoscaler so; pods that tolerate "
                "it would be sent where they cannot run; remove the entry, and wait for the nodes"
            ),
        ),
        (
            "node.cilium.io/agent-not-ready",
            (
                "which is on nodes where Cilium has not set up the network yet; pods that tolerate it would be sent where "
                "they cannot run; remove the entry, and wait for the nodes"
            ),
        ),
        ("ToBeDeletedByClusterAutoscaler", AUTOSCALED),
        ("DeletionCandidateOfClusterAutoscaler", AUTOSCALED),
    ],
)
def test_taint_that_is_not_for_gpu_pods_is_refused(problems_of, key, why):
    assert problems_of({"placement": {"tolerations": [{"key": key}]}}) == [
        ("spec.placement.tolerations[0].key", f'is "{key}", {why}')
    ]


@pytest.mark.parametrize("narrower", [{"value": "team-a"}, {"namespaces": ["team-a"]}])
def test_taint_that_every_gpu_pod_tolerates_reserves_nothing(problems_of, narrower):
    assert problems_of({"placement": {"tolerations": [{"key": "nvidia.com/gpu", **narrower}]}}) == [
        ("spec.placement.tolerations[0].key", EVERYBODYS)
    ]


@pytest.mark.parametrize("of_namespaces", [lambda *each: WishDefault({}, each), lambda *each: TaintTolerated("a", namespaces=each)])  # fmt: skip
@pytest.mark.parametrize(
    ("patterns", "namespace", "holds"),
    [(["*"], "", True), (["a", "team-*"], "team-b", True), (["team-*"], "steam-b", False), (["A"], "a", False)],
)
def test_namespaces_of_placement_are_shell_patterns(of_namespaces, patterns, namespace, holds):
    assert of_namespaces(*patterns).holds_in(namespace) is holds
