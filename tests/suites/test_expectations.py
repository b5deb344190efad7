"""Each kind of expectation: met, and not met with a sentence at its place."""

from __future__ import annotations

import pytest
import yaml

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
REFUSED = {"nvidia.com/gpu.count": "8"}
COUNT = "spec.nodeSelector[nvidia.com/gpu.count]"


@pytest.mark.parametrize(
    "expect",
    [
        {"verdict": "admitted"},
        {"change": "converted"},
        {"findings": []},
        {"warnings": []},
        {"patched": {"spec": {"resourceClaims": [{"name": "gpu"}]}}},
        {"patched": {"spec": {"containers": [{"resources": {"limits": None}}]}}},
        {"patched": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": None}}}]}}},
        {"templates": [{"spec": {"spec": {"devices": {"requests": [{"exactly": {"count": 1}}]}}}}]},
        {"fits": {"verdict": "fits"}},
    ],
    ids=lambda expect: next(iter(expect)),
)
def test_expectation_that_is_met_passes(failures, expect):
    assert failures(expect) == []


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"verdict": "not reviewed"}, 'verdict: expected "not reviewed", got "admitted"'),
        ({"change": "none"}, 'change: expected "none", got "converted"'),
        ({"findings": [{"rule": "GA307"}]}, "findings[0]: no finding matches"),
        ({"warnings": ["x"]}, "warnings[0]: no such warning"),
        ({"patched": {"metadata": {"name": "t"}}}, 'patched.metadata.name: expected "t", got "train"'),
        ({"patched": {"spec": {"x": 1}}}, "patched.spec.x: expected 1, got no such field"),
        ({"patched": {"metadata": {"name": None}}}, 'patched.metadata.name: expected no such field, got "train"'),
        ({"templates": []}, "templates: expected 0, got 1: gpu-c6e64bdbb49dc79c"),
        (
            {"templates": [{"spec": {"spec": {"devices": {"requests": [{"exactly": {"count": 2}}]}}}}]},
            "templates[0].spec.spec.devices.requests[0].exactly.count: expected 2, got 1",
        ),
        (
            {"charges": {"all": 1}},
            "charges: namespace team-a has no GPUQuota or ClusterGPUQuota; add one to the files of cluster",
        ),
        (
            {"fits": {"verdict": "full", "nodes": []}},
            'fits.verdict: pod team-a/train: expected "full", got "fits": fits 3 of 9 nodes now, 18 replicas in all',
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else next(iter(part)),
)
def test_expectation_that_is_not_met_is_reported(failures, expect, said):
    assert said in failures(expect)


def test_list_needs_all_its_items(failures):
    assert failures({"patched": {"spec": {"tolerations": []}}}) == [
        'patched.spec.tolerations: expected [], got [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]'
    ]


def test_number_is_not_a_boolean(failures, pod):
    pod["spec"]["hostNetwork"] = True
    assert failures({"patched": {"spec": {"hostNetwork": 1}}}, manifest=pod) == [
        "patched.spec.hostNetwork: expected 1, got true"
    ]


def test_refusal_is_reported_with_its_reason(failures, pod):
    pod["spec"]["nodeSelector"] = REFUSED
    (said,) = failures({"verdict": "admitted"}, manifest=pod)
    assert said.startswith(
        'verdict: expected "admitted", got "refused": Remove nvidia.com/gpu.count from nodeSelector, '
    )
    assert said.endswith(f"; {COUNT} [GA307]")


@pytest.mark.parametrize(
    "finding",
    [
        {"rule": "GA307"},
        {"rule": "GA307", "severity": "deny"},
        {"rule": "GA307", "path": COUNT},
        {"rule": "GA307", "message": "counts the GPUs"},
    ],
    ids=lambda finding: [*finding][-1],
)
def test_finding_that_is_expected_passes(failures, pod, finding):
    pod["spec"]["nodeSelector"] = REFUSED
    assert failures({"verdict": "refused", "findings": [finding]}, manifest=pod) == []


@pytest.mark.parametrize(
    "finding",
    [
        {"rule": "GA307", "severity": "warn"},
        {"rule": "GA307", "path": "spec"},
        {"rule": "GA307", "message": "no such text"},
    ],
    ids=lambda finding: [*finding][-1],
)
def test_finding_that_differs_is_reported_beside_the_expected_one(failures, pod, finding):
    pod["spec"]["nodeSelector"] = REFUSED
    first, second = failures({"findings": [finding]}, manifest=pod)
    assert first.startswith("findings[0]: no finding matches; got deny Remove nvidia.com/gpu.count from nodeSelector, ")
    assert second.startswith("findings: not expected: deny Remove nvidia.com/gpu.count from nodeSelector, ")
    assert all(line.endswith(f"; {COUNT} [GA307]") for line in (first, second))


