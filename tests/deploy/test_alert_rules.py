"""Prometheus' own promtool accepts the rules; each alert fires when it should, with its texts, and each record has its value."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from testbed import libyaml
from testbed.debian_packages import NoPackageError, package_folder

MONITORING = Path(__file__).parents[2] / "deploy" / "components" / "monitoring"
FILES = ("prometheus-rule.yaml", "slo-rule.yaml")
CASES = libyaml.load((Path(__file__).parent / "alert_cases.yaml").read_text())
RECORDED = libyaml.load((Path(__file__).parent / "recorded_cases.yaml").read_text())
GROUPS = {name: libyaml.load((MONITORING / name).read_text())["spec"]["groups"] for name in FILES}
RULES = [rule for groups in GROUPS.values() for group in groups for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
HALF_AN_HOUR = "30m"


@pytest.fixture(scope="module")
def promtool():
    try:
        return package_folder("prometheus") / "usr" / "bin" / "promtool"
    except NoPackageError as error:
        pytest.skip(str(error))


@pytest.fixture
def run_unit_tests(promtool, tmp_path):
    """Run unit tests by one promtool, whose start takes half a second; `unit_tests` are groups of rules and their tests by name."""

    def run(unit_tests, interval="1m"):
        files = []
        for name, (groups, tests) in unit_tests.items():
            rule_file, test_file = tmp_path / f"{name}.yaml", tmp_path / f"{name}-test.yaml"
            rule_file.write_text(yaml.safe_dump({"groups": groups}))
            test = {"rule_files": [rule_file.name], "tests": tests, "evaluation_interval": interval}
            test_file.write_text(yaml.safe_dump(test))
            files.append(test_file)
        done = subprocess.run([promtool, "test", "rules", *files], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def texts_of(case):
    """The annotations of an alert, with what its templates stand for."""

    def insert(found):
        name = found[1].strip()
        return case["value"] if name.startswith("$value") else case["labels"][name.removeprefix("$labels.")]

    texts = ALERTS[case["alert"]]["annotations"]
    return {name: re.sub(r"\{\{(.*?)\}\}", insert, text) for name, text in texts.items()}


def input_series(series):
    # 0x30 is a number in YAML.
    assert all(isinstance(values, str) for values in series.values()), series
    return [{"series": one, "values": values} for one, values in series.items()]


def unit_test(series, at, name, expected):
    return {
        "interval": "1m",
        "input_series": input_series(series),
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": expected}],
    }


def unit_tests(case):
    at, name = case.get("at", HALF_AN_HOUR), case["alert"]
    # Prometheus drops empty labels.
    labels = {label: value for label, value in case.get("labels", {}).items() if value}
    fired = {"exp_labels": {**ALERTS[name]["labels"], **labels}, "exp_annotations": texts_of(case)}
    yield unit_test(case["fires"], at, name, [fired])
    yield from (unit_test(series, at, name, []) for series in case["quiet"])


def groups_with(groups, alert):
    """The groups without the other alerts."""
    return [
        {**group, "rules": [rule for rule in group["rules"] if "record" in rule or rule["alert"] == alert]}
        for group in groups
    ]


def test_promtool_accepts_the_rules(promtool, tmp_path):
    """As Prometheus reads them, without the Prometheus operator: a file for each object."""
    files = [tmp_path / name for name in FILES]
    for file in files:
        file.write_text(yaml.safe_dump({"groups": GROUPS[file.name]}))
    done = subprocess.run([promtool, "check", "rules", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = re.findall(r"SUCCESS: (\d+) rules found", done.stdout)
    assert sum(map(int, found)) == len(RULES)


def test_every_alert_has_a_case():
    assert [case["alert"] for case in CASES] == [*ALERTS]
    assert all(case["quiet"] for case in CASES)


@pytest.mark.parametrize("name", FILES)
def test_alerts_fire_when_they_should(run_unit_tests, name):
    """Each alert beside the recorded series only: promtool evaluates all rules of a file at each step of each test."""
    alerts = {rule["alert"] for group in GROUPS[name] for rule in group["rules"] if "alert" in rule}
    unit_tests_of = {
        case["alert"]: (groups_with(GROUPS[name], case["alert"]), list(unit_tests(case)))
        for case in CASES
        if case["alert"] in alerts
    }
    # Objectives look back for hours, and each evaluation reads all of it again.
    run_unit_tests(unit_tests_of, "5m" if name == "slo-rule.yaml" else "1m")


def test_every_recorded_series_has_a_case():
    assert {rule["record"] for rule in RULES if "record" in rule} == RECORDED["recorded"].keys()


def test_recorded_series_have_their_values(run_unit_tests):
    samples = [
        {
            "expr": f"round({record}, 0.001)",
            "eval_time": "7h",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in expected.items()],
        }
        for record, expected in RECORDED["recorded"].items()
    ]
    series = input_series(RECORDED["series"])
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": samples}]
    run_unit_tests({"records": (GROUPS["slo-rule.yaml"], tests)})


def test_every_recorded_series_is_used_or_shown():
    """By an alert, by another rule, on the dashboard or on a page."""
    pages = [MONITORING / "dashboard.json", MONITORING.parents[2] / "docs" / "slo.md"]
    texts = [rule["expr"] for rule in RULES] + [page.read_text() for page in pages]
    for rule in RULES:
        if "record" in rule:
            assert sum(rule["record"] in text for text in texts) >= 1, rule["record"]


def test_objectives_of_the_page_are_those_of_alerts_and_dashboard():
    page = (MONITORING.parents[2] / "docs" / "slo.md").read_text()
    dashboard = (MONITORING / "dashboard.json").read_text()
    targets = dict(re.findall(r"^\| \*\*(\w+).*\| ([\d.]+) %", page, re.MULTILINE))
    assert targets.keys() == {"Availability", "Latency"}
    for name, target in targets.items():
        budget = round(1 - float(target) / 100, 4)
        assert f"14.4 * {budget} *" in ALERTS[f"GPUAdmission{name}BurnsFast"]["expr"]
        assert f"6 * {budget} *" in ALERTS[f"GPUAdmission{name}BurnsSlowly"]["expr"]
        assert f" > {budget} and" in ALERTS[f"GPUAdmission{name}OverBudget"]["expr"]
        assert f" / {budget}" in dashboard
