"""An authority of a test's own, and certificates that it signs."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "Papers"]

DAY = datetime.timedelta(days=1)


class Papers(NamedTuple):
    """What an engine with TLS is given, as files."""

    cert: Path
    key: Path
    ca: Path

    def options(self) -> dict[str, Path]:
        return {"tls_cert": self.cert, "tls_key": self.key, "tls_ca": self.ca}

    def variables(self) -> dict[str, str]:
        return {f"KVFERRY_{name.upper()}": str(file) for name, file in self.options().items()}


class Authority:
    """Keeps its files in `folder`, which exists."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        signer = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer)
        built = (
            self._begin(self._name, self._key, DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(signer, critical=False)
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._sign(built))

    def issue(self, *names: str, valid: datetime.timedelta = DAY, called: str = "") -> Papers:
        """For hosts and addresses; `valid` from now on, and before now when it is negative."""
        key = ec.generate_private_key(ec.SECP256R1())
        called = called or (names[0].replace(":", "-") if names else "nobody")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])
        built = self._begin(subject, key, valid).add_extension(self._signer, critical=False)
        if names:
            built = built.add_extension(
                x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
            )
        cert, secret = self._folder / f"{called}.pem", self._folder / f"{called}.key"
        cert.write_bytes(self._sign(built))
        fd = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "wb") as opened:
            opened.write(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
        return Papers(cert, secret, self.file)

    def _begin(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, valid: datetime.timedelta
    ) -> x509.CertificateBuilder:
        end = datetime.datetime.now(datetime.timezone.utc) + valid
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - 2 * DAY)
            .not_valid_after(end)
        )

    def _sign(self, built: x509.CertificateBuilder) -> bytes:
        return built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
