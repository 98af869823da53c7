"""Random secrets, their digests, which the database stores, and files that their owner alone reads."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from pathlib import Path


def new_secret(prefix: str) -> str:
    """A fresh secret of 256 random bits behind a prefix that tells people and scanners what it is."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    """The SHA-256 of a secret. It needs no salt or stretching: the secret is 256 random bits, not a password."""
    return hashlib.sha256(secret.encode()).hexdigest()


def write_private(path: Path, text: str) -> None:
    """Put the text in the place of the file, whole and on the disk."""
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def made_once(path: Path, fresh: str, *, owner: tuple[int, int] | None = None) -> str:
    """The stripped text of the file, which is made of `fresh` if there is none, for this uid and gid.

    A hard link is made by exactly one of several processes that start together: all return its text.
    """
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        write_private(draft, fresh)
        if owner is not None:
            os.chown(draft, *owner)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text().strip()
