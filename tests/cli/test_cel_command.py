"""`gpu-admission cel`: what it reads, what it prints, and how it ends."""

from __future__ import annotations

import json

import click
import pytest

from policies.analyses.selectors import DeviceVerdict, Truth, analyze, selector_set_of_expression
from policies.rules.settings import DEFAULTS
from tests.cli.quota_files import ROOT
from tests.explain.conftest import claim, device_class, selecting, template
from webhook.cli.explain.selector_analyses import as_json, text
from webhook.cli.manifest_reader import ManifestReader
from webhook.cluster.manifests import ManifestsView

HOPPER = 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'
NONE = 'device.attributes["gpu.nvidia.com"].architecture == "none"'
GPU = 'device.driver == "gpu.nvidia.com"'
OF_CLASS = ("--class", "gpu.nvidia.com")
PAGE = (ROOT / "docs" / "cel.md").read_text()


@pytest.fixture
def analyzed(invoke, cluster):
    """Analyze against the cluster of the examples, as JSON."""

    def analyzed(*arguments, stdin=None):
        done = invoke("cel", "--cluster", cluster, "-o", "json", *arguments, stdin=stdin)
        assert done.exit_code in (0, 1, 2), done.output
        return json.loads(done.stdout)

    return analyzed


def labels(found):
    return [(each["label"], each["matched"]) for each in found]


def test_expression_is_analyzed(analyzed):
    assert labels(analyzed(*OF_CLASS, HOPPER)) == [("the expression, for devices of class gpu.nvidia.com", 16)]


@pytest.mark.parametrize("name", ["hopper.cel", "hopper.txt", "hopper"])
def test_file_with_an_expression_is_analyzed(analyzed, write, name):
    assert labels(analyzed(*OF_CLASS, write(name, f"{HOPPER}\n"))) == [
        ("the expression, for devices of class gpu.nvidia.com", 16)
    ]


def test_every_request_and_class_of_a_file_is_analyzed(analyzed, write):
    documents = [claim(selecting(HOPPER)), template(selecting(NONE)), device_class("all", GPU)]
    assert labels(analyzed(write("all.yaml", *documents))) == [
        ("request gpu of ResourceClaim team-a/gpus", 16),
        ("request gpu of ResourceClaimTemplate team-a/gpus", 0),
        ("DeviceClass all", 35),
    ]


def test_folder_and_standard_input_are_read(analyzed, write):
    write("folder/claim.yaml", claim(selecting(HOPPER)))
    write("folder/service.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}})
    assert labels(analyzed("folder")) == labels(analyzed("-", stdin=json.dumps(claim(selecting(HOPPER)))))


def test_one_request_is_chosen(analyzed, write):
    document = claim()
    exactly = {"deviceClassName": "gpu.nvidia.com"}
    document["spec"]["devices"]["requests"] = [{"name": name, "exactly": exactly} for name in ("one", "two")]
    assert labels(analyzed("--request", "two", write("claim.yaml", document))) == [
        ("request two of ResourceClaim team-a/gpus", 18)
    ]


@pytest.mark.parametrize("in_a_file", [False, True])
def test_edit_is_compared(analyzed, write, in_a_file):
    edit = write("edit.cel", NONE) if in_a_file else NONE
    (found,) = analyzed("--edit", edit, write("claim.yaml", claim(selecting(HOPPER))))
    assert (found["comparison"]["gained"], found["comparison"]["lost"]) == (0, 16)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((*OF_CLASS, HOPPER), 0),
        ((*OF_CLASS, NONE), 1),
        ((HOPPER,), 1),
        (("device.",), 2),
        ((*OF_CLASS, "--edit", HOPPER, NONE), 0),
        ((*OF_CLASS, "--edit", NONE, HOPPER), 1),
        ((*OF_CLASS, "--edit", "device.", HOPPER), 2),
    ],
    ids=["matches", "none", "fails on a device", "does not compile", "edit matches", "edit: none", "broken edit"],
)
@pytest.mark.parametrize("output", ["text", "json", "html"])
def test_exit_code_says_whether_a_device_matches(invoke, cluster, arguments, code, output):
    assert invoke("cel", "--cluster", cluster, "-o", output, *arguments).exit_code == code


