"""cuBLAS and cuBLASLt: matrices are column-major, scalars on the host or the device as the handle's pointer mode says."""
