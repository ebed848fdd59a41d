"""Settings, credentials and endpoints; and that no credential is ever shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

import flipop_core
from flipop_core.config import (
    BindAddress,
    Credentials,
    Secrets,
    Settings,
    credentials_for,
    endpoint_for,
    missing_credentials,
    parse_bind_address,
    redact,
    user_agent_for,
)
from flipop_core.errors import ConfigError
from flipop_core.providers import CredentialSpec, ProviderFactory

TOKEN = "dop_v1_0123456789abcdef"

# Without what stands in a secret's place, so that neither it nor what is around can spell a secret anew.
UNMARKED = st.characters(exclude_characters="*", exclude_categories=["Cs"])
SECRETS = st.text(UNMARKED, min_size=8).filter(lambda text: len(text.strip()) >= 8)


def factory(**changes: object) -> ProviderFactory:
    plain = ProviderFactory(
        "cloud",
        "a cloud",
        (CredentialSpec("CLOUD_TOKEN", "API token"), CredentialSpec("CLOUD_SCOPE", "scope", required=False)),
        build=lambda context: object(),
        endpoint_variable="CLOUD_API_URL",
        user_agent_variable="CLOUD_USER_AGENT",
    )
    return msgspec.structs.replace(plain, **changes)


@pytest.fixture(autouse=True)
def _structlog_afresh() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class TestSettings:
    def test_the_defaults_are_those_of_the_original(self) -> None:
        settings = Settings()
        assert settings.lease_name == "floating-ip-pool-controller-leader-election"
        assert (
            settings.lease_duration_seconds,
            settings.renew_deadline_seconds,
            settings.retry_period_seconds,
        ) == (15, 10, 2)
        assert settings.recheck_seconds == 300
        assert settings.provider_timeout_seconds == 7
        assert settings.bind_address == ("", 8080)

    def test_are_frozen(self) -> None:
        with pytest.raises(AttributeError):
            Settings().debug = True  # type: ignore[misc]  # that is the point

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"recheck_seconds": 0}, "recheck_seconds: 0"),
            ({"recheck_seconds": float("nan")}, "recheck_seconds: nan"),
            ({"recheck_seconds": float("inf")}, "recheck_seconds: inf"),
            ({"stop_timeout_seconds": -1.0}, r"stop_timeout_seconds: -1\.0"),
            ({"renew_deadline_seconds": 15}, "not 15, 15, 2"),
            ({"retry_period_seconds": 10}, "not 15, 10, 10"),
            ({"provider_timeout_seconds": 8.0}, r"provider_timeout_seconds: 8\.0: it must be less than 8"),
            ({"cluster_name": "a cluster"}, "cluster_name: 'a cluster'"),
            ({"cluster_name": "a" * 64}, "cluster_name"),
            ({"metrics_bind_addr": "8080"}, "metrics_bind_addr: '8080': write HOST:PORT"),
        ],
    )
    def test_what_makes_no_sense_is_refused_by_name(self, changes: dict[str, object], named: str) -> None:
        with pytest.raises(ConfigError, match=named):
            Settings(**changes)  # type: ignore[arg-type]  # names and values come from the table

    def test_without_a_lease_no_call_has_to_fit_into_one(self) -> None:
        assert Settings(leader_election=False, provider_timeout_seconds=30).provider_timeout_seconds == 30

    def test_without_an_address_nothing_is_served(self) -> None:
        settings = Settings(metrics_bind_addr="")
        with pytest.raises(ConfigError, match="metrics_bind_addr"):
            _ = settings.bind_address

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (":8080", BindAddress("", 8080)),
            ("127.0.0.1:0", BindAddress("127.0.0.1", 0)),
            ("localhost:65535", BindAddress("localhost", 65535)),
            ("[::1]:8080", BindAddress("::1", 8080)),
            ("[::]:8080", BindAddress("::", 8080)),
        ],
    )
    def test_bind_addresses(self, text: str, expected: BindAddress) -> None:
        assert parse_bind_address(text) == expected

    @pytest.mark.parametrize(
        "text",
        ["8080", "::1:8080", "[::1]", "[::1]8080", "[host]:1", ":", ":http", ":65536", ": 80", "a b:1", "h/p:1", ":٣"],
    )
    def test_no_bind_addresses(self, text: str) -> None:
        with pytest.raises(ConfigError, match="HOST:PORT"):
            parse_bind_address(text)


class TestCredentials:
    def test_those_that_are_set_and_nothing_else(self) -> None:
        environ = {"CLOUD_TOKEN": f" {TOKEN}\n", "CLOUD_SCOPE": "  ", "OTHER_TOKEN": "x"}
        assert dict(credentials_for(factory(), environ)) == {"CLOUD_TOKEN": TOKEN}

    def test_only_required_ones_are_missed(self) -> None:
        assert [spec.variable for spec in missing_credentials(factory(), {"CLOUD_TOKEN": "\n"})] == ["CLOUD_TOKEN"]
        assert missing_credentials(factory(), {"CLOUD_TOKEN": TOKEN}) == ()

    def test_no_text_form_shows_a_value(self) -> None:
        credentials = Credentials({"CLOUD_TOKEN": TOKEN, "A": "b"})
        assert f"{credentials} {credentials!r} {credentials!s}" == " ".join(["Credentials(<A, CLOUD_TOKEN>)"] * 3)


class TestEndpoint:
    def test_unset_means_the_vendors(self) -> None:
        assert endpoint_for(factory(), {}) == ""
        assert endpoint_for(factory(), {"CLOUD_API_URL": " "}) == ""
        assert endpoint_for(factory(endpoint_variable=""), {"": "https://example.com"}) == ""

    @pytest.mark.parametrize(
        "url",
        [
            "https://api.example.com",
            "https://api.example.com:8443/v2/",
            "http://127.0.0.1:4010",
            "http://[::1]:4010",
            "http://localhost:1",
            "http://api.localhost",
        ],
    )
    def test_plain_urls_without_a_warning(self, url: str) -> None:
        with capture_logs() as logs:
            assert endpoint_for(factory(), {"CLOUD_API_URL": f" {url}\n"}) == url
        assert logs == []

    @pytest.mark.parametrize("url", ["http://10.0.0.1:3128", "http://proxy.internal/api"])
    def test_http_off_loopback_is_warned_of_once(self, url: str) -> None:
        warned: set[tuple[str, str]] = set()
        with capture_logs() as logs:
            for _ in range(3):
                assert endpoint_for(factory(), {"CLOUD_API_URL": url}, warned) == url
        assert [(line["log_level"], line["variable"]) for line in logs] == [("warning", "CLOUD_API_URL")]

    @pytest.mark.parametrize(
        "url",
        [
            "api.example.com",
            "ftp://api.example.com",
            "https://",
            "https://:443",
            "https://host:port",
            "https://host:99999",
            "https://host:0",
            "https://[::1",
            "https://a b",
            "https://host/\x07",
            "https://host?x=1",
            "https://host#x",
            "https://host?",
        ],
    )
    def test_anything_else_is_refused_with_variable_value_and_mend(self, url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            endpoint_for(factory(), {"CLOUD_API_URL": url})
        message = str(caught.value)
        assert message.startswith(f"CLOUD_API_URL: {url!r}: ")
        assert "write https://HOST" in message or "take '?'" in message

    @pytest.mark.parametrize(
        "url",
        ["https://me:{0}@host", "me:{0}@host", "https://me:{0}/x@host", "https://me:{0}@host:port", "https:me:{0}@h"],
    )
    def test_a_password_in_the_url_is_refused_and_not_repeated(self, url: str) -> None:
        with pytest.raises(ConfigError) as caught:
            endpoint_for(factory(), {"CLOUD_API_URL": url.format("hunter2")})
        assert "hunter2" not in str(caught.value)
        assert "***@h" in str(caught.value)


class TestUserAgent:
    def test_names_project_and_version(self) -> None:
        assert user_agent_for(factory(), {}) == f"flipop/{flipop_core.__version__}"

    def test_the_environment_overrides_it(self) -> None:
        assert user_agent_for(factory(), {"CLOUD_USER_AGENT": "me/1 (test)"}) == "me/1 (test)"
        assert user_agent_for(factory(user_agent_variable=""), {"": "me"}).startswith("flipop/")

    def test_what_would_break_a_header_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="CLOUD_USER_AGENT"):
            user_agent_for(factory(), {"CLOUD_USER_AGENT": "me\r\nX-Evil: 1"})


class TestRedaction:
    @pytest.mark.parametrize(
        "form", [TOKEN, f"Bearer {TOKEN}", f"x{TOKEN}y", repr({"token": TOKEN}), f"https://h/?t={TOKEN}&a"]
    )
    def test_a_secret_goes_wherever_it_stands(self, form: str) -> None:
        assert redact(form, Secrets([TOKEN])) == form.replace(TOKEN, "***")

    @given(SECRETS, st.text(UNMARKED, max_size=5), st.text(UNMARKED, max_size=5))
    def test_any_secret_of_8_characters_goes(self, secret: str, before: str, after: str) -> None:
        assert secret.strip() not in redact(f"{before}{secret.strip()}{after}", Secrets([secret]))

    def test_url_encoded_and_escaped_forms_go_too(self) -> None:
        secret = "p@ss/w\\rd'\"\n-and-more"
        secrets = Secrets([secret])
        for form in ("p%40ss%2Fw%5Crd%27%22%0A-and-more", repr(secret), f"{secret}"):
            assert "more" not in redact(form, secrets)

    def test_the_lines_of_a_key_go_one_by_one(self) -> None:
        assert redact("see MIIEvQIBADAN here", Secrets(["-----BEGIN KEY-----\nMIIEvQIBADAN\n"])) == "see *** here"

    def test_a_short_secret_goes_as_a_word_only(self) -> None:
        assert redact("any of many: any", Secrets(["any"])) == "*** of many: ***"

    def test_a_longer_secret_wins_over_a_part_of_it(self) -> None:
        assert redact("abcdefgh-12345678", Secrets(["abcdefgh", "abcdefgh-12345678"])) == "***"

    def test_nothing_secret_changes_nothing(self) -> None:
        assert redact("text", Secrets(["", " \n"])) == "text"

    def test_a_repr_shows_their_number(self) -> None:
        assert repr(Secrets([TOKEN, "other-secret"])) == "Secrets(<2>)"

    def test_the_environment_tells_what_is_secret(self) -> None:
        declared = factory(credentials=(CredentialSpec("CLOUD_LOGIN", "login"), CredentialSpec("UNSET", "unset")))
        environ = {
            "CLOUD_LOGIN": "short",
            "GITHUB_TOKEN": "github-token-value",
            "HTTPS_PROXY": "http://me:proxy%2Dpassword@proxy:3128",
            "NO_PROXY": "localhost,[::1",
            "USE_TOKEN": "true",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token-file",
            "HOME": "/home/somebody",
        }
        secrets = Secrets.of_environment(environ, [declared])
        text = json.dumps(environ)
        shown = json.loads(redact(text, secrets))
        assert shown == environ | {
            "CLOUD_LOGIN": "***",
            "GITHUB_TOKEN": "***",
            "HTTPS_PROXY": "http://me:***@proxy:3128",
        }
        assert "proxy-password" not in redact("proxy-password", secrets)
