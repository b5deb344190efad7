"""`review` of objects that waive findings: reported with the reason, and no failure."""

from __future__ import annotations

import json

import pytest

MISSPELT = {"nvidia.com/gpu.product": "NVIDIA-H100"}
IGNORE = "gpu-admission.io/ignore"


@pytest.fixture
def waiving(pod):
    """Make a pod that no node can run as it says, with waivers."""

    def make(waivers, name="train", **spec):
        document = pod(name, **{"nodeSelector": MISSPELT, **spec})
        document["metadata"]["annotations"] = {IGNORE: waivers}
        return document

    return make


@pytest.fixture
def warned(reviewed, write, waiving):
    """The rule that warns about the pod."""
    (result,) = reviewed(write("warned.yaml", waiving("")))
    (finding,) = result["findings"]
    return finding["rule"]


def test_waived_finding_is_one_line_with_its_reason(invoke, cluster, write, waiving, warned):
    file = write("pod.yaml", waiving(f"{warned} because the GPUs arrive on Monday"))
    done = invoke("review", "--cluster", cluster, "--no-diff", file)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "pod.yaml:1  Pod team-a/train  admitted, converted",
        f"  {warned} warn  pod.yaml:16:29  waived because the GPUs arrive on Monday",
        done.stdout.splitlines()[2],
        "",
        "1 object: 1 admitted (1 with waived findings, 1 converted)",
    ]


def test_json_has_the_reason_and_no_warning(reviewed, write, waiving, warned):
    (result,) = reviewed(write("pod.yaml", waiving(f"{warned} because x")))
    assert [(each["rule"], each["severity"], each["waived"]) for each in result["findings"]] == [(warned, "warn", "x")]
    assert result["warnings"] == []


def test_sarif_suppresses_waived_findings_with_the_reason(invoke, cluster, write, waiving, warned):
    done = invoke("review", "--cluster", cluster, "-o", "sarif", write("pod.yaml", waiving(f"{warned} because x")))
    (result,) = json.loads(done.stdout)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == (warned, "note")
    assert result["suppressions"] == [{"kind": "inSource", "justification": "x"}]


@pytest.mark.parametrize(
    ("output", "level", "reason"),
    [("github", "::notice ", "%0AWaived because x%0A"), ("junit", ": note: ", "(waived because x)")],
)
def test_other_forms_have_waived_findings_as_notes_with_the_reason(
    invoke, cluster, write, waiving, warned, output, level, reason
):
    done = invoke("review", "--cluster", cluster, "-o", output, write("pod.yaml", waiving(f"{warned} because x")))
    (line,) = (line for line in done.stdout.splitlines() if reason in line)
    assert level in line


def test_waived_finding_is_not_in_a_baseline(invoke, cluster, write, waiving, warned, folder):
    file = write("pod.yaml", waiving(f"{warned} because x"))
    invoke("review", "--cluster", cluster, "--baseline", "known.yaml", "--update-baseline", file)
    assert warned not in (folder / "known.yaml").read_text()


@pytest.mark.parametrize(
    ("waivers", "expected"),
    [("{rule} because x", 0), ("{rule}", 1), ("{rule} because x; GA999 because x", 1), ("GA601 because x", 1)],
    ids=["waived", "no reason", "unknown rule", "another rule"],
)
def test_waived_warnings_fail_no_review(invoke, cluster, write, waiving, warned, waivers, expected):
    file = write("pod.yaml", waiving(waivers.format(rule=warned)))
    assert invoke("review", "--cluster", cluster, "--fail-on", "warn", file).exit_code == expected


def test_quiet_review_counts_waived_findings(invoke, cluster, write, waiving, warned):
    file = write("pod.yaml", waiving(f"{warned} because x"))
    done = invoke("review", "--cluster", cluster, "--quiet", file)
    assert done.stdout == "1 object: 1 admitted (1 with waived findings, 1 converted)\n"


