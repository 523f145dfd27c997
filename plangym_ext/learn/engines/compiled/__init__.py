"""Updates of small networks in compiled code, where calls of torch take longer than products."""
