"""The keys and certificates of a control plane for tests."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class KeyPair:
    """A private key and its certificate, as PEM files."""

    certificate_file: Path
    key_file: Path


@dataclass(frozen=True)
class Certificates:
    """Everything that a control plane proves itself and its administrator with, as PEM files."""

    ca_file: Path
    server: KeyPair
    admin: KeyPair
    service_account_key_file: Path


@dataclass(frozen=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def write_certificates(directory: Path) -> Certificates:
    """Make a certificate authority and what it signs, and write all of it to `directory`."""
    authority = _authority()
    ca_file = directory / "ca.crt"
    ca_file.write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.DNSName("kubernetes"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    server = _signed(authority, _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, names)
    admin = _signed(authority, _name("admin", group="system:masters"), ExtendedKeyUsageOID.CLIENT_AUTH, None)
    service_account_key_file = directory / "service-account.key"
    _write_key(ec.generate_private_key(ec.SECP256R1()), service_account_key_file)
    return Certificates(
        ca_file=ca_file,
        server=_write_pair(server, directory, "server"),
        admin=_write_pair(admin, directory, "admin"),
        service_account_key_file=service_account_key_file,
    )


def _name(common_name: str, group: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if group is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _authority() -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("control plane for tests")
    builder = _builder(name, name, key.public_key(), key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    return _Authority(key, builder.sign(key, hashes.SHA256()))


def _signed(
    authority: _Authority, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, authority.certificate.subject, key.public_key(), authority.key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return key, builder.sign(authority.key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, issuer_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=30))
        # Python from 3.13 refuses a chain whose links are not named.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write_pair(pair: tuple[ec.EllipticCurvePrivateKey, x509.Certificate], directory: Path, stem: str) -> KeyPair:
    key, certificate = pair
    written = KeyPair(directory / f"{stem}.crt", directory / f"{stem}.key")
    written.certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    _write_key(key, written.key_file)
    return written


def _write_key(key: ec.EllipticCurvePrivateKey, path: Path) -> None:
    path.touch(mode=0o600)
    # kube-apiserver takes an elliptic-curve key for service accounts in this format only.
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
