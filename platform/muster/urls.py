"""Everything that answers through Django; the streams and the agents' calls are routed in `muster.asgi`."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
]
