"""A certificate that a server makes up for tests (`tls.test.mode.enable`): it encrypts, and proves nothing."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyromq.errors import ConfigError

_YEARS = 10


def self_signed(context: ssl.SSLContext, now_ms: int) -> None:
    """Give a context a new key and its self-signed certificate; raise ConfigError without the library for it."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise ConfigError(
            "tls.test.mode.enable=true needs the package `cryptography`: pip install 'pyromq[tls]'"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pyromq test certificate")])
    yesterday = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(yesterday)
        .not_valid_after(yesterday + timedelta(days=365 * _YEARS))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with tempfile.TemporaryDirectory() as directory:  # ssl reads keys from files only; this one is mode 0700
        file = Path(directory) / "both.pem"
        file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(file)
