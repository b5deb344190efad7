"""Quotas as text: bars, tables, sentences, and what is left out."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import click
import pytest

from policies.kubernetes.objects import FieldPath
from policies.quota.limits.quota import Limit, Quota
from policies.quota.outcomes import Holder
from policies.quota.quota_report import Condition, LimitUse, QuotaReport, QuotaState, Reservation
from policies.rules.checks import Problem
from webhook.cli.reports.quota_reports import QuotaReports, text


def use(name="all", hard=8, used=0, reserved=0, unit="gpus"):
    used = None if used is None else Fraction(used)
    return LimitUse(Limit(name, unit, Fraction(hard)), used, Fraction(reserved), counted=True)


def report(*limits, namespace="team-a", state=QuotaState.WITHIN, mode="Enforce", enforced=False, holders=(), **more):
    quota = Quota(tuple(each.limit for each in limits), mode)
    return QuotaReport(namespace, "gpu", state, enforced, quota, tuple(limits), holders, **more)


def shown(*reports, namespace="", notes=(), width=100):
    return click.unstyle(text(QuotaReports(reports, namespace, notes), width))


def bar(**amounts):
    (line,) = (line for line in shown(report(use(**amounts))).splitlines() if line.startswith("all "))
    return line.split()[1]


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ({}, "[....................]"),
        ({"used": 8}, "[####################]"),
        ({"used": 4, "reserved": 2}, "[##########=====.....]"),
        ({"used": 3, "reserved": 5}, "[########============]"),
        ({"used": "1/100"}, "[#...................]"),
        ({"used": "799/100"}, "[###################.]"),
        ({"hard": 4, "used": 6, "reserved": 2}, "[###############=====>"),
        ({"hard": 0}, "[....................]"),
        ({"hard": 0, "used": 1}, "[####################>"),
        ({"used": None, "reserved": 1}, "[????????????????????]"),
    ],
    ids=[
        "empty",
        "full",
        "reserved",
        "rest reserved",
        "a little",
        "almost all",
        "over",
        "nothing",
        "over nothing",
        "?",
    ],
)
def test_bar_shows_what_is_taken(amounts, expected):
    assert bar(**amounts) == expected


def test_colours_take_no_room():
    coloured = text(QuotaReports((report(use(used=4, reserved=2)),), "", ()), 100)
    assert "all   [\x1b[32m##########\x1b[0m\x1b[36m=====\x1b[0m.....]     4         2     2  8 GPUs" in coloured


def test_everything_has_its_place():
    limits = (
        use("h100", 8, 4, 2),
        use("memory", 2**40, 5 * 80 * 2**30, 2**31, "memory"),
        use("mig", 14, 3, 0, "devices"),
    )
    holders = (
        Holder("team-a/train-7", {"h100": Fraction(4), "memory": Fraction(320 * 2**30)}, timedelta(hours=5, minutes=3)),
        Holder("team-a/notebook", {"mig": Fraction(3)}, timedelta(days=12)),
    )
    reservations = (
        Reservation("Pod", "eval", "u1", timedelta(seconds=8), {"h100": Fraction(2)}, True, ("gpu", "more")),
        Reservation("ResourceClaim", "eval-gpu-x", "u2", timedelta(minutes=1), {"h100": Fraction(2)}, True, of="eval"),
        Reservation("Pod", "other", "u3", None, {}, True),
    )
    conditions = (
        Condition("Ready", "True", "Counted", "2 pods and 3 claims are counted"),
        Condition("Enforced", "False", "FailsOpen", ""),
        Condition("Odd", "?", "", ""),
    )
    reported = report(
        *limits, holders=holders, reservations=reservations, conditions=conditions, remarks=("something is wrong",)
    )
    assert (
        shown(reported)
        == """\
GPUQuota team-a/gpu  within
Pods over a limit are refused (mode Enforce). The namespace does not enforce it: while it cannot be
checked, all pods are admitted.
Warning: something is wrong.

