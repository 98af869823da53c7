"""SSH keys as operators paste them: private keys to sign in with, and the keys that servers must show."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import re
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from muster.common.errors import Invalid

if TYPE_CHECKING:
    import paramiko

MAX_KEY_CHARS = 16_384
MIN_RSA_BITS = 2048
# Each type of a host key with the algorithms by which a server shows it.
HOST_KEY_TYPES = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ecdsa-sha2-nistp256": ("ecdsa-sha2-nistp256",),
    "ecdsa-sha2-nistp384": ("ecdsa-sha2-nistp384",),
    "ecdsa-sha2-nistp521": ("ecdsa-sha2-nistp521",),
    "ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
_FINGERPRINT = re.compile(r"(?:\A|\s)(SHA256:[A-Za-z0-9+/]{43})=?(?:\s|\Z)")
_KINDS = "Ed25519, ECDSA and RSA keys can be used"


def read_private_key(text: str) -> str:
    """The private key in OpenSSH's format; `Invalid` for what is none, or is locked by a passphrase."""
    text = text.replace("\r\n", "\n").strip() + "\n"
    if len(text) > MAX_KEY_CHARS:
        raise _wrong(f"a key has at most {MAX_KEY_CHARS} characters")
    if not text.startswith("-----BEGIN "):
        raise _wrong("paste the whole private key, with its lines -----BEGIN … and -----END …")
    data = text.encode(errors="replace")
    try:
        if "OPENSSH PRIVATE KEY" in text:
            key: object = serialization.load_ssh_private_key(data, None)
        else:
            key = serialization.load_pem_private_key(data, None)
    except TypeError as error:  # a password was needed
        raise _wrong("it is protected by a passphrase: use a key without one") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if "password" in str(error).lower() or "ENCRYPTED" in text:
            raise _wrong("it is protected by a passphrase: use a key without one") from error
        raise _wrong(f"it is not a readable private key; {_KINDS}") from error
    if not isinstance(key, (ed25519.Ed25519PrivateKey, ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise _wrong(f"it is of a kind that cannot be used; {_KINDS}")
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < MIN_RSA_BITS:
        raise _wrong(f"it has {key.key_size} bits: an RSA key needs {MIN_RSA_BITS} at least")
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    ).decode()
    try:
        open_private_key(plain)
    except ValueError as error:
        raise _wrong(f"it is of a kind that cannot be used; {_KINDS}") from error
    return plain


def open_private_key(plain: str) -> paramiko.PKey:
    """The key to sign in with, from what `read_private_key` returned; `ValueError` for one of another kind."""
    # Here, for it takes a sixth of a second, and hardly any process that knows of servers opens a connection to one.
    import paramiko  # noqa: PLC0415

    kinds: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)
    for kind in kinds:
        try:
            return kind.from_private_key(io.StringIO(plain))
        except (paramiko.SSHException, ValueError, TypeError, IndexError):  # of another kind
            continue
    raise ValueError("not a key of a known kind")


def public_line(key: paramiko.PKey) -> str:
    """The public key as a line of authorized_keys or known_hosts has it."""
    return f"{key.get_name()} {key.get_base64()}"


def fingerprint_of(line: str) -> str:
    """The SHA256 of a public key, as OpenSSH writes it; of a fingerprint, itself."""
    if line.startswith("SHA256:"):
        return line
    return _fingerprint(base64.b64decode(line.split()[1]))


def read_host_key(text: str) -> str:
    """The key or fingerprint that a server must show, in one plain form; empty when none was given.

    A line of known_hosts, of ssh-keyscan, of a host's .pub file, or of `ssh-keygen -l` will do.
    """
    if len(text) > MAX_KEY_CHARS:
        raise Invalid.field("host_key", "it is too long for a public key")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    if not lines:
        return ""
    if len(lines) > 1:
        raise Invalid.field("host_key", "give one key: the server is asked for a key of this kind")
    found = _FINGERPRINT.search(lines[0])
    if found:
        return found[1]
    words = lines[0].split()
    start = next((place for place, word in enumerate(words[:3]) if word in HOST_KEY_TYPES), None)
    if start is None or len(words) <= start + 1:
        kinds = ", ".join(HOST_KEY_TYPES)
        raise Invalid.field("host_key", f"write SHA256:… or a public key such as `ssh-ed25519 AAAA…` (of {kinds})")
    kind, encoded = words[start], words[start + 1]
    try:
        serialization.load_ssh_public_key(f"{kind} {encoded}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Invalid.field(
            "host_key", f"this is not a key of the kind {kind}: part of it is missing or wrong"
        ) from error
    return f"{kind} {encoded}"


def is_expected(shown: paramiko.PKey, expected: str) -> bool:
    """Whether the key that a server has shown matches the stored one."""
    known = expected if expected.startswith("SHA256:") else fingerprint_of(expected)
    same_kind = expected.startswith("SHA256:") or expected.split(maxsplit=1)[0] == shown.get_name()
    return same_kind and hmac.compare_digest(_fingerprint(shown.asbytes()), known)


def _fingerprint(data: bytes) -> str:
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _wrong(message: str) -> Invalid:
    return Invalid.field("private_key", message)
