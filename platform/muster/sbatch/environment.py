"""The environment of a submitter, kept as an archive of code: never in a spec, which others may read."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping

from muster.accounts.models import User
from muster.common.errors import Invalid
from muster.jobs.models import CodeArchive
from muster.jobs.submit.uploads import new_draft, store_code

FILE = ".muster-environment"
"""Its file in the job's work folder: NUL-separated assignments."""
MAX_BYTES = 1 << 20


def store_environment(*, user: User, environment: Mapping[str, str]) -> CodeArchive:
    """The private archive of the user's that holds the environment.

    Raises:
        Invalid: it is too large, or a name or a value cannot be that of a variable.
    """
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise Invalid.field("environment", f"{name[:60]!r} is no variable")
    text = "".join(f"{name}={value}\0" for name, value in sorted(environment.items())).encode(errors="surrogateescape")
    if len(text) > MAX_BYTES:
        raise Invalid.field("environment", f"it has {len(text) >> 10} KiB: at most {MAX_BYTES >> 10} KiB go with a job")
    packed = _packed(text)
    draft = new_draft()
    try:
        draft.write_bytes(packed)
        return store_code(user=user, draft=draft, sha256=hashlib.sha256(packed).hexdigest(), private=True)[0]
    finally:
        draft.unlink(missing_ok=True)


def _packed(text: bytes) -> bytes:
    """An archive with this file, the same for the same text."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        member = tarfile.TarInfo(FILE)
        member.size, member.mode = len(text), 0o600
        archive.addfile(member, io.BytesIO(text))
    return gzip.compress(plain.getvalue(), mtime=0)
