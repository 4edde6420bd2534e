"""Passwords: kept as scrypt hashes, compared in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

LEAST_LENGTH: Final = 10
_N, _R, _P = 2**14, 8, 1  # 16 MB and about 50 ms a try
_SCHEME: Final = "scrypt"


def new_password() -> str:
    """Return a random password that people can type: 4 groups of 5 characters."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(4))


def hash_password(password: str) -> str:
    """Return what is kept of a password; raise ValueError if it is too short."""
    if len(password) < LEAST_LENGTH:
        raise ValueError(f"a password has {LEAST_LENGTH} characters or more")
    salt = secrets.token_bytes(16)
    return f"{_SCHEME}:{_text(salt)}:{_text(_digest(password, salt))}"


def is_password(password: str, kept: str) -> bool:
    """Return True if this is the password; False also if what was kept is no hash of ours."""
    try:
        scheme, salt, digest = kept.split(":")
        known = base64.b64decode(digest, validate=True)
        raw_salt = base64.b64decode(salt, validate=True)
    except ValueError:
        return False
    return scheme == _SCHEME and hmac.compare_digest(_digest(password, raw_salt), known)


def _digest(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
