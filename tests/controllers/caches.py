"""Caches of a cluster that a test updates."""

from webhook.cluster.answers import APIError
from webhook.cluster.lists import raw_pages
from webhook.cluster.live import LiveView
from webhook.cluster.store import Listing
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds


class Caches:
    """What one replica has seen of the cluster."""

    def __init__(self, client, kinds, clock):
        self.client = client
        self.watched = {each.kind: each for each in watched_kinds(()) if each.kind in kinds}
        self.stores = {kind: store_of(each, clock) for kind, each in self.watched.items()}
        self.view = LiveView(((each, self.stores[kind]) for kind, each in self.watched.items()))
        self.view.set_server_version((1, 36))
        self._kinds = kinds

    def hear(self):
        """Every open watch sends a bookmark, whatever the caches lack."""
        for store in self.stores.values():
            if store.state == "synced":
                store.mark("synced")

    async def see(self, *kinds):
        """Take in everything that there is now, of all kinds where none is named."""
        for kind in kinds or self._kinds:
            listing, version = Listing(self.stores[kind]), ""
            watched = self.watched[kind]
            try:
                async for page in raw_pages(self.client, watched.resource, "", watched.query, limit=0):
                    listing.add(page.items)
                    version = page.resource_version
            except APIError:
                self.stores[kind].mark("absent")
                continue
            listing.finish(version)
