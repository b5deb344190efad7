"""Terminal output in docs/quota.md is that of the commands."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from policies.analyses.explain import headroom
from policies.kubernetes.objects import FieldPath
from policies.quota.counting import holders
from policies.quota.ledger.allowances import admit
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.open_charges import compact_text
from policies.quota.ledger.status import charge_items, read_charge
from policies.quota.limits.quota import QuotaNames, parse_quota
from policies.quota.outcomes import exceeded_message, within_quota
from policies.quota.quota_report import quota_report
from policies.rules.charges import OWN, Bill, Charge
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cli.reports.quota_reports import QuotaReports, headroom_text, text
from webhook.cluster.manifests import ManifestsView

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "quota.md").read_text()
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AGES = {
    "pretrain-0": timedelta(hours=5, minutes=12),
    "notebook-kim": timedelta(days=3),
    "notebook-lee": timedelta(days=12),
    "evaluate": timedelta(seconds=2),
}


def before(name):
    return (NOW - AGES[name]).isoformat()


@pytest.fixture(scope="module")
def documents():
    """The cluster of the example, where everything has a time."""
    files = [
        *(ROOT / "examples" / "cluster").glob("*.yaml"),
        *(ROOT / "examples" / "cluster-with-quota").glob("*.yaml"),
    ]
    found = [deepcopy(each) for file in sorted(files) for each in libyaml.load_all(file.read_text())]
    for each in (item for document in found for item in document.get("items", [])):
        if each["metadata"]["name"] in AGES:
            each["metadata"]["creationTimestamp"] = before(each["metadata"]["name"])
        if charges := charge_items(each.get("status")):
            timed = ({**charge, "time": before(charge["name"])} for charge in charges)
            each["status"]["openCharges"] = compact_text(map(read_charge, timed))
    return found


@pytest.fixture(scope="module")
def quota(documents):
    return next(each for one in documents for each in one.get("items", []) if each["kind"] == "GPUQuota")


@pytest.fixture(scope="module")
def view(documents):
    return ManifestsView(documents)


def test_page_shows_what_the_command_prints(quota, view):
    report = quota_report(quota, view, DEFAULTS, NOW)
    printed = click.unstyle(text(QuotaReports((report,), "team-vision", ()), 100))
    assert f"$ gpu-admission quota -n team-vision\n{printed}\n```\n" in PAGE


def test_page_shows_how_many_more_fit(view):
    pod = libyaml.load((ROOT / "examples" / "quota-exceeded" / "pod.yaml").read_text())
    pod["metadata"]["name"] = "evaluate-1"
    pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1
    printed = click.unstyle(headroom_text([headroom(pod, "", view, DEFAULTS)], 100))
    assert f"$ gpu-admission quota --fit evaluate-1.yaml\n{printed}\n```\n" in PAGE


def test_page_shows_the_refusal(quota, view):
    limits = parse_quota(quota)
    bill = Bill({"h100": 4}, {"gpus": 4, "devices": 4})
    charge = Charge("uid", "Pod", "team-vision", "pretrain-1", {OWN: bill})
    admission, _ = admit(Ledger.read(quota), limits, charge, enforced=True)
    held = holders("team-vision", limits, view, DEFAULTS.quota, NOW)
    names = QuotaNames.of_namespace("team-vision")
    verdict = exceeded_message(admission.reason, held, admitted=admission.allowed, quota=names)
    finding = within_quota.rule.finding(FieldPath(), verdict.message, verdict.remedy)
    assert f'admission webhook "enforce-quota.gpu-admission.io" denied the request: {finding}\n```' in PAGE


def test_page_shows_the_column_of_the_status(quota):
    assert f"\ngpu    {quota['status']['summary']}  " in PAGE
