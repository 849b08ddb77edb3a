"""sasl.jaas.config parsed by Kafka's JaasContext."""

from py4j.protocol import Py4JJavaError

from tools.support.java import Jvm


def read(jvm: Jvm, text: str) -> tuple[str, dict[str, str]] | None:
    """Return the login module and its options, or None if Kafka rejects the text."""
    configs = jvm.packages.java.util.HashMap()
    configs.put("sasl.jaas.config", jvm.common.config.types.Password(text))
    try:
        context = jvm.common.security.JaasContext.loadClientContext(configs)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "IllegalArgumentException":
            raise
        return None
    (entry,) = context.configurationEntries()
    # Java returns null for a name that is neither quoted nor a word (no login module has one).
    options = {name: value for name, value in dict(entry.getOptions()).items() if name is not None}
    return entry.getLoginModuleName(), options
