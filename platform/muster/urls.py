"""Everything that answers through Django; the streams and the agents' calls are routed in `muster.asgi`."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView

from muster.api import site
from muster.api.downloads import download
from muster.api.openapi.document import schema
from muster.api.problems import not_found
from muster.api.service import views as service
from muster.api.urls import documentation, v1
from muster.console.login import login_page
from muster.help import views as help_views

# Without the check for cross-site requests, which would answer a POST to nowhere with a page of its own.
nowhere = csrf_exempt(not_found)
health: Any = service.Alive.as_view()
readiness: Any = service.Ready.as_view()

urlpatterns = [
    path("healthz", health),
    path("readyz", readiness),
    path("metrics", service.prometheus),
    path("api/v1/docs", documentation),
    path("api/v1/openapi.json", schema),
    path("api/v1/schema", schema),
    path("api/schema", schema),
    path("api/v1/", include(v1)),
    re_path(r"^(?:api|agent)(?:/.*)?$", nowhere),
    path("admin", RedirectView.as_view(url="/admin/")),
    path("admin/login/", login_page),
    path("admin/", admin.site.urls),
    re_path(r"^assets/(?P<name>.*)$", site.asset),
    re_path(r"^downloads/(?P<name>.*)$", download),
    re_path(r"^static(?:/.*)?$", nowhere),
    path("docs", help_views.page),
    path("docs/images/<str:name>", help_views.picture),
    path("docs/<path:name>", help_views.page),
    path("docs/", help_views.page),
    path("help", RedirectView.as_view(url="/docs")),
    path("", site.page),
    path("<path:path>", site.page),
]

handler400 = "muster.api.problems.bad_request"
handler403 = "muster.api.problems.forbidden"
handler404 = "muster.api.problems.not_found"
handler500 = "muster.api.problems.server_error"
