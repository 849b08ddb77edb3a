"""A dry run: batches are made as ever, measured, and sent nowhere.

Reading order: dry_run_sender, which stands in for the sender; codec_sampler.
"""
