"""`gpu-admission explain`: what it reads, what it looks up, what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.explain import Explanation, explain
from policies.kubernetes.objects import json_document
from policies.outcome import questions
from policies.rules.settings import DEFAULTS
from tests.cli.quota_files import EXAMPLES
from webhook.cli.explain.explanations import as_json, text
from webhook.cli.manifest_reader import ManifestReader
from webhook.cluster import lookups
from webhook.cluster.manifests import ManifestsView

MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'


def claim(count=1, name="gpu", namespace="team-a", expression="", kind="ResourceClaim"):
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "spec": spec if kind == "ResourceClaim" else {"spec": spec},
    }


@pytest.fixture
def deployment(pod):
    """Make a Deployment of team-a that requests GPUs."""

    def deployment(name="web", **gpus):
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"template": {"spec": pod(**gpus)["spec"]}},
        }

    return deployment


@pytest.fixture
def explained(invoke, cluster):
    """Explain against the cluster of the examples, as JSON."""

    def explained(*arguments, stdin=None):
        done = invoke("explain", "--cluster", cluster, "-o", "json", *arguments, stdin=stdin)
        assert done.exit_code in (0, 1), done.output
        return json.loads(done.stdout)

    return explained


def texts_of(explanations):
    return [(each["label"], each["verdict"], each["fitNow"], each["replicas"]) for each in explanations]


@pytest.mark.parametrize("as_option", [False, True])
def test_file_is_explained(explained, write, as_option):
    file = write("claim.yaml", claim(8))
    assert texts_of(explained(*(["-f", file] if as_option else [file]))) == [("ResourceClaim team-a/gpu", "fits", 2, 2)]


def test_pod_is_explained_as_it_would_be_converted(explained, write, pod):
    (found,) = explained(write("pod.yaml", pod(gpus=4)))
    assert texts_of([found]) == [("pod team-a/train", "fits", 2, 4)]
    assert found["convertedTo"].startswith("gpu-")


def test_template_is_explained(explained, write):
    file = write("template.yaml", claim(8, "gpus", kind="ResourceClaimTemplate"))
    assert texts_of(explained(file)) == [("ResourceClaimTemplate team-a/gpus", "fits", 2, 2)]


def test_standard_input_is_explained(explained):
    assert texts_of(explained("-", stdin=json.dumps(claim()))) == [("ResourceClaim team-a/gpu", "fits", 3, 18)]


def test_pod_finds_the_template_of_its_own_file(explained, write, pod):
    document = pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])
    document["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    file = write("both.yaml", document, claim(8, "gpus", kind="ResourceClaimTemplate"))
    assert [label for label, *_ in texts_of(explained(file))] == [
        "pod team-a/train",
        "ResourceClaimTemplate team-a/gpus",
    ]
    assert texts_of(explained(file))[0] == ("pod team-a/train", "fits", 2, 2)


def test_namespace_is_that_of_objects_that_name_none(explained, write):
    file = write("claim.yaml", claim(namespace=""))
    assert texts_of(explained("-n", "team-b", file))[0][0] == "ResourceClaim team-b/gpu"
    assert texts_of(explained(file))[0][0] == "ResourceClaim default/gpu"


@pytest.mark.parametrize("word", ["claim", "resourceclaims", "resourceclaim.resource.k8s.io"])
def test_claim_of_the_cluster_is_explained_by_its_name(explained, write, word):
    known = write("known.yaml", claim(8))
    assert texts_of(explained("--cluster", known, "-n", "team-a", f"{word}/gpu")) == [
        ("ResourceClaim team-a/gpu", "fits", 2, 2)
    ]


def test_pod_workload_and_template_of_the_cluster_are_explained_in_the_order_asked(explained, write, pod, deployment):
    known = write("known.yaml", deployment(), pod(), claim(name="gpus", kind="ResourceClaimTemplate"))
    asked = ("template/gpus", "deploy/web", "pod/train")
    assert [label for label, *_ in texts_of(explained("--cluster", known, "-n", "team-a", *asked))] == [
        "ResourceClaimTemplate team-a/gpus",
        "Deployment team-a/web",
        "pod team-a/train",
    ]


@pytest.mark.parametrize(
    ("asked", "labels"),
    [
        (("pod", "train"), ["pod team-a/train"]),
        (("deployments", "web", "web-2"), ["Deployment team-a/web", "Deployment team-a/web-2"]),
        (("train",), ["pod team-a/train"]),
        (("web-2", "claim/train-gpu"), ["Deployment team-a/web-2", "ResourceClaim team-a/train-gpu"]),
    ],
)
def test_kind_and_names_are_separate_words_or_the_kind_is_found(explained, write, pod, deployment, asked, labels):
    known = write("known.yaml", deployment(), deployment("web-2"), pod(), claim(name="train-gpu"))
    assert [label for label, *_ in texts_of(explained("--cluster", known, "-n", "team-a", *asked))] == labels


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (("web",), "web: name the kind too: namespace team-a has claim/web and deployment/web"),
        (
            ("trian",),
            "trian: neither a file nor an object of namespace team-a that can be explained; did you mean pod/train?",
        ),
        (
            ("pod", "web"),
            "pod/web: Pod web in namespace team-a not found; did you mean claim/web?",
        ),
        (
            ("other",),
            (
                "other: neither a file nor an object of namespace team-a that can be explained; one is in namespace team-b: "
                "-n team-b"
            ),
        ),
        (
            ("claim", "othr-10"),
            (
                "claim/othr-10: ResourceClaim othr-10 in namespace team-a not found; did you mean claim/other-10? It is in "
                "namespace team-b: -n team-b"
            ),
        ),
    ],
)
def test_name_that_is_not_found_is_answered_with_what_is_near(invoke, write, pod, deployment, asked, problem):
    elsewhere = [claim(name=name, namespace="team-b") for name in ("other", "other-10")]
    known = write("here/known.yaml", deployment(), pod(), claim(name="web"), *elsewhere)
    done = invoke("explain", "--cluster", known, "-n", "team-a", *asked)
    assert (done.exit_code, done.stderr) == (2, f"{problem}\n1 problem; nothing was done\n")


def test_names_of_a_similar_length_are_compared_first(invoke, write, monkeypatch):
    monkeypatch.setattr(lookups, "_MOST_COMPARED", 2)
    known = write("known.yaml", *(claim(name=name) for name in ("a", "trains-of-all-kinds", "train", "b", "z")))
    done = invoke("explain", "--cluster", known, "-n", "team-a", "claim", "trian")
    assert "did you mean claim/train?" in done.stderr


@pytest.mark.parametrize("command", [["explain"], ["quota", "--fit"]])
def test_kind_without_a_name_is_wrong_usage(invoke, cluster, command):
    done = invoke(*command, "pod", "--cluster", cluster)
    assert done.exit_code == 2
    assert done.stderr.endswith("write pod/NAME: the name of the object is missing\n")


def test_pod_of_the_cluster_is_taken_as_it_is_though_it_has_no_uid(explained, write, pod):
    file = write("known.yaml", pod())
    remark = "this counts the toleration for nvidia.com/gpu that placement adds to the pod"
    (of_file,), (of_cluster,) = explained(file), explained("--cluster", file, "-n", "team-a", "pod/train")
    assert (remark in of_file["remarks"], remark in of_cluster["remarks"]) == (True, False)


def test_file_that_exists_is_no_name(explained, write):
    file = write("claim/gpu", claim(name="of-a-file"))
    assert texts_of(explained(file))[0][0] == "ResourceClaim team-a/of-a-file"


def test_folder_that_is_named_like_a_kind_hides_no_names(explained, write):
    known = write("claim/known.yaml", claim())
    assert texts_of(explained("--cluster", known, "-n", "team-a", "claim/gpu"))[0][0] == "ResourceClaim team-a/gpu"


def test_folder_is_explained_but_for_what_finds_no_place(explained, write, pod):
    write("manifests/a.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}, pod())
    write("manifests/b.yaml", claim())
    assert [label for label, *_ in texts_of(explained("manifests"))] == ["pod team-a/train", "ResourceClaim team-a/gpu"]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("claim/gup", "claim/gup: ResourceClaim gup in namespace team-a not found; did you mean claim/gpu?"),
        (
            "pod/train",
            "pod/train: Pods are unknown; kubectl get --raw /api/v1/pods prints them for a file of --cluster",
        ),
        (
            "job/train",
            "job/train: Jobs are unknown; kubectl get --raw /apis/batch/v1/jobs prints them for a file of --cluster",
        ),
        (
            "clam/gpu",
            "clam/gpu: no such file or directory, and unknown kind clam; did you mean claim?",
        ),
        ("claim.yaml", "claim.yaml: no such file or directory"),
        ("here/gpu", "here/gpu: no such file or directory"),
        ("claim/gpu.yaml", "claim/gpu.yaml: no such file or directory"),
        ("a/b/c", "a/b/c: no such file or directory"),
        ("claim/", "claim/: no such file or directory"),
    ],
)
def test_what_is_not_there_is_reported(invoke, write, asked, problem):
    known = write("here/known.yaml", claim())
    done = invoke("explain", "--cluster", known, "-n", "team-a", asked)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"{problem}\n1 problem; nothing was done\n")


def test_object_in_another_namespace_is_pointed_to(invoke, write):
    done = invoke("explain", "--cluster", write("known.yaml", claim()), "claim/gpu")
    assert done.stderr.splitlines()[0] == (
        "claim/gpu: ResourceClaim gpu in namespace default not found; one is in namespace team-a: -n team-a"
    )


def test_all_problems_are_reported_at_once(invoke, write):
    done = invoke("explain", write("a.yaml", "a: ["), "b.yaml", "clam/gpu")
    assert done.exit_code == 2
    assert [line.partition(":")[0] for line in done.stderr.splitlines()[:-1]] == ["a.yaml", "b.yaml", "clam/gpu"]


def test_names_are_not_looked_up_in_a_cluster_that_cannot_be_read(invoke):
    done = invoke("explain", "--cluster", "nowhere", "pod/train")
    assert done.stderr == "nowhere: no such file or directory\n1 problem; nothing was done\n"


def test_without_arguments_all_that_waits_is_listed(invoke):
    cluster = ("--cluster", EXAMPLES / "cluster", "--cluster", EXAMPLES / "cluster-in-use")
    done = invoke("explain", *cluster)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "1 pod waits for GPUs: no node fits (1).")
    (row,) = json.loads(invoke("explain", *cluster, "-o", "json").stdout)
    assert (row["namespace"], row["name"], row["reason"]) == ("team-a", "pretrain", "noNode")
    done = invoke("explain", *cluster, "-n", "team-legacy")
    assert (done.exit_code, done.stdout) == (0, "No pod waits for GPUs.\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "it is unknown which pods wait for GPUs, because pods are unknown"),
        (("-o", "html"), "gpu-admission report writes a page with all that waits"),
    ],
)
def test_without_arguments_unknown_pods_and_pictures_are_wrong_usage(invoke, arguments, reason):
    done = invoke("explain", "--cluster", EXAMPLES / "cluster", *arguments)
    assert done.exit_code == 2
    assert reason in " ".join(done.stderr.split())


def test_nothing_that_finds_a_place_is_wrong_usage(invoke, write):
    file = write("service.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}})
    done = invoke("explain", file)
    assert done.exit_code == 2
    assert "nothing to explain: no pods, workloads, claims or claim templates in service.yaml" in done.stderr


@pytest.mark.parametrize(
    ("counts", "code"),
    [((8,), 0), ((9,), 1), ((8, 1), 0), ((8, 9), 1)],
    ids=["fits", "does not", "all fit", "one does not"],
)
def test_exit_code_says_whether_everything_fits(run, cluster, write, counts, code):
    file = write("claims.yaml", *(claim(count, f"gpu-{count}") for count in counts))
    assert run("explain", "--cluster", cluster, file).returncode == code


@pytest.mark.parametrize("output", ["text", "json"])
def test_exit_code_is_the_same_for_all_outputs(invoke, cluster, write, output):
    assert invoke("explain", "--cluster", cluster, "-o", output, write("claim.yaml", claim(9))).exit_code == 1


def test_unknown_answer_is_not_a_success(invoke, write):
    done = invoke("explain", "-o", "json", write("claim.yaml", claim()))
    assert (done.exit_code, json.loads(done.stdout)[0]["verdict"]) == (1, "unknown")


def test_settings_are_read(explained, write, pod):
    policy = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec: {rules: [{rule: GA302, severity: "off"}]}
"""
    file = write("pod.yaml", pod(gpus="0.5"))
    verdicts = [
        [obstacle["rule"] for obstacle in explained(*option, file)[0]["obstacles"]]
        for option in ([], ["--settings", write("settings.yaml", policy)])
    ]
    assert verdicts[0] == ["GA302"]
    assert "GA302" not in verdicts[1]


