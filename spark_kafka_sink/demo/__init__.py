"""`kafkaprod demo`: flights through Spark to the embedded broker, checked by a foreign client.

run goes through the steps: java, flights (the data), spark_job (the write), topic (the reader),
check (the comparison).
"""
