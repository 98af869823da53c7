"""Django's WSGI handler; `muster.asgi` runs it in threads that persist, beside the streams."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")

application = get_wsgi_application()
