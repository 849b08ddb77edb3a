"""What `kafkaprod broker` refuses before it listens."""

from __future__ import annotations

import pytest

from spark_kafka_sink.cli.serve import serve
from spark_kafka_sink.common.errors import ConfigError


def test_a_certificate_is_written_only_where_there_is_tls() -> None:
    with pytest.raises(ConfigError, match="--ca-file is given without --tls"):
        serve({"nodes": 1}, "ca.crt")
