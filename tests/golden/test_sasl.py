"""The client side of each SASL mechanism against the server side of Kafka's classes."""

from collections.abc import Mapping
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    Mechanism,
    SaslConfig,
    TokenLogin,
    UnsecuredTokenLogin,
)
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from tests.support.logins import password_login
from tools.support.java import Jvm

NAMES = ["alice", "a=b,c", "=2C", "with space", "x" * 200]
PASSWORDS = ["secret", "pässwörd \u2168\u00ad\u20ac", "a,b=c\tn", "\U0001f511" * 20]
SCRAM = [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512]


def jaas(jvm: Jvm, module: str, options: Mapping[str, str]) -> Any:
    """Create a login module's entry for the configuration of the server's handlers."""
    login = jvm.packages.javax.security.auth.login
    java_options = jvm.packages.java.util.HashMap()
    for name, value in options.items():
        java_options.put(name, value)
    flag = getattr(login, "AppConfigurationEntry$LoginModuleControlFlag").REQUIRED
    entries = jvm.packages.java.util.ArrayList()
    entries.add(login.AppConfigurationEntry(module, flag, java_options))
    return entries


def configured(jvm: Jvm, handler: Any, mechanism: str, entries: Any = None) -> Any:
    none = jvm.packages.java.util.HashMap()
    handler.configure(none, mechanism, entries or jvm.packages.java.util.ArrayList())
    return handler


class Scram:
    """Kafka's credential store for one mechanism, and servers that use it."""

    def __init__(self, jvm: Jvm, mechanism: Mechanism) -> None:
        self.jvm, self.name = jvm, mechanism.value
        self.internals = jvm.common.security.scram.internals
        self.mechanism = self.internals.ScramMechanism.forMechanismName(self.name)
        kind = jvm.packages.java.lang.Class.forName(
            "org.apache.kafka.common.security.scram.ScramCredential"
        )
        self.users = jvm.common.security.authenticator.CredentialCache().createCache(
            self.name, kind
        )
        tokens = jvm.common.security.token.delegation.internals
        self.tokens = tokens.DelegationTokenCache(self.internals.ScramMechanism.mechanismNames())

    def credential(self, password: str, iterations: int = 4_096) -> Any:
        return self.internals.ScramFormatter(self.mechanism).generateCredential(
            password, iterations
        )

    def server(self) -> Any:
        handler = self.internals.ScramServerCallbackHandler(self.users, self.tokens)
        properties = self.jvm.packages.java.util.HashMap()
        return self.internals.ScramSaslServer(
            self.mechanism, properties, configured(self.jvm, handler, self.name)
        )


def finished(exchange: Any, server: Any) -> Any:
    """Exchange messages until both sides have finished; return the server."""
    message = exchange.initial_response()
    while message is not None:
        message = exchange.next_response(bytes(server.evaluateResponse(message)))
    assert server.isComplete()
    return server


def exchange(mechanism: Mechanism, login: Any) -> Any:
    return exchange_for(SaslConfig(mechanism=mechanism, login=login), "broker.test")


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("password", PASSWORDS)
def test_scram_with_any_password(jvm: Jvm, mechanism: Mechanism, password: str) -> None:
    scram = Scram(jvm, mechanism)
    scram.users.put("alice", scram.credential(password, 8_192))
    server = finished(exchange(mechanism, password_login("alice", password)), scram.server())
    assert server.getAuthorizationID() == "alice"


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("name", NAMES)
def test_scram_with_any_name(jvm: Jvm, mechanism: Mechanism, name: str) -> None:
    scram = Scram(jvm, mechanism)
    scram.users.put(name, scram.credential("secret"))
    server = finished(exchange(mechanism, password_login(name, "secret")), scram.server())
    assert server.getAuthorizationID() == name


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_with_a_delegation_token(jvm: Jvm, mechanism: Mechanism) -> None:
    scram = Scram(jvm, mechanism)
    principal = jvm.common.security.auth.KafkaPrincipal("User", "owner")
    nobody = jvm.packages.java.util.ArrayList()
    delegation = jvm.common.security.token.delegation
    token = delegation.DelegationToken(
        delegation.TokenInformation("the-id", principal, nobody, 0, 2**60, 2**60), b"the-hmac"
    )
    credentials = jvm.packages.java.util.HashMap()
    credentials.put(scram.name, scram.credential(token.hmacAsBase64String()))
    scram.tokens.updateCache(token, credentials)
    login = password_login("the-id", token.hmacAsBase64String(), token_auth=True)
    server = finished(exchange(mechanism, login), scram.server())
    assert server.getAuthorizationID() == "owner"


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_with_a_server_that_has_other_keys(jvm: Jvm, mechanism: Mechanism) -> None:
    """Both know the nonces; the server signs with another user's keys."""
    scram, other = Scram(jvm, mechanism), Scram(jvm, mechanism)
    scram.users.put("alice", scram.credential("secret"))
    other.users.put("alice", other.credential("other"))
    ours = exchange(mechanism, password_login("alice", "secret"))
    ours.next_response(bytes(scram.server().evaluateResponse(ours.initial_response())))
    theirs = exchange(mechanism, password_login("alice", "other"))
    server = other.server()
    proof = theirs.next_response(bytes(server.evaluateResponse(theirs.initial_response())))
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        ours.next_response(bytes(server.evaluateResponse(proof)))


