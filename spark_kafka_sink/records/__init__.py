"""RecordBatch v2: encodes columns as records and decodes them, without Python code per record.

In reading order:

- `columns`: rows as Arrow columns, binary arrays as numpy views, inline binary views
- `varint`: zig-zag varints, single and by column
- `views`: binary views of several columns joined into rows
- `encoder`: columns to records (`encode_records`), header sections and size bounds
- `compression`: the five codecs in the framing of Java's client
- `record_batch`: the batch header and its CRC
- `decoder`: record boundaries, columns, single records and control batches
- `consumer_record`: records as a consumer receives them, which can be converted to tables
- `key_hashes`: the key hashes of the partitioners (murmur2, CRC-32, FNV-1a)
"""
