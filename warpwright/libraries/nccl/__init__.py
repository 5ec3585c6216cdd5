"""NCCL: communicators, collectives and point-to-point calls over the devices of one process or of several.

``communicators.py`` makes and asks communicators, ``rendezvous.py`` joins their ranks, ``collectives.py`` has the calls and groups, ``moves.py`` says what each rank
reads and writes, ``transport.py`` does it: by kernels that run on all devices at once, or through the host's memory.
"""
