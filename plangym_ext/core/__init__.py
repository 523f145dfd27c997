"""plangym_ext.core"""
