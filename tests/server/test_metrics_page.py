"""The metrics page."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from policies.admission.all_rules import rule_book
from policies.admission.webhooks import ENTRIES
from policies.rules.settings import Exemption, GPUAdmissionPolicy
from webhook.server.metrics import Metrics


def samples(webhook):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(webhook.metrics.exposition().text().decode())
        for sample in family.samples
    }


def value(webhook, name, /, **labels):
    return samples(webhook).get((f"gpu_admission_{name}", *sorted(labels.items())))


async def test_requests_are_counted_by_verdict(webhook, pod, review_of):
    for gpus in (1, 1, 0, "0.5"):
        await webhook.client.ask("convert-pods", review_of(pod(gpus)))
    counts = {
        verdict: value(webhook, "requests_total", webhook="convert-pods", verdict=verdict)
        for verdict in ("changed", "allowed", "denied", "failed", "turned_down")
    }
    assert counts == {"changed": 2, "allowed": 1, "denied": 1, "failed": 0, "turned_down": 0}


async def test_findings_are_counted_by_rule(webhook, pod, review_of):
    for _ in range(2):
        await webhook.client.ask("convert-pods", review_of(pod("0.5")))
    assert value(webhook, "findings_total", webhook="convert-pods", rule="GA302", severity="deny") == 2


async def test_uses_of_exemptions_are_counted_by_rule(start_webhook, cluster, pod, review_of):
    settings = GPUAdmissionPolicy(exemptions=(Exemption(("GA601", "conversion"), users=("alice",)),))
    webhook = await start_webhook(view=cluster, settings=settings)
    document = pod(0)
    document["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    for user in ("alice", "alice", "bob"):
        assert (await webhook.client.ask("guard-pods", review_of(document, userInfo={"username": user})))["allowed"]
    await webhook.client.ask("convert-pods", review_of(pod()))
    assert value(webhook, "exempted_total", webhook="guard-pods", rule="GA601") == 2
    assert value(webhook, "exempted_total", webhook="convert-pods", rule="GA334") == 1


async def test_time_is_measured_up_to_ten_seconds(webhook, pod, review_of):
    await webhook.client.ask("place-pods", review_of(pod()))
    assert value(webhook, "request_duration_seconds_count", webhook="place-pods") == 1
    assert value(webhook, "request_duration_seconds_bucket", webhook="place-pods", le="10.0") == 1
    assert value(webhook, "request_duration_seconds_count", webhook="check-pods") == 0


async def test_conversions_are_counted_by_outcome(webhook, pod, review_of):
    for document in (pod(), pod(2), pod("0.5"), pod(0), pod(schedulerName="volcano")):
        await webhook.client.ask("convert-pods", review_of(document))
    outcomes = {
        outcome: value(webhook, "conversions_total", outcome=outcome)
        for outcome in ("converted", "unconverted", "refused")
    }
    assert outcomes == {"converted": 2, "unconverted": 1, "refused": 1}


async def test_dry_runs_convert_nothing(webhook, pod, review_of):
    await webhook.client.ask("convert-pods", review_of(pod(), dryRun=True))
    assert value(webhook, "conversions_total", outcome="converted") == 0
    assert value(webhook, "requests_total", webhook="convert-pods", verdict="changed") == 1


async def test_previews_convert_nothing(webhook, pod, review_of):
    await webhook.client.ask("place-pods", review_of(pod(namespace="team-preview")))
    assert value(webhook, "conversions_total", outcome="converted") == 0


async def test_unknown_paths_make_no_series(webhook):
    before = samples(webhook).keys()
    await webhook.client.post("/nowhere", b"{}")
    await webhook.client.post("/convert-pods?timeout=x", b"{}")
    assert samples(webhook).keys() == before


async def test_labels_take_only_our_own_values(webhook, pod, review_of):
    await webhook.client.ask("convert-pods", review_of(pod("0.5", namespace="x", name="y"), userInfo={"username": "z"}))
    rules = {rule.id for rule in rule_book().rules}
    for _, *labels in samples(webhook):
        for label, reported in labels:
            assert label in {
                "answer",
                "call",
                "webhook",
                "concern",
                "verdict",
                "rule",
                "severity",
                "outcome",
                "le",
                "version",
                "port",
                "reason",
            }
            assert label != "webhook" or reported in ENTRIES
            assert label != "rule" or reported in rules


async def test_calls_under_way_are_shown(webhook, pod, review_of, wire, until):
    assert value(webhook, "requests_in_flight") == 0
    connection = await wire(webhook.port)
    await connection.send(
        b"POST /convert-pods HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    )
    await until(lambda: value(webhook, "requests_in_flight") == 1)
    await connection.send(b"{}")
    await connection.head()
    assert value(webhook, "requests_in_flight") == 0


async def test_build_is_shown(webhook):
    from importlib.metadata import version

    assert value(webhook, "build_info", version=version("gpu-admission")) == 1


async def test_certificate_expiry_is_requested_at_every_scrape(webhook):
    moments = iter([100.0, 200.0])
    webhook.metrics.watch_certificate(lambda: next(moments))
    assert value(webhook, "certificate_expiry_timestamp_seconds") == 100
    assert value(webhook, "certificate_expiry_timestamp_seconds") == 200


async def test_counters_bring_no_creation_times(webhook):
    assert b"_created" not in webhook.metrics.exposition().text()


async def test_process_is_measured(webhook):
    assert b"process_resident_memory_bytes" in webhook.metrics.exposition().text()


@pytest.mark.parametrize("answers", [1, 1000])
def test_answers_are_counted_when_the_metrics_are_read(answers):
    metrics = Metrics()
    for _ in range(answers):
        metrics.count_answer("claims", "denied", 0.002)
    labels = {"webhook": "claims"}
    counted = metrics.registry.get_sample_value("gpu_admission_requests_total", {**labels, "verdict": "denied"})
    timed = metrics.registry.get_sample_value("gpu_admission_request_duration_seconds_count", labels)
    assert (counted, timed) == (answers, answers)
