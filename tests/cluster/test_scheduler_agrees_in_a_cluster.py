"""Generated pods: the answers of `explain` beside the real scheduler.

The oracle is the scheduler's outcome: it binds a pod exactly if some node fits now, and in an empty cluster exactly if some
node would fit if nothing were in use.
"""

import json
import os
import random

import pytest
import yaml

from tests.cluster.commands import command_output
from tests.cluster.mixed_nodes import Pods, mig_class, nodes, slices, templates
from tests.cluster.scheduled_pods import Scheduled, beating

SEED = int(os.environ.get("PODS_SEED", "0")) or random.randrange(1, 10**6)
PODS = int(os.environ.get("PODS", "60"))
"""Pods of each namespace: one converts, and one does not."""
RUNNING = 12
"""Pods of each namespace that are running while the others are looked at."""


class Mixed(Scheduled):
    """A cluster of nodes that hand out GPUs in every way, and two namespaces of pods."""

    def disagreements(self, pods, expected):
        """The pods that start although they should not, and the reverse; everything else runs on.

        Args:
            pods: The pods, none of which is there.
            expected: For each pod, whether it should start.
        """
        waiting = [pod for pod, starts in zip(pods, expected, strict=True) if not starts]
        wrong = self.starts(*waiting)
        self.end(*waiting)
        for pod, starts in zip(pods, expected, strict=True):
            if starts:
                wrong += [] if self.starts(pod) else [pod]
                self.end(pod)
        return [pod["metadata"] for pod in wrong]

    def verdicts(self, pods):
        """The answer of `explain` for each pod that is not created yet."""
        arguments = ("explain", "--live", "--kubeconfig", self.cluster.kubeconfig, "-o", "json", "-")
        found = json.loads(command_output(*arguments, stdin=yaml.safe_dump_all(pods)))
        assert len(found) == len(pods)
        return found


@pytest.fixture
def mixed(real, background):
    if not real.schedules:
        pytest.skip("no kube-scheduler runs here")
    made = [*nodes(), *slices(), mig_class()]
    for document in made:
        real.belongings.add(document)
    names = [each["metadata"]["name"] for each in nodes()]
    beats = beating(real, background, names)
    teams = [real.namespace(), real.namespace(dra="enabled")]
    try:
        for team in teams:
            for template in templates(team).values():
                assert real.create(template).accepted
        yield Mixed(real, teams)
    finally:
        beats.cancel()
        for team in teams:
            real.belongings.empty(team)
        for document in reversed(made):
            real.delete(document["kind"], document["metadata"]["name"])
        for name in names:
            real.delete("Lease", name, "kube-node-lease")


@pytest.mark.timeout(1200)
def test_scheduler_binds_pods_exactly_if_explain_says_so(mixed):
    generated = Pods(SEED)
    pods = [generated.pod(team, f"pod-{number}") for number in range(PODS) for team in mixed.teams]
    running = []
    for pod in pods[: 2 * RUNNING]:
        found = mixed.starts(pod)
        running += found
        if not found:
            mixed.end(pod)
    others = [pod for pod in pods if pod not in running]
    verdicts = mixed.verdicts(others)
    wrong = [("now", each) for each in mixed.disagreements(others, [each["fitNow"] > 0 for each in verdicts])]
    mixed.end(*running)
    full = [
        (pod, verdict["fitIfEmpty"] > 0) for pod, verdict in zip(others, verdicts, strict=True) if not verdict["fitNow"]
    ]
    wrong += [("if empty", each) for each in mixed.disagreements(*zip(*full, strict=True))]
    headlines = {
        (pod["metadata"]["namespace"], pod["metadata"]["name"]): (pod, verdict["headline"])
        for pod, verdict in zip(others, verdicts, strict=True)
    }
    shown = [(when, headlines[each["namespace"], each["name"]]) for when, each in wrong[:3]]
    assert not wrong, f"seed {SEED}: {len(wrong)} of {len(others)} pods: {json.dumps(shown, indent=1)}"
