"""The demo runs its main scenario."""

import os
import re
from pathlib import Path

import pytest

from testbed.commands import run_command

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def demo(*arguments, cwd=ROOT):
    return run_command("demo", *arguments, cwd=cwd, environment={**os.environ, "NO_COLOR": "1"})


@pytest.fixture(scope="module")
def shown():
    done = demo()
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_demo_begins_with_what_is_there(shown):
    assert shown.startswith(
        "An API server in memory holds the cluster of examples/cluster and what deploy/install.yaml installs.\n"
        "The webhook watches it, and it calls the webhook over TLS. Settings: the defaults, but access.mode: deny.\n"
    )


def test_demo_counts_what_it_showed(shown):
    first = shown.partition("━━ The first manifest again")[0]
    count = len(re.findall(r"^\$ kubectl -n \S+ apply", first, re.MULTILINE))
    stored, refused = (len(re.findall(text, first)) for text in (r"\npod/\S+ created\n", r"\nError from server"))
    assert f"{count} pods: {stored} stored, {refused} refused." in shown
    assert count == stored + refused
    assert count >= 10


def test_demo_shows_a_conversion_whole(shown):
    part = shown.partition("━━ One GPU")[2].partition("━━")[0]
    assert "pod/fine-tune created" in part
    assert re.search(r"^-        nvidia.com/gpu: 1$", part, re.MULTILINE)
    assert re.search(r"^\+      claims:\n\+      - name: gpu\n\+        request: train$", part, re.MULTILINE)
    assert "uid" not in part
    assert "terminationMessagePath" not in part


def test_demo_shows_the_claim_that_was_made(shown):
    part = shown.partition("━━ One GPU")[2].partition("━━")[0]
    assert re.search(
        r"^ResourceClaim fine-tune-gpu-[0-9a-z]{5}, made from ResourceClaimTemplate gpu-[0-9a-f]{16}\n"
        r"  train: 1 x gpu\.nvidia\.com$",
        part,
        re.MULTILINE,
    )


def test_demo_has_the_priority_classes_of_its_pods(shown):
    part = shown.partition("━━ A converted pod does not preempt")[2].partition("━━")[0]
    assert "pod/answer created" in part


def test_demo_applies_a_converted_pod_again(shown):
    part = shown.partition("━━ The first manifest again")[2]
    assert part.partition("\n\n")[0] == (
        " \n$ kubectl -n team-a apply -f examples/single-gpu/pod.yaml\npod/fine-tune configured\n"
        "pod/fine-tune is stored as before, with its claim."
    )


def test_demo_shows_a_refusal_in_kubectls_words(shown):
    assert (
        'Error from server (Forbidden): error when creating "examples/fractional/pod.yaml": admission webhook '
        '"convert-pods.gpu-admission.io" denied the request: Request a whole number of GPUs, or a MIG device such as '
        "nvidia.com/mig-1g.10gb: 0.5 is not a whole number of devices; "
        "spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]"
    ) in shown


def test_demo_ends_with_an_audit(shown):
    part = shown.partition("\n$ gpu-admission audit\n")[2]
    assert re.search(r"^team-a +enabled +no +11 +8 +0 +3$", part, re.MULTILINE)
    assert "  GA317  Pod team-a/legacy-render\n" in part


def test_demo_says_what_to_try_next(shown):
    assert "gpu-admission review --cluster examples/cluster -n team-a POD.yaml" in shown


def test_demo_elsewhere_uses_its_own_examples(tmp_path):
    done = demo(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"gpu-admission review --cluster {EXAMPLES}/cluster" in done.stdout


def test_demo_of_another_folder_says_what_it_needs():
    done = demo("--examples", "docs")
    assert done.returncode == 2
    assert "docs is not the folder of the examples; run the demo beside it, or name it" in done.stderr


def test_demo_without_what_it_installs_says_so():
    done = demo("--deploy", "docs")
    assert done.returncode == 2
    assert "docs has no install.yaml; run the demo beside the folder, or name it" in done.stderr


def test_list_of_examples_names_every_folder():
    listed = re.findall(r"^- \[.+?\]\((\S+?)\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    clusters = {"cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy", "cluster-with-operator"}
    assert set(listed) == {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - clusters


def part_of(shown, title):
    """What the demo shows of an example, which may have several pods."""
    return "\n".join(part for part in shown.split("━━ ") if part.startswith(f"{title} "))


def test_demo_places_a_wish_on_both_paths(shown):
    part = part_of(shown, "A wish, by node labels and by claim")
    assert "+          - key: nvidia.com/gpu.product" in part
    assert '.productName.lowerAscii().replace(" ", "-").matches(' in part


def test_demo_says_what_exists_where_a_wish_cannot_be_kept(shown):
    part = part_of(shown, "Wishes that cannot be met")
    assert "none has H200*" in part
    assert 'admission webhook "place-pods.gpu-admission.io" denied the request' in part


def test_demo_refuses_a_gpu_without_a_request(shown):
    part = part_of(shown, "A GPU without a request")
    assert 'admission webhook "guard-pods.gpu-admission.io" denied the request' in part
    assert "pod/notebook created" in part
