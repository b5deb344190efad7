"""The CRD refuses a status that a program without `openCharges` writes while charges are open."""

import pytest

from policies.quota.ledger.ledger import Ledger
from tests.ledger.conftest import TEAM_A
from webhook.cluster.answers import APIError


@pytest.fixture
def forgetful(monkeypatch):
    """Let a writer write a status without `openCharges`, as a program that does not know the field does."""
    whole = Ledger.status

    def forget():
        def status(*arguments):
            return {field: value for field, value in whole(*arguments).items() if field != "openCharges"}

        monkeypatch.setattr(Ledger, "status", status)

    return forget


async def test_write_that_would_lose_open_charges_is_refused(namespace, writer, pod, forgetful):
    namespace.make()
    ledger = await writer()
    await ledger.charge(TEAM_A, pod("a"), enforced=True)
    forgetful()
    with pytest.raises(APIError) as refusal:
        await ledger.charge(TEAM_A, pod("b"), enforced=True)
    assert str(refusal.value).endswith(
        "run a version of gpu-admission that knows openCharges: this write would lose the charges in it (docs/upgrade.md)"
    )
    assert namespace.uids == ["a"]


async def test_write_that_loses_no_charge_is_accepted(namespace, writer, pod, forgetful):
    namespace.make()
    ledger = await writer()
    forgetful()
    assert (await ledger.charge(TEAM_A, pod("a"), enforced=True)).allowed
    assert "openCharges" not in namespace.stored["status"]
