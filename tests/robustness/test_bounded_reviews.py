"""No review blocks the event loop: long ones run in a thread, with the same answers."""

import asyncio
import threading

import orjson
import pytest

from policies.admission import judge, load_rules, review
from policies.admission.all_rules import rule_book
from policies.admission.webhooks import ENTRIES
from policies.cel import selectors
from policies.configuration.config_maps.plugin_documents import MOST_DOCUMENTS
from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by, count_work
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.view import ResultsPerObject
from policies.kubernetes.yaml import first_document
from policies.rules.decision import MOST_FINDINGS, Decision, Finding, Severity
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, RuleOverride
from tests.counted_work import RecordedWork
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission import Admission
from webhook.server.admission_review import decode, encode
from webhook.server.driver import IN_LOOP, LARGEST_IN_LOOP, ReviewRunner
from webhook.server.metrics import Metrics
from webhook.server.turns import Deadline

load_rules()
VIEW = ManifestsView([])


def review_body(document, group="", **more):
    gvk = {"group": group, "version": "v1", "kind": document["kind"]}
    request = {
        "uid": "u",
        "kind": gvk,
        "resource": {"group": group, "version": "v1", "resource": f"{document['kind'].lower()}s"},
        "namespace": document["metadata"].get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "somebody"},
        "object": document,
        **more,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def claim(*texts):
    listed = [{"cel": {"expression": text}} for text in texts]
    exactly = {"deviceClassName": "gpu.nvidia.com", "selectors": listed}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team-a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def cluster_policy(fields):
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {f"unknown{number}": {} for number in range(fields)},
    }


def hostile(number):
    return "||".join([f"[1].all(x,x>{number})"] * 350)


def deadline(seconds="10s"):
    return Deadline.start(lambda: 0.0, seconds)


@pytest.fixture
def threads(monkeypatch):
    """The names of the threads that reviews ended in."""
    ended = []
    real = judge

    def noted(*arguments):
        answer = real(*arguments)
        ended.append(threading.current_thread() is threading.main_thread())
        return answer

    monkeypatch.setattr("webhook.server.driver.judge", noted)
    return ended


async def answer(entry, body):
    admission = Admission(VIEW, lambda: DEFAULTS, Metrics())
    return orjson.loads(await admission.answer(ENTRIES[entry], body, admission.deadline("30s")))["response"]


async def test_small_review_runs_in_the_loop(threads):
    await answer("claims", review_body(claim("device.driver == 'gpu.nvidia.com'"), "resource.k8s.io"))
    assert threads == [True]


async def test_review_that_compiles_much_runs_aside(threads):
    selectors._cached_selector.cache.clear()
    await answer("claims", review_body(claim(hostile(1)), "resource.k8s.io"))
    assert threads == [False]


async def test_large_object_is_reviewed_aside(threads):
    body = review_body(cluster_policy(3000), "nvidia.com")
    assert len(body) > LARGEST_IN_LOOP
    await answer("configuration", body)
    assert threads == [False]


async def test_answer_does_not_depend_on_where_the_review_runs():
    body = review_body(claim(hostile(2), "device.nonsense", "1"), "resource.k8s.io")
    selectors._cached_selector.cache.clear()
    aside = await answer("claims", body)
    in_loop = review(decode(body, "claims"), VIEW, DEFAULTS)
    assert aside == encode(in_loop, ENTRIES["claims"], decode(body, "claims"))["response"]


def test_review_in_the_loop_stops_before_the_costly_step():
    selectors._cached_selector.cache.clear()
    work = RecordedWork(IN_LOOP)
    request = decode(review_body(claim(hostile(0)), "resource.k8s.io"), "claims")
    with pytest.raises(TooMuchWork), bounded_by(work):
        review(request, VIEW, DEFAULTS)
    assert sum(work.steps) <= IN_LOOP
    assert hostile(0) not in {text for text, _ in selectors._cached_selector.cache._entries}


