"""The abilities of a caller without a client certificate, and where they are documented."""

from datetime import timedelta
from fractions import Fraction

import pytest

from policies.quota.ledger.ledger import Exceeded, Ledger, Over
from policies.quota.limits.quota import QuotaNames
from policies.quota.outcomes import Holder, exceeded_message
from policies.rules.settings import DEFAULTS, parse_settings
from webhook.server.caller_limits import AT_ONCE, PER_MINUTE, Callers

OVER = Exceeded((Over("h100", "gpus", Fraction(4), Fraction(4), Fraction(2), Fraction(8)),), Ledger())
QUOTA = QuotaNames.of_namespace("team-a")
HOLDERS = [Holder(f"team-a/train-{number}", {"h100": Fraction(2)}, timedelta(hours=5)) for number in range(3)]


def test_note_lists_what_every_caller_can_do():
    (note,) = Callers().notes()
    assert note == (
        "no client CA is configured, so every client that reaches this port can: create ResourceClaimTemplates in namespaces that "
        f"convert (at most {AT_ONCE} new ones at once and {PER_MINUTE} a minute in each, swept after an hour); reserve the "
        "rest of a GPUQuota for two minutes, repeatedly, so that pods of its namespace are refused; "
        "learn what GPUs the cluster has, how much of each GPUQuota is used and by how many pods and claims; and by which "
        "ones if quota.nameHolders is Always; use up the CPU time of this replica by reviews. To prevent it, configure a client "
        "CA (docs/client-certificates.md), or let a NetworkPolicy admit the API server only"
    )


def test_nothing_is_noted_where_callers_are_authenticated():
    assert Callers(frozenset({"kube-apiserver"})).notes() == []


def test_refusal_names_the_holders():
    verdict = exceeded_message(OVER, HOLDERS[:1], admitted=False, quota=QUOTA)
    assert "; team-a/train-0 has held 2 for 5 hours" in verdict.message
    assert "shows who holds what" not in verdict.message


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, ""), (1, "; 1 pod or claim holds 2"), (3, "; 3 pods and claims hold 6")],
)
def test_refusal_counts_the_holders_that_it_must_not_name(count, said):
    verdict = exceeded_message(OVER, HOLDERS[:count], admitted=False, quota=QUOTA, hidden_in="team-a")
    assert verdict.message == (
        f'needs 4 GPUs, 2 of 8 left in limit "h100" (2 reserved); exceeded quota: gpu{said}; gpu-admission quota -n team-a shows who holds what'
    )
    assert verdict.remedy == "request fewer GPUs, or wait until some pods end"


def test_setting_is_read():
    document = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
    }
    settings = parse_settings({**document, "spec": {"quota": {"nameHolders": "Never"}}})
    assert (DEFAULTS.quota.name_holders, settings.quota.name_holders) == ("Auto", "Never")
