"""Encode and decode Kafka records (RecordBatch v2) as columns, without Python code per record.

In reading order:

- `columns`: the columns of a chunk of records, and binary arrays as NumPy views
- `header_lists`: columns of headers, as lists of names and values
- `views`: inline binary views, and how views of several columns are joined into rows
- `varint`: varints, as single numbers or as columns
- `row_writer`: build rows of bytes from constants, short values, columns and other rows
- `record_encoder`: encode columns as records, encode header sections, and bound the size of records
- `compression`: the five codecs, with the framing of Java's client
- `record_batch`: the batch header and its CRC
- `record_decoder`: record boundaries, columns and single records
- `control_batch`: the markers that end a transaction in a partition
- `committed_records`: the committed records in the batches of a log
- `consumer_record`: records as a consumer receives them, which can be converted to tables
- `key_hashes`: the key hashes of the partitioners (murmur2, CRC-32, FNV-1a)
"""
