"""Random secrets and their digests: only digests are stored."""

from __future__ import annotations

import hashlib
import secrets


def new_secret(prefix: str) -> str:
    """A fresh secret of 256 random bits behind a prefix that tells people and scanners what it is."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    """The SHA-256 of a secret. It needs no salt or stretching: the secret is 256 random bits, not a password."""
    return hashlib.sha256(secret.encode()).hexdigest()
