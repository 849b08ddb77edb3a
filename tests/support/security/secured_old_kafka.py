"""A secured broker of a release before 4.0, with ZooKeeper.

The admin client creates SCRAM users (KIP-554, since 2.7). OAUTHBEARER with an issuer is missing: it
was added in 3.1. The authorizer stores its ACLs in ZooKeeper.
"""

from tests.support.security.client_configs import librdkafka_password
from tests.support.security.confluent_client import await_login
from tests.support.security.listeners import HOST, Listener, ListenerResources, broker_settings
from tests.support.security.stores import write_stores
from tests.support.security.users import User, add_user_acls, password, set_scram_password
from tools.support.kafka_cluster import ZooKeeperCluster
from tools.support.kafka_node import KafkaNode, free_port

LISTENERS = (Listener.SSL, Listener.MTLS, Listener.SASL_PLAINTEXT, Listener.SASL_SSL)
_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


class SecuredOldKafka(ZooKeeperCluster):
    """One broker of `release` with `LISTENERS`; has the interface of `SecuredKafka`."""

    def __init__(self, release: str = "2.8.2") -> None:
        super().__init__(release, nodes=1)
        ports = {listener: free_port() for listener in LISTENERS}
        self._ports = {**ports, Listener.PLAINTEXT: self.nodes[0].port}
        self.stores = write_stores(self.folder / "tls")

    @property
    def placeholders(self) -> dict[str, str]:
        """Return the values of the names in braces in `client_configs`."""
        return self.stores.placeholders

    def servers(self, listener: Listener) -> str:
        """Return host:port of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    def node_settings(self, node: KafkaNode) -> dict[str, str]:  # noqa: ARG002
        """Return the server properties of the listeners."""
        settings = broker_settings(self._ports, ListenerResources(stores=self.stores))
        return {**settings, "authorizer.class.name": _AUTHORIZER}

    def wait_ready(self) -> None:
        """Wait until the node is ready and has the users and their ACLs."""
        super().wait_ready()
        client = self.admin.client()
        add_user_acls(client)
        for user in User:
            set_scram_password(client, user, password(user))
        await_login(
            {
                "bootstrap.servers": self.servers(Listener.SASL_PLAINTEXT),
                "security.protocol": Listener.SASL_PLAINTEXT.protocol,
                **librdkafka_password("SCRAM-SHA-512", list(User)[-1]),
            }
        )
