"""A real Kafka 4.3.1 of one node with every listener, its issuer and its KDC.

From the command line, until interrupted: `python -m tests.support.security.secured`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.security.issuer import Issuer
from tests.support.security.kerberos import Kdc
from tests.support.security.listeners import (
    HOST,
    Listener,
    Offers,
    broker_settings,
    with_controller,
)
from tests.support.security.stores import write_stores
from tests.support.security.users import SCRAM_ITERATIONS, User, grant, password
from tools.support.kafka_cluster import QUICK, KafkaCluster, run_until_signal
from tools.support.kafka_node import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tools.support.kafka_node import KafkaNode

_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_TOKEN_KEY = "delegation-token-secret"


class SecuredKafka(KafkaCluster):
    """`servers(listener)` is where clients go; `admin` comes by PLAINTEXT and may do anything.

    Ready when the users' ACLs are there. `listeners` may be fewer, for a quicker start; the
    issuer and the KDC run where a listener offers their mechanism.
    """

    def __init__(
        self, listeners: Iterable[Listener] = Listener, config: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(config=config)
        ports = {each: free_port() for each in listeners}
        self._ports = {**ports, Listener.PLAINTEXT: self.nodes[0].port}
        self.stores = write_stores(self.folder / "tls")
        offered = {mechanism for each in self._ports for mechanism in each.mechanisms}
        self._issuer = self._make_issuer() if "OAUTHBEARER" in offered else None
        self._kdc = Kdc(self.folder / "krb5", list(User)) if "GSSAPI" in offered else None
        for node in self.nodes:
            node.java_options = (*QUICK, *self.java_properties)
            node.scram = tuple(_scram_credentials())

    @property
    def issuer(self) -> Issuer:
        """Where tokens come from."""
        assert self._issuer is not None
        return self._issuer

    @property
    def kdc(self) -> Kdc:
        """Where tickets come from."""
        assert self._kdc is not None
        return self._kdc

    @property
    def java_properties(self) -> tuple[str, ...]:
        """Options of every JVM that is to enter or to serve: broker, Spark, tools."""
        made = []
        if self._issuer is not None:
            made.append(f"-D{_ALLOWED_URLS}={self._issuer.allowed_urls}")
        if self._kdc is not None:
            made.append(f"-Djava.security.krb5.conf={self._kdc.config}")
        return tuple(made)

    @property
    def places(self) -> dict[str, str]:
        """What the options of `doors` name in braces."""
        places = dict(self.stores.places)
        if self._issuer is not None:
            places |= {
                "token_url": self._issuer.token_url,
                "https_token_url": self._issuer.https_token_url,
            }
        if self._kdc is not None:
            places["keytab"] = str(self._kdc.keytab(User.ALICE))
        return places

    def servers(self, listener: Listener) -> str:
        """host:port of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    def start(self) -> None:
        """Start the KDC, format the node's files, with the users of SCRAM, and start it."""
        if self._kdc is not None:
            self._kdc.start()
        super().start()

    def wait_ready(self) -> None:
        """Until the node is ready and knows what each user may do."""
        super().wait_ready()
        grant(self.admin.client())

    def close(self) -> None:
        """Stop everything and delete every file; may be called again."""
        for each in (self._issuer, self._kdc):
            if each is not None:
                each.close()
        self._issuer = self._kdc = None
        super().close()

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """The listeners', beside those of the controller."""
        offers = Offers(stores=self.stores, issuer=self._issuer, kdc=self._kdc)
        return {
            **with_controller(broker_settings(self._ports, offers), node),
            "authorizer.class.name": _AUTHORIZER,
            "delegation.token.secret.key": _TOKEN_KEY,
        }

    def _make_issuer(self) -> Issuer:
        secrets = {user.value: password(user) for user in User}
        return Issuer(secrets, self.stores.path("good.pem"))


def _scram_credentials() -> Iterable[str]:
    for user in User:
        for mechanism in _SCRAM:
            given = f"name={user},password={password(user)},iterations={SCRAM_ITERATIONS}"
            yield f"{mechanism}=[{given}]"


def main() -> None:
    """Run the cluster until SIGINT or SIGTERM."""
    run_until_signal(SecuredKafka())


if __name__ == "__main__":
    main()
