"""Alerts and dashboard use only existing metrics and label values."""

import asyncio
import json
import re
from typing import get_args

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from policies.analyses.usage import DeviceState
from policies.analyses.wait_reasons import WaitReason
from policies.quota.outcomes import OUTCOMES
from policies.rules.charges import Unit
from policies.rules.decision import Severity
from testbed import libyaml
from tests.deploy.test_metrics_page import served_families
from tests.deploy.test_runbook import BASE, PAGE, anchors
from webhook.cluster.store import State
from webhook.server.metrics import TEMPLATES, VERDICTS

API_SERVERS = {
    "apiserver_admission_webhook_admission_duration_seconds_bucket",
    "apiserver_admission_webhook_admission_duration_seconds_count",
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_rejection_count",
    "apiserver_admission_match_condition_evaluation_errors_total",
}
"""Source: k8s.io/apiserver pkg/admission/metrics, pkg/admission/cel/metrics; tests/cluster looks at a real API server."""
_WORDS = {
    "rate",
    "increase",
    "histogram_quantile",
    "count",
    "topk",
    "absent",
    "time",
    "unless",
    "avg_over_time",
    "sum_over_time",
    "vector",
    "label_replace",
}
VALUES = {
    ("gpu_admission_requests_total", "verdict"): VERDICTS,
    ("gpu_admission_cache_state", "state"): get_args(State),
    ("gpu_admission_controller_rounds_total", "outcome"): ("done", "failed"),
    ("gpu_admission_templates_total", "outcome"): TEMPLATES,
    ("gpu_admission_audit_findings", "severity"): tuple(Severity),
    ("gpu_admission_quota", "amount"): ("hard", "used", "reserved"),
    ("gpu_admission_quota", "unit"): get_args(Unit),
    ("gpu_admission_quota_group", "amount"): ("hard", "used", "reserved", "expected", "lent"),
    ("gpu_admission_quota_group", "unit"): get_args(Unit),
    ("gpu_admission_devices", "state"): tuple(DeviceState),
    ("gpu_admission_devices", "replicas"): ("1",),
    ("gpu_admission_quota_outcomes_total", "outcome"): OUTCOMES,
}
"""What labels can be; that a namespace is empty is no value."""


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The names of the samples that /metrics of a replica has."""
    families = asyncio.run(served_families(tmp_path_factory.mktemp("replica") / "kubeconfig.yaml"))
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return (
        {f"{each.name}{suffix}" for each in families for suffix in suffixes.get(each.type, ("",))}
        | API_SERVERS
        | {"ALERTS"}
    )


@pytest.fixture(scope="module")
def rules(deploy):
    """All rules: alerts, and series that are recorded."""
    files = [deploy / "components" / "monitoring" / name for name in ("prometheus-rule.yaml", "slo-rule.yaml")]
    groups = [group for file in files for group in libyaml.load(file.read_text())["spec"]["groups"]]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def alerts(rules):
    return [rule for rule in rules if "alert" in rule]


@pytest.fixture(scope="module")
def dashboard(deploy):
    return json.loads((deploy / "components" / "monitoring" / "dashboard.json").read_text())


def panels_of(dashboard):
    """The panels without rows, those of closed rows too."""
    each = [panel for listed in dashboard["panels"] for panel in (listed, *listed.get("panels", ()))]
    return [panel for panel in each if panel["type"] != "row"]


def metrics_of(expression):
    bare = re.sub(r"\{[^}]*\}|\"[^\"]*\"|\[[^\]]*\]|by \([^)]*\)", "", expression)
    return set(re.findall(r"[A-Za-z_]{4,}(?::[a-z0-9_]+)*", bare)) - _WORDS


def test_rules_use_metrics_that_exist(rules, known):
    recorded = {rule["record"] for rule in rules if "record" in rule}
    for rule in rules:
        assert metrics_of(rule["expr"]), rule
        assert metrics_of(rule["expr"]) <= known | recorded, rule


def test_dashboard_uses_metrics_that_exist(dashboard, rules, known):
    recorded = {rule["record"] for rule in rules if "record" in rule}
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            assert metrics_of(target["expr"]), panel["title"]
            assert metrics_of(target["expr"]) <= known | recorded, panel["title"]
    for variable in dashboard["templating"]["list"][1:]:
        metric, label = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", variable["query"]["query"]).groups()
        assert (metric in known, label) == (True, variable["name"])


def test_dashboard_is_one_of_grafana(dashboard):
    """Grafana's own model of dashboards reads it, and writes all of it again."""
    read = Dashboard.from_json(dashboard)
    written = json.loads(JSONEncoder().encode(read))
    assert [*lost(dashboard, written)] == []