NAME    USE                     USED  RESERVED  LEFT  LIMIT
h100    [##########=====.....]     4         2     2  8 GPUs
memory  [########............]   400         2   622  1,024 GiB
mig     [####................]     3         0    11  14 devices

USED BY          AGE  USES
team-a/train-7    5h  h100 4, memory 320 GiB
team-a/notebook  12d  mig 3

ON ITS WAY                AGE  RESERVES
Pod eval                   8s  h100 2; until the pod and its claim gpu and its claim more are seen
ResourceClaim eval-gpu-x   1m  h100 2, counted with pod eval; until the claim is seen
Pod other                      nothing of a limit; until the pod is seen

Ready yes (Counted): 2 pods and 3 claims are counted
Enforced no (FailsOpen)
Odd unknown"""
    )


ENFORCED = "The namespace enforces it: while it cannot be checked, pods that get GPUs are refused."
WARNS = "Pods over a limit are admitted with a warning (mode Warn)."
REFUSES = "Pods over a limit are refused (mode Enforce)."


@pytest.mark.parametrize(
    ("enforced", "mode", "expected"),
    [
        (True, "Warn", f"{WARNS} {ENFORCED}"),
        (None, "Enforce", f"{REFUSES} Whether the namespace enforces it is unknown."),
    ],
    ids=["enforced", "unknown"],
)
def test_mode_is_reported_in_words(enforced, mode, expected):
    assert shown(report(use(), enforced=enforced, mode=mode), width=500).splitlines()[1] == expected


@pytest.mark.parametrize(
    ("enforced", "expected"),
    [
        (False, "It cannot be read, so it limits nothing."),
        (True, "It cannot be read, and the namespace enforces it, so pods that get GPUs are refused."),
    ],
)
def test_quota_that_cannot_be_read_shows_its_problems(enforced, expected):
    problems = (
        Problem(FieldPath(("spec", "mode")), 'is "x"', "write Enforce or Warn"),
        Problem(FieldPath(), "a GPUQuota is a mapping", ""),
    )
    reported = QuotaReport("team-a", "gpu", QuotaState.UNREADABLE, enforced, problems=problems)
    assert (
        shown(reported)
        == f"""\
GPUQuota team-a/gpu  unreadable
{expected}
- Write Enforce or Warn: mode is "x"; spec.mode
- a GPUQuota is a mapping"""
    )


def test_nothing_used_is_reported_and_nothing_known_is_not():
    assert shown(report(use())).endswith("\n\nNo pod or claim uses any of it.")
    assert "No pod or claim" not in shown(report(use(), holders=None))


def test_many_holders_are_counted():
    holders = tuple(Holder(f"team-a/pod-{number}", {"all": Fraction(1)}, timedelta()) for number in range(1025))
    lines = shown(report(use(), holders=holders)).splitlines()
    assert lines[-2:] == ["team-a/pod-19  all 1", "and 1,005 more; -o json shows all"]


def test_unknown_ages_have_no_column():
    holders = (Holder("team-a/pod", {"all": Fraction(1)}, timedelta()),)
    assert "AGE" not in shown(report(use(), holders=holders))


def test_names_make_no_lines_of_their_own():
    holders = (Holder("team-a/a\nb\x1b[2J", {"all": Fraction(1)}, timedelta()),)
    conditions = (Condition("Ready", "False", "Odd", "one\ntwo"),)
    assert "\x1b" not in shown(report(use(), holders=holders, conditions=conditions))
    assert shown(report(use(), holders=holders, conditions=conditions)).endswith("\nReady no (Odd): one two")


def test_long_lists_of_amounts_stay_within_the_width():
    limits = [use(f"limit-number-{number}") for number in range(12)]
    holders = (Holder("team-a/pod", {each.limit.name: Fraction(1) for each in limits}, timedelta(days=1)),)
    printed = shown(report(*limits, holders=holders), width=60).splitlines()
    assert max(map(len, printed)) <= 60


def test_several_quotas_are_summed_up():
    over = report(use(hard=1, used=2), namespace="team-b", state=QuotaState.OVER)
    assert shown(report(use()), over, report(use(), namespace="team-c")).endswith("\n\n3 quotas: 2 within, 1 over")


def test_uncounted_quota_that_is_over_a_limit_says_both():
    over = report(use(hard=1, used=2), namespace="team-b", state=QuotaState.UNCOUNTED)
    lines = shown(over, report(use(), state=QuotaState.UNCOUNTED)).splitlines()
    assert lines[0] == "GPUQuota team-b/gpu  uncounted, over"
    assert lines[-1] == "2 quotas: 2 uncounted (1 of them over a limit)"


def test_claims_that_use_a_quota_are_named_as_claims():
    holders = (Holder("team-a/shared", {"all": Fraction(1)}, timedelta(hours=1), is_claim=True),)
    assert "claim team-a/shared   1h  all 1" in shown(report(use(), holders=holders))


def test_notes_come_after_the_quotas():
    assert shown(report(use()), notes=("one thing", "another")).endswith("\n\nNote: one thing.\nNote: another.")


def test_no_quota_is_reported():
    assert shown() == (
        "No namespace has a GPUQuota, so no limit holds. To write one:\n"
        "  gpu-admission generate quota -n NAMESPACE --gpus 8\n"
        "gpu-admission usage lists the pods with GPUs."
    )
    assert shown(namespace="team-a") == (
        "Namespace team-a has no GPUQuota, so no limit holds. To write one:\n"
        "  gpu-admission generate quota -n team-a --gpus 8\n"
        "gpu-admission usage lists the pods with GPUs."
    )