def test_json_is_what_the_policies_answer(explained, write, cluster):
    reader = ManifestReader()
    document = claim(4, expression=MEMORY)
    view = ManifestsView(reader.cluster([cluster]), [document])
    (question,) = questions(document, "default", view, DEFAULTS)
    assert explained(write("claim.yaml", document)) == [json_document(explain(question, view, DEFAULTS), Explanation)]


def test_text_names_the_groups_and_what_would_help(invoke, cluster, write):
    done = invoke("explain", "--cluster", cluster, write("claim.yaml", claim(4, expression=MEMORY)))
    assert done.stdout.startswith("ResourceClaim team-a/gpu  impossible\n")
    assert "gpu-0..gpu-7 have 81559Mi of memory, 80Gi requested." in done.stdout
    assert (
        "none of 8 can serve it:\ngpu-0..gpu-7 have 81559Mi of memory, 80Gi requested.\n"
        "What would help: accept 81559Mi of memory instead of 80Gi in request gpu; then it fits on 2 nodes.\n"
    ) in done.stdout


def test_page_shows_every_explanation(invoke, cluster, write):
    file = write("claims.yaml", claim(9, "nine"), claim(8, "eight"))
    done = invoke("explain", "--cluster", cluster, "-o", "html", file)
    assert done.exit_code == 1
    assert done.stdout.startswith("<!doctype html>\n")
    assert "ResourceClaim team-a/nine" in done.stdout
    assert "ResourceClaim team-a/eight" in done.stdout


