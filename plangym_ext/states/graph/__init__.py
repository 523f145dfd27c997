"""Objects as bytes, without pickle: what snapshots are made of."""
