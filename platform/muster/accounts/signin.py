"""Checking a user name and a password, under one rule for the REST API and the admin.

An attempt is counted before the password is looked at, and given back if it is right:

- from an address from which this user has signed in before, only in a counter of the user at that address, so that
  guesses from elsewhere do not lock the user out;
- from any other address, in a counter of the address, one of the user, and one of all such attempts. The last stops
  guesses that are spread over many addresses and names, and tells the operators.
"""

from __future__ import annotations

import ipaddress
from datetime import timedelta

from django.contrib.auth import authenticate
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from muster.accounts import rates
from muster.accounts.models import KnownAddress, User
from muster.accounts.rates import Counter, Exceeded, Limit
from muster.common.client_address import current_address
from muster.common.errors import MusterError
from muster.events.services import audit, mail_operators, record

KNOWN = Limit("known", burst=10, every=timedelta(minutes=1))
ADDRESS = Limit("address", burst=30, every=timedelta(minutes=1))
USER = Limit("user", burst=10, every=timedelta(minutes=5))
ALL = Limit("all", burst=100, every=timedelta(seconds=5))
ALERT = Limit("alert", burst=1, every=timedelta(hours=1))

ADDRESS_KNOWN_FOR = timedelta(days=90)


class WrongCredentials(MusterError, status=401, code="wrong-credentials", title="Wrong user name or password"):
    """The name and the password do not belong together, or the user may not sign in here."""


def sign_in(*, request: HttpRequest, username: str, password: str, operators_only: bool = False) -> User:
    """The user with this name and password; the caller begins the session.

    Raises:
        WrongCredentials: the password is wrong, or the user is not active, or no operator where only those may enter.
        Exceeded: too many attempts failed; the password was not looked at.
    """
    address = current_address()
    counters = _counters(username, address)
    try:
        rates.take(counters)
    except Exceeded as refusal:
        if refusal.limit == ALL:
            _alert_operators()
        raise
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User) or (operators_only and not user.is_operator):
        # What is no user's name may be a password that was typed into the wrong field.
        name = username if User.objects.filter(username=username).exists() else "(unknown)"
        audit("failed_sign_in", "user", name, actor="anonymous")
        raise WrongCredentials("the user name and the password do not belong together")
    rates.give_back(counters)
    with transaction.atomic():
        if address is not None:
            KnownAddress.objects.update_or_create(
                user=user, address=_block(address), defaults={"last_used_at": timezone.now()}
            )
        audit("sign_in", "user", user.username, actor=user.username)
    return user


def describe_session(request: HttpRequest) -> None:
    """Note in the new session where it began, for the list of a user's sessions."""
    request.session["address"] = current_address()
    request.session["user_agent"] = request.headers.get("User-Agent", "")[:200]


def forget_addresses() -> int:
    """Remove addresses that were not used for long; returns how many."""
    return KnownAddress.objects.filter(last_used_at__lt=timezone.now() - ADDRESS_KNOWN_FOR).delete()[0]


def _counters(username: str, address: str | None) -> list[Counter]:
    place = _block(address) if address else ""
    if place and KnownAddress.objects.filter(user__username=username, address=place).exists():
        return [Counter(KNOWN, f"{place} {username}")]
    return [Counter(ADDRESS, place), Counter(USER, username), Counter(ALL, "")]


def _block(address: str) -> str:
    """A client's block of addresses: an IPv4 address, or a whole /64 network, named by its first address."""
    if ipaddress.ip_address(address).version == 4:
        return address
    return str(ipaddress.ip_network((address, 64), strict=False).network_address)


def _alert_operators() -> None:
    """Tell the operators that passwords are being guessed from many addresses, once an hour."""
    try:
        with transaction.atomic():
            rates.take([Counter(ALERT, "")])
            record("sign_in.flood", actor="platform", data={"failures": ALL.burst, "address": current_address()})
            mail_operators(
                subject="Muster: passwords are being guessed from many addresses",
                body=(
                    f"More than {ALL.burst} sign-ins from addresses that are new to their users have failed. Sign-ins "
                    "from new addresses are refused until fewer fail; known addresses, sessions and tokens work as "
                    "before. The audit log lists the failures as failed_sign_in, each with its address."
                ),
            )
    except Exceeded:
        return
