"""The command `generate`: what it prints, what it refuses, and its help."""

from __future__ import annotations

import json
import re
from inspect import cleandoc

import pytest
from click.shell_completion import ShellComplete

from testbed import libyaml
from webhook.cli import main
from webhook.cli.commands.generate import command

KINDS = ("time-slicing", "mps", "sharing", "mig", "quota", "claim", "wish")
EXAMPLES = [
    line
    for kind in KINDS
    for line in re.findall(r"^  (gpu-admission .*)$", cleandoc(command.commands[kind].help), re.MULTILINE)
]


def test_help_lists_the_kinds(invoke):
    listed = invoke("generate", "--help").stdout.partition("Commands:\n")[2]
    assert sorted(re.findall(r"^  (\S+)", listed, re.MULTILINE)) == sorted(KINDS)
    assert "..." not in listed


@pytest.mark.parametrize("kind", KINDS)
def test_help_of_a_kind_has_three_examples(kind):
    assert len([line for line in EXAMPLES if f"generate {kind} " in line]) >= 3


@pytest.mark.parametrize("line", EXAMPLES)
def test_example_works(run_line, line):
    done = run_line(f"{EXAMPLES[2]}; {line}" if "--add-to t4.yaml" in line else line)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("time-slicing", "--product", "T4", "--replicas", "4"),
        ("mps", "--product", "V100", "--replicas", "16"),
        ("sharing", "--shares", "4"),
        ("sharing", "--shares", "memory"),
        ("sharing", "--shares", "unlimited"),
        ("mig", "--product", "H100", "--want", "1g.10gb=3,3g.40gb=1"),
        ("quota", "-n", "team-a", "--gpus", "8"),
        ("claim", "--product", "H100", "--template", "-n", "team-a"),
    ],
    ids=" ".join,
)
def test_output_is_read_back_and_reviewed_without_a_finding(invoke, arguments):
    printed = invoke("generate", *arguments)
    assert (printed.exit_code, printed.stderr) == (0, "")
    reviewed = json.loads(invoke("review", "-o", "json", "-", stdin=printed.stdout).stdout)
    assert [(each["verdict"], each["findings"]) for each in reviewed] == [("admitted", [])]


def test_comments_end_at_the_margin_and_commands_are_on_one_line(invoke):
    lines = invoke("generate", "mig", "--product", "H100", "--want", "1g.10gb=3,3g.40gb=1").stdout.splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert [line.split()[2] for line in comments if line.startswith("#   kubectl")] == ["patch", "label"]
    assert all(len(line) <= 100 for line in comments if not line.startswith("#   "))


def test_config_map_of_standard_input_is_added_to(invoke):
    first = invoke("generate", "time-slicing", "--product", "T4", "--replicas", "4").stdout
    both = invoke("generate", "mps", "--product", "L4", "--replicas", "2", "--add-to", "-", stdin=first).stdout
    assert list(libyaml.load(both)["data"]) == ["tesla-t4", "whole-gpus", "l4"]
    reviewed = json.loads(invoke("review", "-o", "json", "-", stdin=both).stdout)
    assert [each["findings"] for each in reviewed] == [[]]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "none; name a file with one ConfigMap"),
        ("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n", "Pod; name a file with one ConfigMap"),
        (
            2 * "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
            "ConfigMap and ConfigMap; name a file with one ConfigMap",
        ),
    ],
)
def test_file_without_one_config_map_is_refused(invoke, write, content, error):
    file = write("cm.yaml", content)
    done = invoke("generate", "time-slicing", "--product", "T4", "--replicas", "4", "--add-to", file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"Error: Invalid value for '--add-to': has {error}"


@pytest.mark.parametrize("content", [None, "a: [", "kind: ConfigMap\n"])
def test_unreadable_file_is_refused(invoke, write, content):
    file = "missing.yaml" if content is None else write("cm.yaml", content)
    done = invoke("generate", "time-slicing", "--product", "T4", "--replicas", "4", "--add-to", file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("nothing was done\n")


def test_commands_alone_are_comments_only(invoke):
    printed = invoke("generate", "mig", "--product", "H100", "--want", "1g.10gb=7").stdout
    assert libyaml.load(printed) is None
    assert "nvidia.com/mig.config=all-1g.10gb\n" in printed


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("time-slicing", "--product", "H1000", "--replicas", "4"),
            ('Invalid value for \'--product\': names an unknown product "H1000"; write "H100*"'),
        ),
        (
            ("mig", "--product", "H100", "--want", "3g.40gb=3"),
            (
                "Invalid value for '--want': is 3g.40gb=3, which does not fit on one H100 80GB: it needs 3 of 2 possible "
                "3g.40gb; 3g.40gb=2 fits, and all of it fits on 2 GPUs: --gpus 2"
            ),
        ),
        (("quota", "--gpus", "8"), "name the namespace that is limited: -n NAME"),
        (("quota", "-n", "Team", "--gpus", "8"), 'invalid namespace name "Team"'),
        (("quota", "-n", "team-a"), "no limit is given; set --gpus, --product, --mig or --memory"),
        (("wish",), 'no wish is given; set an option such as --product "H100*"'),
        (("mps", "--product", "T4", "--replicas", "4", "--operator-namespace", "a/b"), 'invalid namespace name "a/b"'),
        (
            ("mig", "--product", "H100", "--want", "1g.10gb=7", "--operator-namespace", ""),
            "Invalid value for '--operator-namespace': is empty; name the namespace of the operator",
        ),
        (("time-slicing", "--product", "T4"), "Missing option '--replicas'."),
        (("mig", "--product", "H100"), "Missing option '--want'."),
        (("quato",), "No such command 'quato'. Did you mean 'quota'?"),
    ],
)
def test_bad_input_gets_a_sentence_and_nothing_is_printed(invoke, arguments, error):
    done = invoke("generate", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"Error: {error}"


@pytest.mark.parametrize(
    "text",
    ["\0", "\n", "é" * 300, "9" * 5000, "*" * 5000, ",".join(["H100"] * 500), "1g.10gb=" + "9" * 400, "=", ",,,", "!"],
    ids=range(10),
)
def test_strange_input_is_refused_quickly(invoke, text):
    cases = [
        ("time-slicing", "--replicas", "4", "--product", text),
        ("mig", "--product", "H100", "--want", text),
        ("mig", "--want", "1g.10gb=1", "--product", text),
        ("quota", "-n", "a", "--gpus", text),
        ("quota", "-n", "a", "--memory", text),
        ("quota", "-n", "a", "--mig", text),
        ("quota", "-n", "a", "--product", text),
        ("claim", "--mig", text),
        ("claim", "--name", text),
        *(("wish", f"--{word}", text) for word in ("product", "memory", "family", "min-driver", "min-cuda", "sharing")),
    ]
    for arguments in cases:
        done = invoke("generate", *arguments)
        assert (done.exit_code, done.stdout) == (2, "") or text == "*" * 5000, arguments
        assert "internal error" not in done.stderr


def complete(*arguments):
    *before, last = arguments
    found = ShellComplete(main, {}, "gpu-admission", "").get_completions([*before], last)
    return [item.value for item in found]


def test_kinds_are_completed():
    assert complete("generate", "m") == ["mig", "mps"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("T4", []),
        ("Tesla-T", ["Tesla-T4"]),
        ("h100", ["H100-80GB-HBM3", "H100-NVL", "H100-PCIe"]),
        ("NVIDIA-H100-N", ["NVIDIA-H100-NVL"]),
    ],
)
def test_products_are_completed(typed, offered):
    assert complete("generate", "time-slicing", "--product", typed) == offered