def plain_server(jvm: Jvm, name: str, password: str) -> Any:
    plain = jvm.common.security.plain
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    entries = jaas(jvm, module, {f"user_{name}": password})
    handler = configured(jvm, plain.internals.PlainServerCallbackHandler(), "PLAIN", entries)
    return plain.internals.PlainSaslServer(handler)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("password", PASSWORDS)
def test_kafka_accepts_any_name_and_password_of_plain(jvm: Jvm, name: str, password: str) -> None:
    ours = exchange(Mechanism.PLAIN, password_login(name, password))
    server = finished(ours, plain_server(jvm, name, password))
    assert server.getAuthorizationID() == name


def oauth_server(jvm: Jvm, **options: str) -> Any:
    oauth = jvm.common.security.oauthbearer
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    unsecured = oauth.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler()
    handler = configured(jvm, unsecured, "OAUTHBEARER", jaas(jvm, module, options))
    return oauth.internals.OAuthBearerSaslServer(handler)


def test_unsecured_token_with_its_claims(jvm: Jvm) -> None:
    login = UnsecuredTokenLogin(
        claims=(("sub", 'ali"ce'), ("number", 4.5), ("scope", ("read", "write"))),
        lifetime_seconds=60,
    )
    server = finished(
        exchange(Mechanism.OAUTHBEARER, login),
        oauth_server(jvm, unsecuredValidatorRequiredScope="write"),
    )
    assert server.getAuthorizationID() == 'ali"ce'
    token = server.getNegotiatedProperty("OAUTHBEARER.token")
    assert sorted(token.scope()) == ["read", "write"]
    assert token.lifetimeMs() - token.startTimeMs() == 60_000
    assert token.claims()["number"] == 4.5


@pytest.mark.parametrize(
    ("claims", "options", "status"),
    [
        ((("sub", "alice"),), {"unsecuredValidatorRequiredScope": "write"}, "insufficient_scope"),
        ((("name", "alice"),), {}, "invalid_token"),
    ],
)
def test_token_rejected_by_the_server(
    jvm: Jvm, claims: tuple[tuple[str, str], ...], options: dict[str, str], status: str
) -> None:
    ours = exchange(Mechanism.OAUTHBEARER, UnsecuredTokenLogin(claims=claims))
    server = oauth_server(jvm, **options)
    acknowledged = ours.next_response(bytes(server.evaluateResponse(ours.initial_response())))
    with pytest.raises(Py4JJavaError, match=status):
        server.evaluateResponse(acknowledged)
    with pytest.raises(AuthenticationError, match=f"rejected the token: {status}"):
        ours.next_response(b"")


def test_extensions_are_parsed_by_the_server(jvm: Jvm) -> None:
    """The server does not validate the extensions and rejects them, after parsing them."""
    oauth = jvm.common.security.oauthbearer.internals
    login = TokenLogin(
        token=Secret("abc.DEF-1_2~3+4/5==", "kafka.sasl.oauthbearer.token"),
        extensions=(("logicalCluster", "lkc-1 2"), ("identityPoolId", "pool,x=y")),
    )
    message = exchange(Mechanism.OAUTHBEARER, login).initial_response()
    read = oauth.OAuthBearerClientInitialResponse(message)
    assert read.tokenValue() == "abc.DEF-1_2~3+4/5=="
    assert dict(read.extensions().map()) == {
        "logicalCluster": "lkc-1 2",
        "identityPoolId": "pool,x=y",
    }
    assert bytes(
        oauth.OAuthBearerClientInitialResponse(read.tokenValue(), read.extensions()).toBytes()
    ).startswith(b"n,,\x01auth=Bearer abc.DEF-1_2~3+4/5==\x01")
