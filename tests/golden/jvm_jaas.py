"""sasl.jaas.config read by Kafka's own JaasContext."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from tools.support.java import Jvm


def read(jvm: Jvm, text: str) -> tuple[str, dict[str, str]] | None:
    """The login module and its options; None where Kafka refuses the text."""
    configs = jvm.packages.java.util.HashMap()
    configs.put("sasl.jaas.config", jvm.common.config.types.Password(text))
    try:
        context = jvm.common.security.JaasContext.loadClientContext(configs)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "IllegalArgumentException":
            raise
        return None
    (entry,) = context.configurationEntries()
    # A name that is not quoted and no word is null in Java, and no option of any login module.
    options = {name: value for name, value in dict(entry.getOptions()).items() if name is not None}
    return entry.getLoginModuleName(), options
