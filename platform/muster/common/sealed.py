"""Secrets that have to be read again, such as private keys: stored encrypted. Of others a digest will do."""

from __future__ import annotations

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

SEALED = "sealed_"
"""The names of columns with such secrets begin so: by it `manage.py reencrypt` finds them."""


class Unreadable(Exception):
    """The stored value was encrypted by none of the keys that this process has."""


def seal(secret: str) -> str:
    """The secret, encrypted by the first of the keys."""
    return _fernet().encrypt(secret.encode()).decode()


def unseal(sealed: str) -> str:
    try:
        return _fernet().decrypt(sealed).decode()
    except InvalidToken as error:
        raise Unreadable("it was encrypted by a key that is not among MUSTER_ENCRYPTION_KEYS") from error


def reseal(sealed: str) -> str:
    """The same secret, encrypted by the first of the keys."""
    try:
        return _fernet().rotate(sealed).decode()
    except InvalidToken as error:
        raise Unreadable("it was encrypted by a key that is not among MUSTER_ENCRYPTION_KEYS") from error


def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])
