"""Certificates made at test time: an authority, and whom it signs."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NOW = datetime.now(UTC)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates; all files are in one directory, each `NAME.pem` with `NAME.key`."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        made = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 30) -> x509.CertificateBuilder:
        return x509.CertificateBuilder(
            self._name,
            subject,
            key.public_key(),
            x509.random_serial_number(),
            NOW - timedelta(days=60),
            NOW + timedelta(days=days),
        )

    def sign(self, name: str, *hosts: str, password: str = "", days: int = 30) -> tuple[Path, Path]:
        """Write the certificate of a server, or of a client without hosts; return the files of it and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(name), key, days)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), False)
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        certificate, private = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return certificate, private


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
