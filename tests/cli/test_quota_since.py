"""`gpu-admission quota --since`: the GPU hours that quotas summed."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from policies.quota.ledger.gpu_hours import Day, GPUHours, GPUKind
from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY, namespace, quota
from tests.sandbox import faults

NOW = datetime.now(UTC).replace(hour=0, minute=30, second=0, microsecond=0)
TODAY, LAST_WEEK = NOW.date(), NOW.date() - timedelta(days=7)
H100 = "NVIDIA-H100-80GB-HBM3"


def status(days, now=(), until=NOW, namespaces=()):
    text = GPUHours(until, dict(now), tuple(days)).text
    return {"status": {"hours": text, **({"namespaces": list(namespaces)} if namespaces else {})}}


def whole(hours, name="team-a"):
    return {GPUKind(name, H100, ""): Fraction(hours * 3600)}


def group(*days, namespaces):
    metadata = {"name": "research.blue"}
    spec = {"quota": "research", "group": "blue", "limits": [{"name": "all", "gpus": 8}]}
    document = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuotaGroup", "metadata": metadata, "spec": spec}
    return document | status(days, {GPUKind("team-a", H100, ""): Fraction(1)}, namespaces=namespaces)


SLICES = {GPUKind("team-a", H100, "1g.10gb"): Fraction(3600, 7), GPUKind("team-a", "", ""): Fraction(1800)}
CLUSTER = [
    *map(namespace, ("team-a", "team-b")),
    quota() | status([Day(LAST_WEEK, whole(100), gap=5400), Day(TODAY, whole(2) | SLICES)]),
    quota("team-b"),
    group(Day(TODAY, whole(2) | whole(3, "team-c")), namespaces=["team-a", "team-c"]),
]


@pytest.fixture
def asked(run, tmp_path):
    """Ask about the cluster in a file."""
    file = tmp_path / "cluster.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": CLUSTER}))
    return lambda *arguments: run("quota", "--cluster", file, *arguments, **AWAY)


def test_hours_of_quotas_and_groups_are_shown_by_product_and_profile(asked):
    done = asked("--since", "30d")
    first = TODAY - timedelta(days=29)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "GPUQuota team-a/gpu\n"
        f"102.6 GPU hours since {first}; it has held no GPU since {TODAY} 00:30 UTC.\n"
        f"No replica counted for 1.5 h, which have no GPU hours: {LAST_WEEK}.\n"
        "PRODUCT                MIG PROFILE  GPU HOURS\n"
        "NVIDIA-H100-80GB-HBM3  -                  102\n"
        "not known              -                  0.5\n"
        "NVIDIA-H100-80GB-HBM3  1g.10gb            0.1\n"
        "\n"
        "GPUQuota team-b/gpu\n"
        "It has not counted a GPU yet.\n"
        "\n"
        "GPUQuotaGroup research.blue\n"
        f"5 GPU hours since {first}, summed up to {TODAY} 00:30 UTC.\n"
        "NAMESPACE  PRODUCT                GPU HOURS\n"
        "team-c     NVIDIA-H100-80GB-HBM3          3\n"
        "team-a     NVIDIA-H100-80GB-HBM3          2\n"
    )


def test_days_before_the_first_one_are_left_out(asked):
    assert asked("--since", "1d", "-n", "team-a").stdout.splitlines()[1].startswith("2.6 GPU hours since")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("team-a", ["GPUQuota team-a/gpu", "GPUQuotaGroup research.blue"]), ("team-b", ["GPUQuota team-b/gpu"])],
)
def test_namespace_is_shown_with_its_group_only(asked, name, shown):
    lines = asked("--since", "7d", "-n", name).stdout.splitlines()
    assert [line for line in lines if line.startswith("GPUQuota")] == shown


def test_json_has_exact_amounts_and_each_day(asked):
    found = json.loads(asked("--since", "30d", "-n", "team-a", "-o", "json").stdout)
    own = found["quotas"][0]
    assert own["gpuHours"] == str(102 + Fraction(1, 7) + Fraction(1, 2))
    assert [(each["day"], each["gapSeconds"], each["until"]) for each in own["days"]] == [
        (str(LAST_WEEK), 5400, f"{LAST_WEEK + timedelta(days=1)}T00:00:00Z"),
        (str(TODAY), 0, f"{TODAY}T00:30:00Z"),
    ]


def test_hours_that_cannot_be_read_are_named(run, tmp_path):
    broken = quota() | {"status": {"hours": "[]"}}
    (tmp_path / "cluster.yaml").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace(), broken]})
    )
    done = run("quota", "--cluster", tmp_path / "cluster.yaml", "--since", "7d", **AWAY)
    assert "Warning: its GPU hours cannot be read: another program wrote status.hours" in " ".join(done.stdout.split())


def test_no_quota_has_no_hours(run, tmp_path):
    (tmp_path / "empty.yaml").write_text(json.dumps(namespace()))
    done = run("quota", "--cluster", tmp_path / "empty.yaml", "--since", "7d", "-n", "team-a", **AWAY)
    assert (done.returncode, done.stdout) == (
        0,
        "Namespace team-a has no quota, and GPU hours are summed for quotas only.\n",
    )


@pytest.mark.parametrize("days", ["33d", "0d", "30", "week", "-1d", "٣d", "d", "9" * 5000 + "d"])
def test_days_that_quotas_do_not_keep_are_refused(asked, days):
    done = asked(f"--since={days}")
    assert done.returncode == 2
    assert "write a number of days such as 30d, at most 32d: quotas keep no more." in done.stderr


def test_hours_are_not_shown_with_something_else(asked):
    done = asked("--since", "7d", "--compile")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "Error: --since and --compile print different things; give one of them",
    )


@pytest.fixture
async def live(tmp_path, run):
    """Ask about a sandbox in which a quota holds GPUs and was summed an hour ago."""
    definitions = ["gpuquotas.yaml", "gpuquotagroups.yaml"]
    async with example_sandbox(tmp_path, "cluster", definitions=definitions) as sandbox:
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        sandbox.create(namespace("team-q"))
        now = {GPUKind("team-q", H100, ""): Fraction(1)}
        stored = sandbox.create(quota("team-q"))
        sandbox.replace(stored | status([Day(hour_ago.date(), whole(2, "team-q"))], now, hour_ago))

        async def live(*arguments):
            return await asyncio.to_thread(
                run, "quota", "--kubeconfig", sandbox.file, "--since", "7d", *arguments, **AWAY
            )

        live.sandbox = sandbox
        yield live


async def test_sum_of_a_running_cluster_that_is_old_is_warned_of(live):
    done = await live("-n", "team-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith("2 GPU hours since ")
    assert (
        " ".join(done.stdout.split())
        .partition("Warning: ")[2]
        .startswith(
            "it holds GPUs, and its GPU hours are not summed any more: see whether gpu-admission runs and has a leader"
        )
    )


async def test_groups_that_may_not_be_listed_are_missing_with_a_note(live):
    live.sandbox.faults.add(faults.failing(403, "forbidden"), path="*/gpuquotagroups")
    done = await live("-n", "team-q")
    assert done.returncode == 0
    assert "so the GPU hours of groups are not shown" in " ".join(done.stdout.split())
