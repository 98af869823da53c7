"""Bodies of requests about notices and webhooks."""

from rest_framework import serializers

from muster.api.fields import Flag, Shape, Text
from muster.notices.models import MAX_URL_CHARS


class NotificationChanges(Shape):
    """Changes of the settings; settings that are not named stay."""

    mail = serializers.ListField(
        required=False,
        child=Text(max_length=40),
        max_length=50,
        help_text="The events to send mail about; replaces the whole list.",
    )
    webhook = serializers.ListField(
        required=False,
        child=Text(max_length=40),
        max_length=50,
        help_text="The events to post to webhooks; replaces the whole list.",
    )
    weekly_digest = Flag(required=False, help_text="Whether to send a summary by mail each week.")


class NewWebhook(Shape):
    """A webhook to be made."""

    url = Text(
        max_length=MAX_URL_CHARS, help_text="http or https, to a public address or a network that operators allow."
    )
