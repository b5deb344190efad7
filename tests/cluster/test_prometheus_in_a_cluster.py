"""A real Prometheus scrapes a replica and an API server: the objectives get values, and every query of the dashboard works."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from testbed import libyaml, manifests
from testbed.debian_packages import NoPackageError, package_folder
from testbed.ports import free_ports
from testbed.waiting import until
from tests.cluster.quotas import limited

MONITORING = Path(__file__).parents[2] / "deploy" / "components" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
PANELS = [panel for listed in DASHBOARD["panels"] for panel in (listed, *listed.get("panels", ()))]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel.get("targets", ())]
OF_GRAFANA = {"$__rate_interval": "1m", "$__range": "5m", "$cluster": ".*", "$namespace": ".*", "$product": ".*"}
"""Its variables, and what stands for them here."""
AVAILABILITY = "gpu_admission:availability:ratio_30d"
COMPLETENESS = "gpu_admission:completeness:ratio_30d"
OBJECTIVES = (
    AVAILABILITY,
    COMPLETENESS,
    "gpu_admission:latency:ratio_30d",
    "gpu_admission:certificate_remaining:seconds",
)
FIRES = 'ALERTS{alertname="GPUAdmissionAvailabilityBurnsFast",alertstate="firing"}'
MAY_BE_EMPTY = {
    "Audit: findings by rule",  # there is an audit every ten minutes
    "Audit: workloads that request GPUs",  # as above
    "Caches that are out of date or forbidden",
    "Charges by outcome",  # dry runs are not counted
    "Connections",  # those that a limit closed
    "Exemptions and waivers that were used",  # no exemption is configured
    "Pods that wait for GPUs, by reason",  # none may wait
    "Pods that wait for GPUs, over time",  # as above
    "Refused or admitted because a webhook could not be called",
    "Templates",
    # GPU nodes may be created after the first count.
    *(panel["title"] for panel in PANELS if "gpu_admission_devices" in str(panel.get("targets"))),
}
"""Panels with a query of what does not happen in every run."""


@pytest.fixture
def prometheus(real, tmp_path):
    """The URL of a Prometheus with our rules, which scrapes every second."""
    try:
        program = package_folder("prometheus") / "usr" / "bin" / "prometheus"
    except NoPackageError as error:
        pytest.skip(str(error))
    for name in ("prometheus-rule.yaml", "slo-rule.yaml"):
        groups = libyaml.load((MONITORING / name).read_text())["spec"]["groups"]
        for group in groups:
            group.pop("interval", None)  # each second, as the others
        (tmp_path / name).write_text(yaml.safe_dump({"groups": groups}))
    user = libyaml.load(real.kubeconfig.read_text())["users"][0]["user"]
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


def value_of(prometheus, expression):
    """The value of a query with one result."""
    (found,) = query(prometheus, expression)
    return float(found["value"][1])


def test_objectives_and_panels_have_values(real, prometheus):
    team = limited(real, real.namespace(dra="enabled"), 4)
    warned, waived = manifests.pod(team), manifests.pod(team)
    warned["metadata"]["annotations"] = {"gpu-admission.io/owner": "me"}
    waived["metadata"]["annotations"] = {"gpu-admission.io/owner": "me", "gpu-admission.io/ignore": "GA406 because x"}

    def are_shown():
        for document in (warned, waived):
            assert real.create(document, dry_run=True).accepted
        missing = {name for name in OBJECTIVES if not query(prometheus, name)}
        # A rate has a value after two scrapes.
        empty = {title for title, expression in QUERIES if not query(prometheus, expression)}
        assert (missing, empty - MAY_BE_EMPTY) == (set(), set())
        return True

    until(are_shown, "objectives and panels have values", 60)
    assert value_of(prometheus, AVAILABILITY) == 1
    assert value_of(prometheus, COMPLETENESS) == 1


def test_outage_uses_up_the_error_budget_and_alerts(real, prometheus):
    """No replica answers: pods are refused in one namespace and pass unchecked in another."""
    team, elsewhere = real.namespace(dra="enabled"), real.namespace()
    real.service.stop()
    try:

        def alert_fires():
            assert not real.create(manifests.pod(team), dry_run=True).accepted
            assert real.create(manifests.pod(elsewhere), dry_run=True).accepted
            return query(prometheus, FIRES) and query(prometheus, f"{AVAILABILITY} < 1")

        until(alert_fires, "the alert on availability fires", 60)
        failed = {each["metric"]["name"] for each in query(prometheus, "gpu_admission:failed_calls:rate5m > 0")}
        assert failed == {"convert-pods.gpu-admission.io", "place-pods.gpu-admission.io", "check-pods.gpu-admission.io"}
    finally:
        real.service.start()
