"""Duplicate keys and missing separators in a repository are findings of the object."""

from __future__ import annotations

import json

from tests.robustness.repositories.reviews import names, pod, review


def test_duplicate_key_is_a_finding_at_its_line(write):
    write(
        {
            "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\ndata: {}\n",
            "b.yaml": pod("train"),
        }
    )
    done = review("-o", "json", "repo")
    refused, admitted = json.loads(done.stdout)
    assert (done.exit_code, admitted["verdict"]) == (1, "admitted")
    (finding,) = refused["findings"]
    assert (finding["rule"], finding["severity"], finding["path"], finding["line"]) == (
        "GA710",
        "deny",
        "metadata.name",
        5,
    )
    assert finding["message"] == (
        'duplicate key "name": given at line 4 and again at line 5; kubectl silently keeps only the last value'
    )


def test_object_with_a_duplicate_key_is_refused_though_no_rule_knows_its_kind(write):
    write({"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, name: b}\n"})
    assert review("repo").stdout.startswith("repo/a.yaml:1  ConfigMap b  refused\n")


MISSING_LINE = "another object begins near line 5 without a line --- before it; kubectl silently keeps only the last value of each key"


def test_missing_line_between_two_objects_is_one_finding(write):
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {}\n"
    write({"a.yaml": one + one.replace("name: a", "name: b, name: c")})
    ((first, second),) = [result["findings"] for result in json.loads(review("-o", "json", "repo").stdout)]
    assert (first["path"], first["line"]) == ("apiVersion", 5)
    assert (first["message"], first["remedy"]) == (MISSING_LINE, "write a line --- between the objects")
    assert second["path"] == "metadata.name"


def test_duplicate_key_in_an_item_of_a_list_belongs_to_the_item(write):
    text = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: b}
  data: {x: one, x: two, x: three}
"""
    write({"a.yaml": text})
    first, second = json.loads(review("-o", "json", "repo").stdout)
    assert first["findings"] == []
    assert [(finding["path"], finding["line"]) for finding in second["findings"]] == [("data.x", 8)]


def test_duplicate_key_outside_of_objects_is_a_problem(write):
    write({"a.yaml": "apiVersion: v1\nkind: List\nitems: []\nitems:\n- " + json.dumps(pod("train"))})
    done = review("repo")
    assert done.exit_code == 2
    assert 'repo/a.yaml:4:1: duplicate key "items": first given at line 3\n' in done.stderr


def test_many_duplicate_keys_are_one_problem(write):
    keys = "".join("  x: y\n" for _ in range(60))
    write({"a.yaml": f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n{keys}", "b.yaml": pod("train")})
    done = review("-o", "json", "repo")
    assert (done.exit_code, names(done)) == (2, ["train"])
    assert "more than 50 keys of this document are duplicate\n" in done.stderr


def test_settings_decide_on_duplicate_keys(write):
    settings = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec: {rules: [{rule: GA710, severity: warn}]}
"""
    write({"settings.yaml": settings, "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, name: b}\n"})
    done = review("--settings", "repo/settings.yaml", "repo/a.yaml")
    assert done.exit_code == 0
    assert "GA710 warn  repo/a.yaml:3" in done.stdout
