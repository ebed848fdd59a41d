"""Every spelling of a record name resolves to one FQDN, or says why it cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipop_core.dnsnames import DNSNameError, check_name, is_zone_id, record_fqdn, zone_name

ZONE_ID = "023e105f4ecef8ad9ca31a8372d0c353"
ROUTE53_ID = "Z1D633PJN98FT9"
LONGEST = ".".join(["a" * 63] * 3)


@pytest.mark.parametrize("zone", ["example.com", "example.com.", "EXAMPLE.com", " example.com ", "example。com"])
@pytest.mark.parametrize(
    "record_name",
    [
        "www",
        "WWW",
        " www ",
        "www.example.com",
        "www.example.com.",
        "WWW.Example.Com.",
        "www.example.com. ",
        "\uff57\uff57\uff57",
    ],
)
def test_spellings_of_one_name(record_name: str, zone: str) -> None:
    assert record_fqdn(record_name, zone) == "www.example.com"


@pytest.mark.parametrize("record_name", ["@", "", " @ ", "example.com", "example.com.", "Example.COM"])
def test_the_zone_itself(record_name: str) -> None:
    assert record_fqdn(record_name, "example.com") == "example.com"


@pytest.mark.parametrize(
    ("record_name", "zone", "fqdn"),
    [
        ("*", "example.com", "*.example.com"),
        ("*.app", "example.com", "*.app.example.com"),
        ("*.example.com.", "example.com", "*.example.com"),
        ("a.b.c", "example.com", "a.b.c.example.com"),
        ("_acme", "example.com", "_acme.example.com"),
        ("a_b-c", "example.com", "a_b-c.example.com"),
        ("1", "example.com", "1.example.com"),
        ("a" * 63, "example.com", f"{'a' * 63}.example.com"),
        ("bücher", "example.com", "xn--bcher-kva.example.com"),
        ("BÜCHER", "example.com", "xn--bcher-kva.example.com"),
        ("bu\u0308cher", "example.com", "xn--bcher-kva.example.com"),
        ("xn--bcher-kva", "example.com", "xn--bcher-kva.example.com"),
        ("www.bücher.example.", "bücher.example", "www.xn--bcher-kva.example"),
        ("www", "例え。jp", "www.xn--r8jz45g.jp"),
        ("straße", "example.com", "xn--strae-oqa.example.com"),
        # Without the dot at its end, what does not end with the zone is relative to it.
        ("www.example.org", "example.com", "www.example.org.example.com"),
        ("notexample.com", "example.com", "notexample.com.example.com"),
        ("example.com.example.com", "example.com", "example.com.example.com"),
        ("www", "com", "www.com"),
        (f"{LONGEST}.{'b' * 49}", "example.com", f"{LONGEST}.{'b' * 49}.example.com"),
        ("www.example.com", ZONE_ID, "www.example.com"),
        ("WWW.Example.com.", ZONE_ID, "www.example.com"),
        ("*.example.com", ZONE_ID, "*.example.com"),
        ("www.example.com", ROUTE53_ID, "www.example.com"),
    ],
)
def test_names(record_name: str, zone: str, fqdn: str) -> None:
    assert record_fqdn(record_name, zone) == fqdn


@pytest.mark.parametrize(
    ("record_name", "zone", "reason"),
    [
        ("www.example.org.", "example.com", "does not lie in zone example.com"),
        ("notexample.com.", "example.com", "does not lie in zone"),
        ("www.example.org. ", "example.com", "does not lie in zone"),
        (".", "example.com", "no label"),
        ("..", "example.com", "no label"),
        ("a..b", "example.com", "no label"),
        (".www", "example.com", "no label"),
        ("www..", "example.com", "no label"),
        ("a b", "example.com", "no label"),
        ("a/b", "example.com", "no label"),
        ("-a", "example.com", "no label"),
        ("a-", "example.com", "no label"),
        ("a" * 64, "example.com", "1 to 63"),
        ("ü" * 63, "example.com", "no label"),
        ("☃", "example.com", "no label"),
        ("@.www", "example.com", "no label"),
        ("www.*", "example.com", "only as the first"),
        ("**", "example.com", "no label"),
        ("a*", "example.com", "no label"),
        (f"{LONGEST}.{'b' * 50}", "example.com", "254 characters"),
        ("www", "exa mple.com", "no label"),
        ("www", "*.example.com", "wildcard"),
        ("www", "", "no label"),
        ("www", "@", "no label"),
        ("www", ZONE_ID, "whole name"),
        ("www.", ZONE_ID, "whole name"),
        ("@", ZONE_ID, "no label"),
        ("", ZONE_ID, "no label"),
    ],
)
def test_what_is_no_name(record_name: str, zone: str, reason: str) -> None:
    with pytest.raises(DNSNameError, match=reason):
        record_fqdn(record_name, zone)


@pytest.mark.parametrize(
    ("zone", "canonical"),
    [
        ("Example.COM.", "example.com"),
        (ZONE_ID, ZONE_ID),
        (ROUTE53_ID, ROUTE53_ID),
        ("bücher.de", "xn--bcher-kva.de"),
        ("com", "com"),
    ],
)
def test_zone_names(zone: str, canonical: str) -> None:
    assert zone_name(zone) == canonical
    assert is_zone_id(zone) is (zone in (ZONE_ID, ROUTE53_ID))


@pytest.mark.parametrize("text", [ZONE_ID.upper(), ZONE_ID[:-1], ZONE_ID + "0", "g" * 32, f"{ZONE_ID}\n"])
def test_what_is_no_zone_id(text: str) -> None:
    assert not is_zone_id(text)


def test_names_in_canonical_form() -> None:
    check_name("a-_apex.example.com")
    for wrong in ("WWW.example.com", "www.example.com.", "bücher.de", "a" * 64 + ".de", "a." * 127 + "de"):
        with pytest.raises(DNSNameError):
            check_name(wrong)


@given(st.text(max_size=80), st.sampled_from(["example.com", ZONE_ID, "bücher.example"]))
def test_any_text_is_a_name_or_an_error(record_name: str, zone: str) -> None:
    try:
        fqdn = record_fqdn(record_name, zone)
    except DNSNameError:
        return
    check_name(fqdn)
    assert fqdn.isascii()
    assert record_fqdn(f"{fqdn}.", zone) == fqdn
    assert is_zone_id(zone) or fqdn == zone_name(zone) or fqdn.endswith(f".{zone_name(zone)}")