def test_unknown_devices_are_no_success(invoke, write):
    done = invoke("cel", "--cluster", write("class.yaml", device_class()), HOPPER)
    assert done.exit_code == 1
    assert "Note: no ResourceSlices are known, so the devices are unknown." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("missing.yaml",), "missing.yaml: no such file or directory"),
        (("--request", "none", "claim.yaml"), "no request none in claim.yaml; it has gpu"),
        (
            ("--class", "x", "claim.yaml"),
            "--class is for an expression; leave it out: the requests in a file name their class",
        ),
        (
            ("service.yaml",),
            "nothing to analyze: no ResourceClaim, ResourceClaimTemplate or DeviceClass in service.yaml",
        ),
        (
            ("--edit", "true", "two.yaml"),
            "--edit is for one request or class, and two.yaml has 2; choose one by --request",
        ),
        (("binary.cel",), "binary.cel: is not UTF-8"),
        (("large.cel",), "large.cel: is larger than 40,960 bytes; a selector may have at most 10,240"),
    ],
    ids=["no file", "no request", "class of a claim", "no selectors", "edit of two", "not text", "large"],
)
def test_wrong_input_is_reported(invoke, cluster, folder, write, arguments, sentence):
    write("claim.yaml", claim())
    write("service.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}})
    write("two.yaml", claim(), template())
    (folder / "binary.cel").write_bytes(b"\xff\xfe")
    (folder / "large.cel").write_text("é" * 30_000)
    done = invoke("cel", "--cluster", cluster, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr


@pytest.mark.parametrize("expression", ["x" * 5000, "a\n&& b", "\x00", "", "./x && y"])
def test_odd_expressions_are_answered(invoke, cluster, expression):
    done = invoke("cel", "--cluster", cluster, expression)
    assert done.exit_code == 2
    assert "GA21" in done.stdout


def test_json_is_what_the_policies_say(analyzed, cluster):
    view = ManifestsView(ManifestReader().cluster([cluster]))
    found = analyze(selector_set_of_expression(HOPPER), view, DEFAULTS)
    assert analyzed(HOPPER) == json.loads(as_json([found]))


def test_text_counts_what_a_class_excludes(invoke, cluster):
    lines = invoke("cel", "--cluster", cluster, *OF_CLASS, HOPPER).stdout.splitlines()
    assert lines[0] == "the expression, for devices of class gpu.nvidia.com  16 of 39 devices match"
    assert lines[-1] == "DeviceClass gpu.nvidia.com excludes 21 more devices; -o json and -o html show them."


@pytest.mark.parametrize("name", ["nothing", "anything"])
def test_text_without_a_condition_shows_devices_only(invoke, cluster, write, name):
    classes = write("classes.yaml", {**device_class("anything", GPU), "spec": {}})
    file = write("claim.yaml", claim({"deviceClassName": name}))
    done = invoke("cel", "--cluster", cluster, "--cluster", classes, file)
    assert done.output.splitlines()[0] == "request gpu of ResourceClaim team-a/gpus  39 of 39 devices match"
    assert "gpu-0 on gpu-h100-01" in done.output
    assert "CONDITION" not in done.output
    assert "sign for each condition" not in done.output


def test_text_of_a_narrow_terminal_is_complete(cluster):
    view = ManifestsView(ManifestReader().cluster([cluster]))
    found = analyze(selector_set_of_expression(HOPPER, "gpu.nvidia.com"), view, DEFAULTS, NONE)
    shown = text([found], 60)
    assert "The edit gains 0 devices and loses 16; a selector fails on 0 more." in " ".join(shown.split())
    assert max(map(len, click.unstyle(shown).splitlines())) <= 60


def test_page_is_written(invoke, cluster):
    done = invoke("cel", "--cluster", cluster, "-o", "html", *OF_CLASS, HOPPER)
    assert done.stdout.startswith("<!doctype html>\n")


def test_documentation_names_every_verdict_and_truth():
    for word in (*DeviceVerdict, *Truth):
        assert f"`{word}`" in PAGE
