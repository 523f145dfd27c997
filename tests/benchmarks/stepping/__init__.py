"""What `step_batch.py` measures, one question per file."""
