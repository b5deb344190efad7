"""The settings in use in a running cluster, valid, invalid or unreadable."""

import logging

import pytest

from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS, RuleOverride
from webhook.cluster.live import LiveSettings
from webhook.cluster.store import TRUSTED_SECONDS

KIND = "GPUAdmissionPolicy"
MUCH = 'Write one such as "40Gi": min-memory is "much", which is not a Kubernetes quantity; spec.placement.wishes[0].wish[min-memory]'
UNKNOWN_RULE = (
    "Remove the entry, or name a rule that gpu-admission rules lists: rule GA999 does not exist in this version, so its severity "
    "has no effect; spec.rules[0].rule"
)


def stored(generation=1, spec=None, uid="1", **fields):
    metadata = {"name": "default", "uid": uid, "generation": generation, "resourceVersion": str(generation)}
    return {"apiVersion": "gpu-admission.io/v1alpha1", "kind": KIND, "metadata": metadata, "spec": spec, **fields}


def severity(rule="GA307", to="warn"):
    return {"rules": [{"rule": rule, "severity": to}]}


def wish(*texts):
    return {"placement": {"wishes": [{"wish": {"min-memory": text}} for text in texts]}}


@pytest.fixture
def settings(cluster):
    return LiveSettings(cluster.view)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "gpu_admission.settings")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def test_defaults_hold_before_anything_is_known(settings):
    assert settings() is DEFAULTS
    assert settings.notes() == ["GPUAdmissionPolicy default cannot be read, using the built-in defaults"]


def test_defaults_hold_where_there_is_none(cluster, settings, said):
    cluster.fill(KIND)
    assert (settings(), settings.notes()) == (DEFAULTS, [])
    assert said() == [("INFO", "GPUAdmissionPolicy default does not exist, using the built-in defaults")]


def test_defaults_hold_where_the_kind_is_not_served(cluster, settings):
    cluster.store(KIND).mark("absent", "not found")
    assert (settings(), settings.notes()) == (DEFAULTS, [])


def test_valid_settings_hold_at_once(cluster, settings, said):
    cluster.fill(KIND)
    settings()
    cluster.put(KIND, stored(1, severity()))
    assert settings().rules == (RuleOverride("GA307", Severity.WARN),)
    cluster.put(KIND, stored(2, severity(to="audit")))
    assert settings().rules == (RuleOverride("GA307", Severity.AUDIT),)
    assert settings.notes() == []
    assert [message for _, message in said()][1:] == [
        "using the settings of generation 1",
        "using the settings of generation 2",
    ]


def test_invalid_settings_leave_those_before(cluster, settings, said):
    cluster.fill(KIND, stored(3, severity()))
    settings()
    cluster.put(KIND, stored(4, wish("much")))
    assert settings().rules == (RuleOverride("GA307", Severity.WARN),)
    refused = "GPUAdmissionPolicy default, generation 4, is invalid, using the settings of generation 3 instead: "
    assert settings.notes() == [refused + MUCH]
    assert said()[1:] == [("WARNING", refused + MUCH)]


def test_invalid_settings_at_the_start_leave_the_defaults(cluster, settings):
    cluster.fill(KIND, stored(4, wish("much")))
    assert settings() is DEFAULTS
    assert settings.notes() == [
        f"GPUAdmissionPolicy default, generation 4, is invalid, using the built-in defaults instead: {MUCH}"
    ]


def test_many_problems_are_counted(cluster, settings):
    cluster.fill(KIND, stored(4, wish(*["much"] * 5)))
    (note,) = settings.notes()
    assert note.count("is not a Kubernetes quantity") == 3
    assert note.endswith("; spec.placement.wishes[2].wish[min-memory]. And 2 more")


def test_settings_that_are_put_right_hold(cluster, settings):
    cluster.fill(KIND, stored(1, wish("much")))
    settings()
    cluster.put(KIND, stored(2, severity()))
    assert settings().rules == (RuleOverride("GA307", Severity.WARN),)
    assert settings.notes() == []


def test_deleted_settings_leave_the_defaults(cluster, settings):
    cluster.fill(KIND, stored(1, severity()))
    settings()
    cluster.store(KIND).apply({"type": "DELETED", "object": stored(2, severity())})
    assert settings() is DEFAULTS


def test_settings_are_kept_while_nothing_is_known(cluster, clock, settings):
    cluster.fill(KIND, stored(3, severity()))
    held = settings()
    cluster.store(KIND).mark("stale", "connection refused")
    assert (settings(), settings.notes()) == (held, [])
    clock.now += TRUSTED_SECONDS
    assert settings() is held
    assert settings.notes() == ["GPUAdmissionPolicy default cannot be read, using the settings of generation 3"]
    cluster.fill(KIND, stored(4, severity(to="deny")))
    assert settings().rules == (RuleOverride("GA307", Severity.DENY),)


def test_settings_are_kept_where_rbac_takes_them_away(cluster, settings):
    cluster.fill(KIND, stored(3, severity()))
    held = settings()
    cluster.store(KIND).mark("forbidden", "no")
    assert settings() is held


def test_unknown_rule_is_reported_and_the_rest_holds(cluster, settings, said):
    cluster.fill(KIND, stored(1, severity("GA999") | {"access": {"mode": "deny"}}))
    assert settings().access.mode == "deny"
    assert settings.notes() == [f"GPUAdmissionPolicy default: {UNKNOWN_RULE}"]
    assert said() == [("INFO", f"using the settings of generation 1. {UNKNOWN_RULE}")]


def test_unchanged_settings_are_the_same_object_and_said_once(cluster, settings, said):
    cluster.fill(KIND, stored(1, severity()))
    first = settings()
    assert settings() is first
    for again in range(3):
        cluster.put(KIND, stored(1, severity(), status={"observedGeneration": again}))
        assert settings() == first
    cluster.fill(KIND, stored(1, severity()))
    assert settings() == first
    assert len(said()) == 1


def test_other_policy_is_not_the_one(cluster, settings):
    other = stored(1, severity())
    cluster.fill(KIND, {**other, "metadata": {**other["metadata"], "name": "mine"}})
    assert settings() is DEFAULTS
