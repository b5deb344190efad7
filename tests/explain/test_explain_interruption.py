"""The caller can stop the work, and no selector is evaluated that Kubernetes would not evaluate."""

from __future__ import annotations

import pytest

from policies.analyses.explain import explain
from policies.cel import Selector
from policies.kubernetes.bounds import Work, bounded_by
from policies.outcome import Feasibility, ObstacleKind, questions
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

NUMBERS = f"[{', '.join(map(str, range(100)))}]"
COSTLY = f"{NUMBERS}.all(a, {NUMBERS}.all(b, {NUMBERS}.all(c, a + b + c < 999)))"


class StoppedError(Exception):
    """What a caller raises to stop work."""


@pytest.fixture
def stopped_after(k8s):
    """How often the work asks whether to go on before it ends, if it is stopped after some times."""

    def ask(document, *objects, times):
        known = [k8s.device_class(), k8s.namespace(), k8s.empty_list("Pod"), *objects]
        view = ManifestsView(known)
        (question,) = questions(document, "team-a", view, DEFAULTS)
        asked = 0

        def check_cancelled():
            nonlocal asked
            asked += 1
            if asked > times:
                raise StoppedError

        with bounded_by(Work(check=check_cancelled)):
            explain(question, view, DEFAULTS)
        return asked

    return ask


def test_work_can_be_stopped_wherever_it_asks(stopped_after, k8s):
    cluster = [k8s.node(), k8s.resource_slice([k8s.gpu(0, memory="40Gi")])]
    claim = k8s.claim(k8s.selecting('device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("81559Mi"))'))
    questions_asked = stopped_after(claim, *cluster, times=10_000)
    for times in range(questions_asked):
        with pytest.raises(StoppedError):
            stopped_after(claim, *cluster, times=times)
    assert stopped_after(claim, *cluster, times=questions_asked) == questions_asked


def test_work_on_wishes_can_be_stopped_wherever_it_asks(stopped_after, k8s):
    labels = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"}
    node = k8s.node(labels=labels, allocatable={"nvidia.com/gpu": "1"})
    pod = k8s.pod({"nvidia.com/gpu": "1"})
    pod["metadata"]["annotations"] = {"gpu-admission.io/min-memory": "40Gi"}
    questions_asked = stopped_after(pod, node, times=10_000)
    for times in range(questions_asked):
        with pytest.raises(StoppedError):
            stopped_after(pod, node, times=times)


def test_work_asks_before_each_evaluation(stopped_after, k8s, monkeypatch):
    evaluated = []
    matches = Selector.matches
    monkeypatch.setattr(Selector, "matches", lambda selector, device: evaluated.append(1) or matches(selector, device))
    cluster = [k8s.node(), k8s.resource_slice(k8s.gpus(64))]
    claim = k8s.claim(k8s.selecting('device.attributes["gpu.nvidia.com"].uuid == "GPU-x"'), stored=True)
    with pytest.raises(StoppedError):
        stopped_after(claim, *cluster, times=20)
    assert len(evaluated) <= 20


def test_work_asks_while_it_searches(stopped_after, k8s):
    devices = k8s.gpus(81)
    for number, device in enumerate(devices):
        device["attributes"] |= {"row": {"int": number // 9}, "column": {"int": number % 9}}
    claim = k8s.claim()
    exactly = {"deviceClassName": "gpu.nvidia.com"}
    claim["spec"]["devices"] = {
        "requests": [{"name": f"gpu-{number}", "exactly": exactly} for number in range(10)],
        "constraints": [{"distinctAttribute": f"gpu.nvidia.com/{name}"} for name in ("row", "column")],
    }
    assert stopped_after(claim, k8s.node(), k8s.resource_slice(devices), times=10_000) > 20_000 // 64


def test_costly_selector_is_an_obstacle_and_not_evaluated(ask, k8s, monkeypatch):
    monkeypatch.delattr(Selector, "matches")
    claim = k8s.claim(k8s.selecting(COSTLY), stored=True)
    answer = ask(claim, k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert answer.verdict is Feasibility.BLOCKED
    (obstacle,) = answer.obstacles
    assert obstacle.kind is ObstacleKind.TOO_COSTLY
    assert obstacle.sentence.startswith(
        "the API server refuses a selector of request gpu of ResourceClaim team-a/gpus as too costly: the estimate for one "
        "device is "
    )
    assert obstacle.remedy == "avoid loops in loops: all, exists, filter and map over what may be long"


def test_costly_selector_of_a_class_is_an_obstacle(ask, k8s):
    known = [k8s.device_class(selector=COSTLY), k8s.namespace()]
    answer = ask(k8s.claim(), k8s.node(), k8s.resource_slice(k8s.gpus(8)), base=known)
    (obstacle,) = answer.obstacles
    assert obstacle.sentence.startswith(
        "the API server refuses a selector of DeviceClass gpu.nvidia.com as too costly: "
    )