def test_outdated_digest_of_a_large_cluster_is_too_much_work_for_the_loop_before_it_begins():
    nodes = [{"metadata": {"name": f"node-{number}"}} for number in range(5000)]
    made = []
    with pytest.raises(TooMuchWork), bounded_by(Work(IN_LOOP)):
        ResultsPerObject().results_of("Node", made.append, nodes)
    assert made == []


def test_digest_that_is_up_to_date_is_no_work():
    nodes, results = [{"metadata": {"name": f"node-{number}"}} for number in range(5000)], ResultsPerObject()
    first = results.results_of("Node", id, nodes)
    with bounded_by(Work(0)):
        assert results.results_of("Node", id, nodes) is first


async def test_loop_goes_on_while_a_review_runs_aside():
    begun, may_end = threading.Event(), threading.Event()

    def work():
        count_work(IN_LOOP + 1)
        begun.set()
        assert may_end.wait(30)
        return "done"

    runner = ReviewRunner()
    task = asyncio.create_task(runner.run(work, deadline()))
    assert await asyncio.to_thread(begun.wait, 30)
    assert await runner.run(lambda: "short", deadline()) == "short"
    assert not task.done()
    may_end.set()
    assert await task == "done"


async def test_reviews_aside_take_turns():
    running, most = 0, 0

    def work():
        nonlocal running, most
        running += 1
        most = max(most, running)
        count_work(1)
        running -= 1

    runner = ReviewRunner()
    await asyncio.gather(*(runner.run(work, deadline(), is_long=True) for _ in range(20)))
    assert most == 1


async def test_thread_ends_at_its_next_step_without_a_waiting_call():
    steps = []
    begun = threading.Event()

    def work():
        while True:
            begun.set()
            steps.append(1)
            count_work(1)

    runner = ReviewRunner()
    task = asyncio.create_task(runner.run(work, deadline(), is_long=True))
    assert await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await runner.run(lambda: "next", deadline(), is_long=True) == "next"


async def test_error_aside_is_the_error_of_the_review():
    def work():
        raise ValueError("as in the loop")

    with pytest.raises(ValueError, match="as in the loop"):
        await ReviewRunner().run(work, deadline(), is_long=True)


def found(number, severity):
    return Finding(rule_book().get("GA101"), severity, FieldPath(["spec", number]), "is wrong", "remove it")


def test_decision_keeps_fifty_findings_and_counts_the_others():
    decision = Decision(findings=tuple(found(number, Severity.WARN) for number in range(18_000))).limit_findings()
    assert (len(decision.findings), decision.left_out) == (MOST_FINDINGS, 17_950)
    assert "and 17,950 more findings" in decision.warnings


def test_denial_behind_many_warnings_is_kept():
    findings = [*(found(number, Severity.WARN) for number in range(100)), found(100, Severity.DENY)]
    decision = Decision(findings=tuple(findings)).limit_findings()
    assert not decision.allowed
    assert decision.findings[0].severity is Severity.DENY


def test_finding_behind_many_graver_ones_of_another_rule_is_kept():
    hidden = Finding(rule_book().get("GA601"), Severity.AUDIT, FieldPath(["spec"]), "is what nobody should see", "")
    decision = Decision(findings=(*(found(number, Severity.WARN) for number in range(100)), hidden)).limit_findings()
    assert (len(decision.findings), decision.left_out) == (MOST_FINDINGS, 51)
    assert decision.findings[-1] is hidden


def test_findings_that_are_off_hide_no_others_and_are_not_counted():
    containers = [
        {"name": f"c{number}", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]} for number in range(60)
    ]
    for container in containers[55:]:
        container["volumeMounts"] = [{"name": "dev", "mountPath": "/dev/nvidia0"}]
    volumes = [{"name": "dev", "hostPath": {"path": "/dev/nvidia0"}}]
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
    pod["spec"] = {"containers": containers, "volumes": volumes}
    settings = GPUAdmissionPolicy(rules=(RuleOverride("GA601", Severity.OFF),))
    decision = review(decode(review_body(pod), "guard-pods"), VIEW, settings)
    assert [finding.rule.id for finding in decision.findings] == ["GA604"] * 5
    assert decision.left_out == 0


