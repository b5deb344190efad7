"""The demo runs the main job by itself."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def demo(*arguments, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "webhook", "demo", *arguments],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.fixture(scope="module")
def shown():
    done = demo()
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_demo_counts_what_it_showed(shown):
    count = len(re.findall(r"^\$ kubectl", shown, re.MULTILINE))
    stored, refused = (len(re.findall(text, shown)) for text in (r"\npod/\S+ created\n", r"\nError from server"))
    assert f"{count} pods: {stored} stored, {refused} refused." in shown
    assert count == stored + refused
    assert count >= 10


def test_demo_shows_a_conversion_whole(shown):
    part = shown.partition("━━ One GPU")[2].partition("━━")[0]
    assert "pod/fine-tune created" in part
    assert re.search(r"^-        nvidia.com/gpu: 1$", part, re.MULTILINE)
    assert re.search(r"^\+      claims:\n\+      - name: gpu\n\+        request: train$", part, re.MULTILINE)
    assert re.search(r"^ResourceClaimTemplate gpu-[0-9a-f]{16}\n  train: 1 x gpu.nvidia.com$", part, re.MULTILINE)
    assert "asked: conversion.gpu-admission.io, placement.gpu-admission.io, conversion-check.gpu-admission.io" in part


def test_demo_shows_a_refusal_in_kubectls_words(shown):
    assert (
        'Error from server (Forbidden): error when creating "examples/fractional/pod.yaml": admission webhook '
        '"conversion.gpu-admission.io" denied the request: spec.containers[0].resources.limits[nvidia.com/gpu]: 0.5 is '
        "not a whole number of devices; ask for a whole number of GPUs, or for a MIG device such as "
        "nvidia.com/mig-1g.10gb [GA302]"
    ) in shown


def test_demo_says_what_to_try_next(shown):
    assert "gpu-admission review --cluster examples/cluster -n team-a POD.yaml" in shown


def test_demo_elsewhere_says_what_it_needs(tmp_path):
    done = demo(cwd=tmp_path)
    assert done.returncode == 2
    assert "examples is no folder of examples; run the demo where they are, or name the folder" in done.stderr


def test_list_of_examples_names_every_folder():
    listed = re.findall(r"^- \[.+?\]\((\S+?)\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"cluster", "cluster-in-use"}
    assert set(listed) == folders


def part_of(shown, title):
    """What the demo shows of an example, which may have several pods."""
    return "\n".join(part for part in shown.split("━━ ") if part.startswith(f"{title} "))


def test_demo_places_a_wish_on_both_paths(shown):
    part = part_of(shown, "A wish")
    assert "+          - key: nvidia.com/gpu.product" in part
    assert '.productName.lowerAscii().replace(" ", "-").matches(' in part


def test_demo_says_what_exists_where_a_wish_cannot_be_kept(shown):
    part = part_of(shown, "Wishes that cannot be kept")
    assert "none has H200*" in part
    assert 'admission webhook "placement.gpu-admission.io" denied the request' in part


def test_demo_refuses_a_gpu_behind_the_schedulers_back(shown):
    part = part_of(shown, "A GPU behind the scheduler's back")
    assert 'admission webhook "access.gpu-admission.io" denied the request' in part
    assert "pod/notebook created" in part
