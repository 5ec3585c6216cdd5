"""The version of the package, which pyproject.toml states as well."""

__version__ = "0.1.0"
