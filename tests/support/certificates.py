"""Certificates for servers of the tests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import CertificateBuilder, DNSName, IPAddress, Name, NameAttribute, SubjectAlternativeName
from cryptography.x509 import random_serial_number as serial
from cryptography.x509.oid import NameOID


def certificate(folder: Path, *names: DNSName | IPAddress, days: int = 30) -> Path:
    """Write a key and its self-signed certificate into one file; return its path."""
    key = generate_private_key(SECP256R1())
    subject = Name([NameAttribute(NameOID.COMMON_NAME, "gamed test")])
    now = datetime.now(UTC)
    begin = CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    dated = begin.serial_number(serial()).not_valid_before(now - timedelta(60)).not_valid_after(now + timedelta(days))
    signed = dated.add_extension(SubjectAlternativeName(names), critical=False).sign(key, SHA256())
    path = folder / f"{signed.serial_number}.pem"
    raw_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(raw_key + signed.public_bytes(Encoding.PEM))
    return path
