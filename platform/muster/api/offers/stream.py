"""`GET /offers`: the standing offers, waited for without holding a thread or a connection."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from muster.accounts.models import User
from muster.api.offers.bodies import MAX_WAIT_S
from muster.api.offers.render import offer_list
from muster.api.streaming.callers import caller, number
from muster.common.asgi import in_thread
from muster.common.errors import Invalid
from muster.events.hub import hub
from muster.events.redis import offers_channel
from muster.events.services import wake_pool
from muster.offers.selectors import note_asked, standing_offers
from muster_client.answers.offers import Offer, OfferList

READ_AGAIN_AFTER_S = 2.0


async def offers(request: Request) -> Response:
    """The standing offers of the caller's frameworks, as soon as one has an id above `after`, or `wait` is over.

    Asking for them while there are none asks for a cycle of the pool, which ends with offers.
    """
    user = caller(request)
    after = number(request, "after", default=0) or 0
    wait_s = number(request, "wait", default=MAX_WAIT_S) or 0
    if wait_s > MAX_WAIT_S:
        raise Invalid.field("wait", f"write at most {MAX_WAIT_S}")
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    with hub.waiter(offers_channel(user.pk)) as waiter:
        found = await in_thread(_look, user, after, True)
        while not any(one["id"] > after for one in found) and (left_s := until - loop.time()) > 0:
            await waiter.wait(min(left_s, READ_AGAIN_AFTER_S))
            if await request.is_disconnected():
                break
            found = await in_thread(_look, user, after, False)
    return JSONResponse(OfferList(results=found, next=None))


def _look(user: User, after: int, first: bool) -> list[Offer]:
    pools = note_asked(user)
    found = standing_offers(user)
    if first and not any(offer.pk > after for offer in found):
        for pool_id in sorted(pools):
            wake_pool(pool_id)
    return offer_list(found)
