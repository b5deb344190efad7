"""`rules`: the table, and one rule in detail."""

from __future__ import annotations

import json
import re

import pytest

from policies.admission.all_rules import rule_book
from webhook.cli.shipped_files import read_examples


def test_table_has_a_line_for_each_rule(run):
    done = run("rules")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line[:5] for line in lines] == [rule.id for rule in rule_book().rules]
    assert "GA307  deny   A node label that selects GPUs must have an exact equivalent on a device" in lines
    assert "GA313  warn   A device of the cluster must match the request" in lines


def test_one_rule_is_reported_in_full(invoke):
    done = invoke("rules", "GA313")
    assert done.exit_code == 0
    assert (
        done.stdout
        == """\
GA313: A device of the cluster must match the request

Severity: warn, unless conversion.unsatisfiable, or spec.rules of the GPUAdmissionPolicy says otherwise
Kinds: Pod, workloads

No ResourceSlice holds a device like this now, so the pod will be Pending. That may pass: an
autoscaled cluster has no GPU node until the first pod requests one, and a driver upgrade empties
the slices. It may also be a misspelt product.

What to do: request a device that exists, or wait for such a node.

Wrong:
    nodeSelector:
      nvidia.com/gpu.product: NVIDIA-H100

Right:
    nodeSelector:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3

Source: ResourceSlices of the cluster
"""
    )


def test_every_rule_is_reported_with_all_it_has(invoke):
    for rule in rule_book().rules:
        reported = " ".join(invoke("rules", rule.id).stdout.split())
        texts = (rule.title, rule.default, rule.why, rule.remedy, rule.source, rule.setting)
        for part in (*texts, *read_examples(rule.id)):
            assert " ".join(part.split()) in reported


def test_id_may_be_written_small(invoke):
    assert invoke("rules", "ga313").stdout == invoke("rules", "GA313").stdout


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("GA3077", "did you mean GA307"), ("307", "did you mean GA307?"), ("GA1O2", "did you mean GA102?")],
)
def test_unknown_id_gets_a_hint(invoke, wrong, hint):
    done = invoke("rules", wrong)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"there is no rule {wrong}; {hint}" in done.stderr


def test_id_unlike_any_other_gets_the_list(invoke):
    done = invoke("rules", "frobnicate")
    assert done.exit_code == 2
    assert done.stderr.endswith("there is no rule frobnicate; gpu-admission rules lists them all.\n")


def test_rules_as_json_have_every_field(invoke):
    documents = json.loads(invoke("rules", "-o", "json").stdout)
    assert [document["id"] for document in documents] == [rule.id for rule in rule_book().rules]
    texts = {"id", "title", "default", "why", "remedy", "administrator", "source", "wrong", "right", "setting"}
    assert all(
        document.keys() == {*texts, "kinds", "rows", "fixed", "shared_cause", "beside", "needs", "cluster_scoped"}
        for document in documents
    )


def test_rule_that_no_setting_changes_says_so(invoke):
    assert "Severity: deny, whatever the settings say\n" in invoke("rules", "GA701").stdout


def test_one_rule_as_json_is_one_mapping(invoke):
    document = json.loads(invoke("rules", "GA307", "-o", "json").stdout)
    assert document["title"] == rule_book().get("GA307").title


@pytest.mark.parametrize("search", ["time-slicing", "timeSlicing", "TIME slicing"])
def test_search_finds_words_however_they_are_joined(invoke, search):
    found = [line[:5] for line in invoke("rules", "--search", search).stdout.splitlines()]
    assert 0 < len(found) < len(rule_book().rules)
    assert all("slicing" in invoke("rules", rule_id).stdout.casefold() for rule_id in found)


def test_search_finds_nothing_that_begins_within_a_word(invoke):
    """`shm` is not in "A wish must be readable"."""
    assert invoke("rules", "--search", "shm").exit_code == 1


def test_search_without_a_result_says_so(invoke):
    done = invoke("rules", "--search", "frobnicate")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: no rule has all the words of 'frobnicate'; gpu-admission rules lists them all.\n"


def test_search_beside_an_id_is_refused(invoke):
    done = invoke("rules", "GA307", "--search", "mig")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "name a rule, or search for some" in done.stderr


def rule_ids(done):
    return [line[:5] for line in done.stdout.splitlines()]


def test_kind_lists_the_rules_that_review_it(invoke):
    of_nodes, of_every_kind = ["GA154", "GA155", "GA156", "GA157"], ["GA705", "GA708", "GA709", "GA710"]
    assert rule_ids(invoke("rules", "--kind", "Node")) == [*of_nodes, *of_every_kind]


@pytest.mark.parametrize("written", ["node", "nodes", "NODE"])
def test_kind_may_be_written_as_kubectl_takes_it(invoke, written):
    assert invoke("rules", "--kind", written).stdout == invoke("rules", "--kind", "Node").stdout


def test_kind_and_search_find_what_both_find(invoke):
    both = rule_ids(invoke("rules", "--kind", "ConfigMap", "--search", "mig"))
    each = [{*rule_ids(invoke("rules", *one))} for one in (["--kind", "ConfigMap"], ["--search", "mig"])]
    assert {*both} == each[0] & each[1] != set()


def test_kind_without_such_a_rule_says_so(invoke):
    done = invoke("rules", "--kind", "nodes", "--search", "frobnicate")
    assert (done.exit_code, done.stdout) == (1, "")
    reason = "no rule for Node has all the words of 'frobnicate'; gpu-admission rules --kind Node lists them all."
    assert done.stderr == f"Error: {reason}\n"


def test_unknown_kind_gets_the_nearest_and_the_list(invoke):
    done = invoke("rules", "--kind", "ClusterPolcy")
    assert (done.exit_code, done.stdout) == (2, "")
    beginning = 'no rule reviews objects of kind "ClusterPolcy"; did you mean ClusterPolicy? Kinds with rules: '
    assert f"Error: Invalid value for '--kind': {beginning}ClusterGPUQuota, ClusterPolicy, " in done.stderr
    assert done.stderr.endswith("TrainJob, XGBoostJob.\n")


def test_kind_unlike_any_other_gets_the_list_only(invoke):
    done = invoke("rules", "--kind", "frobnicate")
    assert 'no rule reviews objects of kind "frobnicate"; kinds with rules: ClusterGPUQuota, ' in done.stderr


def test_kind_beside_an_id_is_refused(invoke):
    assert "name a rule, or search for some" in invoke("rules", "GA307", "--kind", "Pod").stderr


def test_table_has_no_blanks_at_line_ends(invoke):
    assert not re.search(r" $", invoke("rules").stdout, re.MULTILINE)
