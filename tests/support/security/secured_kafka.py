"""A real Kafka 4.3.1 with one node, all listeners, a token issuer and a KDC.

To run it from the command line: `python -m tests.support.security.secured_kafka`.
"""

from collections.abc import Iterable, Mapping

from tests.support.security.issuer import Issuer
from tests.support.security.kerberos import Kdc
from tests.support.security.listeners import (
    HOST,
    Listener,
    ListenerResources,
    broker_settings,
    with_controller,
)
from tests.support.security.stores import write_stores
from tests.support.security.users import SCRAM_ITERATIONS, User, add_user_acls, password
from tools.support.java import QUICK_JVM
from tools.support.kafka_cluster import KafkaCluster, run_until_signal
from tools.support.kafka_node import KafkaNode, free_port

_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_TOKEN_KEY = "delegation-token-secret"


class SecuredKafka(KafkaCluster):
    """One secured node; `servers(listener)` is the address of a listener.

    `admin` uses PLAINTEXT as a superuser. The cluster is ready when the users' ACLs exist. With
    fewer `listeners` it starts faster: the issuer and the KDC run only if a listener needs them.
    """

    def __init__(
        self, listeners: Iterable[Listener] = Listener, config: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(config=config)
        ports = {listener: free_port() for listener in listeners}
        self._ports = {**ports, Listener.PLAINTEXT: self.nodes[0].port}
        self.stores = write_stores(self.folder / "tls")
        offered = {mechanism for listener in self._ports for mechanism in listener.mechanisms}
        self._issuer = self._make_issuer() if "OAUTHBEARER" in offered else None
        self._kdc = Kdc(self.folder / "krb5", list(User)) if "GSSAPI" in offered else None
        for node in self.nodes:
            node.java_options = (*QUICK_JVM, *self.java_properties)
            node.scram = tuple(_scram_credentials())

    @property
    def issuer(self) -> Issuer:
        """Return the token issuer."""
        assert self._issuer is not None
        return self._issuer

    @property
    def kdc(self) -> Kdc:
        """Return the KDC."""
        assert self._kdc is not None
        return self._kdc

    @property
    def java_properties(self) -> tuple[str, ...]:
        """Return the JVM options for the broker and for Java clients, such as Spark."""
        options = []
        if self._issuer is not None:
            options.append(f"-D{_ALLOWED_URLS}={self._issuer.allowed_urls}")
        if self._kdc is not None:
            options.append(f"-Djava.security.krb5.conf={self._kdc.config}")
        return tuple(options)

    @property
    def placeholders(self) -> dict[str, str]:
        """Return the values of the names in braces in `client_configs`."""
        placeholders = dict(self.stores.placeholders)
        if self._issuer is not None:
            placeholders |= {
                "token_url": self._issuer.token_url,
                "https_token_url": self._issuer.https_token_url,
            }
        if self._kdc is not None:
            placeholders["keytab"] = str(self._kdc.keytab(User.ALICE))
        return placeholders

    def servers(self, listener: Listener) -> str:
        """Return host:port of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    def start(self) -> None:
        """Start the KDC, format the node's storage with the SCRAM users, and start the node."""
        if self._kdc is not None:
            self._kdc.start()
        super().start()

    def wait_ready(self) -> None:
        """Wait until the node is ready and has the users' ACLs."""
        super().wait_ready()
        add_user_acls(self.admin.client())

    def close(self) -> None:
        """Stop all processes and delete all files; can be called more than once."""
        for server in (self._issuer, self._kdc):
            if server is not None:
                server.close()
        self._issuer = self._kdc = None
        super().close()

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """Return the server properties of the listeners, including the controller's."""
        resources = ListenerResources(stores=self.stores, issuer=self._issuer, kdc=self._kdc)
        return {
            **with_controller(broker_settings(self._ports, resources), node),
            "authorizer.class.name": _AUTHORIZER,
            "delegation.token.secret.key": _TOKEN_KEY,
        }

    def _make_issuer(self) -> Issuer:
        secrets = {user.value: password(user) for user in User}
        return Issuer(secrets, self.stores.path("good.pem"))


def _scram_credentials() -> Iterable[str]:
    for user in User:
        for mechanism in _SCRAM:
            credential = f"name={user},password={password(user)},iterations={SCRAM_ITERATIONS}"
            yield f"{mechanism}=[{credential}]"


def main() -> None:
    """Run the cluster until SIGINT or SIGTERM."""
    run_until_signal(SecuredKafka())


if __name__ == "__main__":
    main()