def test_picture_is_one_file(invoke, cluster, write):
    done = invoke("explain", "--cluster", cluster, "-o", "svg", write("claim.yaml", claim(8)))
    assert (done.exit_code, done.stdout[:4], done.stdout[-7:]) == (0, "<svg", "</svg>\n")


def test_picture_of_the_documentation_is_that_of_the_example(invoke):
    root = Path(__file__).parents[2]
    folders = [f"--cluster={root / 'examples' / name}" for name in ("cluster", "cluster-in-use")]
    done = invoke("explain", *folders, "-o", "svg", str(root / "examples" / "explain-deployment"))
    assert done.stdout == (root / "docs" / "images" / "explain.svg").read_text()


@pytest.mark.parametrize(("columns", "width"), [(80, 80), (20, 40), (400, 140)])
def test_lines_are_as_wide_as_the_terminal_within_reason(on_a_terminal, cluster, write, columns, width):
    import click

    arguments = ("explain", "--cluster", cluster, write("claim.yaml", claim(9)))
    written = on_a_terminal(*arguments, code=1, COLUMNS=str(columns))
    assert "\x1b[1mResourceClaim team-a/gpu\x1b[0m  \x1b[31m\x1b[1mimpossible\x1b[0m" in written
    longest = max(map(len, click.unstyle(written).splitlines()))
    assert width - 30 < longest <= width


