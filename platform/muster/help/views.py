"""The pages under /docs. They are the same for all, so no session is asked for."""

from __future__ import annotations

import mimetypes

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_safe

from muster.help.documents import INDEX, beside, document, image, parts
from muster.help.search import search

_MAX_QUERY = 200


@require_safe
def page(request: HttpRequest, name: str = "") -> HttpResponse:
    """A document, the index of them, or what a search finds."""
    query = request.GET.get("q", "").strip()[:_MAX_QUERY]
    if query:
        return _kept(render(request, "help/found.html", {"query": query, "found": search(query), "parts": parts()}))
    if name.endswith((".md", "/")):
        return HttpResponseRedirect(f"/docs/{name.removesuffix('.md').strip('/')}".rstrip("/"))
    shown = document(name or INDEX)
    if shown is None:
        return render(request, "help/missing.html", {"name": name[:_MAX_QUERY], "parts": parts()}, status=404)
    before, after = beside(shown.name)
    context = {"page": shown, "parts": parts(), "before": before, "after": after}
    return _kept(render(request, "help/document.html", context))


@require_safe
def picture(_request: HttpRequest, name: str) -> HttpResponse:
    """An image of the documents."""
    path = image(name)
    if path is None:
        raise Http404(name)
    return _kept(HttpResponse(path.read_bytes(), content_type=mimetypes.guess_type(name)[0]))


def _kept(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "public, max-age=300"
    return response
