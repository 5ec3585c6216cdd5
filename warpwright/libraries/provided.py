"""Imported by a process that loaded a drop-in library before this package: provides the libraries."""

from warpwright.libraries.library_files import provide

provide()