def test_pipe_gets_no_colours(run, cluster, write):
    assert "\x1b" not in run("explain", "--cluster", cluster, write("claim.yaml", claim(9))).stdout


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.integers(10**18, 10**30) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CLUSTER = ManifestReader().cluster([str(Path(__file__).parents[2] / "examples" / "cluster")])
KINDS = [
    ("v1", "Pod", ("spec",)),
    ("apps/v1", "Deployment", ("spec", "template", "spec")),
    ("resource.k8s.io/v1", "ResourceClaim", ("spec", "devices")),
    ("resource.k8s.io/v1beta1", "ResourceClaim", ("spec", "devices")),
    ("resource.k8s.io/v1", "ResourceClaimTemplate", ("spec", "spec", "devices")),
]
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "requests": st.lists(st.fixed_dictionaries({"name": JSON, "exactly": JSON}) | JSON, max_size=3) | JSON,
        "constraints": JSON,
        "containers": st.lists(st.just({"name": "a"}) | JSON, max_size=2) | JSON,
        "resourceClaims": st.lists(st.fixed_dictionaries({"name": JSON, "resourceClaimName": JSON}), max_size=2) | JSON,
        "tolerations": JSON,
        "nodeSelector": JSON,
        "affinity": JSON,
    },
)


@given(kind=st.sampled_from(KINDS), inner=LIKELY | JSON, metadata=JSON, status=JSON)
def test_any_json_is_explained(kind, inner, metadata, status):
    version, name, path = kind
    for key in reversed(path):
        inner = {key: inner}
    document = {"apiVersion": version, "kind": name, "metadata": metadata, "status": status, **inner}
    view = ManifestsView(CLUSTER, [document])
    explanations = [explain(each, view, DEFAULTS) for each in questions(document, "default", view, DEFAULTS)]
    assert len(explanations) == 1
    assert text(explanations)
    assert len(json.loads(as_json(explanations))) == 1
