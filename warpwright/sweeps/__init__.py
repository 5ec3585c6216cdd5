"""Sweeps: programs x chips x overrides x arguments, run on the cores of this machine or on a Dask cluster.

``specification.py`` has what is run, ``point_server.py`` runs one point in a separate process, ``workers.py`` spreads the
points, ``store.py`` keeps the results, ``page.py`` shows them and ``sweep.py`` puts these together.
"""
