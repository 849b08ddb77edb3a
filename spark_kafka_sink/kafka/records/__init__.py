"""Encode and decode Kafka records (RecordBatch v2) as columns, without Python code per record.

In reading order:

- `columns`: rows as Arrow columns, binary arrays as NumPy views, and inline binary views
- `varint`: zig-zag varints, as single numbers or as columns
- `views`: join binary views of several columns into rows
- `record_encoder`: encode columns as records, encode header sections, and bound the size of records
- `compression`: the five codecs, with the framing of Java's client
- `record_batch`: the batch header and its CRC
- `record_decoder`: record boundaries, columns and single records
- `control_batch`: the markers that end a transaction in a partition
- `consumer_record`: records as a consumer receives them, which can be converted to tables
- `key_hashes`: the key hashes of the partitioners (murmur2, CRC-32, FNV-1a)
"""