def lost(before, after, path=""):
    """The paths of what a copy lacks."""
    if isinstance(before, dict):
        for key, value in before.items():
            yield from lost(value, after[key], f"{path}/{key}") if key in after else [f"{path}/{key}"]
    elif isinstance(before, list):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{path}/{number}")
    elif before != after:
        yield path


def test_panels_do_not_lie_upon_each_other(dashboard):
    taken = set()
    for panel in (*dashboard["panels"], *(inner for row in dashboard["panels"] for inner in row.get("panels", ()))):
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_values_of_labels_occur(alerts, dashboard):
    asked = [target["expr"] for panel in panels_of(dashboard) for target in panel["targets"]]
    for metric, labels in re.findall(
        r"(gpu_admission_\w+)\{(.*?)\}", " ".join(asked + [each["expr"] for each in alerts])
    ):
        for label, value in re.findall(r'(\w+)(?:=~|!=|=)"([^"$]+)"', labels):
            assert set(value.split("|")) <= set(VALUES[metric, label])


def test_alerts_say_what_they_mean(alerts):
    for alert in alerts:
        assert alert["annotations"].keys() == {"runbook_url", "summary", "description"}
        assert alert["annotations"]["description"].endswith("."), alert
        assert alert["labels"]["severity"] in ("warning", "critical")


def test_every_panel_has_a_description_a_unit_colours_and_links(dashboard):
    for panel in panels_of(dashboard):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["description"].endswith("."), panel["title"]
        assert defaults["unit"], panel["title"]
        assert defaults["thresholds"]["steps"], panel["title"]
        assert panel["links"], panel["title"]


def test_links_of_the_dashboard_lead_to_sections(dashboard):
    for link in (*dashboard["links"], *(link for panel in panels_of(dashboard) for link in panel["links"])):
        page, _, anchor = link["url"].removeprefix(BASE).partition("#")
        assert page.removesuffix(".html") + ".md" in {each.name for each in PAGE.parent.iterdir()}, link
        assert not anchor or anchor in anchors(page.removesuffix(".html")), link


def test_rows_of_the_dashboard_are_those_of_the_page(dashboard, deploy):
    rows = [panel for panel in dashboard["panels"] if panel["type"] == "row"]
    assert [row["title"] for row in rows if row["collapsed"]] == ["Service"]
    table = (deploy.parent / "docs" / "metrics.md").read_text().partition("| row | answers |")[2].partition("\n\n")[0]
    assert [row["title"] for row in rows] == re.findall(r"^\| (\w+)", table, re.MULTILINE)


def test_panels_that_the_runbook_names_exist(dashboard):
    titles = {panel["title"] for panel in panels_of(dashboard)}
    named = re.findall(r'panels? "([^"]+)"(?: and "([^"]+)")?', PAGE.read_text().replace("\n  ", " "))
    assert len(named) >= 5
    for name in {each for found in named for each in found if each}:
        assert any(title.startswith(name) for title in titles), name


def test_every_query_is_of_the_chosen_cluster(dashboard):
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            assert target["expr"].count('cluster=~"$cluster"') >= len(metrics_of(target["expr"])), panel["title"]


def test_reasons_are_shown_in_the_words_of_the_wait_list(dashboard):
    shown = [panel for panel in panels_of(dashboard) if "by (reason) (max" in panel["targets"][0]["expr"]]
    assert len(shown) == 2
    for panel in shown:
        names = {
            each["matcher"]["options"]: each["properties"][0]["value"] for each in panel["fieldConfig"]["overrides"]
        }
        assert names == {reason.value: reason.words for reason in WaitReason}


def test_metrics_that_pages_name_exist(deploy, known):
    families = known | {name.removesuffix("_bucket") for name in known}
    for page in (deploy.parent / "docs").glob("*.md"):
        assert set(re.findall(r"\bgpu_admission_\w+", page.read_text())) <= families, page.name


def test_scraped_port_is_the_service_s(deploy, one):
    monitor = libyaml.load((deploy / "components" / "monitoring" / "service-monitor.yaml").read_text())
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in one("Service", "gpu-admission")["spec"]["ports"]}
    assert endpoint["honorLabels"] is True  # or the label namespace would be our own everywhere
    labels = one("Service", "gpu-admission")["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
