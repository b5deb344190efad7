"""The suite in docs/test.md fails as the page shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import yaml

from testbed import libyaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "test.md").read_text()
(FAILED,) = re.findall(r"```console\n\$ gpu-admission test policies/\n(.*?)```", PAGE, re.DOTALL)
(SUITE,) = re.findall(r"```yaml\n(apiVersion: test.*?)```", PAGE, re.DOTALL)


def test_page_shows_where_its_suite_fails(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples" / "cluster", "policies/snapshot")
    pod = libyaml.load((ROOT / "examples" / "refused-selector" / "pod.yaml").read_text())
    (tmp_path / "policies" / "pod.yaml").write_text(yaml.safe_dump(pod))
    (tmp_path / "policies" / "team-a.yaml").write_text(SUITE)
    shown = invoke("test", "policies/").stdout.splitlines()
    before, _, _ = FAILED.splitlines()[1].partition("[...]")
    assert [shown[0], shown[1][: len(before)]] == [FAILED.splitlines()[0], before]
