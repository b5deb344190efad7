"""Alerts and dashboard: only metrics that exist, with values of labels that occur."""

import json
import re

import pytest
import yaml

from webhook.server.metrics import Metrics

API_SERVERS = {
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_rejection_count",
    "apiserver_admission_match_condition_evaluation_errors_total",
}
"""Source: k8s.io/apiserver pkg/admission/metrics, pkg/admission/cel/metrics."""
_WORDS = {"sum", "by", "rate", "increase", "histogram_quantile", "min", "count", "topk", "absent", "time"}


@pytest.fixture(scope="module")
def known():
    """The names of the samples that /metrics has."""
    families = list(Metrics().registry.collect())
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {f"{each.name}{suffix}" for each in families for suffix in suffixes.get(each.type, ("",))} | API_SERVERS


@pytest.fixture(scope="module")
def alerts(deploy):
    rules = yaml.safe_load((deploy / "components" / "monitoring" / "prometheus-rule.yaml").read_text())
    (group,) = rules["spec"]["groups"]
    return group["rules"]


@pytest.fixture(scope="module")
def dashboard(deploy):
    return json.loads((deploy / "components" / "monitoring" / "dashboard.json").read_text())


def metrics_of(expression):
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)", "", expression)
    return set(re.findall(r"[a-z_]{4,}", bare)) - _WORDS


def test_alerts_use_metrics_that_exist(alerts, known):
    for alert in alerts:
        assert metrics_of(alert["expr"]), alert["alert"]
        assert metrics_of(alert["expr"]) <= known, alert["alert"]


def test_dashboard_uses_metrics_that_exist(dashboard, known):
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            assert metrics_of(target["expr"]), panel["title"]
            assert metrics_of(target["expr"]) <= known, panel["title"]


def test_panels_do_not_lie_upon_each_other(dashboard):
    taken = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_verdicts_of_alerts_occur(alerts):
    text = Metrics().text().decode()
    for verdict in re.findall(r'verdict="(\w+)"', " ".join(alert["expr"] for alert in alerts)):
        assert f'verdict="{verdict}"' in text


def test_alerts_say_what_to_do(alerts):
    for alert in alerts:
        assert alert["annotations"].keys() == {"summary", "description"}
        assert alert["labels"]["severity"] in ("warning", "critical")


def test_pages_that_alerts_name_exist(alerts, deploy):
    for page in re.findall(r"docs/[a-z-]+\.md", " ".join(alert["annotations"]["description"] for alert in alerts)):
        assert (deploy.parent / page).exists()


def test_scraped_port_is_the_service_s(deploy, one):
    monitor = yaml.safe_load((deploy / "components" / "monitoring" / "service-monitor.yaml").read_text())
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in one("Service")["spec"]["ports"]}
    labels = one("Service")["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
