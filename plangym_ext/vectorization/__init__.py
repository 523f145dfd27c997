"""plangym_ext.vectorization"""
