"""plangym_ext.run"""
