"""Schedulers outside: registering, asking for offers, and answering them."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from muster.api import limits
from muster.api.base import ApiView, body_of, caller, describe, query_of
from muster.api.jobs.render import job_list
from muster.api.offers import bodies, render
from muster.common.errors import Invalid
from muster.events.services import wake_pool
from muster.jobs.spec.units import parse_duration_s
from muster.offers import services
from muster.offers.selectors import frameworks_of, note_asked, standing_offers
from muster_client.answers import offers as answers
from scheduler.model.lifecycle import RuntimeNeed


class Frameworks(ApiView):
    @describe("list_frameworks", "offers", {200: answers.FrameworkList})
    def get(self, request: Request) -> Response:
        """The caller's frameworks, one for each role."""
        results = [render.framework(row) for row in frameworks_of(caller(request))]
        return Response(answers.FrameworkList(results=results, next=None))

    @describe(
        "register_framework",
        "offers",
        {200: answers.Framework, 201: answers.Framework},
        problems=(404,),
        request=bodies.NewFramework,
    )
    def post(self, request: Request) -> Response:
        """Register in a role: 201, or 200 for a framework that registers again; its filters are dropped."""
        body = body_of(request, bodies.NewFramework)
        row, created = services.register_framework(
            user=caller(request), role_name=body["role"], needs=RuntimeNeed(body["needs"])
        )
        return Response(render.framework(row), status=status.HTTP_201_CREATED if created else status.HTTP_200_OK)


class OneFramework(ApiView):
    @describe("leave", "offers", {204: None}, problems=(404,))
    def delete(self, request: Request, framework_id: int) -> Response:
        """Unregister: open offers are withdrawn, and launched jobs go on."""
        services.leave(user=caller(request), framework_id=framework_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


class Offers(ApiView):
    @describe("list_offers", "offers", {200: answers.OfferList}, problems=(404,), parameters=[bodies.OfferQuery])
    def get(self, request: Request) -> Response:
        """The standing offers, at once if there are any, or as soon as there are within `wait` seconds."""
        # In the web process `muster.api.offers.stream` stands before this, and waits without holding a thread.
        user, query = caller(request), query_of(request, bodies.OfferQuery)
        pools = note_asked(user)
        offers = standing_offers(user)
        if not any(offer.pk > query["after"] for offer in offers):
            for pool_id in sorted(pools):
                wake_pool(pool_id)
        return Response(answers.OfferList(results=render.offer_list(offers), next=None))


class AcceptOffer(ApiView):
    @describe("accept_offer", "offers", {201: answers.Accepted}, problems=(404, 409, 429), request=bodies.Accept)
    def post(self, request: Request, offer_id: int) -> Response:
        """Launch the jobs on GPUs of the offer, all of them or none; the rest of the offer comes back at once."""
        user, body = caller(request), body_of(request, bodies.Accept)
        limits.take(limits.SUBMIT, user.pk, cost=max(1, min(len(body["jobs"]), services.MAX_LAUNCHES)))
        jobs = services.accept_offer(
            user=user,
            offer_id=offer_id,
            wanted=[services.Wanted(one["spec"], one.get("gpus")) for one in body["jobs"]],
            filter_s=_filter_s(body["filter"]),
        )
        return Response(answers.Accepted(jobs=job_list(jobs)), status=status.HTTP_201_CREATED)


class DeclineOffer(ApiView):
    @describe("decline_offer", "offers", {204: None}, problems=(404, 409), request=bodies.Decline)
    def post(self, request: Request, offer_id: int) -> Response:
        """Decline the offer; its node is not offered again for the time of `filter`."""
        body = body_of(request, bodies.Decline)
        services.decline_offer(user=caller(request), offer_id=offer_id, filter_s=_filter_s(body["filter"]))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _filter_s(text: str) -> float:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise Invalid.field("filter", str(error)) from error
