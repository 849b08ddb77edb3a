"""`kafkaprod transactions` on a real Kafka and on the embedded broker."""

from dataclasses import replace
from functools import partialmethod

import pytest
from typer.testing import CliRunner, Result

from spark_kafka_sink.cli.main import app
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from spark_kafka_sink.exactly_once.scope_state import Done
from spark_kafka_sink.exactly_once.steps.scope_client import connected_scope_client
from spark_kafka_sink.exactly_once.task_transaction import TaskResult
from spark_kafka_sink.exactly_once.transactional_id import Scope, new_nonce
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from tests.integration.exactly_once.simulated_writes import PARTITIONS, QUERY, Writes, rows_of
from tests.integration.exactly_once.stepped_client import crash
from tests.support.waiting import wait_until_equal
from tools.support.admin import Admin

pytestmark = pytest.mark.quick


def invoke(query: Writes, command: str, *arguments: str) -> Result:
    """Run a command with the query's prefix and brokers."""
    where = ["--prefix", query.scope.prefix, "--bootstrap-servers", query.bootstrap_servers]
    return CliRunner().invoke(app, ["transactions", command, *arguments, *where])


def output(query: Writes, command: str, *arguments: str) -> str:
    """Return the output of a successful command, with wrapped table lines joined."""
    done = invoke(query, command, *arguments)
    assert done.exit_code == 0, done.output
    return done.output


def transactional_id_of(result: TaskResult) -> str:
    """Return the transactional id of a task result."""
    assert result.transaction is not None
    return result.transaction.transactional_id


def test_no_open_transactions(query: Writes) -> None:
    assert f"No transactions found for the prefix {query.scope.prefix}" in output(query, "list")
    assert "Decision log: 0 scopes" in output(query, "describe")
    assert output(query, "commit") == "No decided transaction is incomplete.\n"
    assert output(query, "abort") == "No open transaction may be aborted.\n"


def test_transaction_that_ends_after_it_was_listed_is_omitted(
    query: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.committer.commit("0", query.tasks("0"))
    overview = TransactionOperator(query.config).overview
    wait_until_equal(lambda: overview().transactions, ())
    monkeypatch.setattr(TransactionAdmin, "list", partialmethod(TransactionAdmin.list, states=()))
    assert overview().transactions == ()


def test_transactions_of_a_deleted_topic_are_listed_and_aborted(query: Writes) -> None:
    """A partition that does not exist blocks no reader."""
    admin, other = Admin(query.bootstrap_servers), f"{query.topic}-2"
    admin.create_topic(other, PARTITIONS)
    query.tasks("0", tasks=1)
    replace(query, topic=other).tasks("0", tasks=1)
    admin.delete_topics(other)
    listed = output(query, "list")
    assert "Open transactions: 2" in listed
    assert f"Partitions with blocked readers: {PARTITIONS}" in listed
    assert output(query, "abort", "--undecided").count(": aborted") == 2


def test_running_batch_is_listed_but_not_changed(query: Writes) -> None:
    results = query.tasks("0")
    listed = output(query, "list")
    assert "Open transactions: 3" in listed
    assert listed.count("undecided") == 3
    assert f"Partitions with blocked readers: {PARTITIONS}" in listed
    assert output(query, "abort") == "No open transaction may be aborted.\n"
    rejected = invoke(query, "abort", transactional_id_of(results[0]))
    assert rejected.exit_code == 1
    assert "is undecided. A running driver may still commit the transaction" in rejected.output
    query.committer.commit("0", results)
    assert query.visible() == rows_of("0")
    assert "done" in output(query, "describe")


def test_commit_decided_batch(query: Writes) -> None:
    query.committer.recover()
    transactional_id = crash(query, "0", "after decide")[0].transactional_id
    query.settle()
    assert output(query, "list").count("decided") == 3
    described = output(query, "describe", transactional_id)
    assert "decided: committed by the next driver" in described
    assert f"{query.topic}-3" in described
    rejected = invoke(query, "abort", "--undecided", transactional_id)
    assert rejected.exit_code == 1
    assert "Its rows would be lost" in rejected.output
    assert output(query, "abort", "--undecided") == "No open transaction may be aborted.\n"
    assert "batch 0 is committed, 3 transactions with 60 records" in output(query, "commit")
    assert query.visible() == rows_of("0")
    query.committer.commit("1", query.tasks("1"))
    assert query.committer.recover() == Done(query_id=QUERY, batch="1")


def test_abort_undecided_batch(query: Writes) -> None:
    query.committer.commit("0", query.tasks("0"))
    orphan = query.task("0", 1, "0123456789abcdef")
    undecided = query.task("1", 1, "fedcba9876543210")
    listed = output(query, "list")
    assert "orphan" in listed
    assert "undecided" in listed
    assert output(query, "abort") == f"{transactional_id_of(orphan)}: aborted\n"
    assert output(query, "abort", "--undecided") == f"{transactional_id_of(undecided)}: aborted\n"
    assert "Open transactions: 0" in output(query, "list")
    assert query.visible() == rows_of("0")


def test_abort_of_one_scope_does_not_fence_others(query: Writes) -> None:
    """Another job under the prefix commits its batch, also after the abort of a misspelt id."""
    other = replace(query, scope=Scope.batch(query.scope.prefix, "job"), query=None)
    nonce = new_nonce()
    with connected_scope_client(other.config, other.scope) as scope_client:
        owner = scope_client.fence()
        other.task("job", 0, nonce)
        undecided = query.task("1", 1, "fedcba9876543210")
        assert invoke(query, "abort", "--undecided", "nothing").exit_code == 1
        name = transactional_id_of(undecided)
        assert output(query, "abort", "--undecided", name) == f"{name}: aborted\n"
        scope_client.log.read_after_fence()
        scope_client.log.append(owner, None)  # A newer epoch would reject it.


def test_invalid_arguments_are_rejected(query: Writes) -> None:
    for command, *arguments in (
        ["describe", "nothing"],
        ["abort", "nothing"],
        ["commit", "--accept-loss", "nothing"],
        ["commit", "--accept-loss", f"{query.scope.prefix}/stream"],
    ):
        rejected = invoke(query, command, *arguments)
        assert rejected.exit_code == 1
        assert rejected.output.startswith("kafkaprod: ")
    nowhere = CliRunner().invoke(app, ["transactions", "list", "--prefix", "p"])
    assert nowhere.exit_code == 1
    assert "Add --bootstrap-servers host:port" in nowhere.output
