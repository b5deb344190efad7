"""A real Prometheus scrapes a replica and an API server: the objectives get values, and every query of the dashboard works."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from testbed import manifests
from testbed.debian_packages import NoPackageError, package_folder
from testbed.ports import free_ports
from testbed.waiting import until

MONITORING = Path(__file__).parents[2] / "deploy" / "components" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
OF_GRAFANA = {"$__rate_interval": "1m", "$__range": "5m"}
"""Its variables, and what stands for them here."""
OBJECTIVES = ("gpu_admission:availability:ratio_30d", "gpu_admission:latency:ratio_30d")


NOTHING_HAPPENED = {
    "Audit: findings by rule",
    "Connections",
    "Exemptions and waivers that were used",
    "Findings by rule",
    "Quotas: usage of each limit",
    "Refused or admitted because a webhook could not be called",
}
"""Panels with a query of what did not happen here: no rule found anything, no call failed, and there is no quota."""


@pytest.fixture
def prometheus(real, tmp_path):
    """The URL of a Prometheus with our rules, which scrapes every second."""
    try:
        program = package_folder("prometheus") / "usr" / "bin" / "prometheus"
    except NoPackageError as error:
        pytest.skip(str(error))
    for name in ("prometheus-rule.yaml", "slo-rule.yaml"):
        groups = yaml.safe_load((MONITORING / name).read_text())["spec"]["groups"]
        (tmp_path / name).write_text(yaml.safe_dump({"groups": groups}))
    user = yaml.safe_load(real.kubeconfig.read_text())["users"][0]["user"]
    address = urllib.parse.urlsplit(real.api.access.url)
    jobs = [
        {"job_name": "gpu-admission", "honor_labels": True, "targets": real.service.probe_address},
        {
            "job_name": "apiserver",
            "scheme": "https",
            "tls_config": {"insecure_skip_verify": True},
            "authorization": {"credentials": user["token"]},
            "targets": address.netloc,
        },
    ]
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["*-rule.yaml"],
        "scrape_configs": [
            {
                **{key: value for key, value in job.items() if key != "targets"},
                "static_configs": [{"targets": [job["targets"]]}],
            }
            for job in jobs
        ],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    (port,) = free_ports(1)
    options = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(
            [program, *options, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
        )
    yield f"http://127.0.0.1:{port}"
    running.terminate()
    running.wait()


def query(prometheus, expression):
    """The result of a query; an assertion error while Prometheus does not answer."""
    for name, value in OF_GRAFANA.items():
        expression = expression.replace(name, value)
    url = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.URLError as error:
        raise AssertionError(str(error)) from error


def test_objectives_and_panels_have_values(real, prometheus):
    team = real.namespace(dra="enabled")
    values = {}

    def has_values():
        assert real.create(manifests.pod(team), dry_run=True).accepted
        values.update({name: query(prometheus, name) for name in OBJECTIVES})
        return all(found and found[0]["value"][1] != "NaN" for found in values.values())

    until(has_values, "the objectives have values", 60)
    assert {name: float(found[0]["value"][1]) for name, found in values.items()}[OBJECTIVES[0]] == 1
    empty = {title for title, expression in QUERIES if not query(prometheus, expression)}
    assert sorted(empty) == sorted(NOTHING_HAPPENED)
