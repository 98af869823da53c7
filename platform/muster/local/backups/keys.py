"""Encryption keys that a backup needs, as fingerprints, since the keys themselves are kept apart from it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from muster.local.backups.archive import BackupError

_SECRETS = (
    ("encryption_key", "MUSTER_ENCRYPTION_KEYS", "encrypts stored secrets; a restore needs it"),
    ("secret_key", "MUSTER_SECRET_KEY", "signs sessions and the tokens of running jobs"),
    ("metrics_token", "MUSTER_METRICS_TOKEN", "opens /metrics"),
)


def fingerprint(key: str) -> str:
    """The fingerprint of an encryption key, which does not reveal it: keys are 32 random bytes."""
    return hashlib.sha256(f"muster encryption key {key}".encode()).hexdigest()[:16]


def require_keys(needed: Iterable[str], present: Iterable[str]) -> None:
    """Return if the keys with the needed fingerprints are present; else `BackupError`."""
    there = {fingerprint(key) for key in present}
    missing = sorted(set(needed) - there)
    if missing:
        raise BackupError(
            f"this installation does not have the encryption key of the backup: the key with the fingerprint "
            f"{' and '.join(missing)} is missing, and {' and '.join(sorted(there))} is here. Put the key that was kept "
            "with the backup's installation into MUSTER_ENCRYPTION_KEYS, or into the file encryption_key of the state "
            "folder, and run this again"
        )


def where_keys_are(home: Path) -> list[str]:
    """A line for each key of the installation that no backup has: where it is now, and what it is for."""
    return [
        f"{f'the variable {variable}' if os.environ.get(variable) else home / name} ({what})"
        for name, variable, what in _SECRETS
    ]
