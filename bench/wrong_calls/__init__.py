"""Calls of the driver, most of them wrong in some way: rows by subject, and the objects that they name (``bench/driver_codes.py`` asks them)."""
