"""`kafkaprod demo`: flights through Spark to the embedded broker, checked by a foreign client."""
