"""A server is warm before its first call: it imports and digests nothing then."""

import subprocess
import sys
from pathlib import Path

from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server import driver
from webhook.server.driver import warm_up

FIRST_CALLS = """
import sys
import yaml
from testbed import libyaml
from pathlib import Path
from policies.rules.request import Request
from policies.admission import review
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server import app
from webhook.server.driver import warm_up

files = sorted(Path("examples/cluster").glob("*.yaml"))
view = ManifestsView(each for file in files for each in libyaml.load_all(file.read_text()) if each)
warm_up(view, DEFAULTS)
imported, digests = {*sys.modules}, {*view._digests}
amounts = {"nvidia.com/gpu": "2", "cpu": "1"}
resources = {"limits": amounts, "requests": amounts}
pod = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "annotations": {"gpu-admission.io/product": "H100*"}},
    "spec": {"containers": [{"name": "main", "image": "train", "resources": resources}]},
}
for entry in ("convert-pods", "place-pods", "enforce-converted-pods", "enforce-quota", "check-pods"):
    for namespace in ("team-a", "team-legacy", "team-preview"):
        review(Request(pod, namespace=namespace, entry=entry), view, DEFAULTS)
print(sorted({*sys.modules} - imported), sorted(str(each) for each in {*view._digests} - digests))
"""


def test_first_calls_import_and_digest_nothing():
    folder = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stdout == "[] []\n"


def test_each_sample_is_reviewed(monkeypatch):
    reviewed = []
    real = driver.judge

    def judge(step, view, settings):
        reviewed.append((step.part.entry.name, step.part.request.kind))
        return real(step, view, settings)

    monkeypatch.setattr(driver, "judge", judge)
    warm_up(ManifestsView(), DEFAULTS)
    assert len(set(reviewed)) == len({(entry, document["kind"]) for entry, _, document in driver._samples(0)})
    assert {("convert-pods", "Pod"), ("claims", "ResourceClaim"), ("enforce-quota", "Pod")} <= {*reviewed}


def test_sample_that_cannot_be_reviewed_does_not_stop_the_start(monkeypatch, caplog):
    def judge(step, view, settings):
        raise KeyError(step.part.concern)

    monkeypatch.setattr(driver, "judge", judge)
    warm_up(ManifestsView(), DEFAULTS)
    (record,) = caplog.records
    assert record.getMessage() == "the first call of convert-pods may be slow: its warm-up failed"


def test_warm_up_ends_after_ten_seconds(monkeypatch, caplog):
    seconds, reviewed, real = [0.0], [], driver.decode

    def decode(body, entry):
        seconds[0] += 4.0
        reviewed.append(entry)
        return real(body, entry)

    monkeypatch.setattr(driver, "decode", decode)
    warm_up(ManifestsView(), DEFAULTS, clock=lambda: seconds[0])
    assert len(reviewed) == 3
    (record,) = caplog.records
    assert record.getMessage() == "the first calls may be slow: the warm-up took more than 10 seconds"
