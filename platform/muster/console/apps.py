"""The app of the admin pages."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from django.apps import AppConfig

from muster import console


class ConsoleConfig(AppConfig):
    """Registers the pages of every module beside this one."""

    name = "muster.console"

    def ready(self) -> None:
        """Imports the pages, as Django does with the `admin` module of an app."""
        for module in iter_modules(console.__path__):
            import_module(f"muster.console.{module.name}")
