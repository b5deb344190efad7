"""The command `gpu-admission` of the version before: with its entries, and its ledgers."""

from policies.entries import ENTRIES
from policies.webhooks import WEBHOOKS
from testbed.version_before import paths
from testbed.version_before.ledger import LedgerBefore
from webhook.cli import main
from webhook.controllers import quota_round
from webhook.ledger import documents

if __name__ == "__main__":
    for name in {webhook.entry.name for webhook in WEBHOOKS}:
        if f"/{name}" not in paths():
            del ENTRIES[name]
    for module in (documents, quota_round):
        vars(module)["Ledger"] = LedgerBefore
    main(prog_name="gpu-admission")
