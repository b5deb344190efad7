"""YAML aliases that expand to millions of values are refused or not written out."""

from __future__ import annotations

import pytest

from webhook.cli.review import text


def laughing(levels, head):
    """An object whose `spec` holds nine values, nine times those, and so on."""
    lines = ["  a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([head, "spec:", *lines, ""])


CLAIM = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}"


@pytest.mark.parametrize("output", ["text", "json", "yaml", "patch"])
def test_aliases_that_stand_for_millions_are_refused_at_their_line(invoke, write, output):
    done = invoke("review", "-o", output, write("claim.yaml", laughing(50, CLAIM)))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "claim.yaml:10:12: the aliases up to here stand for more than 100000 keys and values; write out what is meant; "
        "the rest is not read\n"
        "1 problem; nothing was done\n"
    )


@pytest.mark.parametrize("option", ["--cluster", "--settings"])
def test_aliases_are_bounded_in_every_file(invoke, write, pod, option):
    done = invoke("review", option, write("other.yaml", laughing(50, CLAIM)), write("pod.yaml", pod()))
    assert done.exit_code == 2
    assert done.stderr.startswith("other.yaml:10:12: the aliases up to here stand for more than 100000 keys")


def test_object_that_is_not_patched_is_not_written_out_for_a_diff(invoke, write, monkeypatch):
    monkeypatch.setattr(text, "diff", lambda *_: pytest.fail("nothing changes, and all of it was written out"))
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n"
    done = invoke("review", write("config.yaml", config_map))
    assert (done.exit_code, done.stderr) == (0, "")
    assert (
        done.stdout
        == "config.yaml:1  ConfigMap c  not reviewed: it is not recognised as GPU configuration\n\n1 object: 1 not reviewed\n"
    )
