"""Clients: all connections of the cluster, by language, version and address."""

from __future__ import annotations

from collections import Counter
from typing import Final

from starlette.responses import Response

from pyromq.admin.clients import ClientListing, ConnectedClient
from pyromq.console.login.roles import UserRole
from pyromq.console.web.listing import Column, Listing
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit


async def clients(visit: Visit) -> Response:
    """Show who is connected."""
    found: ClientListing = await visit.admin.clients.list()
    chosen = visit.query.get("release", "")
    rows = [one for one in found.clients if not chosen or release_of(one) == chosen]
    listing = Listing.of(
        rows,
        visit.query,
        columns=[
            Column("client", lambda one: one.client_id),
            Column("language", lambda one: (one.language, one.version)),
            Column("address", lambda one: one.address),
        ],
        search=lambda one: " ".join((one.client_id, one.address, *one.producer_groups, *one.consumer_groups)),
        sort="client",
    )
    return await visit.render(
        "clients.html",
        listing=listing,
        found=found,
        releases=Counter(map(release_of, found.clients)).most_common(),
        release=chosen,
        hosts=len({one.host for one in found.clients}),
        producers=sum(bool(one.producer_groups) for one in found.clients),
        consumers=sum(bool(one.consumer_groups) for one in found.clients),
    )


def release_of(client: ConnectedClient) -> str:
    """Return language and version of a client."""
    return f"{client.language} {client.version}"


ROUTES: Final = (Route("GET", "/clients", UserRole.VIEWER_WITHOUT_BODIES, clients, live=True),)
