"""Commands of both checkouts, with the same files in the same folder."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

from testbed.differential.differences import Answers
from testbed.differential.material import write_manifests
from testbed.differential.seeded_opt_in import quotas, settings
from testbed.service import environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from testbed.differential.differences import Report
    from testbed.differential.material import Material
    from testbed.differential.seeded_objects import SeededObjects


_SECONDS = 300
_CHANGES = ("ClusterPolicy", "ConfigMap", "DeviceClass", "GPUQuota", "GPUAdmissionPolicy", "Namespace", "Node")
_CLAIMS = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")


def command_of(checkout: Path) -> str:
    """The executable of a checkout."""
    return str(checkout / ".venv" / "bin" / "gpu-admission")


def command_environment() -> dict[str, str]:
    """An environment in which a checkout imports its own modules, in the same order of sets each time."""
    without = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    return {**without, "PYTHONHASHSEED": "0", "COLUMNS": "120", "NO_COLOR": "1"}


class CommandRuns:
    """Makes up commands and their files, and compares the outputs."""

    def __init__(
        self,
        checkouts: tuple[Path, Path],
        folder: Path,
        report: Report,
        random: Random,
        objects: SeededObjects,
        material: Material,
    ) -> None:
        self._checkouts = checkouts
        self._folder = folder
        self._report = report
        self._random = random
        self._objects = objects
        self._material = material
        self._runs = 0

    def run(self, cases: int) -> None:
        """Compare commands until so many objects or commands are compared."""
        kinds: list[tuple[int, Callable[[], int]]] = [
            (8, self._review),
            (2, self._review_update),
            (3, self._found_inputs),
            (4, self._explain),
            (2, self._explain_name),
            (3, self._migrate),
            (2, self._plan),
            (3, self._cel),
            (3, self._generate),
            (3, self._look_at_cluster),
            (1, self._rules),
            (1, self._suites),
        ]
        weights = [weight for weight, _ in kinds]
        left = cases - self._review()
        while left > 0:
            (_, ask) = self._random.choices(kinds, weights)[0]
            left -= ask()

    def _review(self) -> int:
        folder = self._inputs([self._objects.any_object() for _ in range(40)])
        output = self._random.choice(["json", "json", "json", "text", "yaml", "sarif", "junit", "github"])
        return self._compare(
            "review", ["review", *self._cluster(), *self._settings(folder), "-o", output, "in"], folder, 40
        )

    def _review_update(self) -> int:
        objects = self._objects
        after = [self._random.choice((objects.pod, objects.pod, objects.workload, objects.claim))() for _ in range(20)]
        folder = self._inputs(after)
        write_manifests(folder / "old.json", [objects.former_object(each) for each in after])
        user = ["--user", self._random.choice(["alice", "system:serviceaccount:kube-system:job-controller"])]
        options = ["--operation", "UPDATE", "--old", "old.json", *user, "-o", "json"]
        return self._compare("review of updates", ["review", *self._cluster(), *options, "in"], folder, 20)

    def _found_inputs(self) -> int:
        """Files as they were found, beside the cluster that they are about."""
        inputs = self._random.choice(self._material.inputs)
        own = inputs / "cluster"
        cluster = ["--cluster", str(own)] if own.exists() else self._cluster()
        files = [str(each) for each in sorted(inputs.iterdir()) if each.suffix == ".yaml"] or [str(inputs)]
        command = self._random.choice(["review", "review", "plan", "explain", "migrate"])
        output = [] if command == "migrate" else ["-o", self._random.choice(["json", "json", "text"])]
        return self._compare(command, [command, *cluster, *output, *files], self._inputs([]), len(files))

    def _explain(self) -> int:
        objects = self._objects
        makers = (objects.pod, objects.pod, objects.workload, objects.claim, objects.template)
        folder = self._inputs([self._random.choice(makers)() for _ in range(6)])
        output = self._random.choice(["json", "json", "text", "html"])
        return self._compare(
            "explain", ["explain", *self._cluster(), *self._settings(folder), "-o", output, "in"], folder, 6
        )

    def _explain_name(self) -> int:
        """Pods of the cluster; those that do not exist are an answer too."""
        names = [("team-vision", "pod/pretrain-0"), ("robotics", "pod/isaac-sim-needs-16"), ("team-a", "pod/train")]
        namespace, name = self._random.choice(names)
        command = ["explain", *self._cluster(), "-n", namespace, name, "-o", self._random.choice(["json", "text"])]
        return self._compare("explain", command, self._inputs([]), 1)

    def _migrate(self) -> int:
        if self._random.random() < 0.3:
            command = ["migrate", "--prove", *self._cluster(), "-o", self._random.choice(["json", "diff"])]
            return self._compare("migrate", command, self._inputs([]), 1)
        makers = (self._objects.pod, self._objects.workload)
        folder = self._inputs([self._random.choice(makers)() for _ in range(12)])
        command = ["migrate", *self._cluster(), "-o", self._random.choice(["diff", "yaml"]), "in"]
        return self._compare("migrate", command, folder, 12)

    def _plan(self) -> int:
        changes = [each for each in self._material.objects if each["kind"] in _CHANGES]
        chosen = [self._random.choice(changes) for _ in range(self._random.choice([1, 1, 2]))]
        folder = self._inputs(chosen)
        output = self._random.choice(["json", "text"])
        deleted = ["--delete", "deviceclass/mig.nvidia.com"] if self._random.random() < 0.2 else []
        return self._compare("plan", ["plan", *self._cluster(), *deleted, "-o", output, "in"], folder, len(chosen))

    def _cel(self) -> int:
        found = [each for each in self._material.objects if each["kind"] in _CLAIMS]
        objects = self._objects
        makers = (objects.claim, objects.template, objects.device_class, lambda: self._random.choice(found))
        folder = self._inputs([])
        write_manifests(folder / "claims.yaml", [self._random.choice(makers)() for _ in range(4)])
        output = self._random.choice(["json", "json", "text"])
        edit = ["--edit", 'device.driver == "gpu.nvidia.com"'] if self._random.random() < 0.2 else []
        return self._compare("cel", ["cel", *self._cluster(), *edit, "-o", output, "claims.yaml"], folder, 4)

    def _generate(self) -> int:
        choose = self._random.choice
        product = ["--product", choose(["H100", "A100-80GB", "T4", "H100*", "B200", "x"])]
        want = choose(["1g.10gb=3,3g.40gb=1", "1g.5gb=7", "7g.80gb=1", "1g.10gb=9", "x=1", "1g.10gb+me=1"])
        command = choose(
            [
                ["mig", *product, "--want", want, *choose([[], ["--gpus", "4"]])],
                ["time-slicing", *product, "--replicas", choose(["2", "4", "1", "100"])],
                ["mps", *product, "--replicas", choose(["2", "16"])],
                ["quota", "-n", "team-a", "--gpus", choose(["8", "1/2", "-1"]), "--memory", choose(["320Gi", "x"])],
                ["claim", *product, "--count", choose(["1", "8"]), *choose([[], ["--template"], ["--mig", "1g.10gb"]])],
                ["wish", *product, "--memory", choose(["40Gi", "1"]), "--sharing", choose(["exclusive", "any"])],
            ]
        )
        return self._compare("generate", ["generate", *command], self._inputs([]), 1)

    def _look_at_cluster(self) -> int:
        command = self._random.choice(["usage", "audit", "quota"])
        options = [*self._cluster(), "-o", self._random.choice(["json", "text"])]
        if self._random.random() < 0.3:
            options += ["-n", self._random.choice(["team-a", "team-vision", "llm-pretraining"])]
        folder = self._inputs([])
        if command != "usage":
            options += self._settings(folder)
        pods = [self._objects.pod() for _ in range(30)]
        write_manifests(folder / "more.json", [*pods, *quotas(self._random)])
        return self._compare(command, [command, *options, "--cluster", "more.json"], folder, 1)

    def _rules(self) -> int:
        choices = [
            ["-o", "json"],
            [self._random.choice(self._material.rules)],
            ["--search", "MIG"],
            ["--kind", "Pod"],
            [],
        ]
        return self._compare("rules", ["rules", *self._random.choice(choices)], self._inputs([]), 1)

    def _suites(self) -> int:
        output = self._random.choice(["text", "text", "junit"])
        return self._compare("test", ["test", "-o", output, str(self._material.examples)], self._inputs([]), 1)

    def _cluster(self) -> list[str]:
        clusters = self._material.clusters
        return ["--cluster", str(clusters[self._random.choice(sorted(clusters))])]

    def _settings(self, folder: Path) -> list[str]:
        if self._random.random() < 0.5:
            return []
        write_manifests(folder / "settings.yaml", [settings(self._random, self._material.rules)])
        return ["--settings", "settings.yaml"]

    def _inputs(self, objects: list[dict[str, Any]]) -> Path:
        """A new working folder with a folder `in` of manifests."""
        self._runs += 1
        folder = self._folder / f"{self._runs:04d}"
        (folder / "in").mkdir(parents=True)
        for number, each in enumerate(objects):
            suffix = self._random.choice([".yaml", ".json"])
            write_manifests(folder / "in" / f"{number:02d}{suffix}", [each])
        return folder

    def _compare(self, kind: str, arguments: list[str], folder: Path, count: int) -> int:
        """Run a command of both checkouts at the same time, so that ages are the same."""
        processes = [
            subprocess.Popen(
                [command_of(checkout), *arguments],
                cwd=folder,
                env=command_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for checkout in self._checkouts
        ]
        before, after = ((*process.communicate(timeout=_SECONDS), process.returncode) for process in processes)
        line = shlex.join(["gpu-admission", *arguments])
        replay = {"command.txt": f"cd {folder}\n{line}\n"}
        self._report.compare(Answers(kind, line, _output(*before), _output(*after), replay), count)
        return count


def _output(stdout: str, stderr: str, code: int) -> dict[str, Any]:
    """The output of a command, parsed if it is JSON."""
    try:
        read = json.loads(stdout)
    except ValueError:
        read = stdout
    return {"exit code": code, "output": read, "errors": stderr}
