"""Spark's own cluster, in the driver's process, whose two workers have addresses of their own.

Spark runs a slow task a second time on another host alone; with `local-cluster` there is but one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext

from tools.support.kafka_node import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

_MASTER = "127.0.0.1"
_WORKERS = ("127.0.0.1", "127.0.0.2")
EXECUTORS = len(_WORKERS)
_CORES, _MEMORY_MIB = 2, 600


def start_cluster(settings: Mapping[str, str], folder: str) -> str:
    """Start a driver's JVM with these settings, a master and workers in it; the master's URL."""
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    SparkContext._ensure_initialized(conf=conf)
    gateway: Any = SparkContext._gateway
    deploy: Any = gateway.jvm.org.apache.spark.deploy
    none = gateway.jvm.scala.Option.empty()
    java_conf = gateway.jvm.org.apache.spark.SparkConf()
    port = free_port()
    deploy.master.Master.startRpcEnvAndEndpoint(_MASTER, port, 0, java_conf)
    urls = gateway.new_array(gateway.jvm.String, 1)
    urls[0] = f"spark://{_MASTER}:{port}"
    for number, host in enumerate(_WORKERS):
        size = (_CORES, _MEMORY_MIB)
        work = f"{folder}/worker-{number}"
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            *(host, 0, 0, *size, urls, work, none, java_conf, none)
        )
    return str(urls[0])
