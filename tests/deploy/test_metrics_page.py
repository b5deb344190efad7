"""docs/metrics.md lists what a replica serves, and docs/production-readiness.md names what exists, for every entry.

`python tests/deploy/test_metrics_page.py` writes the table of the first.
"""

import asyncio
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from policies.admission.webhooks import ENTRIES
from webhook.cluster.client import APIClient
from webhook.controllers.replica import Replica
from webhook.controllers.replica_config import ReplicaConfig
from webhook.sandbox.users import kubeconfig

ROOT = Path(__file__).parents[2]
METRICS = ROOT / "docs" / "metrics.md"
READINESS = ROOT / "docs" / "production-readiness.md"
HEAD = "| metric | type | meaning |\n|---|---|---|\n"


async def served_families(file):
    """The families of metrics that a replica serves."""
    file.write_text(kubeconfig("http://127.0.0.1:1", None, ""))  # no request is sent
    replica = Replica(await APIClient.connect(str(file), environ={}), ReplicaConfig())
    try:
        return list(replica._metrics.registry.collect())
    finally:
        await replica.close()


def table(folder):
    families = asyncio.run(served_families(folder / "kubeconfig.yaml"))
    rows = {
        f"{each.name}_total" if each.type == "counter" else each.name: f"{each.type} | {each.documentation}"
        for each in families
    }
    return "".join(f"| `{name}` | {row} |\n" for name, row in sorted(rows.items()))


def test_page_of_metrics_lists_what_a_replica_serves(tmp_path):
    assert METRICS.read_text().partition(HEAD)[2] == table(tmp_path)


def test_every_family_is_valid_open_metrics(tmp_path):
    """Also with samples: most families have none before something happens."""
    families = asyncio.run(served_families(tmp_path / "kubeconfig.yaml"))
    for family in families:
        if not family.samples and family.type != "histogram":
            family.add_sample(f"{family.name}_total" if family.type == "counter" else family.name, {"label": "x"}, 1)
    text = openmetrics.generate_latest(SimpleNamespace(collect=lambda: families)).decode()
    parsed = {each.name: (each.type, len(each.samples)) for each in text_string_to_metric_families(text)}
    assert parsed == {each.name: (each.type, len(each.samples)) for each in families}


def test_every_feature_answers_every_question():
    head, _, *rows = READINESS.read_text().partition("## Each feature\n\n")[2].splitlines()
    assert head == "| feature | on and off | what fails with it | cost |"
    assert len(rows) > 10
    assert all(re.fullmatch(r"\| \*\*.+\*\*.* \| .+ \| .+ \| .+ \|", row) for row in rows)


def test_every_entry_belongs_to_a_feature():
    named = set(re.findall(r"`([a-z-]+)`", READINESS.read_text()))
    assert ENTRIES.keys() <= named


def test_alerts_that_are_named_exist():
    """docs/runbook.md has all alerts, as another test says."""
    alerts = set(re.findall(r"^### (GPUAdmission\w+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE))
    assert set(re.findall(r"`(GPUAdmission\w+)`", READINESS.read_text())) - {"GPUAdmissionPolicy"} <= alerts


def test_tests_that_are_named_exist():
    for path in set(re.findall(r"`(tests/[\w/]+)`", READINESS.read_text())):
        assert (ROOT / path).is_dir(), path


def test_targets_of_make_that_are_named_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", READINESS.read_text())) <= targets


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        METRICS.write_text(METRICS.read_text().partition(HEAD)[0] + HEAD + table(Path(folder)))
