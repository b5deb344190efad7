"""The command `gpu-admission` of the version before: this version without its new entries."""

from policies.entries import ENTRIES
from policies.webhooks import WEBHOOKS
from testbed.version_before import paths
from webhook.cli import main

if __name__ == "__main__":
    for name in {webhook.entry.name for webhook in WEBHOOKS}:
        if f"/{name}" not in paths():
            del ENTRIES[name]
    main(prog_name="gpu-admission")
