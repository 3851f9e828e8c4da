"""A certificate that a simulated device signs itself, as BMCs do when they are unpacked."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from kvgate.store import disk

ADDRESS = "127.0.0.1"
_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_TO = datetime.datetime(2060, 1, 1, tzinfo=datetime.UTC)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of certificate and key (PEM) in `folder`, made if they are not there.

    cryptography (60 ms to import) is loaded only where they are.
    """
    made, key_file = folder / "certificate.pem", folder / "key.pem"
    if made.is_file() and key_file.is_file():
        return made, key_file
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kvgate simulated device")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS))])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_TO)
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    disk.replace(key_file, secret)
    key_file.chmod(0o600)
    disk.replace(made, signed.public_bytes(serialization.Encoding.PEM))
    return made, key_file
