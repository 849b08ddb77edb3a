"""RecordBatch v2: columns to records and back, without Python per record.

To write: columns.py (a chunk), encoder.py (`encode_records`), row_builder.py with inline_views.py,
varint.py and binary_columns.py, compression.py, record_batch.py (header and CRC). To read:
decoder.py one record at a time, column_decoder.py with record_scanner.py whole batches at once.
control_batch.py has the markers of transactions, key_hashes.py the hashes of the partitioners.
"""
