"""Each case of a suite also goes through the compiled admission policies."""

import pytest
import yaml

DENY = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {"access": {"mode": "deny"}},
}


@pytest.fixture
def try_pod(run, folder):
    """The result of a case about a pod with an environment, whose verdict is expected."""

    def try_pod(env, verdict):
        (folder / "settings.yaml").write_text(yaml.safe_dump(DENY))
        containers = [{"name": "main", "image": "train", "env": env}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
        case = {"name": "case", "manifest": pod, "expect": {"verdict": verdict}}
        suite = {
            "apiVersion": "test.gpu-admission.io/v1alpha1",
            "kind": "Suite",
            "settings": "settings.yaml",
            "cases": [case],
        }
        (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
        return run("suite.yaml")

    return try_pod


def test_case_passes_if_rules_and_policies_agree(try_pod):
    assert try_pod([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "refused").exit_code == 0
    assert try_pod([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "admitted").exit_code == 0


def test_policies_are_not_tried_for_what_the_rules_refuse(try_pod):
    """The API server refuses this pod for its shape, before it evaluates a policy."""
    assert try_pod([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, "A=1"], "refused").exit_code == 0


def test_case_fails_if_a_policy_refuses_what_no_rule_refuses(try_pod):
    done = try_pod([{"name": "A", "value": "void"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "$(A)"}], "admitted")
    assert done.exit_code == 1
    assert (
        "cases[0].expect: the compiled policy access refuses it, and no rule does: request nvidia.com/gpu: 1"
        in done.output
    )
