from __future__ import annotations

from django.apps import AppConfig


class OffersConfig(AppConfig):
    name = "muster.offers"

    def ready(self) -> None:
        """Take part in the pools' cycles: reserve what is offered, and make offers at the end of a cycle."""
        from muster.dispatch import hooks  # noqa: PLC0415 (models can be imported from here on, and not before)
        from muster.offers.rounds import offer_round  # noqa: PLC0415
        from muster.offers.selectors import HAS_FRAMEWORKS, HAS_STANDING, standing_reservations  # noqa: PLC0415

        hooks.add_reservations_from(standing_reservations, unless_empty=HAS_STANDING)
        hooks.after_each_cycle(offer_round, unless_empty=HAS_FRAMEWORKS)