def test_special_finding_is_matched_before_a_general_one(failures, pod):
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    pod["spec"]["containers"] = [{"name": name, "image": "busybox", "env": env} for name in ("one", "two")]
    found = failures({"findings": []}, manifest=pod)
    assert [line.rpartition("[")[2] for line in found] == ["GA601]", "GA601]"]
    special = {"rule": "GA601", "path": "spec.containers[0].env[0].value"}
    assert failures({"findings": [{"rule": "GA601"}, special]}, manifest=pod) == []


def test_finding_that_is_not_listed_is_reported(failures, pod):
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100"}
    done = failures({"findings": []}, manifest=pod)
    assert [line.partition(": not expected: warn ")[0] for line in done] == ["findings"] * len(done) != []


def test_warning_is_matched_by_its_pattern(failures, pod):
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100"}
    shown = failures({"warnings": []}, manifest=pod)
    assert failures({"warnings": ["NVIDIA-H100"] * len(shown)}, manifest=pod) == []
    (said, *_) = failures({"warnings": ["^no such text$"] * len(shown)}, manifest=pod)
    assert said.startswith('warnings[0]: does not match the warning "Write ')


def test_nothing_is_patched_in_a_refused_object(failures, pod):
    pod["spec"]["nodeSelector"] = REFUSED
    assert failures({"patched": {"kind": "Pod"}}, manifest=pod) == ['patched.kind: expected "Pod", got no such field']


QUOTA = {"clusters": ("cluster", "cluster-with-quota"), "namespace": "team-vision"}


@pytest.fixture
def charged(failures, pod):
    """What fails of the charges of a pod of team-vision with one H100."""
    pod["metadata"]["namespace"] = "team-vision"
    pod["spec"]["nodeSelector"] = H100
    return lambda charges, **more: failures({"charges": charges}, manifest=pod, **{**QUOTA, **more})


def test_charges_are_amounts_as_a_quota_spells_them(charged):
    assert charged({"h100": 1, "memory": "81559Mi", "a100": 0}) == []


@pytest.mark.parametrize(
    ("charges", "said"),
    [
        ({"h100": 2, "memory": "81559Mi"}, "charges.h100: expected 2, got 1"),
        ({"h100": 1}, "charges: not expected: memory: 81559Mi"),
        (
            {"h100": 1, "memory": "81559Mi", "b200": 1},
            "charges.b200: no quota of the namespace has such a limit; there are h100, a100 and memory",
        ),
    ],
    ids=["another", "not-listed", "unknown"],
)
def test_charge_that_differs_is_reported(charged, charges, said):
    assert charged(charges) == [said]


@pytest.mark.parametrize(
    ("charges", "said"),
    [
        ({"h100": 1, "memory": "81559Mi"}, []),
        ({"research.vision/h100": 1, "h100": 1, "memory": "81559Mi"}, []),
        (
            {"research.vision/h100": 2, "h100": 1, "memory": "81559Mi"},
            ["charges[research.vision/h100]: expected 2, got 1"],
        ),
        ({"gpu/h100": 1, "memory": "81559Mi"}, ["charges: not expected: research.vision/h100: 1"]),
    ],
    ids=["both", "each", "another", "not-listed"],
)
def test_charges_of_the_group_of_the_namespace_are_compared_too(charged, folder, charges, said):
    spec = {"namespaceSelector": {}, "groupBy": "team", "limits": [{"name": "h100", "gpus": 100}]}
    quota = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "ClusterGPUQuota", "metadata": {"name": "research"}}
    team = {"metadata": {"name": "team-vision", "labels": {"team": "vision"}}}
    documents = [{**quota, "spec": spec}, {"apiVersion": "v1", "kind": "Namespace", **team}]
    (folder / "team.yaml").write_text(yaml.safe_dump_all(documents))
    assert charged(charges, clusters=(*QUOTA["clusters"], folder / "team.yaml")) == said


def test_amount_that_is_none_is_reported(charged):
    (said,) = charged({"h100": "many", "memory": "81559Mi"})
    assert said.startswith('charges.h100: is "many"; ')


def test_pods_of_a_workload_are_charged_together(failures, pod):
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {**pod["spec"], "nodeSelector": H100}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    assert failures({"charges": {"h100": 2, "memory": "163118Mi"}}, manifest=deployment, **QUOTA) == []


def test_nodes_are_all_nodes_that_fit(failures, pod):
    pod["spec"]["nodeSelector"] = H100
    assert failures({"fits": {"verdict": "fits", "nodes": ["gpu-h100-02", "gpu-h100-01"]}}, manifest=pod) == []
    assert failures({"fits": {"verdict": "fits", "nodes": ["gpu-h100-02"]}}, manifest=pod) == [
        "fits.nodes: pod team-a/train: expected gpu-h100-02, got gpu-h100-01 and gpu-h100-02"
    ]


def test_object_that_no_node_is_for_fits_nowhere(failures):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-x"}}
    assert failures({"fits": {"verdict": "fits"}}, manifest=namespace) == [
        "fits: only pods, workloads, claims and claim templates are placed on nodes; remove fits"
    ]