def test_waiver_of_a_refusal_is_a_warning_beside_it(invoke, cluster, write, waiving):
    file = write("pod.yaml", waiving("GA307 because x", nodeSelector={"nvidia.com/gpu.count": "8"}))
    done = invoke("review", "--cluster", cluster, file)
    assert done.exit_code == 1
    assert "GA307 is a refusal and cannot be ignored" in done.stdout


def test_waiver_that_matches_nothing_is_a_warning(reviewed, write, waiving):
    (result,) = reviewed(write("pod.yaml", waiving("GA404 because x", nodeSelector={})))
    assert [(each["rule"], each["severity"], each["message"]) for each in result["findings"]] == [
        ("GA709", "warn", "GA404 matches no finding")
    ]


def test_waiver_that_matches_nothing_fails_no_review_without_a_cluster(invoke, write, waiving):
    document = waiving("GA404 because x; GA324 because CI has no cluster", nodeSelector={})
    done = invoke("review", "--fail-on", "warn", write("pod.yaml", document))
    assert done.exit_code == 0
    assert "GA709 audit" in done.stdout


def workload(metadata, template, pod):
    labels = {"app": "train"}
    template = {"metadata": {"labels": labels, "annotations": template}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "train", "namespace": "team-a", "annotations": metadata}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("place", ["metadata", "template"])
def test_workload_and_its_pod_template_waive_findings_on_pods(reviewed, write, waiving, warned, place):
    places = {"metadata": {}, "template": {}, place: {IGNORE: f"{warned} because x"}}
    (result,) = reviewed(write("deployment.yaml", workload(**places, pod=waiving(""))))
    assert [(each["rule"], each["waived"]) for each in result["findings"]] == [(warned, "x")]


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("metadata", "metadata.annotations[gpu-admission.io/ignore]"),
        ("template", "spec.template.metadata.annotations[gpu-admission.io/ignore]"),
    ],
)
def test_unmatched_waiver_of_a_workload_has_its_place(reviewed, write, waiving, place, path):
    places = {"metadata": {}, "template": {}, place: {IGNORE: "GA404 because x"}}
    (result,) = reviewed(write("deployment.yaml", workload(**places, pod=waiving("", nodeSelector={}))))
    assert [(each["rule"], each["path"]) for each in result["findings"]] == [("GA709", path)]


def test_unmatched_waiver_that_settings_deny_refuses_the_object(invoke, cluster, write, waiving):
    policy = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    settings = write("settings.yaml", {**policy, "spec": {"rules": [{"rule": "GA709", "severity": "deny"}]}})
    file = write("pod.yaml", waiving("GA404 because x", nodeSelector={}))
    done = invoke("review", "--cluster", cluster, "--settings", settings, file)
    assert (done.exit_code, "pod.yaml:1  Pod team-a/train  refused" in done.stdout) == (1, True)


def test_object_that_is_not_reviewed_is_not_reported_for_its_waivers(reviewed, write, waiving):
    document = waiving("GA404 because x", nodeSelector={})
    document["metadata"]["namespace"] = "kube-system"
    (result,) = reviewed(write("pod.yaml", document))
    assert "GA709" not in {each["rule"] for each in result["findings"]}


def test_waived_mention_of_gpus_does_not_change_the_exit_code(invoke, cluster, write):
    thing = {"apiVersion": "example.com/v1", "kind": "Train", "metadata": {"name": "a", "namespace": "team-a"}}
    thing["spec"] = {"resources": {"nvidia.com/gpu": 1}}
    assert invoke("review", "--cluster", cluster, write("a.yaml", thing)).exit_code == 4
    thing["metadata"]["annotations"] = {IGNORE: "GA705 because its pods are reviewed"}
    assert invoke("review", "--cluster", cluster, write("b.yaml", thing)).exit_code == 0


def test_hostile_annotation_has_a_short_answer(invoke, cluster, write, waiving):
    done = invoke("review", "--cluster", cluster, write("pod.yaml", waiving("\x1b[2J;" * 50_000, nodeSelector={})))
    said = "Warning: Shorten gpu-admission.io/ignore: it has 250,000 characters and at most 4,096 are read"
    assert said in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout.partition("---")[0]