def test_refusal_counts_what_it_leaves_out():
    request = decode(review_body(cluster_policy(10_000), "nvidia.com"), "configuration")
    decision = review(request, VIEW, DEFAULTS)
    status = encode(decision, ENTRIES["configuration"], request)["response"]["status"]
    assert (len(decision.findings), decision.left_out) == (MOST_FINDINGS, 9_951)
    assert status["message"].splitlines()[-1] == "and 9,951 more findings; put these right first"


def answered(document, group, entry):
    request = decode(review_body(document, group), entry)
    return review(request, VIEW, DEFAULTS)


def config_map(documents):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "configs",
            "namespace": "gpu-operator",
            "labels": {"gpu-admission.io/config": "device-plugin"},
        },
        "data": {f"c{number}": "version: v1" for number in range(documents)},
    }


def deployment(variables):
    container = {
        "name": "c",
        "image": "i",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "env": [{"name": f"E{number}", "value": "x" * 30} for number in range(variables)],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"replicas": 1, "template": {"metadata": {}, "spec": {"containers": [container]}}},
    }


@pytest.fixture
def documents_read(monkeypatch):
    """How many YAML texts are read."""
    read = []
    where = "policies.configuration.config_maps.plugin_documents.first_document"
    monkeypatch.setattr(where, lambda text, **more: (read.append(text), first_document(text, **more))[1])
    return read


def test_config_map_with_many_documents_is_reviewed_in_part_and_says_so(documents_read):
    decision = answered(config_map(18_000), "", "configuration")
    assert len(documents_read) <= 2 * MOST_DOCUMENTS
    assert "data: has 18,000 configurations, of which only the first 128 were reviewed; split the ConfigMap" in [
        plain_text(finding) for finding in decision.findings
    ]


def test_config_map_with_as_many_documents_as_are_reviewed_has_no_such_warning():
    assert answered(config_map(MOST_DOCUMENTS), "", "configuration").findings == ()


def test_fields_that_were_meant_are_looked_for_a_bounded_number_of_times(monkeypatch):
    looked_for = []
    monkeypatch.setattr(
        "policies.kubernetes.schema.write_field", lambda name, *_: looked_for.append(name) or "remove it"
    )
    answered(cluster_policy(10_000), "nvidia.com", "configuration")
    assert 0 < len(looked_for) <= 50


def test_large_pods_of_a_workload_are_not_reviewed_with_it_and_the_answer_says_so(monkeypatch):
    reviewed = []
    real = review
    monkeypatch.setattr("policies.admission.reviews", lambda *asked: (reviewed.append(asked), real(*asked))[1])
    decision = answered(deployment(20_000), "apps", "workloads")
    assert reviewed == []
    (remark,) = decision.remarks
    assert remark.startswith("spec.template: its pods were not reviewed: only pods of at most 64 KiB are reviewed with")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x]\n" + "".join(f"b{n}: &b{n} [{'*a, ' * 9}*a]\n" for n in range(20_000)),
        "[" * 300_000,
        "{a: " * 100_000,
        "- " * 200_000 + "x",
        "x: '" + "y" * 900_000 + "'",
        "x: " + "9" * 900_000,
        "? " * 200_000,
        "&a " * 100_000,
    ],
    ids=["aliases", "lists", "mappings", "dashes", "scalar", "number", "keys", "anchors"],
)
def test_hostile_yaml_has_at_most_one_finding(text):
    document = config_map(0) | {"data": {"any": text}}
    assert len(answered(document, "", "configuration").findings) <= 1
